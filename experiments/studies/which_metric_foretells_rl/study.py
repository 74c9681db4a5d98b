"""Runs the cells of this study: several side by side on one card, in slices of some minutes, each cell once.

    python experiments/studies/which_metric_foretells_rl/study.py --dry-run                     # every cell: its state and its command
    python experiments/studies/which_metric_foretells_rl/study.py verifiers --minutes 9.5       # one slice; the same command goes on
    python experiments/studies/which_metric_foretells_rl/study.py execution_free second_seed --minutes 9.5 --bundle $OUT/runs.zip
    python experiments/studies/which_metric_foretells_rl/study.py verifiers distortion --start a    # one start: `attempts.sh starts a`

What a cell is stands in cells.csv (`design.py`), what all share in common.yaml, what was fitted to a verifier in fitted.csv (`check.py`),
what has been done in ledger.csv, which travels with the repository: a cell in it is not run again, nor is one that has failed twice or
been killed three times. A command that is refused before its run begins (a start that is not there) is no failure of its cell: it is
named, and a second one ends the slice. What a slice ends goes on with the next one on the same machine; what is lost with a machine is
begun again. A verifier whose weights stayed on another machine is trained again before it pays here, and gets a line of its own in the
ledger: the runs that it pays carry its own offline metrics.

All these files lie beside this one; $RMLAB_FORETELLING names another folder, in which a rehearsal has its own.
"""

import argparse
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from analysis.foretelling.plan import common, plan_folder, shared, value_at
from analysis.foretelling.plan import read_rows as read
from experiments.studies.which_metric_foretells_rl.design import STARTS, at_least
from experiments.studies.which_metric_foretells_rl.records import (
    EXPERIMENT,
    Cell,
    State,
    fitted,
    ledger,
    look,
    note,
    of_start,
    tracked_failure,
)
from experiments.studies.which_metric_foretells_rl.side_by_side import SideBySide
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.gpu_memory import says_full
from rmlab.paths import runs_folder
from rmlab.stopping import EXIT_CODE, INTERRUPTED
from rmlab.tracking.store import Store
from rmlab.wording import counted, duration

SECONDS = {"verifier": 90, "rl": 300}
"""Guessed: what a cell takes with three side by side on one H200."""
LEAST_SECONDS = {"verifier": 150, "rl": 240}
"""Of a slice that are left when the last cell begins: with less of it nothing is begun, since a verifier would not be scored, and a run of
RL not be past its first evaluation."""
PAUSE, STOP, KILL = 60, 40, 20
"""Seconds before the end of a slice at which runs of RL pause by themselves, what still runs is told to stop and saves its state, and what
has not ended then is killed. The rest is for the bundle."""
LOOK_SECONDS = 1.0
"""Between two looks at what runs."""
COMMANDS = {"verifier": "train", "rl": "rl"}
FROM_OUTSIDE = (INTERRUPTED, EXIT_CODE)
"""Exit codes of a command that was told to end, or that could not say any longer that it is at work."""
MOST_REFUSED = 2
"""Commands that end without a run of theirs: so many, and all others would end so too."""


def command(cell: Cell, state: State, minutes: float | None = None) -> list[str]:
    """What runs a cell. Raises DataError where what it needs is not there yet."""
    kind = cell["kind"]
    own = [
        *shlex.split(state.means(cell["overrides"])),
        f"tracking.experiment={EXPERIMENT}",
        f"tracking.name={cell['name']}",
    ]
    if kind == "verifier":
        again = ["--force"] if cell["name"] in state.finished else []
        return [sys.executable, "-m", "rmlab", "train", *again, *common(kind), *own]
    named = [f"start={start_of(cell)}"]
    if verifier := state.verifier_of(cell):
        if not (run := state.weights(verifier)):
            raise DataError(f"the weights of {verifier} are not here: `study.py verifiers` trains it")
        if verifier != cell["verifier"] and run != state.fitted_to[cell["verifier"]]:
            raise DataError(f"what is fitted belongs to another training of {verifier}: run check.py again")
        named.append(f"verifier={run}")
    limit = [] if minutes is None else [f"rl.max_minutes={minutes:.2f}"]
    return [sys.executable, "-m", "rmlab", "rl", *named, *common(kind), *own, *limit]


