"""Temporary folders that vanish with what uses them, however that ends.

A process that ends at once (four Ctrl-C, a kill) cannot remove its folder, so the next one does. The folder is locked as long as its
process, or one that it forked, lives: the kernel frees the lock, and only a folder whose lock is free is removed. (systemd-tmpfiles
leaves a locked folder alone, too.) Some file systems that several machines share, such as BeeGFS, show a lock to its own machine alone:
so the name of a folder has the machine's in it, and others leave it alone.
"""

import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

LOCKED = f"rmlab-scratch-{platform.node()}-"
"""How the name of a folder begins whose lock says whether somebody uses it; what follows has no further hyphen."""
BEGUN = "rmlab-begun-"
"""How it begins until the folder is locked, and always where folders cannot be locked (NFS): those are not removed by others."""


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """An empty folder that is there as long as the block runs. parent: where it lies, None = among the temporary files."""
    within = Path(parent or tempfile.gettempdir())
    _remove_left(within)
    folder = Path(tempfile.mkdtemp(prefix=BEGUN, dir=within))
    lock = None
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the lock is the folder's, not its name's: by this name it was never there unlocked
            folder = folder.rename(folder.with_name(folder.name.replace(BEGUN, LOCKED, 1)))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


@cache
def _remove_left(within: Path) -> None:
    """Removes, once a process, the folders of this user whose processes ended without it."""
    with suppress(OSError):
        for folder in list(within.iterdir()):
            if f"{folder.name.rpartition('-')[0]}-" == LOCKED:  # not of a machine whose name is longer than this one's
                with suppress(OSError):
                    _remove_unused(folder)


def _remove_unused(folder: Path) -> None:
    """Raises OSError where it is gone meanwhile or in use."""
    if folder.lstat().st_uid != os.getuid():
        return
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), folder.lstat()):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
