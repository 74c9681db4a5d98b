"""The attempts of a collection that is under way, kept so that a killed one goes on where it was.

Each file of the folder is a trajectory set of some finished attempts, written by renaming. An attempt depends on the seed, its task,
its policy and its number alone, so which of them were finished before makes no difference to the set.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from rmlab.policies.rollout import Planned
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet, read_trajectories, write_in_order

EVERY_SECONDS = 5.0


class FinishedAttempts:
    """Finished attempts of a plan, in a folder; `add` writes what is new every few seconds, `flush` at once."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._new: list[Trajectory] = []
        self._written = time.monotonic()
        files = sorted(folder.glob("[0-9]*.parquet"))  # a kill may leave a temporary file, whose name begins with a dot
        self._files = len(files)
        self._known = {_key(t): t for path in files for t in read_trajectories(path).trajectories}

    def __len__(self) -> int:
        return len(self._known)

    def left(self, planned: Sequence[Planned]) -> list[Planned]:
        """What of a plan is still to be played."""
        return [p for p in planned if (p.task.task_id, p.policy, p.number) not in self._known]

    def add(self, trajectory: Trajectory) -> None:
        """Keeps a finished attempt."""
        self._known[_key(trajectory)] = trajectory
        self._new.append(trajectory)
        if time.monotonic() - self._written > EVERY_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Writes what is not written yet."""
        new, self._new = self._new, []
        if new:
            path = self.folder / f"{self._files:06}.parquet"
            write_in_order(path, new, {}, TrajectorySet(tuple(new), {}).fingerprint)
            self._files += 1
        self._written = time.monotonic()

    def all(self, planned: Sequence[Planned]) -> list[Trajectory]:
        """The finished attempts of a plan, in its order."""
        return [self._known[p.task.task_id, p.policy, p.number] for p in planned]


def _key(trajectory: Trajectory) -> tuple[str, str, int]:
    return trajectory.task_id, trajectory.policy, trajectory.attempt