def to_do(cells: Sequence[Cell], state: State, start: str | None = None) -> list[Cell]:
    """Of the chosen cells those to be run here: what no ledger has; verifiers whose weights are not here and that a run still needs, of
    one start where a start is given. None that is given up."""

    def left(cell: Cell) -> bool:
        return cell["name"] not in state.done and not state.given_up(cell)

    runs = [c for c in read(plan_folder() / "cells.csv") if c["kind"] == "rl" and start in (None, c["start"])]
    needed = state.payers([cell for cell in runs if left(cell)])
    again = [c["name"] for c in cells if c["name"] in state.done and c["name"] in needed and c["kind"] == "verifier"]
    lost = {name for name in again if not state.weights(name)}
    return [c for c in cells if left(c) or (c["name"] in lost and not state.given_up(c))]


def prove_there(cells: Sequence[Cell]) -> None:
    """Raises DataError for the folders that these cells begin from and that this machine lacks."""
    models = {value_at(shared(cell), "model.pretrained") for cell in cells if cell["kind"] == "verifier"} - {None}
    needed = {*map(str, models), *(str(start_of(cell)) for cell in cells if cell["kind"] == "rl")}
    if lacking := sorted(folder for folder in needed if not Path(folder).exists()):
        raise DataError(
            f"{' and '.join(lacking)}: not on this machine. README.md says under 'How it is run' what makes it"
        )


def start_of(cell: Cell) -> Path:
    """The folder of the policy that a cell of RL begins with."""
    return Path("runs", "policies", cell["start"])


def run_slice(cells: Sequence[Cell], minutes: float, together: int, cards: int | None = None) -> list[str]:
    """Runs cells until the time is up, `together` on each card, in their order; returns what ended without a finished run. A cell whose
    verifier is still in training waits, and lets others begin before it. Where commands end by themselves without a failed run (a
    mistake of set-up, a full disk) no further cell begins."""
    deadline, waiting, lost, refused = time.monotonic() + 60 * minutes, list(cells), list[str](), 0
    running, begun = SideBySide(runs_folder() / EXPERIMENT, together, cards), dict[str, float]()
    named, state = {cell["name"]: cell for cell in cells}, look()
    while True:
        left = deadline - time.monotonic()
        if left < STOP:  # a run of RL saves its state first, a verifier its training: both go on from there
            running.stop(at_once=left < KILL)
        for name, code in running.ended(lambda name: says_full(tracked_failure(name, begun[name]) or "")):
            if (most := running.crowded.pop(name, None)) is not None:
                waiting.insert(0, named[name])
                what = f"found too little memory beside others, which is not counted: it begins again, with {most} on its card at most"
                print(f"{name} {what}", flush=True)
                continue
            how, what = ending(name, named[name]["kind"], code, running.told(name), begun[name])
            note(look(), {name: how} if how else {})
            state = look()
            if not what:
                continue
            if not how and (refused := refused + 1) == MOST_REFUSED:
                what += "; no further cell begins"
                waiting.clear()
            lost.append(name)
            print(f"{name} {what}: {running.last_line(name)} ({running.log(name)})", flush=True)
            if reason := state.given_up({"name": name, "kind": "verifier"}):
                print(f"{name} is given up: {reason}", flush=True)
        lacking, asked_all = dict[str, str](), False
        for cell in [cell for cell in waiting if left > LEAST_SECONDS[cell["kind"]]]:
            if len(running) == running.most:
                break
            name = cell["name"]
            begun[name] = time.time()
            try:
                if not running.start(name, command(cell, state, (left - PAUSE) / 60)):
                    break  # another program has the card
            except DataError as error:
                lacking[name] = str(error)
                continue
            print(f"{name} begins, {duration(left)} left", flush=True)
            waiting.remove(cell)
        else:
            asked_all = True
        if not running and asked_all:  # nobody here makes what they lack
            for name, what in lacking.items():
                lost.append(name)
                print(f"{name}: {what}", flush=True)
            waiting = [cell for cell in waiting if cell["name"] not in lacking]
            if not any(left > LEAST_SECONDS[cell["kind"]] for cell in waiting):
                return lost
        time.sleep(LOOK_SECONDS)


