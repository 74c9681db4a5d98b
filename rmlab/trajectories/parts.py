"""Do the five parts stay apart? No cluster may lie in two of them, and no issue that is nearly the same."""

from collections.abc import Iterable

from rmlab.errors import DataError
from rmlab.trajectories.near_duplicates import issues_of, near_duplicates
from rmlab.trajectories.record import Trajectory

TOO_NEAR = 0.85
"""Overlap of two issues that is refused. A split joins from 0.8 on (`near_duplicates.LEAST`): what all issues share is left out of an
overlap, and a pool that was made smaller since it was split shares other things."""

WHY = "what a verifier learns from would be what it is judged on."


def check_parts(trajectories: Iterable[Trajectory]) -> None:
    """Proves that parts share no cluster, no task, and no issue that is nearly the same. No part counts as none.

    Raises DataError that names the first in more than one part (of two issues also how much they overlap), and how many are.
    """
    parted = [t for t in trajectories if t.split is not None]
    for what in ("cluster", "task_id"):
        parts_of: dict[str, set[str]] = {}
        for trajectory in parted:
            parts_of.setdefault(getattr(trajectory, what), set()).add(str(trajectory.split))
        if mixed := sorted(name for name, parts in parts_of.items() if len(parts) > 1):
            word, parts = what.removesuffix("_id"), " and ".join(sorted(parts_of[mixed[0]]))
            raise DataError(
                f"{word} {mixed[0]} lies in the parts {parts} ({len(mixed)} {word}s are mixed): {WHY} "
                "Split the pool by cluster again."
            )
    part = {t.task_id: str(t.split) for t in parted}
    if near := near_duplicates(issues_of(parted), TOO_NEAR, part):
        worst = max(near, key=lambda pair: pair.overlap)
        raise DataError(
            f"tasks {worst.a} ({part[worst.a]}) and {worst.b} ({part[worst.b]}) have nearly the same issue (overlap "
            f"{worst.overlap:.2f}, {TOO_NEAR:g} is too much; {len(near)} such pairs lie in two parts): {WHY} Split the "
            "pool again: `rmlab trajectories split` keeps such tasks together."
        )
