"""Opens a bundle: a file, a folder into which one was extracted, or an archive that was packed as a whole."""

import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rmlab.errors import DataError
from rmlab.scratch import scratch_folder
from rmlab.tracking.bundles.format import MANIFEST, PACKED_RUNS, member
from rmlab.tracking.bundles.reading import CHUNK, UNREADABLE, Bundle, refuse_full

LARGEST_WHOLE = 4 << 30
"""Bytes of an archive that is unpacked at once."""


@contextmanager
def open_bundle(path: Path, unpacked: Callable[[float], None] = lambda share: None) -> Iterator[Bundle]:
    """Opens a bundle and checks its names, sizes and manifest. Raises DataError where it is none.

    unpacked: is told which share is unpacked of one that is packed as a whole; what it raises ends this.
    """
    path = Path(path)
    if not path.exists():
        raise DataError(f"{path}: there is no such file")
    if path.is_dir() and not is_bundle(path):
        raise DataError(f"{path} has no {MANIFEST}: name a bundle, or the folder that one was extracted to")
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        if path.is_dir():
            archive = stack.enter_context(_archive_of(path, scratch / PACKED_RUNS))
        else:
            archive = stack.enter_context(_opened(path, path))
        if archive.namelist() == [PACKED_RUNS]:
            archive = stack.enter_context(
                _opened(path, _unpacked_whole(path, archive, scratch / PACKED_RUNS, unpacked))
            )
        yield Bundle(path, archive, scratch)


def _opened(path: Path, file: Path) -> zipfile.ZipFile:
    """The archive in `file`, which the user knows as `path`."""
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{path} is not a bundle, or was truncated in transfer: {error}. Get it again.") from error


def _unpacked_whole(path: Path, archive: zipfile.ZipFile, target: Path, unpacked: Callable[[float], None]) -> Path:
    """The one archive that a bundle which is packed as a whole holds."""
    size = archive.infolist()[0].file_size
    if size > LARGEST_WHOLE:
        raise DataError(f"{path}: its content has {size:,} bytes, and at most {LARGEST_WHOLE:,} are unpacked at once")
    try:
        with archive.open(PACKED_RUNS) as source, target.open("xb") as out:
            while chunk := source.read(CHUNK):
                out.write(chunk)
                unpacked(out.tell() / size)
    except UNREADABLE as error:
        refuse_full(path, error)
        raise DataError(f"{path} cannot be unpacked: {error}. Get the bundle again.") from error
    return target


def _archive_of(folder: Path, target: Path) -> zipfile.ZipFile:
    """An archive of a folder into which a bundle was extracted."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink():
                raise DataError(f"{path} is a link, which bundles do not have. Get the bundle again.")
            if path.is_file():
                with path.open("rb") as source, member(archive, path.relative_to(folder).as_posix()) as out:
                    shutil.copyfileobj(source, out)
    return zipfile.ZipFile(target)


def is_bundle(path: Path) -> bool:
    """Whether this looks like a bundle (a zip archive, or a folder with its manifest); a tracking store never does."""
    return (path / MANIFEST).is_file() if path.is_dir() else path.is_file() and zipfile.is_zipfile(path)
