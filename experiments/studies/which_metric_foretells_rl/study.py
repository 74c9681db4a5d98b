"""Runs the cells of this study: several side by side on one card, in slices of some minutes, each cell once.

    python experiments/studies/which_metric_foretells_rl/study.py --dry-run                     # every cell: its state and its command
    python experiments/studies/which_metric_foretells_rl/study.py verifiers --minutes 9.5       # one slice; the same command goes on
    python experiments/studies/which_metric_foretells_rl/study.py execution_free second_seed --minutes 9.5 --bundle $OUT/runs.zip

What a cell is stands in cells.csv (`design.py`), what was fitted to a verifier in fitted.csv (`check.py`), what has been done in
ledger.csv, which travels with the repository: a cell in it is not run again, nor is one that has failed twice. A command that is refused
before its run begins (a start that is not there) is no failure: it ends the slice, and is named. What a slice ends goes
on with the next one on the same machine; what is lost with a machine is begun again. A verifier whose weights stayed on another machine
is trained again before it pays here, and gets a line of its own in the ledger: the runs that it pays carry its own offline metrics.
"""

import argparse
import re
import shlex
import shutil
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.foretelling_plan import COMMON, Plan, configuration, read_plan, value_at
from analysis.foretelling_plan import read_rows as read
from analysis.foretelling_runs import by_end
from analysis.style import csv_text
from experiments.studies.which_metric_foretells_rl.design import at_least
from experiments.studies.which_metric_foretells_rl.side_by_side import SideBySide
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.files import exclusive, write_text
from rmlab.paths import runs_folder
from rmlab.tracking.query import find_model, get_run
from rmlab.tracking.run_index import RunInfo, run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.tags import FAILED, FINISHED, IMPORTED_RUN, REPLACED
from rmlab.wording import counted, duration

HERE = Path(__file__).parent
STUDY = HERE.name
LEDGER, FITTED = HERE / "ledger.csv", HERE / "fitted.csv"
SECONDS = {"verifier": 90, "rl": 300}
"""Guessed: what a cell takes with three side by side on one H200."""
LEAST_SECONDS = {"verifier": 100, "rl": 90}
"""Of a slice that are left when the last cell begins: with less of it nothing is begun."""
ENDING = 30
"""Seconds that a paused run of RL has to save its state."""
COMMANDS = {"verifier": "train", "rl": "rl"}
MOST_FAILURES = 2
"""A cell that fails is run once more."""
KEPT = ("config_hash", "start_fingerprint", "verifier_run", "verifier_fingerprint", "device", "commit")
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


def command(cell: Cell, state: State, minutes: float | None = None) -> list[str]:
    """What runs a cell. Raises DataError where what it needs is not there yet."""
    kind = cell["kind"]
    own = [
        *shlex.split(state.means(cell["overrides"])),
        f"tracking.experiment={STUDY}",
        f"tracking.name={cell['name']}",
    ]
    if kind == "verifier":
        again = ["--force"] if cell["name"] in state.finished else []
        return [sys.executable, "-m", "rmlab", "train", *again, *COMMON[kind], *own]
    named = [f"start={start_of(cell)}"]
    if verifier := state.verifier_of(cell):
        if not (run := state.weights(verifier)):
            raise DataError(f"the weights of {verifier} are not here: `study.py verifiers` trains it")
        if verifier != cell["verifier"] and run != state.fitted_to[cell["verifier"]]:
            raise DataError(f"what is fitted belongs to another training of {verifier}: run check.py again")
        named.append(f"verifier={run}")
    limit = [] if minutes is None else [f"rl.max_minutes={minutes:.2f}"]
    return [sys.executable, "-m", "rmlab", "rl", *named, *COMMON[kind], *own, *limit]


