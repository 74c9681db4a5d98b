"""Writes that are either whole or absent: a kill at any moment leaves the old file or the new one, never half of it."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rmlab.errors import RmlabError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` (same suffix) to write to; renamed onto `path` when the block ends without an error.

    Raises RmlabError where the folder cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}-{secrets.token_hex(4)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise RmlabError(f"{path} cannot be written: {reason}. Choose another place or mend its rights.") from error
    finally:
        if temporary.parent.is_dir():
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yields an empty folder beside `path`; it takes the place of `path` when the block ends without an error.

    A kill between the two renames leaves no folder at `path`; readers treat that as "not there".
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            old = temporary.with_name(temporary.name + "-old")
            path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
