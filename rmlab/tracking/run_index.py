"""Names, times and tags of runs, from which the state of a cell follows. Without metrics, so it is quick for any number of runs.

A store that is a database is read by SQL (its tables `runs` and `tags`): MLflow's search loads every metric of every run, and
for sqlite importing MLflow alone takes a second. A server is asked through MLflow.
"""

import contextlib
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.errors import StoreError, StoreOutOfReach
from rmlab.tracking.store import SQLITE, Store
from rmlab.tracking.store_errors import is_busy
from rmlab.tracking.tags import CONFIG_HASH, FAILED, FINISHED, REPLACES, REUSED, SOURCE_RUN, STATUS

if TYPE_CHECKING:
    from mlflow.entities import Run
    from sqlalchemy import Engine

PAGE = 1000
BUSY_SECONDS = 30.0


@dataclass(frozen=True)
class RunInfo:
    """Which run it is and what it says of itself. tags without MLflow's own (`mlflow.*`). Times in milliseconds.

    asked: when the store was asked for it, by this process' `time.monotonic`; what is not said is long ago.
    """

    run_id: str
    experiment_id: str
    name: str
    tags: dict[str, str]
    start_time: int
    end_time: int | None
    asked: float = field(default=float("-inf"), kw_only=True, compare=False, repr=False)

    @property
    def status(self) -> str:
        """running, finished, failed, stopped, killed, or replaced (finished, and another run took its place)."""
        return self.tags.get(STATUS, "")

    @property
    def is_reuse(self) -> bool:
        """Whether another run did the work: its own times say nothing of how long that takes."""
        return SOURCE_RUN in self.tags or REUSED in self.tags


@dataclass(frozen=True)
class CellRuns:
    """The runs of every cell, by config_hash, over all experiments. finished, failed: one run a cell; all: every one of them."""

    finished: dict[str, RunInfo]
    failed: dict[str, RunInfo]
    all: dict[str, list[RunInfo]]


def cell_runs(store: Store | None) -> CellRuns:
    """What a store knows of cells; nothing where there is none (None).

    Of several finished runs of a cell the one that did the work stands for it, else the earliest: so a reuse of a reuse
    names the origin. A cell counts as failed when none of its runs is finished and the last one failed.
    """
    by_hash: dict[str, list[RunInfo]] = defaultdict(list)
    for info in run_infos(store) if store else []:
        if CONFIG_HASH in info.tags:
            by_hash[info.tags[CONFIG_HASH]].append(info)
    finished, failed = {}, {}
    for key, found in by_hash.items():
        whole = finished_run(found)
        if whole is not None:
            finished[key] = whole
        elif (last := max(found, key=lambda info: info.start_time)).status == FAILED:
            failed[key] = last
    return CellRuns(finished, failed, dict(by_hash))


def finished_run(runs: Iterable[RunInfo]) -> RunInfo | None:
    """The run that stands for a cell among its runs; None where none is finished. What a finished run replaces does not count."""
    whole = [info for info in runs if info.status == FINISHED]
    replaced = {run_id for info in whole for run_id in info.tags.get(REPLACES, "").split()}
    left = [info for info in whole if info.run_id not in replaced and info.tags.get(SOURCE_RUN) not in replaced]
    return min(left, key=lambda info: (info.is_reuse, info.start_time), default=None)


def runs_of(store: Store, config_hash: str) -> list[RunInfo]:
    """Every run of one cell."""
    if store.uri.startswith("http"):
        return _by_search(store, {CONFIG_HASH: config_hash})
    return _by_sql(store, config_hash)


def has_finished(uri: str | None, config_hash: str) -> bool:
    """Whether a store has a finished run of a configuration."""
    return finished_run(runs_of(Store.open(uri), config_hash)) is not None


def run_infos(store: Store) -> list[RunInfo]:
    """Every run of a store that is not deleted, newest first. Raises StoreError where the store cannot be read."""
    if store.uri.startswith("http"):
        return _by_search(store)
    return _by_sql(store)


