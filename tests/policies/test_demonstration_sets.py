from dataclasses import replace

import pytest

from rmlab.errors import DataError, UsageError
from rmlab.microswe.episode import Edits, EnvironmentConfig
from rmlab.microswe.task import Task
from rmlab.policies.demonstrations import DemonstrationsConfig, attempts_to_learn_from
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import TrajectorySet
from tests.hand_task import NEGATED

TASK = replace(NEGATED, cluster="elsewhere")
ISSUE = "f(1) should return 1 but got -1\n1 def f(x):\n2     return -x"


def attempt(number: int, said: tuple[str, ...] = ("edit 2: return x", "submit"), **changes: object) -> Trajectory:
    messages = [Message("user", ISSUE)]
    for text in said:
        messages += [Message("assistant", text), Message("user", "ok")]
    one = Trajectory("t", "shown", "hand", "p", number, tuple(messages), "", "submitted", True, split="supervised")
    return replace(one, **changes)


def learn(
    attempts: list[Trajectory],
    environment: EnvironmentConfig | None = None,
    tasks: tuple[Task, ...] = (),
    finished: bool = False,
    **metadata: str,
) -> tuple[list[Trajectory], dict[str, object]]:
    config = DemonstrationsConfig(paths=["a.parquet"], finished_only=finished)
    return attempts_to_learn_from(
        [TrajectorySet(tuple(attempts), metadata)], config, environment or EnvironmentConfig(), tasks, 0
    )


def test_only_the_supervised_part_is_taken_and_the_rest_is_counted() -> None:
    chosen, counts = learn([attempt(0), attempt(1, split="validation")])
    assert [t.attempt for t in chosen] == [0]
    assert counts == {"attempts": 1, "not_ended_well": 0, "of_other_parts": {"validation": 1}}


def test_the_last_turn_is_that_of_the_environment_that_was_played() -> None:
    given_up = attempt(0, ("run", "run", "submit"), resolved=False)
    assert len(learn([attempt(1), given_up], EnvironmentConfig(max_turns=3), finished=True, max_turns="3")[0]) == 2
    assert len(learn([attempt(1), given_up], EnvironmentConfig(max_turns=6), finished=True, max_turns="6")[0]) == 1
    with pytest.raises(UsageError, match=r"was collected with environment\.max_turns=14"):
        learn([attempt(1)], EnvironmentConfig(max_turns=3), max_turns="14")


def test_other_rules_of_edits_are_refused_and_a_set_that_does_not_say_was_played_by_the_old_ones() -> None:
    over = EnvironmentConfig(edits=Edits.start_over)
    assert learn([attempt(0)], over, edits="start_over")[0]
    with pytest.raises(UsageError, match="edits=build_up, but"):
        learn([attempt(0)], over)
    with pytest.raises(UsageError, match="edits=start_over, but"):
        learn([attempt(0)], edits="start_over")


def test_no_cluster_is_shown_that_something_is_measured_or_trained_on() -> None:
    assert learn([attempt(0)], tasks=(TASK, replace(TASK, cluster="shown", part="supervised")))[0]
    with pytest.raises(DataError, match="the parts never mix"):
        learn([attempt(0)], tasks=(replace(TASK, cluster="shown"),))
