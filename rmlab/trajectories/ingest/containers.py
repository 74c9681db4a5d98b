"""Files of a folder, an archive, or one file alone, in the order of their names; archives within a folder are opened too.

A link to a file is followed where the file lies inside what was named; the cache of the Hugging Face hub is one such place, whose
snapshots are links to files named by their hash (`snapshots/REVISION/train.parquet` → `blobs/HASH`). Other links are named.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from rmlab.errors import DataError
from rmlab.trajectories.ingest.archives import is_archive, opened_archive
from rmlab.trajectories.ingest.entries import ImportLimits, SourceFile
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.skipped import Skipped

SNAPSHOTS, BLOBS = "snapshots", "blobs"


def batches(path: Path, limits: ImportLimits | None = None, root: str = "") -> Iterator[list[SourceFile | Skipped]]:
    """All files under a path, in the order of their names: those of the folder itself, then those of each archive in it.

    root: what the path is called in places; "" = its last part. The files of a batch can be read until the next batch is asked
    for. Raises DataError where the path is not there, or is an archive that cannot be opened at all.
    """
    limits = limits or ImportLimits()
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if not (path.is_dir() or path.is_file()):
        raise DataError(f"{path} is neither a file nor a folder: save its content to a file and name that")
    root = (
        root or Path(os.path.normpath(path.absolute())).name or "root"
    )  # a link goes by its own name, not by what it leads to
    if path.is_dir():
        yield from _folder(path, limits, root)
    elif is_archive(path.name):
        with opened_archive(path, Location(root, ""), limits) as entries:
            yield entries
    else:
        yield [_file(path, Location(root, ""), limits)]


def _folder(path: Path, limits: ImportLimits, root: str) -> Iterator[list[SourceFile | Skipped]]:
    entries: list[SourceFile | Skipped] = []
    archives: list[tuple[Path, Location]] = []
    inside = _cache(path) or Path(os.path.realpath(path))
    unreadable: list[OSError] = []

    def place_of(whole: str | Path) -> Location:
        inner = Path(whole).relative_to(path).as_posix()
        return Location(root, "" if inner == "." else inner)

    walked: list[Path] = []
    for folder, names, files in os.walk(path, onerror=unreadable.append):
        names.sort()
        for name in [n for n in names if (Path(folder) / n).is_symlink()]:
            names.remove(name)
            entries.append(Skipped("link (to a folder: name that folder to read it)", place_of(Path(folder) / name)))
        walked += [Path(folder) / name for name in sorted(files)]
    entries += [Skipped(f"folder cannot be read ({e.strerror})", place_of(e.filename)) for e in unreadable]
    linked = {target for whole in walked if whole.is_symlink() for target in _target(whole, inside)}
    for whole in walked:
        location = place_of(whole)
        if whole.is_symlink() and (refused := _refused(whole, inside)):
            entries.append(Skipped(refused, location))
        elif whole.parent.name == BLOBS and Path(os.path.realpath(whole)) in linked:
            continue  # read by the name of its link
        elif not whole.is_file():
            entries.append(Skipped("not a plain file", location))
        elif is_archive(whole.name):
            archives.append((whole, location))
        else:
            entries.append(_file(whole, location, limits))
    yield entries
    for whole, location in archives:
        try:
            with opened_archive(whole, location, limits) as inner:
                yield inner
        except DataError as error:
            yield [Skipped(str(error).split(": ", 1)[-1], location)]


def _cache(path: Path) -> Path | None:
    """The folder of a data set in the hub's cache where the path is one of its snapshots, or lies in one; None elsewhere."""
    whole = Path(os.path.realpath(path))
    for folder in whole.parents:
        if folder.name == SNAPSHOTS and (folder.parent / BLOBS).is_dir():
            return folder.parent
    return None


def _target(link: Path, inside: Path) -> list[Path]:
    """The file to which a link leads, where it lies inside; else nothing."""
    target = Path(os.path.realpath(link))
    return [target] if target.is_file() and target.is_relative_to(inside) else []


def _refused(link: Path, inside: Path) -> str | None:
    """Why a link is not followed; None where it is."""
    if _target(link, inside):
        return None
    target = Path(os.path.realpath(link))
    if not target.exists():
        return "link (leads nowhere)"
    if not target.is_file():
        return "link (not to a regular file)"
    return f"link (leads outside the named folder, to {target}: name that too)"


def _file(path: Path, location: Location, limits: ImportLimits) -> SourceFile:
    return SourceFile(location, path.stat().st_size, lambda: path.open("rb"), limits)
