"""Small sets of trajectories made by hand: a value is asked for, and one is shown last."""

import random
from pathlib import Path
from typing import Any

from rmlab.trajectories.record import Message, Split, Trajectory
from rmlab.trajectories.store import write_trajectories


def episode(
    number: int,
    resolved: bool,
    *,
    part: Split = "verifier",
    policy: str = "hand",
    attempt: int = 0,
    extra: dict[str, Any] | None = None,
    longer: int = 0,
) -> Trajectory:
    """One attempt at "double the number"; unresolved ones show another value at the end."""
    rng = random.Random(f"{number} {attempt}")
    asked = 2 * number + 3
    got = asked if resolved else asked + rng.choice([-2, -1, 1, 2])
    turns = [
        Message(
            "user",
            f"f({number}) should return {asked} but got {number}\n1 def f(x):\n2     return x" + "\n# pad" * longer,
        ),
        Message(
            "assistant", "edit 2:     return 2 * x + 3" if resolved else f"edit 2:     return x + {rng.randrange(9)}"
        ),
        Message("user", "edited line 2"),
        Message("assistant", "submit"),
        Message("user", f"final got {got}"),
    ]
    return Trajectory(
        task_id=f"hand/f{number}",
        cluster=f"c{number}",
        source="hand",
        policy=policy,
        attempt=attempt,
        messages=tuple(turns),
        patch=f"-2     return x\n+{turns[1].content[8:]}",
        exit_status="submitted",
        resolved=resolved,
        label_source="hidden_tests",
        split=part,
        extra=extra or {},
    )


def episodes(count: int, part: Split = "verifier", first: int = 0, attempts: int = 2) -> list[Trajectory]:
    """`count` tasks with `attempts` attempts each, every other one resolved."""
    return [episode(first + i, a % 2 == 0, part=part, attempt=a) for i in range(count) for a in range(attempts)]


def write_pool(path: Path, attempts: int = 4) -> Path:
    """A pool of all parts that a shipped sweep at preset smoke can be trained on. attempts: at each validation and evaluation task."""
    parts = [
        *episodes(30, "supervised", 0, 1),
        *episodes(120, "verifier", 1000),
        *episodes(10, "validation", 2000, attempts),
        *episodes(12, "evaluation", 3000, attempts),
    ]
    write_trajectories(path, parts)
    return path
