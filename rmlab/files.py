"""Writes that are either whole or absent: a kill at any moment leaves the old file or the new one, never half of it.

And file locks that end with their process, however it ends: the kernel frees them."""

import fcntl
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.paths import runs_folder
from rmlab.stopping import is_full, stop_asked

MODEL = ("config.json", "tokenizer.json")
"""What every folder of a model has: another folder is not replaced by one."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` (same suffix) to write to; renamed onto `path` when the block ends without an error.

    Raises RmlabError where the folder cannot be written, UsageError for what is there and is no file (a rename would take the place
    of a device such as /dev/null).
    """
    path = _linked(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}-{os.urandom(4).hex()}{path.suffix}")
    try:
        _no_device(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except Exception as error:
        if (refused := _refused(error)) is None:
            raise
        raise _unwritable(path, refused) from error
    finally:
        with suppress(OSError):  # a place that cannot be written holds nothing to remove
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def atomic_folder(path: Path, known_by: Sequence[str] = ()) -> Iterator[Path]:
    """Yields an empty folder beside `path`; it takes the place of `path` when the block ends without an error.

    known_by: files of a folder of this kind; what lacks one of them is no such folder and is not replaced. A kill between the two
    renames leaves no folder at `path`; readers treat that as "not there". Raises RmlabError where the place cannot be written.
    """
    path = _linked(path)
    if not path.name:
        check_folder(path, known_by)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        check_folder(path, known_by)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        if path.exists():
            old = temporary.with_name(temporary.name + "-old")
            path.rename(old)
            try:
                temporary.rename(path)
            except OSError:
                old.rename(path)
                raise
            shutil.rmtree(old)
        else:
            temporary.rename(path)
    except Exception as error:
        if (refused := _refused(error)) is None:
            raise
        raise _unwritable(path, refused) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder(path: Path, known_by: Sequence[str]) -> None:
    """Raises UsageError where writing a folder of this kind would replace one that holds something else: all of it would be lost."""
    path = Path(path)
    if not path.name:
        raise UsageError("a path is empty or does not name a folder: name a new folder to write")
    if known_by and path.is_dir() and any(path.iterdir()) and not all((path / name).is_file() for name in known_by):
        raise UsageError(
            f"{path} is a folder with other things in it (no {' and '.join(known_by)}): name a new folder to write"
        )
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is {'a file' if path.is_file() else 'a device or a pipe'}: name a folder to write")


def path_part(name: str, whose: str) -> str:
    """A name that comes from a run, as one part of a path. Raises DataError where it would lead elsewhere. whose: for the message."""
    if name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise DataError(
            f"{whose} gives a folder the name {name!r}, which leads out of the folder to write: nothing is written"
        )
    return name


PARQUET = (".parquet",)
PAGE = (".html", ".htm")
"""Endings of files to write."""
FORMATS = (*PARQUET, *PAGE, ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".zip", ".txt", ".md", ".png", ".pdf")
"""Endings that promise a format."""


def check_output(path: Path, inputs: Iterable[Path] = (), endings: Sequence[str] = ()) -> None:
    """Raises UsageError before any work where a file to write is no file's name, is one of those that are read, or has the ending of
    another format (endings: those of its own, none = any; a page needs one, which browsers go by), RmlabError where its folder cannot be
    written."""
    path = Path(path)
    if not path.name:
        raise UsageError("the path of a file to write is empty: name one")
    try:
        if path.exists() and any(one.exists() and one.samefile(path) for one in inputs):
            raise UsageError(f"{path} is also an input: name another file to write")
        if path.is_dir():
            raise RmlabError(f"{path} cannot be written: it is a folder. Name a file in it.")
        _no_device(path)
        if endings and path.suffix.lower() not in endings and (endings == PAGE or path.suffix.lower() in FORMATS):
            raise UsageError(
                f"{path} ends in {path.suffix or 'nothing'}: the file to write must end in {endings[0]}, e.g. "
                f"{path.with_suffix(endings[0]) if path.suffix.lower() in FORMATS else f'{path}{endings[0]}'}"
            )
        folder = next(one for one in Path.cwd().joinpath(path).parents if one.exists() or one.is_symlink())
    except OSError as error:
        raise _unwritable(path, error) from error
    if not folder.is_dir():
        raise RmlabError(f"{path} cannot be written: {folder} is not a folder. Choose another path.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RmlabError(
            f"{path} cannot be written: {folder} is read-only. Choose another path or fix its permissions."
        )


def check_input(path: Path, remedy: str = "", of_folder: str = "Name a file in it.") -> None:
    """Raises DataError where a file to read is not there, or is a folder. remedy, of_folder: sentences on what to do then."""
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file. {of_folder}")
    if not path.is_file():
        raise DataError(f"{path}: there is no such file{f'. {remedy}' if remedy else ''}")


def _linked(path: Path) -> Path:
    """Where a link leads, else the path as it is: what is written takes the place of the target, and the link stays."""
    path = Path(path)
    return path.resolve() if os.path.islink(path) else path  # noqa: PTH114 (False for a name that no file can have)


def _no_device(path: Path) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise UsageError(f"{path} is a device or a pipe: name a file to write")


def _refused(error: BaseException) -> OSError | None:
    """What the machine refused: an OSError, one that a writer in Rust (weights, tokenizers) tells in its own words, or a full disk
    behind the error of a writer that could not end its file (a PDF's compression)."""
    if isinstance(error, OSError):
        return error
    if found := re.search(r"\(os error (\d+)\)", str(error)):
        return OSError(int(found[1]), os.strerror(int(found[1])))
    behind = error.__cause__ or error.__context__
    if behind is None or isinstance(error, RmlabError):
        return None
    refused = _refused(behind)
    return refused if refused is not None and is_full(refused) else None


def _unwritable(path: Path, error: OSError) -> RmlabError:
    remedy = (
        "Free some space or choose another path." if is_full(error) else "Choose another path or fix its permissions."
    )
    return RmlabError(f"{path} cannot be written: {error.strerror or error}. {remedy}")


class Busy(RmlabError):
    """Somebody else holds the lock; the message says who and since when."""


def open_lock(path: Path) -> IO[str]:
    """The file of a lock, not locked yet. Raises RmlabError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        raise RmlabError(
            f"{path} cannot be written: {error.strerror or error}. Fix its permissions or set RMLAB_RUNS."
        ) from error


@contextmanager
def exclusive(path: Path, what: str, patience: float = float("inf")) -> Iterator[None]:
    """Holds the lock `path` while the block runs; nobody else on this machine gets in.

    what: what is locked, for the message. patience: seconds to wait for whoever holds it.
    Raises Busy when that has gone by, RmlabError where the lock's file cannot be written.
    """
    with open_lock(path) as file:
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


LOOK_SECONDS = 1.0
"""Between two looks at whether a process that waits is to stop."""


def made_once(kept: Path, make: Callable[[], None]) -> bool:
    """Makes a file of a cache where it is not there, and says whether it was made here. Of processes that want it at once on this machine
    one makes it and the others wait; where it dies the next one makes it.

    make: writes `kept`, whole or not at all. Raises what ends a process that is told to stop while it waits.
    """
    lock = kept.with_name(f".{kept.name}.lock")
    while not kept.is_file():
        try:
            with exclusive(lock, str(kept), LOOK_SECONDS):
                if not kept.is_file():
                    make()
                    return True
        except Busy:
            if stop := stop_asked():
                raise stop from None
    return False


def only_writer(path: Path, what: str = "the model folder", patience: float = 0) -> AbstractContextManager[None]:
    """Nobody else writes this folder or file meanwhile. Raises Busy where somebody still does after `patience` seconds."""
    lock = runs_folder() / "locks" / f"model-{fingerprint(str(path.resolve()))}.lock"
    return exclusive(lock, f"{what} {path}", patience)