def to_do(cells: Sequence[Cell], state: State) -> list[Cell]:
    """Of the chosen cells those to be run here: what no ledger has; verifiers whose weights are not here and that a run still needs.
    None that has failed twice."""
    paid = [cell for cell in read(HERE / "cells.csv") if cell["kind"] == "rl" and cell["name"] not in state.done]
    needed = {state.fitted.get(cell["verifier"], cell["verifier"]) for cell in paid}
    return [
        cell
        for cell in cells
        if state.failures.get(cell["name"], 0) < MOST_FAILURES
        and (
            cell["name"] not in state.done
            or (cell["kind"] == "verifier" and cell["name"] in needed and not state.weights(cell["name"]))
        )
    ]


def prove_there(cells: Sequence[Cell]) -> None:
    """Raises DataError for the first folder that these cells begin from and that this machine lacks."""
    needed = {
        runs_folder() / "models" / "smollm2_8000" if cell["kind"] == "verifier" else start_of(cell) for cell in cells
    }
    if lacking := sorted(str(folder) for folder in needed if not folder.exists()):
        raise DataError(
            f"{' and '.join(lacking)}: not on this machine. README.md says under 'How it is run' what makes it"
        )


def start_of(cell: Cell) -> Path:
    """The folder of the policy that a cell of RL begins with."""
    return Path("runs", "policies", cell["start"])


def tracked_as_failed(name: str, since: float) -> bool:
    """Whether the store has a run of this name that has failed since a time (seconds). An end that left no such run says nothing of the
    cell: what it was given is wrong, or it was killed."""
    store = Store.existing(None)
    return any(
        (info.name, info.status) == (name, FAILED) and (info.end_time or 0) >= int(1000 * since)
        for info in (run_infos(store) if store else [])
    )


