"""`rmlab sweep` as a user meets it: real processes, a real store, kills in the middle."""

import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path

import psutil
import pytest

from rmlab.files import exclusive
from rmlab.launchers.jobs import Event, JobQueue
from rmlab.paths import REPOSITORY, runs_folder
from rmlab.sweep import scheduler
from rmlab.sweep.request import make_plan
from rmlab.sweep.scheduler import run_cells
from rmlab.sweep.under_way import SweepUnderWay
from rmlab.tracking.query import runs
from rmlab.tracking.run_index import cell_runs
from rmlab.tracking.store import Store
from tests.sweeping import kill_again_and_again, launch, sweep_here, until_said
from tests.verifiers.examples import write_pool
from tests.waiting import PATIENCE, until

TOY = str(REPOSITORY / "tests" / "sweep" / "toy" / "toy_scale.yaml")


@pytest.fixture(autouse=True)
def where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_database: Path, request: pytest.FixtureRequest
) -> Path:
    """The runs folder, with an empty store but in the first test."""
    folder = tmp_path / "runs"
    monkeypatch.setenv("RMLAB_RUNS", str(folder))
    if "second_launch" not in request.node.name:
        folder.mkdir()
        shutil.copy(empty_database, folder / "mlflow.db")
    return folder


def ledger(where: Path) -> Counter:
    """How often each cell started and ended, by the cells' own word."""
    text = (where / "ledger").read_text() if (where / "ledger").exists() else ""
    return Counter(tuple(line.split()[:2]) for line in text.splitlines())


def ended(where: Path) -> Counter:
    return Counter(key for (word, key), n in ledger(where).items() if word == "end" for _ in range(n))


def test_a_sweep_runs_each_cell_once_and_a_second_launch_runs_none(where: Path) -> None:
    code, out, _ = sweep_here(TOY, "--dry-run")
    assert code == 0
    assert "12 cells, 0 of 10 runs finished, 10 to run" in out
    assert "the same run as data_scale=2 s0" in out
    assert not where.exists(), "a dry run makes nothing"

    code, out, err = sweep_here(TOY, "--workers", "2")
    assert code == 0, err
    assert sorted(ended(where).values()) == [1] * 10
    assert ("prepared", "10") in ledger(where)
    found = runs(Store.open(), ["toy_scale"])
    assert len(found) == 12, "one run a cell, no siblings"
    assert {run.status for run in found} == {"finished"}
    reused = {run.name: run for run in found if "source_run" in run.tags}
    assert set(reused) == {"data_scale=2 steps s0", "data_scale=2 steps s1"}
    assert reused["data_scale=2 steps s1"].metrics["eval/auc_pooled"] == pytest.approx(0.6)
    assert reused["data_scale=2 steps s1"].tags["arm"] == "steps"
    assert len({run.tags["control_hash"] for run in found}) == 1
    assert all(len(run.series("train/loss")) == 10 for run in found)

    code, _, err = sweep_here(TOY)
    assert code == 0, err
    assert "every cell was finished already: nothing was trained" in err
    assert sorted(ended(where).values()) == [1] * 10
    assert len(runs(Store.open(), ["toy_scale"])) == 12
    code, out, _ = sweep_here(TOY, "--dry-run")
    assert "10 of 10 runs finished, 0 to run" in out

    # Another sweep of another name that asks for a finished cell reuses it.
    other = where / "other_name.yaml"
    other.write_text(Path(TOY).read_text().replace("toy.py", str(Path(TOY).parent / "toy.py")))
    code, _, err = sweep_here(other, "preset=one_arm", "levels=[1]", "baseline=1")
    assert code == 0, err
    assert sorted(ended(where).values()) == [1] * 10
    [zero, one] = sorted(runs(Store.open(), ["other_name"]), key=lambda run: run.name)
    assert (zero.name, one.name) == ("data_scale=1 s0", "data_scale=1 s1")
    assert {"source_run", "config_hash"} <= set(zero.tags)
    assert zero.tags["sweep"] == "other_name"


