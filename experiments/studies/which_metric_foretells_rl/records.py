"""What is known of the cells of this study: the ledger, what was fitted, and what the store of this machine has."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from analysis.foretelling.plan import ROLES, STUDY, Plan, common, configuration, plan_folder, read_plan, value_at
from analysis.foretelling.plan import read_rows as read
from analysis.foretelling.runs import ENDS, by_end
from analysis.presentation.style import csv_text
from rmlab.errors import DataError, RmlabError
from rmlab.files import exclusive, write_text
from rmlab.paths import runs_folder
from rmlab.tracking.query import get_run
from rmlab.tracking.references import find_model
from rmlab.tracking.run_index import RunInfo, run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.tags import ERROR, FAILED, FINISHED, IMPORTED_RUN, REPLACED
from rmlab.wording import counted

EXPERIMENT = STUDY.name
KEPT = ("config_hash", "start_fingerprint", "verifier_run", "verifier_fingerprint", "device", "commit")
"""Tags of a run that its line of the ledger has."""
NOTHING: Mapping[str, str] = {}
COLUMNS = ("name", "run_id", "ended", "minutes", *KEPT)
MOST = {"failed": 2, "killed": 3}
"""A cell that has ended so often without a finished run is given up."""
Cell = dict[str, str]


def ledger() -> Path:
    return plan_folder() / "ledger.csv"


def fitted() -> Path:
    return plan_folder() / "fitted.csv"


@dataclass
class State:
    """What is known of the cells here. finished: name -> its finished run in this store: of a verifier the newest, whose weights are
    here; of RL the first, which is the result. done: name -> its line in the ledger. fitted: name -> value, of `check.py`; fitted_to:
    role -> the verifier's run that they were fitted to. runs: all finished runs of cells. ended: (cell, how) -> how often it ended
    without a finished run."""

    finished: dict[str, RunInfo]
    done: dict[str, Cell]
    fitted: dict[str, str]
    fitted_to: dict[str, str]
    runs: Sequence[RunInfo] = ()
    ended: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def given_up(self, cell: Mapping[str, str]) -> str:
        """Why a cell is not run again, though it is not done; "" where it is."""
        own = [
            f"it {verb} {counted(n, 'time')}"
            for how, verb in ENDS.items()
            if (n := self.ended.get((cell["name"], how), 0)) >= MOST[how]
        ]
        if own or cell["kind"] == "verifier" or not cell["verifier"]:
            return " and ".join(own)
        verifier = self.fitted.get(cell["verifier"], cell["verifier"])
        lost = self.given_up({"name": verifier, "kind": "verifier"})
        return f"its verifier {verifier} is given up: {lost}" if lost and not self.weights(verifier) else ""

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
        if role not in ROLES:
            return role
        if role not in self.fitted:
            raise DataError(f"which verifier is {role} is not known yet: run check.py once the verifiers are trained")
        return self.fitted[role]

    def payers(self, runs: Sequence[Cell]) -> set[str]:
        """The names of the verifiers that pay these runs; a role that no verifier has yet stands for itself."""
        return {self.fitted.get(cell["verifier"], cell["verifier"]) for cell in runs}


def look() -> State:
    """Ledger, fitted values and this machine's store."""
    store = Store.existing(None)
    plan = read_plan()
    cells = {cell["name"]: cell for cell in plan.cells}
    infos = sorted(run_infos(store) if store else [], key=by_end)
    named = [info for info in infos if info.name in cells and info.status in (FINISHED, REPLACED)]
    runs, finished, trained = list[RunInfo](), dict[str, RunInfo](), dict(plan.trained)
    for kind in ("verifier", "rl"):  # which training is which verifier, before what they paid is looked at
        for info in named:
            cell = cells[info.name]
            if store is None or cell["kind"] != kind or not is_of_cell(store, info, cell, plan, trained):
                continue
            runs.append(info)
            if kind == "rl":
                finished.setdefault(info.name, info)
                continue
            trained |= dict.fromkeys((info.run_id, info.tags.get(IMPORTED_RUN, info.run_id)), info.name)
            if info.status == FINISHED:
                finished[info.name] = info
    rows = read(fitted())
    return State(
        finished,
        {row["name"]: row for row in read(ledger()) if row["run_id"]},
        {row["name"]: row["value"] for row in rows},
        {row["name"]: row["run_id"] for row in rows},
        runs,
        plan.ended,
    )