def last_line(log: Path) -> str:
    """What a command said last."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    return next(filter(None, reversed(lines)), "it said nothing")


def run_slice(cells: Sequence[Cell], minutes: float, together: int, cards: int | None = None) -> list[str]:
    """Runs cells until the time is up, `together` on each card; returns what failed. Only what the store tracks as failed is a failure
    of its cell. Where a command is refused (a mistake of set-up, which would end all others too) no further cell begins."""
    deadline, waiting, failed, stopped = time.monotonic() + 60 * minutes, list(cells), list[str](), False
    running, begun = SideBySide(runs_folder() / STUDY, together, cards), dict[str, float]()
    while True:
        left = deadline - time.monotonic()
        for name, code in running.ended():
            lost = list[str]()
            if code != 0 and not stopped:  # what the end of the slice stopped has not failed
                failed.append(name)
                log = running.logs / f"{name}.txt"
                if code != UsageError.exit_code and tracked_as_failed(name, begun[name]):
                    lost, what = [name], "failed"
                elif code < 0:
                    what = f"was killed (signal {-code}), which is not counted"
                else:
                    what = "was refused, which is not counted; no further cell begins"
                    waiting.clear()
                print(f"{name} {what}: {last_line(log)} ({log})", flush=True)
            note(look(), lost)
        while waiting and len(running) < running.most and left > LEAST_SECONDS[waiting[0]["kind"]]:
            name = waiting[0]["name"]
            begun[name] = time.time()
            try:
                if not running.start(name, command(waiting[0], look(), (left - ENDING) / 60)):
                    break  # another program has the card
                print(f"{name} begins, {duration(left)} left", flush=True)
            except DataError as error:
                failed.append(name)
                print(f"{name}: {error}", flush=True)
            waiting.pop(0)
        if not running and (not waiting or left <= LEAST_SECONDS[waiting[0]["kind"]]):
            return failed
        if left < -ENDING and not stopped:
            stopped = True
            running.stop()  # a run of RL saves its state first, a verifier has its checkpoint: both go on from there
        time.sleep(1.0)


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


def said(cells: Sequence[Cell], state: State) -> str:
    """What --dry-run prints: the settings that all cells of a kind share, then a line a cell: its state, its name, and what it has
    beside them, or what it waits for; then how many are left."""
    left = {cell["name"] for cell in to_do(cells, state)}
    kinds = dict.fromkeys(cell["kind"] for cell in cells)
    lines = [f"every {kind}: rmlab {COMMANDS[kind]} {shlex.join(COMMON[kind])}" for kind in kinds]
    seconds = 0
    for cell in cells:
        if state.failures.get(cell["name"], 0) >= MOST_FAILURES:
            lines.append(
                f"failed    {cell['name']}  {counted(state.failures[cell['name']], 'time')}: it is not run again"
            )
            continue
        if cell["name"] not in left:
            lines.append(f"finished  {cell['name']}  run {state.done[cell['name']]['run_id']}")
            continue
        seconds += SECONDS[cell["kind"]]
        try:
            words = [word for word in command(cell, state)[4:] if word not in COMMON[cell["kind"]]]
            lines.append(f"to do     {cell['name']}  {shlex.join(words)}")
        except DataError as error:
            lines.append(f"waits     {cell['name']}  {cell['overrides']}  ({error})")
    blocks = {
        block: sum(cell["block"] == block for cell in cells) for block in dict.fromkeys(c["block"] for c in cells)
    }
    count = ", ".join(f"{number} {block}" for block, number in blocks.items())
    return "\n".join(
        [
            *lines,
            f"{counted(len(cells), 'cell')}: {count}",
            f"{counted(len(left), 'cell')} to do: with three side by side on a card some {duration(seconds / 3)} of one card, "
            f"{duration(seconds / 6)} of two, {duration(seconds / 12)} of four, as guessed",
        ]
    )


def export(bundle: Path, state: State, names: Collection[str], study: bool = False) -> None:
    """The finished runs of cells of these names in this store as one bundle without weights, and beside it what this folder has got:
    the ledger, the check of the design, what was fitted."""
    from rmlab.tracking.bundles.exporting import export_runs

    own = [run.run_id for run in (state.finished.values() if study else state.runs) if run.name in names]
    if own:
        export_runs(Store.open(None), bundle, own, models=False, study=study, show=False)
        print(f"{counted(len(own), 'run')} in {bundle}", flush=True)
    for file in (LEDGER, FITTED, HERE / "design.csv"):
        if (
            file.exists() and file.resolve().parent != bundle.resolve().parent
        ):  # the bundle of the page lies beside them
            shutil.copy(file, bundle.parent)


def main(arguments: Sequence[str]) -> int:
    """The command line; 1 where a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blocks", nargs="*", help="blocks of cells.csv, or names of cells; none = all")
    parser.add_argument("--dry-run", action="store_true", help="list the cells, start nothing")
    parser.add_argument("--minutes", type=at_least(0), default=9.5, help="of this slice")
    parser.add_argument("--together", type=at_least(1, int), default=3, help="cells side by side on a card")
    parser.add_argument(
        "--cards", type=at_least(1, int), help="the first so many cards of this machine; default: all that are visible"
    )
    parser.add_argument(
        "--bundle", type=Path, help="write the finished runs of these cells here afterwards, without weights"
    )
    parser.add_argument(
        "--page", action="store_true", help="that bundle as it travels with the page: without paths and pages too"
    )
    asked = parser.parse_args(arguments)
    everything = read(HERE / "cells.csv")
    known = {cell[key] for cell in everything for key in ("block", "name")}
    if unknown := sorted(set(asked.blocks) - known):
        raise UsageError(f"{unknown[0]} is neither a block nor a cell; blocks are {', '.join(_blocks(everything))}")
    cells = [c for c in everything if not asked.blocks or {c["block"], c["name"]} & set(asked.blocks)]
    if asked.dry_run:
        print(said(cells, look()))
        return 0
    note(look())
    waiting = to_do(cells, look())
    if 60 * asked.minutes > min(LEAST_SECONDS.values()):
        prove_there(waiting)
    failed = run_slice(waiting, asked.minutes, asked.together, asked.cards)
    state = look()
    note(state)
    if asked.bundle:
        export(asked.bundle, state, {cell["name"] for cell in cells}, asked.page)
    print(f"{counted(len(to_do(cells, look())), 'cell')} of {len(cells)} to do, {len(failed)} failed", flush=True)
    return int(bool(failed))


def _blocks(cells: Sequence[Cell]) -> dict[str, Any]:
    return dict.fromkeys(cell["block"] for cell in cells)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RmlabError as error:
        sys.exit(f"error: {error}")
