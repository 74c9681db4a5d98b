"""What is known of the cells of this study: the ledger, what was fitted, and what the store of this machine has."""

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.foretelling_plan import COMMON, Plan, configuration, read_plan, value_at
from analysis.foretelling_plan import read_rows as read
from analysis.foretelling_runs import by_end
from analysis.style import csv_text
from rmlab.errors import DataError, RmlabError
from rmlab.files import exclusive, write_text
from rmlab.paths import runs_folder
from rmlab.tracking.query import find_model, get_run
from rmlab.tracking.run_index import RunInfo, run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.tags import FAILED, FINISHED, IMPORTED_RUN, REPLACED

HERE = Path(__file__).parent
STUDY = HERE.name
LEDGER, FITTED = HERE / "ledger.csv", HERE / "fitted.csv"
KEPT = ("config_hash", "start_fingerprint", "verifier_run", "verifier_fingerprint", "device", "commit")
"""Tags of a run that its line of the ledger has."""
Cell = dict[str, str]


@dataclass
class State:
    """What is known of the cells here. finished: name -> its finished run in this store: of a verifier the newest, whose weights are
    here; of RL the first, which is the result. done: name -> its line in the ledger. fitted: name -> value, of `check.py`; fitted_to:
    role -> the verifier's run that they were fitted to. runs: all finished runs of cells. failures: how often a cell failed."""

    finished: dict[str, RunInfo]
    done: dict[str, Cell]
    fitted: dict[str, str]
    fitted_to: dict[str, str]
    runs: Sequence[RunInfo] = ()
    failures: Mapping[str, int] = field(default_factory=dict)

    def weights(self, verifier: str) -> str:
        """The id of a run here that holds a verifier's weights, "" where there is none."""
        run = self.finished.get(verifier)
        try:
            return "" if run is None or find_model(run.run_id, "verifier.json") is None else run.run_id
        except RmlabError:
            return ""

    def means(self, text: str) -> str:
        """A text with fitted values in the place of their names. Raises DataError for one that is not fitted yet."""

        def value(found: re.Match[str]) -> str:
            if found[0] not in self.fitted:
                raise DataError(f"{found[0]} is not fitted yet: run check.py once the verifiers are trained")
            return self.fitted[found[0]]

        return re.sub(r"\b(?:SHIFT|SLOPE)_\w+", value, text)

    def verifier_of(self, cell: Cell) -> str:
        """The name of the verifier that a cell of RL needs, "" for none. Raises DataError for a role that is not given yet."""
        role = cell["verifier"]
        if role not in ("good", "poor"):
            return role
        if role not in self.fitted:
            raise DataError(f"which verifier is {role} is not known yet: run check.py once the verifiers are trained")
        return self.fitted[role]


def look() -> State:
    """Ledger, fitted values and this machine's store."""
    store = Store.existing(None)
    plan, ledger, fitted = read_plan(HERE), read(LEDGER), read(FITTED)
    cells = {cell["name"]: cell for cell in plan.cells}
    runs, finished = list[RunInfo](), dict[str, RunInfo]()
    for info in sorted(run_infos(store) if store else [], key=by_end):
        cell = cells.get(info.name)
        if (
            store is None
            or cell is None
            or info.status not in (FINISHED, REPLACED)
            or not is_of_cell(store, info, cell, plan)
        ):
            continue
        runs.append(info)
        if cell["kind"] == "rl":
            finished.setdefault(info.name, info)
        elif info.status == FINISHED:
            finished[info.name] = info
    return State(
        finished,
        {row["name"]: row for row in ledger if row["run_id"]},
        {row["name"]: row["value"] for row in fitted},
        {row["name"]: row["run_id"] for row in fitted},
        runs,
        Counter(row["name"] for row in ledger if not row["run_id"]),
    )


def is_of_cell(store: Store, info: RunInfo, cell: Mapping[str, str], plan: Plan) -> bool:
    """Whether a run with a cell's name is one of it: of this study, its kind and preset, with all that cells vary."""
    given = dict(word.partition("=")[::2] for word in COMMON[cell["kind"]])
    preset = given.get("preset") or given.get("rl_preset") or ""
    if info.tags.get("kind") != cell["kind"] or info.tags.get("preset", "") != preset:
        return False
    try:
        config = configuration(get_run(store, info.run_id))
    except RmlabError as error:
        print(f"{info.name}: run {info.run_id[:8]} is passed over: {error}", file=sys.stderr)
        return False
    if value_at(config, "tracking.experiment") != STUDY:
        return False
    if reason := plan.departure(config, cell, info.tags.get("verifier_run", "")):
        print(f"{info.name}: run {info.run_id[:8]} is passed over: {reason}", file=sys.stderr)
    return not reason


def tracked_as_failed(name: str, since: float) -> bool:
    """Whether the store has a run of this name that has failed since a time (seconds). An end that left no such run says nothing of the
    cell: what it was given is wrong, or it was killed."""
    store = Store.existing(None)
    return any(
        (info.name, info.status) == (name, FAILED) and (info.end_time or 0) >= int(1000 * since)
        for info in (run_infos(store) if store else [])
    )


def note(state: State, failed: Sequence[str] = ()) -> None:
    """Writes every finished run that the ledger does not have yet as a line of it, and a line without a run for each failure."""
    with exclusive(runs_folder() / "locks" / f"{STUDY}.lock", f"the ledger of {STUDY}"):
        _note(state, failed)


def _note(state: State, failed: Sequence[str]) -> None:
    rows = read(LEDGER)
    known = {row["run_id"] for row in rows}
    rows += [dict.fromkeys(("name", "run_id", "minutes", *KEPT), "") | {"name": name} for name in failed]
    for run in state.runs:
        run_id = run.tags.get(IMPORTED_RUN, run.run_id)  # the id that it has where it was made
        if run_id not in known:
            minutes = "" if run.end_time is None else f"{(run.end_time - run.start_time) / 60_000:.1f}"
            rows.append(
                {"name": run.name, "run_id": run_id, "minutes": minutes, **{tag: run.tags.get(tag, "") for tag in KEPT}}
            )
    if rows:
        write_text(LEDGER, csv_text(rows))
