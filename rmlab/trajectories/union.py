"""One set from several: attempts that were collected in pieces, on several machines or of one policy at a time."""

import json
from collections.abc import Sequence
from pathlib import Path

from rmlab.errors import DataError
from rmlab.trajectories.splitting import check_parts
from rmlab.trajectories.store import TrajectorySet, read_trajectories

SAME = ("tasks_fingerprint", "environment", "edits", "max_turns")
"""What a set says of its origin that all must agree in: attempts under other rules are another environment's."""


def union(paths: Sequence[Path]) -> TrajectorySet:
    """The attempts of all sets, each set's command and fingerprint in `metadata["sets"]`.

    Raises DataError where an attempt stands in two sets, where the sets come from other tasks or another environment, or where
    together their parts share a cluster.
    """
    pools = [read_trajectories(path) for path in paths]
    for key in SAME:
        values = {path.name: pool.metadata.get(key) for path, pool in zip(paths, pools, strict=True)}
        if len(set(values.values())) > 1:
            said = ", ".join(f"{name} says {value or 'nothing'}" for name, value in values.items())
            raise DataError(f"these sets differ in {key} ({said}): they cannot be one pool. Collect them alike.")
    joined = TrajectorySet(
        tuple(trajectory for pool in pools for trajectory in pool.trajectories),
        {
            **{key: value for key in SAME if (value := pools[0].metadata.get(key)) is not None},
            "sets": json.dumps(
                [{"command": pool.metadata.get("command", ""), "fingerprint": pool.fingerprint} for pool in pools]
            ),
        },
    )
    check_parts(joined.trajectories)
    return joined
