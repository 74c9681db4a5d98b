"""What comes before the cells of a sweep: the fork server that they start from, and what all of them share, made once."""

from collections.abc import Sequence

from rmlab.configuration import load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.launchers.jobs import HEAVY, Job, JobList, Launcher
from rmlab.launchers.local import LocalLauncher, start_fork_server
from rmlab.launchers.warmup import shared_reads
from rmlab.paths import runs_folder
from rmlab.sweep.dry_run import Redo
from rmlab.sweep.plan import Cell, plain
from rmlab.sweep.progress_table import ProgressTable
from rmlab.tracking.run_index import cell_runs
from rmlab.tracking.store import Store


def begin(cells: Sequence[Cell], store: Store | None, launcher: Launcher, redo: Redo = lambda run: False) -> None:
    """Starts the fork server where cells will be forked from it, so that it imports and reads while this process does the same."""
    known = cell_runs(store).finished
    wanted = {
        cell.identity.config_hash
        for cell in cells
        if (run := known.get(cell.identity.config_hash)) is None or redo(run)
    }
    if wanted and isinstance(launcher, LocalLauncher):
        program = load_program(cells[0].sweep.program)
        reads = shared_reads(
            [cell.config for cell in cells if cell.identity.config_hash in wanted], getattr(program, "SHARED", {})
        )
        start_fork_server(getattr(program, "PRELOAD", HEAVY), reads)


def prepare(cells: Sequence[Cell], table: ProgressTable, preload: Sequence[str]) -> None:
    """Makes what all cells share, once, in a process of its own; the first that is wrong is raised before any cell starts."""
    job = Job(
        "prepare",
        cells[0].sweep.program,
        "prepare",
        tuple(plain(c.config) for c in cells),
        log=runs_folder() / "logs" / f"prepare-{cells[0].sweep.name}-{cells[0].sweep.preset}.log",
        many=True,
    )
    table.inform("preparing what the cells share ...")
    for event in LocalLauncher(1).run(JobList([job]), preload):
        if event is not None and event.state in ("failed", "stopped"):
            if event.trace:
                table.say(event.trace)
            kind = (
                UsageError if event.exit_code == UsageError.exit_code else DataError if not event.trace else RmlabError
            )
            raise kind(event.error)
