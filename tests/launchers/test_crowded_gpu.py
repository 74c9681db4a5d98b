"""Cells of a sweep that share a GPU whose memory does not hold all of them. The GPU is made up, the processes and locks are real."""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from rmlab.commands.multirun import multirun
from rmlab.launchers import local
from rmlab.launchers.gpus import Gpus
from rmlab.launchers.jobs import Event, JobQueue
from rmlab.launchers.local import LocalLauncher
from rmlab.sweep.request import make_plan
from rmlab.sweep.scheduler import SweepOutcome, run_cells
from rmlab.tracking.query import runs
from rmlab.tracking.run_index import cell_runs
from rmlab.tracking.store import Store
from tests.sweeping import TOY, start_warm_fork_server


class Released(LocalLauncher):
    """Cells that are held go on when one has run out of memory."""

    def run(self, queue: JobQueue, preload: Sequence[str]) -> Generator[Event | None]:
        assert self.gpus is not None
        with closing(super().run(queue, preload)) as events:
            for event in events:
                if event is not None and event.state == "crowded":
                    (self.gpus.folder.parent / "hold").unlink()
                yield event


def sweep(trouble: str, launcher: LocalLauncher) -> SweepOutcome:
    start_warm_fork_server()
    plan = make_plan(TOY, ["preset=one_arm", "seeds=[0]", f"trouble={trouble}"], "rmlab sweep")
    return run_cells(plan.cells, Store.open(), launcher)


def test_a_cell_without_memory_beside_others_starts_again_beside_fewer(
    runs_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (runs_folder / "hold").touch()
    gpus = Gpus(["0"], runs_folder / "locks", 3)
    outcome = sweep("{3:crowded}", Released(3, gpus))
    assert (
        capfd.readouterr().err.count(
            "data_scale=3 s0 ran out of memory beside 2 others on GPU 0: it starts again, with at most 2 on that GPU from now on"
        )
        == 1
    )
    assert (outcome.ran, outcome.failed, outcome.left) == (3, [], [])
    assert Counter(run.status for run in runs(Store.open())) == {"finished": 3, "stopped": 1}
    assert not cell_runs(Store.open()).failed
    assert [gpus.take() for _ in range(4)] == ["0", "0", "0", None], "all places are open to the next launch"


@pytest.mark.slow
def test_so_does_a_job_of_any_sweeper(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start_warm_fork_server()
    (runs_folder / "hold").touch()
    monkeypatch.setattr(local, "local_launcher", lambda *_: Released(3, Gpus(["0"], runs_folder / "locks", 3)))
    multirun(str(Path(TOY).with_name("toy.py")), ["data.scale=1,2,3", "trouble={3:crowded}", "hydra/launcher=local"])
    assert "ran out of memory beside 2 others on GPU 0: it starts again, with at most 2" in capsys.readouterr().out
    assert Counter(run.status for run in runs(Store.open())) == {"finished": 3, "stopped": 1}


@pytest.mark.slow
def test_a_cell_without_memory_on_a_gpu_of_its_own_fails_and_says_what_needs_less(
    runs_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = sweep("{3:too large}", LocalLauncher(1, Gpus(["0"], runs_folder / "locks", 3)))
    assert outcome.failed == ["data_scale=3 s0"]
    err = capfd.readouterr().err
    assert "data_scale=3 s0 failed: the memory of the GPU is too small for this work, and no other cell uses it" in err
    assert "CUDA out of memory. Tried to allocate 20.00 MiB." in err
    assert "training.micro_batch_size=1" in err
    assert "Traceback" not in err
    assert Counter(run.status for run in runs(Store.open())) == {"failed": 1}


def test_closed_places_are_closed_to_all_launches_until_theirs_ends(tmp_path: Path) -> None:
    one, other = Gpus(["0"], tmp_path, 4), Gpus(["0"], tmp_path, 4)
    assert [one.take(), other.take(), one.take()] == ["0"] * 3
    assert one.counter("0")() == 2
    assert one.shrink("0", 2) == 2, "of four places two are left, though one of the others was not in use"
    assert one.counter("0")() == 1, "a closed place is no cell"
    assert one.take() is other.take() is None
    other.give_back("0")
    assert [one.take(), other.take()] == ["0", None]
    assert other.counter("0")() == 1
    assert one.shrink("0", 2) == 2, "this cell too ran out of memory beside two, before places were closed"
    assert other.take() == "0"
    assert other.shrink("0", 1) == 1
    assert one.counter("0")() == 0, "the last cell is alone"
    one.open_again()
    assert [one.take() for _ in range(4)] == ["0", "0", None, None], "the other launch keeps its own place closed"
    other.open_again()
    assert [other.take(), other.take()] == ["0", None]
    assert one.counter("0")() == 3
