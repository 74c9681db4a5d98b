"""Which GPUs this machine has, and who may use which: one GPU a cell, or a part of one.

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
    return list(gpu_uuids().values())


def gpu_uuids() -> dict[str, str]:
    """The id of each GPU that nvidia-smi lists, by its number; empty where there are none. CUDA_VISIBLE_DEVICES may say either."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    answer = subprocess.run(
        [program, "--query-gpu=index,uuid", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    if answer.returncode:
        return {}
    pairs = (line.partition(",") for line in answer.stdout.splitlines())
    return {number.strip(): uuid.strip() for number, _, uuid in pairs if uuid.strip().startswith("GPU-")}


class Gpus:
    """Gives GPUs out to whoever runs a cell in this process' name: each to `cells` at once.

    names: numbers or ids, as CUDA_VISIBLE_DEVICES has them; one GPU has one lock, whichever it is asked for by.

    One cell has its GPU for itself. Several share it with each other and with sweeps that share it too, never with one that wants
    it whole: a sharer holds the GPU's lock together with the others, and the lock of a place on it alone.
    """

    def __init__(self, names: list[str], folder: Path, cells: int = 1) -> None:
        self.names, self.folder, self.cells = names, folder, cells
        self._uuids = gpu_uuids()
        self._held: dict[str, list[list[IO[str]]]] = {name: [] for name in names}

    def take(self) -> str | None:
        """A GPU with room, the emptiest first; None = all are taken just now."""
        for place in range(self.cells):
            for name in self.names:
                if (locks := self._lock(name, place)) is not None:
                    self._held[name].append(locks)
                    return name
        return None

    def give_back(self, name: str) -> None:
        """One of its cells has ended."""
        for file in self._held[name].pop():
            file.close()

    def _lock(self, name: str, place: int) -> list[IO[str]] | None:
        """The open locks of a place on a GPU, None where others hold them."""
        name = self._uuids.get(name, name)
        wanted = (
            [(name, fcntl.LOCK_EX)] if self.cells == 1 else [(name, fcntl.LOCK_SH), (f"{name}-{place}", fcntl.LOCK_EX)]
        )
        files: list[IO[str]] = []
        for lock, kind in wanted:
            files.append(self._open(lock))
            try:
                fcntl.flock(files[-1], kind | fcntl.LOCK_NB)
            except BlockingIOError:
                for file in files:
                    file.close()
                return None
        return files

    def _open(self, name: str) -> IO[str]:
        path = self.folder / f"gpu-{name.replace('/', '-')}.lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return path.open("a+")
        except OSError as error:
            raise RmlabError(
                f"{path} cannot be written: {error.strerror or error}. Mend its rights or set RMLAB_RUNS."
            ) from error
