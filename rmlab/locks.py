"""File locks that end with their process, however it ends: the kernel frees them."""

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from rmlab.errors import RmlabError
from rmlab.fingerprint import fingerprint
from rmlab.paths import runs_folder


class Busy(RmlabError):
    """Somebody else holds the lock; the message says who and since when."""


@contextmanager
def exclusive(path: Path, what: str, patience: float = float("inf")) -> Iterator[None]:
    """Holds the lock `path` while the block runs; nobody else on this machine gets in.

    what: what is locked, for the message. patience: seconds to wait for whoever holds it.
    Raises Busy when that has gone by, RmlabError where the lock's file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise RmlabError(
            f"{path} cannot be written: {error.strerror or error}. Mend its rights or set RMLAB_RUNS."
        ) from error
    with file:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    file.seek(0)
                    holder = file.read().strip() or "another process"
                    raise Busy(f"{what} is held by {holder}. Wait until it ends, or stop it.") from None
                time.sleep(0.05)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        file.flush()
        yield


def only_writer(folder: Path) -> AbstractContextManager[None]:
    """Nobody else trains into this model folder meanwhile. Raises Busy at once where somebody does."""
    lock = runs_folder() / "locks" / f"model-{fingerprint(str(folder.resolve()))}.lock"
    return exclusive(lock, f"the model folder {folder}", patience=0)
