"""What is the policies' work worth? policies.csv beside this file, from the shipped attempts.

    python experiments/studies/language_attempts/policies.py

A row for each policy and part: tasks, clusters, attempts, pass@1 with its 95 % interval over clusters, the share that ran the public
call, that was never submitted, and turns.
"""

from itertools import groupby
from pathlib import Path

import pandas as pd

from rmlab.paths import REPOSITORY
from rmlab.policies.success import success
from rmlab.trajectories.store import read_trajectories

HERE = Path(__file__).parent
ATTEMPTS = REPOSITORY / "rmlab" / "starter" / "language_attempts.parquet"


def rows() -> list[dict[str, object]]:
    """The table's rows, and a last one of all attempts."""
    trajectories = read_trajectories(ATTEMPTS).trajectories
    ordered = sorted(trajectories, key=lambda t: (t.policy, t.split))
    table: list[dict[str, object]] = []
    for (policy, part), group in groupby(ordered, key=lambda t: (t.policy, t.split)):
        own = list(group)
        result = success(own)
        table.append(
            {
                "policy": policy,
                "part": part,
                "tasks": result.tasks,
                "clusters": len({t.cluster for t in own}),
                "attempts": len(own),
                "pass_at_1": result.pass_at_1,
                "low": result.low,
                "high": result.high,
                "ran": result.ran,
                "unfinished": result.unfinished,
                "turns": result.turns,
            }
        )
    return [*table, {"policy": "all", "part": "all", "tasks": None, "clusters": None, "attempts": len(trajectories)}]


if __name__ == "__main__":
    table = pd.DataFrame(rows()).astype({"tasks": "Int64", "clusters": "Int64"})
    table.to_csv(HERE / "policies.csv", index=False, float_format="%.6f")