def of_start(cells: Sequence[Cell], state: State, start: str | None) -> list[Cell]:
    """Of these cells the runs of one start of the policies, the verifiers that are listed with it, and those that pay a run of it though
    they are listed with the other one, as the good and the poor verifier may be. That run need not be among these cells: a later
    command may ask for it, and by then its verifier has to be there. start: None = all cells."""
    runs = [cell for cell in read(plan_folder() / "cells.csv") if cell["kind"] == "rl" and cell["start"] == start]
    needed = state.payers(runs)
    return [c for c in cells if start in (None, c["start"]) or (c["kind"] == "verifier" and c["name"] in needed)]


def is_of_cell(store: Store, info: RunInfo, cell: Mapping[str, str], plan: Plan, trained: Mapping[str, str]) -> bool:
    """Whether a run with a cell's name is one of it: of this study, its kind and preset, with all that cells vary and, of RL, paid by
    the cell's verifier. trained: run -> name of its cell."""
    given = dict(word.partition("=")[::2] for word in common(cell["kind"]))
    preset = given.get("preset") or given.get("rl_preset") or ""
    if info.tags.get("kind") != cell["kind"] or info.tags.get("preset", "") != preset:
        return False
    payer = info.tags.get("verifier_run", "")
    try:
        config = configuration(get_run(store, info.run_id))
        if value_at(config, "tracking.experiment") != EXPERIMENT:
            return False
        reason = plan.departure(config, cell, payer)
    except RmlabError as error:
        reason = str(error)
    if not reason and cell["kind"] == "rl":
        reason = plan.paid_by_another(cell, payer, trained)
    if reason:
        _say_once(f"{info.name}: run {info.run_id[:8]} is passed over: {reason}")
    return not reason


@cache
def _say_once(line: str) -> None:
    """The store is looked at again and again."""
    print(line, file=sys.stderr)


def tracked_failure(name: str, since: float) -> str | None:
    """The error of a run of this name that has failed since a time (seconds); None where the store has none. An end that left no such
    run says nothing of the cell: what it was given is wrong, or it was killed."""
    store = Store.existing(None)
    for info in run_infos(store) if store else []:
        if (info.name, info.status) == (name, FAILED) and (info.end_time or 0) >= int(1000 * since):
            return info.tags.get(ERROR, "")
    return None


def note(state: State, ended: Mapping[str, str] = NOTHING) -> None:
    """Writes every finished run that the ledger does not have yet as a line of it, and a line without a run for each cell that ended
    otherwise. ended: cell -> how."""
    with exclusive(runs_folder() / "locks" / f"{EXPERIMENT}.lock", f"the ledger of {EXPERIMENT}"):
        _note(state, ended)


def _note(state: State, ended: Mapping[str, str]) -> None:
    rows = read(ledger())
    known = {row["run_id"] for row in rows}
    rows += [dict.fromkeys(COLUMNS, "") | {"name": name, "ended": how} for name, how in ended.items()]
    for run in state.runs:
        run_id = run.tags.get(IMPORTED_RUN, run.run_id)  # the id that it has where it was made
        if run_id not in known:
            minutes = "" if run.end_time is None else f"{(run.end_time - run.start_time) / 60_000:.1f}"
            tags = {tag: run.tags.get(tag, "") for tag in KEPT}
            rows.append({"name": run.name, "run_id": run_id, "ended": "finished", "minutes": minutes, **tags})
    if rows:
        write_text(ledger(), csv_text(rows))
