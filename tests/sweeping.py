"""Sweeps as a user starts them, in processes of their own or in this one, and what a machine may do to them."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rmlab.paths import REPOSITORY, runs_folder
from tests.command_line import rmlab_here
from tests.forked_command import ForkedCommand, start_warm_fork_server
from tests.waiting import until

TOY = str(REPOSITORY / "tests" / "sweep" / "toy" / "toy_scale.yaml")
"""A sweep whose cells sleep, tell a ledger when they start and end, and have the troubles that a key names."""
PATIENT = "from rmlab import cli; from rmlab.launchers import local; local.PATIENCE_SECONDS = 900.0; cli.main()"
"""The command, with time for its cells to say how they ended on a slow machine too."""


def launch(*arguments: str | Path, patient: bool = False, **more) -> subprocess.Popen:
    """`rmlab sweep ...`, started, in a process group of its own. patient: it does not kill cells that end slowly."""
    program = ["-c", PATIENT] if patient else ["-m", "rmlab.cli"]
    return subprocess.Popen(
        [sys.executable, *program, "sweep", *map(str, arguments)],
        cwd=REPOSITORY,
        env=dict(os.environ),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **more,
    )


def sweep_here(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, output and errors of `rmlab sweep ...` in this process; its cells are processes of their own all the same."""
    start_warm_fork_server()
    return rmlab_here("sweep", *arguments)


def multirun(program: str, *overrides: str) -> None:
    """What `rmlab train -m` does, of any program; for a process of its own."""
    from rmlab.commands import multirun as made
    from rmlab.errors import RmlabError

    try:
        made.multirun(program, overrides)
    except RmlabError as error:
        print(f"rmlab: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def launches_without(*cases: str) -> None:
    """Launches the toy through each launcher where a module is not there (LAUNCHER=MODULE), in a fork of this process, which has not yet
    looked for what is installed; prints how each ended."""
    from rmlab.cli import main

    for launcher, _, missing in (case.partition("=") for case in cases):
        if not (child := os.fork()):
            sys.modules[missing] = None  # type: ignore[assignment]
            sys.argv = ["rmlab", "sweep", TOY, f"hydra/launcher={launcher}"]
            main()
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def ledger() -> Counter[tuple[str, str]]:
    """How often a cell of the toy said a word (`start`, `end`, ...) in the runs folder, by word and hash of the cell."""
    path = runs_folder() / "ledger"
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter((word, key) for word, key, *_ in map(str.split, lines))


def cells_that_said(word: str) -> Counter[str]:
    """How often each cell of the toy said this word, by its hash."""
    return Counter({key: n for (said, key), n in ledger().items() if said == word})


def started() -> int:
    """How many cells of the toy have begun in the runs folder, by their own word."""
    return cells_that_said("start").total()


def kill_again_and_again(*arguments: str | Path, times: int, longest: float, seed: int) -> int:
    """Starts a sweep of the toy `times` times and kills it with all its cells (9), up to `longest` seconds after one or two of them began;
    how often it was still at work then."""
    rng = random.Random(seed)
    return sum(
        killed_while_at_work(*arguments, after=rng.uniform(0.0, longest), cells=rng.choice((1, 2)))
        for _ in range(times)
    )


def killed_while_at_work(*arguments: str | Path, after: float, cells: int) -> bool:
    """Starts a sweep of the toy and kills it `after` seconds after so many more cells began; False where it ended before."""
    before, process = started(), ForkedCommand("sweep", *arguments)
    while process.poll() is None and started() - before < cells:
        time.sleep(0.02)
    time.sleep(after)
    at_work = process.poll() is None
    if at_work:
        process.kill_all()
    process.wait()
    return at_work


def until_said(process: subprocess.Popen | ForkedCommand, words: str) -> None:
    """Waits until a line of a process' errors has these words."""
    if isinstance(process, ForkedCommand):
        until(lambda: words in process.said(), process)
        return
    assert process.stderr is not None
    assert any(words in line for line in process.stderr), f"it never said: {words}"