def search(
    store: Store, experiments: Sequence[str] | None = None, tags: Mapping[str, str] | None = None
) -> tuple[list["Run"], float]:
    """MLflow's runs of the named experiments (None = all) that carry all these tags, newest first, and when they were asked for.

    Raises StoreError for an experiment that is not there.
    """
    client = store.client
    known = {
        e.name: e.experiment_id
        for e in _all(store, lambda token: client.search_experiments(max_results=PAGE, page_token=token))
    }
    missing = [name for name in experiments or () if name not in known]
    if missing:
        raise StoreError(
            f"there is no experiment {missing[0]!r} in {store.uri}; there are: {', '.join(sorted(known)) or 'none'}"
        )
    ids = [known[name] for name in experiments] if experiments is not None else list(known.values())
    words = " and ".join(f"tags.`{name}` = '{_quoted(value)}'" for name, value in (tags or {}).items())
    asked = time.monotonic()
    if not ids:
        return [], asked
    return _all(store, lambda token: client.search_runs(ids, words, max_results=PAGE, page_token=token)), asked


def described(run: "Run", asked: float) -> dict[str, Any]:
    """The fields of RunInfo, of a run as MLflow gives it."""
    return {
        "run_id": run.info.run_id,
        "experiment_id": run.info.experiment_id,
        "name": run.info.run_name or run.info.run_id,
        "tags": {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")},
        "start_time": run.info.start_time,
        "end_time": run.info.end_time,
        "asked": asked,
    }


def _by_search(store: Store, tags: Mapping[str, str] | None = None) -> list[RunInfo]:
    found, asked = search(store, tags=tags)
    return [RunInfo(**described(run, asked)) for run in found]


def _all(store: Store, page: Callable[[str | None], Any]) -> list[Any]:
    """Every entry of a paged search. page: token (None = first) -> page."""
    found: list[Any] = []
    token: str | None = None
    while True:
        answer = store.call(partial(page, token))
        found.extend(answer)
        token = answer.token
        if not token:
            return found


def _quoted(value: str) -> str:
    return value.replace("'", "''")


def _by_sql(store: Store, config_hash: str | None = None) -> list[RunInfo]:
    """Tracebacks are long and are not read."""
    where = (
        ""
        if config_hash is None
        else (
            f" AND run_uuid IN (SELECT run_uuid FROM tags WHERE key = '{CONFIG_HASH}' AND value = '{_hexadecimal(config_hash)}')"
        )
    )
    asked = time.monotonic()
    about, said = _ask(
        store,
        f"SELECT run_uuid, experiment_id, name, start_time, end_time FROM runs WHERE lifecycle_stage = 'active'{where} "
        "ORDER BY start_time DESC, run_uuid",
        f"SELECT run_uuid, key, value FROM tags WHERE key NOT LIKE 'mlflow.%' AND key <> 'traceback'{where}",
    )
    tags: dict[str, dict[str, str]] = defaultdict(dict)
    for run_id, key, value in said:
        tags[run_id][key] = value
    return [
        RunInfo(run_id, str(experiment), name or run_id, tags[run_id], start, end, asked=asked)
        for run_id, experiment, name, start, end in about
    ]


def _ask(store: Store, *questions: str) -> list[Sequence[Any]]:
    """The rows of each SELECT. Runs come before tags: a run that is made in between has its tags, one that is listed has them all."""
    if not store.uri.startswith(SQLITE):
        from sqlalchemy import text

        def ask() -> list[Sequence[Any]]:
            with _engine(store.uri).connect() as connection:
                return [connection.execute(text(question)).fetchall() for question in questions]

        return store.call(ask)
    database = Path(store.uri.removeprefix(SQLITE))
    try:
        # Not read-only: after a kill the next reader rolls the journal back, which a read-only one may not.
        with contextlib.closing(
            sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)
        ) as connection:
            return [connection.execute(question).fetchall() for question in questions]
    except sqlite3.Error as error:
        if is_busy(error):
            raise StoreOutOfReach(f"the tracking store {database} is still busy: {error}") from error
        raise StoreError(f"the tracking store {database} cannot be read: {error}. Is it an MLflow database?") from error


@cache
def _engine(uri: str) -> "Engine":
    import sqlalchemy

    return sqlalchemy.create_engine(uri, poolclass=sqlalchemy.pool.NullPool)


def _hexadecimal(text: str) -> str:
    """A hash as it may stand in SQL. Raises ValueError for anything else."""
    if not text.isalnum():
        raise ValueError(f"{text!r} is not a hash")
    return text
