"""A sweep that has to end at a time: what still starts, what is ended, and that the same command goes on."""

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from rmlab.launchers.jobs import Event, JobQueue
from rmlab.launchers.local import LocalLauncher
from rmlab.sweep import scheduler
from rmlab.sweep.progress_table import ProgressLine, ProgressTable
from rmlab.sweep.request import OnError, make_plan
from rmlab.sweep.scheduler import run_cells
from rmlab.sweep.under_way import SweepUnderWay
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.dead_runs import LeaseMonitor
from rmlab.tracking.query import runs
from rmlab.tracking.run_index import run_infos
from rmlab.tracking.store import Store
from tests.sweeping import TOY, sweep_here
from tests.sweeping import started as cells_started


def under_way(left: float | None, took: float | None) -> SweepUnderWay:
    """Cells of 3 and of 1 unit of work that wait, one of 3 that took so long, and so many seconds until the end."""
    cells = make_plan(TOY, ["preset=one_arm", "levels=[3,1]", "baseline=1"], "").cells
    lines = [ProgressLine(cell.name, "waiting", cell.level, float(cell.level)) for cell in cells]
    lines.append(ProgressLine("before", "finished", "3", 3.0, ran=took))
    until = None if left is None else time.monotonic() + left
    made = SweepUnderWay(Store.open(), cells, ProgressTable("toy", lines), OnError.stop, LeaseMonitor(), {}, until)
    made.waiting.extend(made.of_hash)
    return made


def started(made: SweepUnderWay) -> list[str]:
    names = []
    while (job := made.next()) is not None:
        names.append(job.name)
    return names


@pytest.mark.parametrize(
    ("left", "took", "names"),
    [
        (None, 90.0, ["data_scale=3 s0", "data_scale=3 s1", "data_scale=1 s0", "data_scale=1 s1"]),
        (95.0, 90.0, ["data_scale=3 s0", "data_scale=3 s1", "data_scale=1 s0", "data_scale=1 s1"]),
        (85.0, 90.0, ["data_scale=1 s0", "data_scale=1 s1"]),  # 60 s: half is fixed, a third of the work
        (55.0, 90.0, []),
        (5.0, None, ["data_scale=3 s0", "data_scale=3 s1", "data_scale=1 s0", "data_scale=1 s1"]),  # nothing is known
        (-1.0, None, []),
    ],
)
@pytest.mark.usefixtures("runs_folder")
def test_a_cell_starts_that_is_expected_to_end_in_time(
    left: float | None, took: float | None, names: list[str]
) -> None:
    made = under_way(left, took)
    assert started(made) == names
    assert not made.is_open(), "what waits will not start"
    assert made.is_time_up() is (left == -1.0)
    assert made.out_of_time is (len(names) < 4)


@pytest.mark.parametrize(
    "checkpoint", ["checkpoint.safetensors", "fold_1/checkpoint-step7/rank0000.safetensors", "state.safetensors"]
)
def test_a_cell_with_a_checkpoint_is_said_to_be_resumed(
    runs_folder: Path, capsys: pytest.CaptureFixture[str], checkpoint: str
) -> None:
    made = under_way(None, None)
    stopped, begun = list(made.of_hash)[:2]
    for key, name in ((stopped, checkpoint), (begun, ".checkpoint.12-ab.safetensors")):
        path = runs_folder / "cells" / key / name
        path.parent.mkdir(parents=True)
        path.write_bytes(save({"rng": np.zeros(1)}))
    for _ in range(2):
        job = made.next()
        assert job is not None
        made.take(Event(job, "started"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[1/5] data_scale=3 s0 resumed from its checkpoint")
    assert lines[1].startswith("[1/5] data_scale=3 s1 started"), "it had none yet"


class UntilStarted:
    """Cells in processes of their own; the time is up as soon as one has begun."""

    def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
        assert isinstance(queue, SweepUnderWay)
        with closing(LocalLauncher(1).run(queue, preload)) as events:
            for event in events:
                if cells_started() > self.before:
                    queue.until = time.monotonic()
                yield event

    def __init__(self) -> None:
        self.before = cells_started()


@pytest.mark.slow
def test_what_runs_at_the_limit_is_ended_and_what_is_finished_can_be_exported(
    runs_folder: Path, tmp_path: Path
) -> None:
    store, arguments = Store.open(), ["preset=one_arm", "baseline=1", "seeds=[0]"]
    first = make_plan(TOY, [*arguments, "levels=[1]"], "").cells
    assert run_cells(first, store, LocalLauncher(1)).ran == 1
    (runs_folder / "hold").touch()  # cells do not end while it is there
    cells = make_plan(TOY, [*arguments, "levels=[1,2,3]"], "").cells
    outcome = run_cells(cells, store, UntilStarted(), until=time.monotonic() + 3600)
    assert (outcome.time_is_up, outcome.ran, outcome.failed) == (True, 0, [])
    assert outcome.left == ["data_scale=3 s0", "data_scale=2 s0"], "the longest comes first"
    states = {run.name: run.status for run in runs(store, ["toy_scale"])}
    assert states.pop("data_scale=1 s0") == "finished"
    assert list(states) == ["data_scale=3 s0"], "the other one was not begun"
    assert set(states.values()) <= {"stopped", "killed"}, "one that was too slow to answer was killed"
    assert all(info.end_time is not None for info in run_infos(store))
    done = export_runs(store, tmp_path / "runs.zip", sweep="toy_scale", show=False)
    assert (done.runs, done.running) == (2, [])
    (runs_folder / "hold").unlink()
    outcome = run_cells(cells, store, LocalLauncher(1), until=time.monotonic() + 3600)
    assert (outcome.time_is_up, outcome.ran, outcome.left) == (False, 2, [])


@pytest.mark.usefixtures("runs_folder")
def test_nothing_is_prepared_once_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "prepare", lambda *_: pytest.fail("prepared"))
    cells = make_plan(TOY, ["preset=one_arm", "levels=[1]", "baseline=1", "seeds=[0]"], "").cells
    outcome = run_cells(cells, Store.open(), LocalLauncher(1), until=time.monotonic())
    assert (outcome.time_is_up, outcome.ran, outcome.left) == (True, 0, ["data_scale=1 s0"])


@pytest.mark.usefixtures("runs_folder")
def test_the_command_ends_well_and_says_how_to_go_on() -> None:
    code, out, err = sweep_here(TOY, "preset=one_arm", "--stop-after", "0.0001", "--on-error", "continue")
    assert code == 0, err
    assert "The time is up: 6 of 6 cells left; finished cells stay finished, and cells that were running keep" in err
    assert "keep their checkpoints. Continue with: rmlab sweep" in err
    assert err.rstrip().endswith("--on-error continue --stop-after 0.0001")
    assert out == "", "no table, no figure: the time is up"


@pytest.mark.usefixtures("runs_folder")
def test_a_search_counts_trials_and_has_no_limit_of_time() -> None:
    code, _, err = sweep_here(TOY.replace("scale", "search"), "--stop-after", "1")
    assert code == 2
    assert "--stop-after does not apply to a search. Limit its number of trials with trials=N." in err
