"""Sweeps beside each other and beside single runs, cells run again, and kills in the middle."""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY
from rmlab.tracking.query import runs
from rmlab.tracking.run_index import cell_runs
from rmlab.tracking.store import Store
from tests.sweeping import kill_again_and_again, launch, sweep, until_said
from tests.waiting import PATIENCE, until

TOY = REPOSITORY / "tests" / "sweep" / "toy"
ONE = ("preset=one_arm", "levels=[1,2]", "seeds=[0]")


@pytest.fixture(autouse=True)
def where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_database: Path, request: pytest.FixtureRequest
) -> Path:
    """The runs folder, with an empty store but where a test makes it itself; another sweep file asks for the same cells."""
    folder = tmp_path / "runs"
    monkeypatch.setenv("RMLAB_RUNS", str(folder))
    folder.mkdir()
    if "does_not_exist" not in request.node.name:
        shutil.copy(empty_database, folder / "mlflow.db")
    (tmp_path / "other.yaml").write_text((TOY / "toy_scale.yaml").read_text().replace("toy.py", str(TOY / "toy.py")))
    return folder


def words(where: Path, word: str) -> Counter:
    """How often each cell said this word, by its hash."""
    text = (where / "ledger").read_text() if (where / "ledger").exists() else ""
    return Counter(line.split()[1] for line in text.splitlines() if line.startswith(f"{word} "))


def ready(where: Path, process: subprocess.Popen, number: int = 1) -> None:
    until(lambda: sum(words(where, "start").values()) >= number, process)


@pytest.mark.slow
def test_two_sweeps_and_a_single_run_share_their_cells(where: Path, tmp_path: Path) -> None:
    (where / "hold").touch()
    first = launch(TOY / "toy_scale.yaml", *ONE, "--workers", "2")
    ready(where, first, 2)
    second = launch(tmp_path / "other.yaml", *ONE, "--workers", "1")
    single = f"""
from rmlab.sweep.multirun import run_once
from rmlab.configuration import compose, load_program
program = load_program({str(TOY / "toy.py")!r})
config = compose({str(TOY / "toy.py")!r}, ["data.scale=2"])
print(run_once(config, program.identity(config).config_hash, program.run))
"""
    third = subprocess.Popen(
        [sys.executable, "-c", single], cwd=REPOSITORY, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until_said(second, "is at work elsewhere: waiting for it")
    until_said(third, "is at work in run")
    (where / "hold").unlink()
    for process in (first, second, third):
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert "finished" in out or "finished" in err
    assert sorted(words(where, "start").values()) == [1, 1], "nothing was trained twice"
    for name in ("toy_scale", "other"):
        found = runs(Store.open(), [name])
        assert {(run.name, run.status) for run in found} == {
            ("data_scale=1 s0", "finished"),
            ("data_scale=2 s0", "finished"),
        }
        assert len(found) == 2


@pytest.mark.slow
def test_the_cell_of_a_sweep_that_dies_is_taken_over(where: Path, tmp_path: Path) -> None:
    (where / "hold").touch()
    first = launch(TOY / "toy_scale.yaml", *ONE, "--workers", "2")
    ready(where, first, 2)
    second = launch(tmp_path / "other.yaml", *ONE, "--workers", "2", "--on-error", "continue")
    until_said(second, "is at work elsewhere: waiting for it")
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    ready(where, second, 4)
    os.killpg(second.pid, signal.SIGINT)
    _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 130
    assert "Go on with: rmlab sweep" in err
    assert {run.status for run in runs(Store.open())} == {"killed", "stopped"}


@pytest.mark.slow
def test_finished_cells_are_run_again_when_asked(where: Path) -> None:
    from rmlab.tracking.tags import commit

    name = TOY / "toy_scale.yaml"
    assert sweep(name, *ONE)[0] == 0
    before = {run.run_id for run in runs(Store.open())}
    assert "0 of 2 runs finished, 2 to run" in sweep(name, *ONE, "--force", "--dry-run")[1]
    code, _, err = sweep(name, *ONE, "--force")
    assert code == 0, err
    assert sorted(words(where, "end").values()) == [2, 2]
    states = {run.run_id: run.status for run in runs(Store.open())}
    assert Counter(states.values()) == {"finished": 2, "replaced": 2}
    assert all(states[run_id] == "replaced" for run_id in before)
    store = Store.open()
    [one, _] = [run for run in runs(store) if run.status == "finished"]
    store.client.set_tag(one.run_id, "commit", "0" * 40)
    out = sweep(name, *ONE, "--rerun-stale", "--dry-run")[1]
    assert "1 of 2 runs finished, 1 to run" in out
    assert commit() != "0" * 40
    assert sweep(name, *ONE, "--rerun-stale")[0] == 0
    assert sorted(words(where, "end").values()) == [2, 3]
    assert sweep(name, *ONE, "--redo-before", "2020-01-01T00:00:00")[0] == 0
    assert sorted(words(where, "end").values()) == [2, 3]
    assert sweep(name, *ONE, "--redo-before", "yesterday")[0] == 2


@pytest.mark.slow
def test_a_cell_out_of_memory_fails_alone_and_a_dry_run_counts_it_apart(where: Path) -> None:
    arguments = (TOY / "toy_scale.yaml", "preset=one_arm", "seeds=[0]", "trouble={2:memory}")
    code, _, err = sweep(*arguments, "--on-error", "continue")
    assert code == 1
    assert "MemoryError" in err
    assert Counter(run.status for run in runs(Store.open())) == {"finished": 2, "failed": 1}
    out = sweep(*arguments, "--dry-run")[1]
    assert "failed: MemoryError" in out
    assert "3 cells, 2 of 3 runs finished, 1 failed before (--retry-failed runs them again), 0 to run" in out
    assert "2 of 3 runs finished, 1 to run" in sweep(*arguments, "--retry-failed", "--dry-run")[1]


@pytest.mark.slow
def test_eight_workers_on_a_store_that_does_not_exist(where: Path) -> None:
    assert not (where / "mlflow.db").exists()
    code = f"""
import sys
from rmlab.configuration import compose, load_program
program = load_program({str(TOY / "toy.py")!r})
program.run(compose({str(TOY / "toy.py")!r}, [f"seed={{sys.argv[1]}}"]))
"""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(n)], cwd=REPOSITORY, env=dict(os.environ), stderr=subprocess.PIPE
        )
        for n in range(8)
    ]
    for worker in workers:
        _, err = worker.communicate(timeout=PATIENCE)
        assert worker.returncode == 0, err
    found = runs(Store.open())
    assert Counter(run.status for run in found) == {"finished": 8}
    assert all(len(run.series("train/loss")) == 10 for run in found)


@pytest.mark.slow
def test_ten_kills_at_random_moments_over_sixteen_cells(where: Path) -> None:
    arguments = (TOY / "toy_scale.yaml", "preset=one_arm", "levels=[1,2,3,4,5,6,7,8]", "seconds=1.5", "--workers", "2")
    kills = kill_again_and_again(*arguments, times=10, longest=1.0, seed=2)
    code, _, err = sweep(*arguments)
    assert code == 0, err
    assert kills > 0
    found = runs(Store.open(), ["toy_scale"])
    finished = [run for run in found if run.status == "finished"]
    assert len(finished) == len({run.name for run in finished}) == 16, "each cell finished exactly once"
    assert len(cell_runs(Store.open()).finished) == 16
    assert all(len(run.series("train/loss")) == 10 and "eval/auc_pooled" in run.metrics for run in finished)
    assert {run.status for run in found} <= {"finished", "killed", "stopped"}
    assert all(run.end_time is not None for run in found)
