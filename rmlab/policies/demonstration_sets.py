"""Which attempts of which trajectory sets may a policy learn from?

Only those of the supervised part, by their word and by their cluster; played under the rules of the environment that the
policy is taught for, because which edit or submission is right depends on them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import Edits, EnvironmentConfig
from rmlab.microswe.task import Task
from rmlab.policies.demonstrations import ended_well
from rmlab.policies.demonstrations_config import DemonstrationsConfig
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet


def attempts_to_learn_from(
    pools: Sequence[TrajectorySet],
    config: DemonstrationsConfig,
    environment: EnvironmentConfig,
    tasks: Sequence[Task],
    seed: int,
) -> tuple[list[Trajectory], dict[str, Any]]:
    """The attempts, drawn by seed where `config.most` says so, and how many were left out and why.

    pools: one a path of `config.paths`. tasks: all that anything is measured or trained on later; what is demonstrated may share
    no cluster with those of another part than `supervised`. Raises UsageError for other rules of play, DataError where nothing
    is left or a cluster is shared.
    """
    for path, pool in zip(config.paths, pools, strict=True):
        _check_rules(path, pool, environment)
    attempts = [t for pool in pools for t in pool.trajectories if t.split == "supervised"]
    others = Counter(str(t.split) for pool in pools for t in pool.trajectories if t.split != "supervised")
    if not attempts:
        raise DataError(
            f"{', '.join(config.paths) or 'demonstrations.paths'}: no attempt of the supervised part is there to learn from"
        )
    held_out = {task.cluster: task for task in tasks if task.part != "supervised"}
    if mixed := next((t for t in attempts if t.cluster in held_out), None):
        task = held_out[mixed.cluster]
        raise DataError(
            f"trajectory {mixed.trajectory_id} is said to be of the supervised part, and {task.task_id} of the part "
            f"{task.part} is in its cluster {mixed.cluster}: the parts never mix. Collect demonstrations anew from the "
            "tasks files that are named here."
        )
    turns = environment.max_turns
    whole = [t for t in attempts if ended_well(t, turns)] if config.finished_only else attempts
    if not whole:
        raise DataError(
            f"demonstrations.finished_only=true: none of {len(attempts)} attempts was submitted resolved or with its last "
            "turn. Collect more, or take all with finished_only=false."
        )
    chosen = sorted(whole, key=lambda t: fingerprint([seed, t.trajectory_id]))[: config.most]
    return chosen, {
        "attempts": len(chosen),
        "not_ended_well": len(attempts) - len(whole),
        "of_other_parts": dict(sorted(others.items())),
    }


def _check_rules(path: str, pool: TrajectorySet, environment: EnvironmentConfig) -> None:
    """Sets from before these were recorded were played with edits that build up, in any number of turns."""
    played = pool.metadata.get("edits", Edits.build_up.value)
    if played != environment.edits.value:
        raise UsageError(
            f"{path}: it was played with environment.edits={played}, and environment.edits={environment.edits.value} is asked "
            "for: which edits are right depends on it. Collect again, or take the other."
        )
    turns = pool.metadata.get("max_turns")
    if turns is not None and int(turns) != environment.max_turns:
        raise UsageError(
            f"{path}: it was played with environment.max_turns={turns}, and environment.max_turns={environment.max_turns} is "
            "asked for: the last turn is for submitting. Collect again, or take the other."
        )
