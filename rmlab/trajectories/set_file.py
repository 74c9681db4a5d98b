"""Is a path a file that may be a trajectory set? Asked wherever a set is opened, before a reader of Parquet sees the path.

And what to do with a file that is none.
"""

from pathlib import Path

from rmlab.errors import DataError
from rmlab.files import check_input

WRITERS = "`rmlab collect` and `rmlab import` write one."
NAMED_BY = (
    "`rmlab collect` or `rmlab trajectories split` writes one; data.path names it (for that of a preset or of data=NAME, its file "
    "in conf says where it comes from)."
)
"""For sets that a configuration names."""


MAGIC = b"PAR1"
"""How every Parquet file begins."""


def check_set_file(path: Path, remedy: str = WRITERS) -> None:
    """Raises DataError where there is no such file, or where it is a folder. remedy: said where nothing is there."""
    inside = sorted(path.glob("*.parquet")) if path.is_dir() else []
    of_folder = (
        f"Name a set in it, e.g. {inside[0]}."
        if inside
        else f"`rmlab import auto {path} -o set.parquet` makes a set of the attempts in it."
    )
    check_input(path, remedy, of_folder)


def unreadable(path: Path, error: Exception, what: str = "Parquet file") -> DataError:
    """The error for a file that a reader of Parquet refuses: one that cannot be read at all, is damaged, or holds trajectories in
    another format, which can be imported.
    """
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    try:
        with path.open("rb") as file:
            is_parquet = file.read(len(MAGIC)) == MAGIC
    except OSError as refused:
        return DataError(f"{path} cannot be read: {refused.strerror or refused}.")
    if isinstance(error, OSError) and error.errno is not None:  # of the disk; a damaged file's errors have no number
        return DataError(f"{path} cannot be read: {error.strerror or reason}.")
    if is_parquet or path.suffix.lower() == ".parquet":
        return DataError(f"{path} is not a readable {what} ({reason}). Fetch or collect it again.")
    return DataError(
        f"{path} is not a readable {what}, as a trajectory set is. If it holds trajectories in another format, `rmlab import auto {path} "
        "-o set.parquet` makes a set of them."
    )
