"""Reads tracked runs back: what they measured, and their artifacts; closes what died, logs what is reused."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.errors import MissingArtifact, StoreError
from rmlab.tracking.artifacts import fetched
from rmlab.tracking.home import local_path
from rmlab.tracking.origin import HOST, PROCESS, is_alive
from rmlab.tracking.run import AT_WORK, ERROR, FAILED, KILLED, RUNNING, STATUS, RunLogger, close
from rmlab.tracking.run_index import SOURCE_RUN, RunHead
from rmlab.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.entities import Run

PAGE = 1000
IMPORTED_RUN, IMPORTED_AT, LEFT_OUT = "imported_run", "imported_at", "left_out"
"""Tags of a run that came in a bundle: its id where it was made, when it was imported (whole), and which of its artifacts the
bundle had not."""


@dataclass(frozen=True)
class TrackedRun(RunHead):
    """One run as the store has it. metrics: the last value of each."""

    params: dict[str, str]
    metrics: dict[str, float]
    artifact_uri: str
    store: Store = field(repr=False, compare=False)

    def series(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a metric in the order of steps; of a step that was logged twice, the later value."""
        rows = self.store.call(lambda: self.store.client.get_metric_history(self.run_id, name))
        return sorted({row.step: float(row.value) for row in sorted(rows, key=lambda row: row.timestamp)}.items())

    def artifact(self, path: str) -> Path:
        """A local path of an artifact (file or folder), fetched into the cache from a server. What reuses a run has its artifacts.

        Raises MissingArtifact where the run has no such artifact, StoreError where it cannot be fetched.
        """
        owner = get_run(self.store, self.tags[SOURCE_RUN]) if SOURCE_RUN in self.tags else self
        folder = owner.folder()
        try:
            local = folder / path if folder else fetched(self.store, owner.run_id, path)
        except FileNotFoundError as error:
            raise owner._missing(path, str(error)) from error
        if not local.exists():
            raise owner._missing(path, f"{local} is gone")
        return local

    def folder(self) -> Path | None:
        """The artifacts of a local store: beside it, or where they were written if they were not moved along; None for a server."""
        written = local_path(self.artifact_uri)
        if written is None or self.store.artifacts is None:
            return written
        beside = self.store.artifacts.joinpath(*written.parts[-3:])
        return beside if beside.exists() or not written.exists() else written

    def _missing(self, path: str, reason: str) -> MissingArtifact:
        if path.split("/")[0] in self.tags.get(LEFT_OUT, "").split(", "):
            reason = (
                f"it was left out when the run was exported from {self.tags.get(HOST, 'another machine')}. Export the run there "
                "again without --without-models, and import that"
            )
        return MissingArtifact(
            f"run {self.name} ({self.run_id}) has no artifact {path!r} in {self.store.uri}: {reason}"
        )


def runs(
    store: Store, experiments: Sequence[str] | None = None, tags: Mapping[str, str] | None = None
) -> list[TrackedRun]:
    """Runs of the named experiments (None = all) that carry all these tags, newest first. One search.

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
    if not ids:
        return []
    asked = time.monotonic()
    found = _all(store, lambda token: client.search_runs(ids, words, max_results=PAGE, page_token=token))
    return [_tracked(run, store, asked) for run in found]


SHORTEST = 6
"""Characters of a run's id from which on its beginning names it."""


def get_run(store: Store, run_id: str) -> TrackedRun:
    """One run by its id, here or where it was imported from, or by the beginning of its id here where that is one run's alone.

    Raises StoreError where it is not there, or several begin so.
    """
    run_id = run_id.lower()
    from mlflow.exceptions import MlflowException

    def ask() -> "Run | None":
        try:
            return store.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise

    asked = time.monotonic()
    found = store.call(ask)
    if found is None or found.info.lifecycle_stage != "active":
        imported = runs(store, tags={IMPORTED_RUN: run_id})
        if imported:
            return imported[0]
        if found is None and re.fullmatch(rf"[0-9a-f]{{{SHORTEST},31}}", run_id):
            near = [
                run
                for run in runs(store)
                if run.run_id.startswith(run_id) or run.tags.get(IMPORTED_RUN, "").startswith(run_id)
            ]
            if len(near) == 1:
                return near[0]
            if near:
                raise StoreError(
                    f"{len(near)} runs in {store.uri} begin with {run_id}: {', '.join(sorted(run.run_id for run in near))}. "
                    "Name more of it."
                )
        raise StoreError(
            f"there is no run {run_id!r} in {store.uri}. `rmlab runs list` shows those that are there; "
            f"an id may be cut to {SHORTEST} characters."
        )
    return _tracked(found, store, asked)


def close_stale(store: Store, found: Iterable[RunHead], error: str | None = None) -> list[RunHead]:
    """Closes the runs among `found` that say `running` though their process on this host is dead; returns these.

    They are marked as killed, or as failed where an error is given. A run of another host is left alone: only that host
    knows. A run that said `finished` and died before it could close is closed as finished.
    """
    stale = []
    for run in found:
        if run.end_time is None and is_alive(run.tags.get(HOST, ""), run.tags.get(PROCESS, "")) is False:
            status = run.status if run.status != RUNNING else KILLED if error is None else FAILED
            RunLogger(store, run.run_id, run.experiment_id).tags({STATUS: status, ERROR: error})
            close(store, run.run_id, status.upper(), run.tags)
            stale.append(run)
    return stale


def log_reuse(store: Store, source: RunHead, experiment: str, name: str, tags: Mapping[str, str]) -> TrackedRun:
    """Logs a run of its own for a cell that another run already finished: its parameters, metrics with steps, and `source_run`."""
    origin = get_run(store, source.tags.get(SOURCE_RUN) or source.run_id)
    own = {
        "sweep",
        "preset",
        "factor",
        "level",
        "arm",
        "baseline",
        "place",
        "kind",
        STATUS,
        HOST,
        *AT_WORK,
        IMPORTED_RUN,
        IMPORTED_AT,
        LEFT_OUT,
        "replaces",
        "replaced_by",
    }
    keep = {k: v for k, v in origin.tags.items() if k not in own}
    with RunLogger.start(
        store,
        experiment,
        name,
        kind=origin.tags["kind"],
        params=origin.params,
        tags={**keep, **tags, SOURCE_RUN: origin.run_id},
    ) as run:
        for metric in origin.metrics:
            rows = store.call(partial(store.client.get_metric_history, origin.run_id, metric))
            run.replay((row.key, row.value, row.step, row.timestamp) for row in rows)
    return get_run(store, run.run_id)


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


def _tracked(run: "Run", store: Store, asked: float) -> TrackedRun:
    tags = {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")}
    return TrackedRun(
        run_id=run.info.run_id,
        experiment_id=run.info.experiment_id,
        name=run.info.run_name or run.info.run_id,
        tags=tags,
        start_time=run.info.start_time,
        end_time=run.info.end_time,
        params=dict(run.data.params),
        metrics=dict(run.data.metrics),
        artifact_uri=run.info.artifact_uri,
        store=store,
        asked=asked,
    )
