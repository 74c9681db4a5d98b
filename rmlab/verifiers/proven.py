"""The pool, read whole and proven: once a process, and once a launcher where its fork server reads it for all cells.

Proven means: every row is the hash of its content, labels and parts are those that were written, no cluster lies in two parts,
and no prompt that is trained on or scored tells its outcome. What was proven of a file's bytes by this process, or by the one
that it was forked from, is not proven again; a file whose bytes are others is.
"""

from functools import lru_cache
from pathlib import Path

from rmlab.ablation.pool import read_index
from rmlab.errors import DataError
from rmlab.fingerprint import file_fingerprint
from rmlab.trajectories.parts import check_parts
from rmlab.trajectories.record import Part
from rmlab.trajectories.store import TrajectorySet, read_trajectories
from rmlab.verifiers.leaks import check_leaks

READ: tuple[Part, ...] = ("supervised", "verifier", "validation", "evaluation")


def proven_pool(path: Path) -> TrajectorySet:
    """The whole pool of a file, with its parts apart and its prompts free of outcomes. Raises DataError."""
    if not path.is_file():
        raise DataError(
            f"{path}: there is no such file. `rmlab collect` or `rmlab trajectories split` writes one; data.path names it."
        )
    return _proven(path.resolve(), file_fingerprint(path))


@lru_cache(maxsize=2)
def _proven(path: Path, content: str) -> TrajectorySet:
    pool = read_trajectories(path)
    check_parts(pool.trajectories)
    check_leaks(t for t in pool.trajectories if t.split in READ)
    if file_fingerprint(path) != content:
        raise DataError(f"{path} was written to while it was read. Give the command again when that has ended.")
    return pool


def hold(path: str) -> None:
    """Reads and proves a pool for the processes that are forked from this one, with the identities that they ask of it."""
    index, pool = read_index(path), proven_pool(Path(path))
    index.part("supervised")
    if index.fingerprint != pool.fingerprint:
        raise DataError(f"{path} was written to while it was read. Give the command again when that has ended.")
    for trajectory in pool.trajectories:
        _ = trajectory.content_id
