"""Files of a folder, an archive, or one file alone, in the order of their names; archives within a folder are opened too."""

import os
from collections.abc import Iterator
from pathlib import Path

from rmlab.errors import DataError
from rmlab.trajectories.archives import is_archive, opened_archive
from rmlab.trajectories.entries import Entry, Limits, Refusal
from rmlab.trajectories.places import Place


def batches(path: Path, limits: Limits | None = None, root: str = "") -> Iterator[list[Entry | Refusal]]:
    """All files under a path, in the order of their names: those of the folder itself, then those of each archive in it.

    root: what the path is called in places; "" = its last part. The files of a batch can be read until the next batch is asked
    for. Raises DataError where the path is not there, or is an archive that cannot be opened at all.
    """
    limits = limits or Limits()
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder")
    if not (path.is_dir() or path.is_file()):
        raise DataError(f"{path} is neither a file nor a folder: write what it gives into a file and name that")
    root = (
        root or Path(os.path.normpath(path.absolute())).name or "root"
    )  # a link goes by its own name, not by what it leads to
    if path.is_dir():
        yield from _folder(path, limits, root)
    elif is_archive(path.name):
        with opened_archive(path, Place(root, ""), limits) as found:
            yield found
    else:
        yield [_file(path, Place(root, ""), limits)]


def _folder(path: Path, limits: Limits, root: str) -> Iterator[list[Entry | Refusal]]:
    found: list[Entry | Refusal] = []
    archives: list[tuple[Path, Place]] = []
    for folder, names, files in os.walk(path):
        names.sort()
        for name in [n for n in names if (Path(folder) / n).is_symlink()]:
            names.remove(name)
            found.append(Refusal(Place(root, (Path(folder) / name).relative_to(path).as_posix()), "link"))
        for name in sorted(files):
            whole = Path(folder) / name
            place = Place(root, whole.relative_to(path).as_posix())
            if whole.is_symlink() or not whole.is_file():
                found.append(Refusal(place, "link" if whole.is_symlink() else "not a plain file"))
            elif is_archive(name):
                archives.append((whole, place))
            else:
                found.append(_file(whole, place, limits))
    yield found
    for whole, place in archives:
        try:
            with opened_archive(whole, place, limits) as inner:
                yield inner
        except DataError as error:
            yield [Refusal(place, str(error).split(": ", 1)[-1])]


def _file(path: Path, place: Place, limits: Limits) -> Entry:
    return Entry(place, path.stat().st_size, lambda: path.open("rb"), limits)
