"""How cells are started by a fork server: what it has to be told before it starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY
from tests.waiting import PATIENCE

ON_REQUEST = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PROGRAM = """
from dataclasses import dataclass
from pathlib import Path
from hydra.core.config_store import ConfigStore

@dataclass
class Config:
    megabytes: int = 0

ConfigStore.instance().store(name="allocates_schema", node=Config)

def run(config):
    from ctypes import CDLL, c_size_t, c_void_p
    from rmlab.training.device import keep_freed_memory

    keep_freed_memory()
    libc = CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = c_void_p, [c_size_t]
    place = libc.malloc(config.megabytes * 2**20)
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            first, end = (int(number, 16) for number in words[0].split("-"))
            inside = first <= place < end
        elif inside and words[0] == "VmFlags:":
            return "hg" in words
"""
LAUNCH = """
import sys
from pathlib import Path
from rmlab.launchers.jobs import Job, JobList
from rmlab.launchers.local import LocalLauncher

folder = Path(sys.argv[1])
job = Job("0", str(folder / "allocates.py"), "run", ({"megabytes": 8},), folder / "0.log")
[event] = [e for e in LocalLauncher(1).run(JobList([job]), []) if e is not None and e.state in ("finished", "failed")]
print(event.error or event.result)
"""


@pytest.mark.skipif(
    not (ON_REQUEST.is_file() and "[madvise]" in ON_REQUEST.read_text()),
    reason="this kernel gives no large pages on request",
)
def test_the_memory_of_a_cell_is_asked_for_in_large_pages(tmp_path: Path) -> None:
    (tmp_path / "allocates.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(tmp_path)], cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout.split() == ["True"], done.stderr
