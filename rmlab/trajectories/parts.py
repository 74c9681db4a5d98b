"""Do the five parts stay apart? No cluster may lie in two of them."""

from collections.abc import Iterable

from rmlab.errors import DataError
from rmlab.trajectories.record import Trajectory


def check_parts(trajectories: Iterable[Trajectory]) -> None:
    """Raises DataError that names a cluster which lies in more than one part, and how many do. No part counts as none."""
    parts_of: dict[str, set[str]] = {}
    for trajectory in trajectories:
        if trajectory.split is not None:
            parts_of.setdefault(trajectory.cluster, set()).add(trajectory.split)
    mixed = sorted(cluster for cluster, parts in parts_of.items() if len(parts) > 1)
    if mixed:
        parts = " and ".join(sorted(parts_of[mixed[0]]))
        raise DataError(f"cluster {mixed[0]} lies in the parts {parts} ({len(mixed)} clusters are mixed): "
                        "what a verifier learns from would be what it is judged on. Split the pool by cluster again.")
