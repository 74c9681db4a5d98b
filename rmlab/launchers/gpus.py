"""Which GPUs this machine has, and which cell may use which: one GPU per cell, or a part of one.

Nothing here touches CUDA. A GPU is held by a file lock in the runs folder, so two sweeps on one machine share its GPUs, and
the kernel frees it when its holder ends, however it ends.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from itertools import chain, count, takewhile
from pathlib import Path
from typing import IO

from rmlab.files import open_lock

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
    it whole: a sharer holds the GPU's lock together with the others, and the lock of a place on it alone. Places that were closed
    (`shrink`) are held too, by nobody who has a cell there.
    """

    def __init__(self, names: list[str], folder: Path, cells: int = 1) -> None:
        self.names, self.folder, self.cells = names, folder, cells
        self._uuids = gpu_uuids()
        self._held: dict[str, list[list[IO[str]]]] = {name: [] for name in names}
        self._closed: list[IO[str]] = []

    def take(self) -> str | None:
        """A GPU with room, the emptiest first; None = all are taken just now."""
        for place in range(self.cells):
            for name in self.names:
                if (locks := self._locks(name, place)) is not None:
                    self._held[name].append(locks)
                    return name
        return None

    def give_back(self, name: str) -> None:
        """One of its cells has ended."""
        for file in self._held[name].pop():
            file.close()

    def shrink(self, name: str, most: int) -> int:
        """One of its cells has ended because there was no memory beside `most` others. Closes places on that GPU until so many are left,
        for this launch and those that share the GPU with it; returns how many are left."""
        whole, own = self._held[name].pop()
        whole.close()
        places = _places(self._path(name), self.cells)
        left = sum(_state(path) != CLOSED for path in places)
        unused = (file for path in reversed(places) if (file := _locked(path, fcntl.LOCK_EX)) is not None)
        for file in chain([own], unused):
            if left <= most:
                file.close()
                break
            file.write(CLOSED)
            file.flush()
            self._closed.append(file)
            left -= 1
        return left

    def open_again(self) -> None:
        """Places that were closed can be taken from now on."""
        while self._closed:
            self._closed.pop().close()

    def counter(self, name: str) -> Callable[[], int]:
        """Says in the process of a cell how many other cells have its GPU."""
        return partial(_others, self._path(name))

    def number(self, name: str) -> str:
        """Of a GPU, by whichever name; its id where nvidia-smi does not list it."""
        return next((number for number, uuid in self._uuids.items() if uuid == name), name)

    def _locks(self, name: str, place: int) -> list[IO[str]] | None:
        """The open locks of a place on a GPU, None where others hold them."""
        path = self._path(name)
        wanted = [(path, fcntl.LOCK_EX)]
        if self.cells > 1:
            wanted = [(path, fcntl.LOCK_SH), (_place(path, place), fcntl.LOCK_EX)]
        files: list[IO[str]] = []
        for lock, kind in wanted:
            if (file := _locked(lock, kind)) is None:
                for taken in files:
                    taken.close()
                return None
            files.append(file)
        files[-1].truncate(0)  # whoever closed this place has ended
        return files

    def _path(self, name: str) -> Path:
        return self.folder / f"gpu-{self._uuids.get(name, name).replace('/', '-')}.lock"


FREE, TAKEN, CLOSED = "free", "taken", "closed"
"""What a place is; the file of one that is closed says so."""


def _place(gpu: Path, place: int) -> Path:
    return gpu.with_name(f"{gpu.stem}-{place}.lock")


def _places(gpu: Path, least: int = 0) -> list[Path]:
    """The files of so many places on a GPU, and of those that any launch ever took: whoever takes one has tried those before it."""
    more = takewhile(Path.exists, (_place(gpu, place) for place in count(least)))
    return [*(_place(gpu, place) for place in range(least)), *more]


def _others(gpu: Path) -> int:
    """How many other cells have the GPU of a cell."""
    return max(sum(_state(path) == TAKEN for path in _places(gpu)) - 1, 0)


def _state(place: Path) -> str:
    if (file := _locked(place, fcntl.LOCK_SH)) is None:
        return place.read_text() or TAKEN
    file.close()
    return FREE


def _locked(path: Path, kind: int) -> IO[str] | None:
    """The file of a lock, which is held while it is open; None where somebody else holds it."""
    file = open_lock(path)
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
