"""Sweeps and cells that are stopped in the middle, in real processes: killed, interrupted, out of time, out of disk."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import psutil
import pytest

from rmlab.launchers.jobs import Event, JobQueue
from rmlab.sweep.request import make_plan
from rmlab.sweep.scheduler import run_cells
from rmlab.sweep.under_way import SweepUnderWay
from rmlab.tracking.query import runs
from rmlab.tracking.run_index import cell_runs
from rmlab.tracking.store import Store
from tests.forked_command import ForkedCommand
from tests.sweeping import TOY, cells_that_said, kill_again_and_again, launch, ledger, sweep_here, until_said
from tests.verifiers.examples import write_pool
from tests.waiting import PATIENCE, until


@pytest.mark.slow
def test_kill_9_of_all_at_random_moments_then_the_same_command(runs_folder: Path) -> None:
    arguments = (TOY, "levels=[1,2,3]", "seconds=1", "--workers", "2")
    kills = kill_again_and_again(*arguments, times=2, longest=1.0, seed=2)
    code, _, err = sweep_here(*arguments)
    assert code == 0, err
    assert kills > 0
    # A cell may have ended and been killed before it could say so; none that said `finished` ran again.
    assert len(cell_runs(Store.open()).finished) == 10
    found = runs(Store.open(), ["toy_scale"])
    finished = [run for run in found if run.status == "finished"]
    assert len(finished) == len({run.name for run in finished}) == 12, "each cell finished exactly once"
    assert all(len(run.series("train/loss")) == 10 and "eval/auc_pooled" in run.metrics for run in finished)
    assert {run.status for run in found} <= {"finished", "killed", "stopped"}
    assert all(run.end_time is not None for run in found)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["stall", "stand still"])
def test_a_cell_that_had_to_stop_goes_on_in_the_same_launch(runs_folder: Path, trouble: str) -> None:
    code, _, err = sweep_here(TOY, "preset=one_arm", "seeds=[0]", f"trouble={{2:{trouble}}}", "--workers", "1")
    assert code == 0, err
    assert len([line for line in err.splitlines() if "data_scale=2 s0 stopped: the " in line]) == 1
    found = [(run.name, run.status) for run in runs(Store.open(), ["toy_scale"])]
    names = [f"data_scale={level} s0" for level in (1, 2, 3)]
    assert sorted(found) == sorted(
        [*((name, "finished") for name in names), (names[1], "killed" if trouble == "stand still" else "stopped")]
    )


@pytest.mark.slow
def test_a_cell_that_has_to_stop_again_and_again_is_left_for_the_next_launch(runs_folder: Path) -> None:
    arguments = (TOY, "preset=one_arm", "levels=[1,2]", "baseline=1", "seeds=[0]")
    code, _, err = sweep_here(*arguments, "trouble={2:lost}")
    assert code == 1
    assert err.count("data_scale=2 s0 stopped: the lease is lost.") == 4
    assert "1 of 2 cells were stopped repeatedly (data_scale=2 s0), for the reasons above. Continue with: rmlab" in err
    assert Counter(run.status for run in runs(Store.open())) == {"finished": 1, "stopped": 4}
    assert "1 of 2 runs finished, 1 to run" in sweep_here(*arguments, "trouble={2:lost}", "--dry-run")[1]


@pytest.mark.slow
def test_a_full_disk_is_said_once_and_starts_nothing_more(runs_folder: Path) -> None:
    code, _, err = sweep_here(TOY, "preset=one_arm", "seeds=[0]", "trouble={3:full}", "--workers", "1")
    assert code == 1
    assert err.count("stopped: [Errno 28] No space left on device") == 1
    assert err.splitlines()[-1] == (
        "rmlab: the disk is full, so nothing more was started. Free some space; the same command then continues."
    )
    assert [(run.name, run.status) for run in runs(Store.open())] == [("data_scale=3 s0", "stopped")]


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["ctrl-c", "parent alone", "sigterm"])
def test_children_end_with_their_parent(runs_folder: Path, whom: str) -> None:
    killed = whom == "parent alone"
    process = launch(TOY, "seconds=3600", "--workers", "2", patient=not killed)
    until(lambda: len(cells_that_said("start")) == 2, process)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 3
    if killed:
        process.kill()
        process.wait()
    else:
        os.killpg(process.pid, signal.SIGINT if whom == "ctrl-c" else signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert "Waiting for 2 cells to stop." in err
        assert "Continue with: rmlab sweep" in err
        assert "Traceback" not in err
    until(lambda: not [p for p in family if alive(p)])
    assert not cell_runs(Store.open()).finished
    if not killed:
        assert [run.status for run in runs(Store.open(), ["toy_scale"])] == ["stopped"] * 2


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait_for_a_cell_that_does_not_stop(runs_folder: Path) -> None:
    (runs_folder / "hold").touch()
    process = ForkedCommand("sweep", TOY, "preset=one_arm", "seeds=[0]", "trouble={3:deaf}", "--workers", "1")
    until(lambda: any(word == "deaf" for word, _ in ledger()), process)
    process.send_signal(signal.SIGINT)
    until_said(process, "Waiting for 1 cell to stop. Press Ctrl-C again to end them at once.")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Continue with: rmlab sweep" in err
    assert [run.status for run in runs(Store.open(), ["toy_scale"])] == ["killed"]


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_a_cell_whose_time_is_up_is_paused_and_the_same_command_goes_on(runs_folder: Path) -> None:
    arguments = (TOY, "preset=one_arm", "seeds=[0]", "trouble={3:late}", "--workers", "1")
    code, _, err = sweep_here(*arguments)
    assert code == 0, err
    assert "1 of 3 cells paused, their time is up (data_scale=3 s0). Continue with: rmlab sweep" in err
    assert {run.name: run.status for run in runs(Store.open(), ["toy_scale"]) if run.tags["kind"] == "toy"} == {
        "data_scale=1 s0": "finished",
        "data_scale=2 s0": "finished",
        "data_scale=3 s0": "stopped",
    }
    code, _, err = sweep_here(*arguments)
    assert code == 0, err
    assert "paused" not in err
    starts = cells_that_said("start")
    assert sorted(starts.values()) == [1, 1, 1]


@pytest.mark.slow
def test_whoever_is_interrupted_ends_the_cells_before_it_says_so(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    class Endless:
        def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
            try:
                while True:
                    yield None
            finally:
                ended.append("cells")

    def interrupted(under_way: SweepUnderWay, event: Event | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepUnderWay, "take", interrupted)
    plan = make_plan(TOY, ["preset=one_arm"], "rmlab sweep")
    with pytest.raises(KeyboardInterrupt) as caught:
        run_cells(plan.cells, Store.open(), Endless())
    assert caught.value.__traceback__ is not None, "it keeps what was under way from being collected"
    assert ended == ["cells"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_real_verifiers_killed_at_a_random_moment_and_gone_on_with(runs_folder: Path, tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "hand.parquet")
    arguments = ("data_scale", "preset=smoke", f"data.path={pool}", "--workers", "2")
    process = ForkedCommand("sweep", *arguments)
    until(lambda: any(run.status == "running" for run in runs(Store.open())), process)
    time.sleep(random.Random(1).uniform(0, 3))
    process.kill_all()
    process.wait()
    done_before = {run.run_id for run in runs(Store.open()) if run.status == "finished"}

    code, out, err = sweep_here(*arguments)
    assert code == 0, err
    found = runs(Store.open(), ["data_scale"])
    verifiers = [run for run in found if run.tags["kind"] == "verifier" and run.status == "finished"]
    names = ["data_scale=128 s0", "data_scale=128 steps s0", "data_scale=64 s0", "data_scale=64 steps s0"]
    assert sorted(run.name for run in verifiers) == names
    assert done_before <= {run.run_id for run in verifiers}
    assert {run.status for run in found} <= {"finished", "killed", "stopped"}
    by_name = {run.name: run for run in verifiers}
    assert by_name["data_scale=128 steps s0"].tags["source_run"] == by_name["data_scale=128 s0"].run_id
    assert {run.series("eval/rm_at_k")[0][0] for run in verifiers} == {1}
    [summary] = [run for run in found if run.tags["kind"] == "summary"]
    assert "| steps | 64 | 1 |" in summary.artifact("table.md").read_text()
    table = summary.artifact("table.csv").read_text().splitlines()
    assert sum(line.startswith(("epochs,", "steps,")) for line in table) == 4
    assert any(line.startswith(",last_value,,") for line in table), "baselines stand in the same file"
    for words in ("rm_at_k.png first", "rmlab ui", "/#/experiments/"):
        assert words in out
    said = [line.split(":")[0] for line in out.splitlines()[-5:]]
    assert said == ["Varied", "Found", "Not shown", "Look", "Table"], "five lines, and no long table"
    assert "|" not in out
    assert Path(out.splitlines()[-1].removeprefix("Table: ")).is_file()
    figures = {path: path.stat().st_mtime_ns for path in (runs_folder / "figures").rglob("*.p*")}
    assert figures

    code, again, err = sweep_here(*arguments)
    assert code == 0, err
    assert again == out
    assert len(runs(Store.open(), ["data_scale"])) == len(found), "nothing trained, the summary run is the same one"
    assert {path: path.stat().st_mtime_ns for path in figures} == figures