@pytest.mark.slow
def test_kill_9_of_the_whole_group_at_random_moments_then_the_same_command(where: Path) -> None:
    arguments = (TOY, "levels=[1,2,3,4]", "seconds=1", "--workers", "2")
    kills = kill_again_and_again(*arguments, times=4, longest=1.0, seed=2)
    code, _, err = sweep_here(*arguments)
    assert code == 0, err
    assert kills > 0
    # A cell may have ended and been killed before it could say so; none that said `finished` ran again.
    assert len(cell_runs(Store.open()).finished) == 14
    found = runs(Store.open(), ["toy_scale"])
    finished = [run for run in found if run.status == "finished"]
    assert len(finished) == len({run.name for run in finished}) == 16, "each cell finished exactly once"
    assert all(len(run.series("train/loss")) == 10 and "eval/auc_pooled" in run.metrics for run in finished)
    assert {run.status for run in found} <= {"finished", "killed", "stopped"}
    assert all(run.end_time is not None for run in found)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["stall", "stand still"])
def test_a_cell_that_had_to_stop_goes_on_in_the_same_launch(where: Path, trouble: str) -> None:
    code, _, err = sweep_here(TOY, "preset=one_arm", "seeds=[0]", f"trouble={{2:{trouble}}}", "--workers", "1")
    assert code == 0, err
    assert len([line for line in err.splitlines() if "data_scale=2 s0 stopped: the " in line]) == 1
    found = [(run.name, run.status) for run in runs(Store.open(), ["toy_scale"])]
    names = [f"data_scale={level} s0" for level in (1, 2, 3)]
    assert sorted(found) == sorted(
        [*((name, "finished") for name in names), (names[1], "killed" if trouble == "stand still" else "stopped")]
    )


@pytest.mark.slow
def test_a_cell_that_has_to_stop_again_and_again_is_left_for_the_next_launch(where: Path) -> None:
    arguments = (TOY, "preset=one_arm", "levels=[1,2]", "baseline=1", "seeds=[0]")
    code, _, err = sweep_here(*arguments, "trouble={2:lost}")
    assert code == 1
    assert err.count("data_scale=2 s0 stopped: the lease is lost.") == 4
    assert "1 of 2 cells had to stop again and again (data_scale=2 s0): see above why. They go on with: rmlab" in err
    assert Counter(run.status for run in runs(Store.open())) == {"finished": 1, "stopped": 4}
    assert "1 of 2 runs finished, 1 to run" in sweep_here(*arguments, "trouble={2:lost}", "--dry-run")[1]


@pytest.mark.slow
def test_a_full_disk_is_said_once_and_starts_nothing_more(where: Path) -> None:
    code, _, err = sweep_here(TOY, "preset=one_arm", "seeds=[0]", "trouble={3:full}", "--workers", "1")
    assert code == 1
    assert err.count("stopped: [Errno 28] No space left on device") == 1
    assert err.splitlines()[-1] == (
        "rmlab: the disk is full, so nothing more was started. Make room there; the same command goes on."
    )
    assert [(run.name, run.status) for run in runs(Store.open())] == [("data_scale=3 s0", "stopped")]


@pytest.mark.slow
def test_a_level_that_means_something_else_and_then_the_first_again(where: Path) -> None:
    """The newest run of a level stands for it in tables and figures: it is the one of the file as it is."""
    import yaml

    path, shown = where / "named.yaml", []
    for meaning in ("2:1", "4:1", "2:1"):
        raw = {
            "question": "q?",
            "program": str(Path(TOY).with_name("toy.py")),
            "factor": "label_ratio",
            "seeds": [0],
            "presets": {"demo": None},
        }
        raw |= {"levels": ["few"], "baseline": "few", "named": {"few": [f"data.label_ratio={meaning}"]}}
        path.write_text(yaml.safe_dump(raw))
        code, _, err = sweep_here(path)
        assert code == 0, err
        newest = max((run for run in runs(Store.open()) if run.tags["kind"] == "toy"), key=lambda run: run.start_time)
        shown.append(newest.tags["config_hash"])
    assert shown[0] == shown[2] != shown[1]


