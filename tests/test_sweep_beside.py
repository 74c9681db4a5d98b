"""Sweeps beside each other and beside single runs, and cells run again."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from tests.forked_command import ForkedCommand
from tests.sweeping import cells_that_said, started, sweep_here, until_said
from tests.waiting import PATIENCE, until

TOY = REPOSITORY / "tests" / "sweep" / "toy"
ONE = ("preset=one_arm", "levels=[1,2]", "seeds=[0]")


@pytest.fixture(autouse=True)
def where(tmp_path: Path, runs_folder: Path) -> Path:
    """The runs folder, with an empty store; another sweep file asks for the same cells."""
    (tmp_path / "other.yaml").write_text((TOY / "toy_scale.yaml").read_text().replace("toy.py", str(TOY / "toy.py")))
    return runs_folder


def ready(process: ForkedCommand, number: int = 1) -> None:
    until(lambda: started() >= number, process)


@pytest.mark.slow
def test_two_sweeps_and_a_single_run_share_their_cells(where: Path, tmp_path: Path) -> None:
    (where / "hold").touch()
    first = ForkedCommand("sweep", TOY / "toy_scale.yaml", *ONE, "--workers", "2")
    ready(first, 2)
    second = ForkedCommand("sweep", tmp_path / "other.yaml", *ONE, "--workers", "1")
    single = f"""
from rmlab.sweep.single_run import run_once
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
    assert sorted(cells_that_said("start").values()) == [1, 1], "nothing was trained twice"
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
    first = ForkedCommand("sweep", TOY / "toy_scale.yaml", *ONE, "--workers", "2")
    ready(first, 2)
    second = ForkedCommand("sweep", tmp_path / "other.yaml", *ONE, "--workers", "2", "--on-error", "continue")
    until_said(second, "is at work elsewhere: waiting for it")
    first.kill_all()  # the second has no cells yet
    first.wait()
    ready(second, 4)
    second.send_signal(signal.SIGINT)
    _, err = second.communicate(timeout=PATIENCE)
    assert second.returncode == 130
    assert "Continue with: rmlab sweep" in err
    assert {run.status for run in runs(Store.open())} == {"killed", "stopped"}


@pytest.mark.slow
def test_finished_cells_are_run_again_when_asked(where: Path) -> None:
    from rmlab.tracking.tags import commit

    name = TOY / "toy_scale.yaml"
    assert sweep_here(name, *ONE)[0] == 0
    before = {run.run_id for run in runs(Store.open())}
    assert "0 of 2 runs finished, 2 to run" in sweep_here(name, *ONE, "--force", "--dry-run")[1]
    code, _, err = sweep_here(name, *ONE, "--force")
    assert code == 0, err
    assert sorted(cells_that_said("end").values()) == [2, 2]
    states = {run.run_id: run.status for run in runs(Store.open())}
    assert Counter(states.values()) == {"finished": 2, "replaced": 2}
    assert all(states[run_id] == "replaced" for run_id in before)
    store = Store.open()
    [one, _] = [run for run in runs(store) if run.status == "finished"]
    store.client.set_tag(one.run_id, "commit", "0" * 40)
    out = sweep_here(name, *ONE, "--rerun-stale", "--dry-run")[1]
    assert "1 of 2 runs finished, 1 to run" in out
    assert commit() != "0" * 40
    assert sweep_here(name, *ONE, "--rerun-stale")[0] == 0
    assert sorted(cells_that_said("end").values()) == [2, 3]
    assert sweep_here(name, *ONE, "--redo-before", "2020-01-01T00:00:00")[0] == 0
    assert sorted(cells_that_said("end").values()) == [2, 3]
    assert sweep_here(name, *ONE, "--redo-before", "yesterday")[0] == 2


@pytest.mark.slow
def test_a_cell_out_of_memory_fails_alone_and_a_dry_run_counts_it_apart(where: Path) -> None:
    arguments = (TOY / "toy_scale.yaml", "preset=one_arm", "seeds=[0]", "trouble={2:memory}")
    code, _, err = sweep_here(*arguments, "--on-error", "continue")
    assert code == 1
    assert "MemoryError" in err
    assert Counter(run.status for run in runs(Store.open())) == {"finished": 2, "failed": 1}
    out = sweep_here(*arguments, "--dry-run")[1]
    assert "failed: MemoryError" in out
    assert "3 cells, 2 of 3 runs finished, 1 failed before (--retry-failed runs them again), 0 to run" in out
    assert "2 of 3 runs finished, 1 to run" in sweep_here(*arguments, "--retry-failed", "--dry-run")[1]
