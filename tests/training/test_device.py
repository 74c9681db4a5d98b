"""Memory that a training on a CPU frees stays with its process."""

import os
import subprocess
import sys

import pytest

from rmlab.training import device

ALLOCATE = """
import resource, sys
from rmlab.training.device import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
blocks = [b"x" * 2**23 for _ in range(4)]
del blocks
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    blocks = [b"x" * 2**23 for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts page faults of glibc's allocator on Linux")
def test_freed_memory_is_used_again_without_asking_the_kernel():
    """Four blocks of 2,048 pages, taken and freed ten times."""

    def pages(how: str) -> int:
        environment = {
            name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"
        }  # large pages are fewer
        done = subprocess.run([sys.executable, "-c", ALLOCATE, how], env=environment, capture_output=True, check=True)
        return int(done.stdout)

    assert pages("keep") < 2048
    assert pages("give back") > 10 * 2048


def test_naming_a_device_sets_nothing_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    monkeypatch.setattr(device, "keep_freed_memory", lambda: kept.append("freed memory"))
    assert device.resolve_device("cpu") == "cpu"
    assert kept == []
    assert device.prepare_device("cpu") == "cpu"
    assert kept == ["freed memory"]