def ending(name: str, kind: str, code: int, told: bool, began: float) -> tuple[str, str]:
    """How a command ended that left no finished run: for the ledger ("" where that says nothing of its cell), and in words. Both are ""
    where all is well, or where the slice was over. told: whether it was told to stop. began: in seconds, as time.time().

    A failure is what the store tracks as one. What hung for longer than cells take, and was killed for it, counts as killed.
    """
    if told:
        hung = code == -signal.SIGKILL and time.time() - began > SECONDS[kind]
        return ("killed", "did not stop when it was told to and was killed") if hung else ("", "")
    if code == 0:
        return "", ""
    if code < 0:
        return "killed", f"was killed (signal {-code})"
    if code in FROM_OUTSIDE:
        return "killed", "was interrupted"
    if code != UsageError.exit_code and tracked_failure(name, began) is not None:
        return "failed", "failed"
    return "", f"ended with {code} without a failed run, which is not counted"


def said(cells: Sequence[Cell], state: State, start: str | None = None) -> str:
    """What --dry-run prints: the settings that all cells of a kind share, then a line a cell: its state, its name, and what it has
    beside them, or what it waits for; then how many are left."""
    left = {cell["name"] for cell in to_do(cells, state, start)}
    kinds = dict.fromkeys(cell["kind"] for cell in cells)
    lines = [f"every {kind}: rmlab {COMMANDS[kind]} {shlex.join(common(kind))}" for kind in kinds]
    seconds = 0
    for cell in cells:
        if cell["name"] not in left and (reason := state.given_up(cell)) and cell["name"] not in state.done:
            lines.append(f"given up  {cell['name']}  {reason}")
            continue
        if cell["name"] not in left:
            lines.append(f"finished  {cell['name']}  run {state.done[cell['name']]['run_id']}")
            continue
        seconds += SECONDS[cell["kind"]]
        try:
            words = [word for word in command(cell, state)[4:] if word not in common(cell["kind"])]
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
    for file in (ledger(), fitted(), plan_folder() / "design.csv"):
        if (
            file.exists() and file.resolve().parent != bundle.resolve().parent
        ):  # the bundle of the page lies beside them
            shutil.copy(file, bundle.parent)


def main(arguments: Sequence[str]) -> int:
    """The command line; 1 where a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "blocks", nargs="*", help="blocks of cells.csv, or names of cells, in the order in which they begin; none = all"
    )
    parser.add_argument(
        "--start",
        choices=STARTS,
        help="only runs of this start of the policies, with their verifiers; default: of both",
    )
    parser.add_argument("--dry-run", action="store_true", help="list the cells, start nothing")
    parser.add_argument("--minutes", type=at_least(0), default=9.5, help="of this slice, with its bundle")
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
    everything = read(plan_folder() / "cells.csv")
    known = {cell[key] for cell in everything for key in ("block", "name")}
    if unknown := sorted(set(asked.blocks) - known):
        raise UsageError(f"{unknown[0]} is neither a block nor a cell; blocks are {', '.join(_blocks(everything))}")
    chosen = [[c for c in everything if block in (c["block"], c["name"])] for block in asked.blocks]
    cells = list({c["name"]: c for own in chosen for c in own}.values()) if chosen else everything
    state = look()
    cells = of_start(cells, state, asked.start)
    if asked.start and not cells:
        there = ", ".join(_blocks(of_start(everything, state, asked.start)))
        raise UsageError(
            f"nothing of start {asked.start} is chosen: leave --start out, or name a block that has cells of it ({there})"
        )
    if asked.dry_run:
        print(said(cells, state, asked.start))
        return 0
    note(state)
    waiting = to_do(cells, look(), asked.start)
    if 60 * asked.minutes > min(LEAST_SECONDS.values()):
        prove_there(waiting)
    lost = run_slice(waiting, asked.minutes, asked.together, asked.cards)
    state = look()
    note(state)
    if asked.bundle:
        export(asked.bundle, state, {cell["name"] for cell in cells}, asked.page)
    given_up = sum(cell["name"] not in state.done and bool(state.given_up(cell)) for cell in cells)
    words = f"{counted(len(to_do(cells, state, asked.start)), 'cell')} of {len(cells)} to do, {given_up} given up"
    print(f"{words}; {len(lost)} failed in this slice" if lost else words, flush=True)
    return int(bool(lost))


def _blocks(cells: Sequence[Cell]) -> dict[str, Any]:
    return dict.fromkeys(cell["block"] for cell in cells)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except RmlabError as error:
        sys.exit(f"error: {error}")
