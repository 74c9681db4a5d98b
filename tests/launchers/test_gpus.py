"""One GPU a cell: who holds which is a matter of file locks, so it is tested without any GPU."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rmlab.errors import UsageError
from rmlab.launchers.gpus import VISIBLE, Gpus, visible_gpus
from rmlab.launchers.jobs import Job, JobList
from rmlab.launchers.local import LocalLauncher, local_launcher
from rmlab.paths import REPOSITORY

PROGRAM = """
import os, sys, time
from dataclasses import dataclass
from hydra.core.config_store import ConfigStore

@dataclass
class Config:
    number: int = 0

ConfigStore.instance().store(name="sees_schema", node=Config)

def run(config):
    assert "torch.cuda" not in sys.modules or not sys.modules["torch"].cuda.is_initialized()
    began = time.monotonic()
    time.sleep(0.5)
    return os.environ["CUDA_VISIBLE_DEVICES"], began, time.monotonic()
"""


def test_a_gpu_is_given_once_also_across_processes(tmp_path: Path) -> None:
    one, other = Gpus(["0", "GPU-5/1"], tmp_path), Gpus(["0", "GPU-5/1"], tmp_path)
    assert (one.take(), other.take()) == ("0", "GPU-5/1")
    assert one.take() is other.take() is None
    code = f"from rmlab.launchers.gpus import Gpus; from pathlib import Path; print(Gpus(['0'], Path({str(tmp_path)!r})).take())"
    ask = [sys.executable, "-c", code]
    assert subprocess.run(ask, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip() == "None"
    one.give_back("0")
    assert subprocess.run(ask, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip() == "0"
    assert other.take() == "0", "the process that had it has ended"


def test_a_gpu_by_number_is_the_gpu_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        f"#!{sys.executable}\nprint('0, GPU-aaaa\\n1, GPU-bbbb' if 'index' in sys.argv[1] else 'GPU-aaaa\\nGPU-bbbb')\n"
    )
    smi.write_text(smi.read_text().replace("\nprint", "\nimport sys\nprint"))
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    config = OmegaConf.create({"runtime": {"device": "cuda", "processes": 1}, "training": {"threads": 1}})
    monkeypatch.delenv(VISIBLE, raising=False)
    every = local_launcher(config)
    monkeypatch.setenv(VISIBLE, "0")
    first = local_launcher(config)
    assert every.gpus is not None
    assert first.gpus is not None
    assert every.gpus.take() == "GPU-aaaa"
    assert first.gpus.take() is None, "the other launcher has it"
    every.gpus.give_back("GPU-aaaa")
    assert first.gpus.take() == "0"
    assert every.gpus.take() == "GPU-bbbb"


def test_small_cells_share_a_gpu_with_their_like_and_with_nobody_who_wants_it_whole(tmp_path: Path) -> None:
    two, also, whole = (Gpus(["0", "1"], tmp_path, cells) for cells in (2, 2, 1))
    assert [two.take() for _ in range(3)] == ["0", "1", "0"], "the emptiest first"
    assert whole.take() is None
    assert also.take() == "1"
    assert two.take() is also.take() is None, "two a GPU, whichever sweep they are of"
    also.give_back("1")
    two.give_back("1")
    assert whole.take() == "1"
    two.give_back("0")
    assert [also.take(), also.take()] == ["0", None]
    whole.give_back("1")
    assert also.take() == "1"
    with pytest.raises(UsageError, match="cells_per_gpu=0"):
        local_launcher(OmegaConf.create({"runtime": {"device": "cpu"}, "training": {"threads": 1}}), None, 0)


@pytest.mark.parametrize("cells", [1, 2])
def test_gpus_come_back_when_their_holder_is_killed(tmp_path: Path, cells: int) -> None:
    code = (
        "import sys, time; from pathlib import Path; from rmlab.launchers.gpus import Gpus, visible_gpus\n"
        f"gpus = Gpus(visible_gpus(), Path({str(tmp_path)!r}), {cells})\n"
        f"print(*[gpus.take() for _ in range({2 * cells + 1})], flush=True); time.sleep(3600)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        text=True,
        stdout=subprocess.PIPE,
        env={**os.environ, VISIBLE: "3,GPU-8"},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline().split() == ["3", "GPU-8"] * cells + ["None"]
    other = Gpus(["GPU-8", "5", "3"], tmp_path, cells)
    assert [other.take() for _ in range(cells + 1)] == ["5"] * cells + [None]
    holder.kill()
    holder.communicate()
    assert [other.take() for _ in range(2 * cells)] == ["GPU-8", "3"] * cells


def test_what_the_environment_allows_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    for text, names in {"0, 3": ["0", "3"], "": [], "-1": [], "GPU-ab": ["GPU-ab"]}.items():
        monkeypatch.setenv(VISIBLE, text)
        assert visible_gpus() == names
    monkeypatch.setenv(VISIBLE, "0,1,2")
    auto = OmegaConf.create({"runtime": {"device": "auto"}, "training": {"threads": 1}})
    assert local_launcher(auto).workers == 3, "as many cells as GPUs"
    assert local_launcher(auto).gpus is not None
    assert local_launcher(auto, None, 2).workers == 6, "or twice as many"
    on_cpu = local_launcher(OmegaConf.create({"runtime": {"device": "cpu"}, "training": {"threads": 1}}))
    assert on_cpu.gpus is None
    monkeypatch.setenv(VISIBLE, "")
    assert local_launcher(auto).gpus is None


@pytest.mark.slow
def test_no_two_cells_share_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "sees.py").write_text(PROGRAM)
    jobs = [Job(f"{n}", str(tmp_path / "sees.py"), "run", ({"number": n},), tmp_path / f"{n}.log") for n in range(6)]
    launcher = LocalLauncher(4, Gpus(["7", "9"], tmp_path / "locks"))
    events = [event for event in launcher.run(JobList(jobs), ["hydra"]) if event is not None]
    assert not [event.error for event in events if event.state == "failed"]
    ended = [event.result for event in events if event.state == "finished"]
    assert Counter(gpu for gpu, *_ in ended).keys() == {"7", "9"}
    assert len(ended) == 6
    for gpu in ("7", "9"):
        spans = sorted((began, end) for name, began, end in ended if name == gpu)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans)), "one after the other"
