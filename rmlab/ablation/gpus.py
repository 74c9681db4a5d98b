"""One GPU a cell: which GPUs this machine has, and who may use which.

Nothing here touches CUDA. A GPU is held by a file lock in the runs folder, so two sweeps on one machine share its GPUs, and
the kernel frees it when its holder ends, however it ends.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import IO

from rmlab.errors import RmlabError

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES allows, else the GPUs that nvidia-smi lists by id; empty where there are none."""
    if VISIBLE in os.environ:
        return [name.strip() for name in os.environ[VISIBLE].split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    answer = subprocess.run([program, "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True)
    return [line.strip() for line in answer.stdout.splitlines() if line.strip().startswith("GPU-")] if answer.returncode == 0 else []


class Gpus:
    """Gives GPUs out, one at a time, to whoever runs a cell in this process' name."""

    def __init__(self, names: list[str], folder: Path) -> None:
        self.names, self.folder = names, folder
        self._held: dict[str, IO[str]] = {}

    def take(self) -> str | None:
        """A GPU that nobody on this machine holds, None = all are taken just now."""
        for name in self.names:
            if name not in self._held:
                file = self._open(name)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    file.close()
                else:
                    self._held[name] = file
                    return name
        return None

    def give_back(self, name: str) -> None:
        """Its cell has ended."""
        self._held.pop(name).close()

    def _open(self, name: str) -> IO[str]:
        path = self.folder / f"gpu-{name.replace('/', '-')}.lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return path.open("a+")
        except OSError as error:
            raise RmlabError(f"{path} cannot be written: {error.strerror or error}. Mend its rights or set RMLAB_RUNS.") from error