@pytest.mark.parametrize("whom", ["parent alone", "ctrl-c", pytest.param("sigterm", marks=pytest.mark.slow)])
def test_children_end_with_their_parent(where: Path, whom: str) -> None:
    killed = whom == "parent alone"
    process = launch(TOY, "seconds=3600", "--workers", "2", patient=not killed)
    until(lambda: sum(word == "start" for word, _ in ledger(where)) == 2, process)
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
        assert "Go on with: rmlab sweep" in err
        assert "Traceback" not in err
    until(lambda: not [p for p in family if alive(p)])
    assert not cell_runs(Store.open()).finished
    if not killed:
        assert [run.status for run in runs(Store.open(), ["toy_scale"])] == ["stopped"] * 2


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_wait_for_a_cell_that_does_not_stop(where: Path) -> None:
    (where / "hold").touch()
    process = launch(TOY, "preset=one_arm", "seeds=[0]", "trouble={3:deaf}", "--workers", "1", patient=True)
    until(lambda: any(word == "deaf" for word, _ in ledger(where)), process)
    os.killpg(process.pid, signal.SIGINT)
    until_said(process, "Waiting for 1 cell to stop. Ctrl-C again ends at once what has not.")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Go on with: rmlab sweep" in err
    assert [run.status for run in runs(Store.open(), ["toy_scale"])] == ["killed"]


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_failed_cells_are_shown_and_tracked_and_fail_alone(where: Path) -> None:
    troubles = {
        2: "RuntimeError: this cell has no luck",
        3: "DataError: this cell has no data. Get some.",
        4: "the process ended with exit code 7 before its work was done",
        5: "the process was killed (signal 9): out of memory, or by hand",
    }
    code, _, err = sweep_here(
        TOY,
        "preset=one_arm",
        "levels=[1,2,3,4,5]",
        "seeds=[0]",
        "trouble={2:error,3:data,4:exit,5:kill}",
        "--on-error",
        "continue",
    )
    assert code == 1
    last = err.strip().splitlines()[-1]
    assert last.startswith("rmlab: 4 of 5 cells failed (")
    assert last.endswith("--on-error continue --retry-failed")
    by_name = {run.name: run for run in runs(Store.open(), ["toy_scale"])}
    assert by_name.pop("data_scale=1 s0").status == "finished"
    for level, words in troubles.items():
        run = by_name[f"data_scale={level} s0"]
        assert (run.status, run.tags["error"]) == ("failed", words)
        assert words.removeprefix("DataError: ") in err
        assert run.end_time is not None
    assert err.count("Traceback (most recent call last)") == 1, "what says it in one line needs no traceback"
    assert "no luck" in by_name["data_scale=2 s0"].artifact("traceback.txt").read_text()


@pytest.mark.slow
def test_a_cell_whose_time_is_up_is_paused_and_the_same_command_goes_on(where: Path) -> None:
    arguments = (TOY, "preset=one_arm", "seeds=[0]", "trouble={3:late}", "--workers", "1")
    code, _, err = sweep_here(*arguments)
    assert code == 0, err
    assert "1 of 3 cells paused, their time is up (data_scale=3 s0). They go on with: rmlab sweep" in err
    assert {run.name: run.status for run in runs(Store.open(), ["toy_scale"]) if run.tags["kind"] == "toy"} == {
        "data_scale=1 s0": "finished",
        "data_scale=2 s0": "finished",
        "data_scale=3 s0": "stopped",
    }
    code, _, err = sweep_here(*arguments)
    assert code == 0, err
    assert "paused" not in err
    starts = Counter({key: n for (word, key), n in ledger(where).items() if word == "start"})
    assert sorted(starts.values()) == [1, 1, 1]


@pytest.mark.slow
def test_a_failed_cell_stops_the_sweep_and_is_retried_only_when_asked(where: Path) -> None:
    arguments = (TOY, "preset=one_arm", "seeds=[0]", "trouble={3:error}", "--workers", "1")
    code, _, err = sweep_here(*arguments)
    assert code == 1
    assert "1 of 3 cells failed (data_scale=3 s0), 2 not started" in err
    code, out, _ = sweep_here(*arguments, "--dry-run")
    assert "failed: RuntimeError: this cell has no luck" in out
    code, _, err = sweep_here(*arguments)
    assert code == 1, "what failed is still not there"
    starts = Counter({key: n for (word, key), n in ledger(where).items() if word == "start"})
    assert sorted(starts.values()) == [1, 1, 1], "the other two ran, the failed one did not again"
    code, _, err = sweep_here(*arguments, "--retry-failed")
    assert code == 1
    starts = Counter({key: n for (word, key), n in ledger(where).items() if word == "start"})
    assert sorted(starts.values()) == [1, 1, 2]


@pytest.mark.slow
def test_nothing_starts_when_what_all_share_is_wrong(where: Path) -> None:
    code, _, err = sweep_here(TOY, "trouble={0:broken}")
    assert code == 1
    assert err.strip().splitlines()[-1] == "rmlab: data.scale=3 cannot be filled: two are there. Lower data.scale."
    assert not ledger(where)


@pytest.mark.slow
def test_a_cell_that_became_another_run_since_the_plan_does_not_start(where: Path) -> None:
    arguments = (TOY, "preset=one_arm", "levels=[1,2]", "seeds=[0]", "trouble={0:change}", "--on-error", "continue")
    code, _, err = sweep_here(*arguments)
    assert code == 1
    assert err.count("code or data changed since. Give the command again") == 2
    assert not [word for word, _ in ledger(where) if word == "start"]
    code, _, err = sweep_here(*arguments)
    assert code == 0, err
    assert sorted(word for word, _ in ledger(where)) == ["end", "end", "prepared", "start", "start"]


@pytest.mark.slow
def test_whoever_is_interrupted_ends_the_cells_before_it_says_so(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_sweep_that_runs_already_is_refused_before_anything_is_begun(
    where: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(scheduler, "begin", lambda *given: begun.append(given))
    with exclusive(runs_folder() / "locks" / "sweep-toy_scale-one_arm.lock", "the sweep"):
        code, _, err = sweep_here(TOY, "preset=one_arm", "seeds=[0]")
    assert code == 1
    assert "rmlab: sweep toy_scale at preset one_arm is held by process" in err
    assert not begun


@pytest.mark.slow
def test_two_launches_of_one_sweep(where: Path) -> None:
    (where / "hold").touch()
    first = launch(TOY, "preset=one_arm", "seeds=[0]", "--workers", "1")
    until(lambda: any(word == "start" for word, _ in ledger(where)), first)
    code, _, err = sweep_here(TOY, "preset=one_arm", "seeds=[0]")
    (where / "hold").unlink()
    assert code == 1
    assert re.search(
        r"rmlab: sweep toy_scale at preset one_arm is held by process \d+ on \S+ since .*\. Wait until it ends", err
    )
    _, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, err
    assert sorted(ended(where).values()) == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope"], 2, "there is no sweep 'nope'"),
        ([TOY, "preset=nope"], 2, "has no preset 'nope'"),
        ([TOY, "data.scal=1"], 2, "no key 'data.scal' (did you mean data.scale?)"),
        ([TOY, "data.scale=1"], 2, "is what data_scale varies"),
        ([TOY, "seconds=long"], 2, "seconds=long"),
        ([TOY, "levels=[9"], 2, "levels is a value, or a list"),
        ([TOY, "levels=[]"], 2, "levels=[] must be a list"),
        ([TOY, "+extra=1"], 2, "no key 'extra'"),
        ([TOY, "just_a_word"], 2, "is not an override"),
        ([TOY, "--workers", "0"], 2, "Invalid value for '--workers'"),
        ([TOY, "tracking.uri=sqlite:////proc/x/mlflow.db"], 1, "cannot be written"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], code: int, words: str) -> None:
    found, _, err = sweep_here(*arguments)
    assert found == code
    assert words in err
    assert err.startswith("rmlab: ")
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
def test_real_verifiers_killed_at_a_random_moment_and_gone_on_with(where: Path, tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "hand.parquet")
    arguments = ("data_scale", "preset=smoke", f"data.path={pool}", "--workers", "2")
    process = launch(*arguments)
    until(
        lambda: (where / "mlflow.db").exists() and any(run.status == "running" for run in runs(Store.open())), process
    )
    time.sleep(random.Random(1).uniform(0, 3))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
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
    figures = {path: path.stat().st_mtime_ns for path in (where / "figures").rglob("*.p*")}
    assert figures

    code, again, err = sweep_here(*arguments)
    assert code == 0, err
    assert again == out
    assert len(runs(Store.open(), ["data_scale"])) == len(found), "nothing trained, the summary run is the same one"
    assert {path: path.stat().st_mtime_ns for path in figures} == figures
