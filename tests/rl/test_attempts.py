"""Tasks in turn, and attempts that the environment failed on made again."""

from collections.abc import Sequence

import numpy as np
import pytest

from rmlab.errors import RmlabError, UsageError
from rmlab.policies.engine import EngineSeconds, Rollout, Rollouts, Sampling
from rmlab.policies.rollout import Planned
from rmlab.progress import Advance
from rmlab.rl.batch import TaskSampler, make_attempts
from rmlab.rl.outcome import behaviour
from rmlab.trajectories.record import ExitStatus, Message, Trajectory
from tests.rl.easy_family import easy_tasks

TASKS = [task for task in easy_tasks() if task.part == "rl"]


def test_every_task_comes_once_an_epoch_and_drawing_goes_on_from_its_count() -> None:
    sampler = TaskSampler(TASKS, seed=1)
    first = [sampler.draw(4) for _ in range(3)]
    assert sorted(t.task_id for part in first for t in part) == sorted(t.task_id for t in TASKS)
    again = TaskSampler(TASKS[::-1], seed=1, drawn=4)
    assert again.draw(4) == first[1]
    assert TaskSampler(TASKS, seed=2).draw(12) != TaskSampler(TASKS, seed=1).draw(12)
    assert sampler.draw(12) != [t for part in first for t in part], "the second epoch has an order of its own"


def test_a_draw_over_the_end_of_an_epoch_holds_no_task_twice() -> None:
    sampler = TaskSampler(TASKS, seed=0)
    for _ in range(9):
        drawn = sampler.draw(7)
        assert len({t.task_id for t in drawn}) == 7
    with pytest.raises(UsageError, match="13 different tasks are needed, but only 12 exist: lower rl"):
        sampler.draw(13)


class FailingEngine:
    """An engine whose environment fails on chosen attempts for the first `times` calls; what it plays needs no model."""

    def __init__(self, numbers: Sequence[int], times: int):
        self.numbers, self.times, self.calls = set(numbers), times, list[tuple[int, int]]()

    def rollout(
        self,
        planned: Sequence[Planned],
        sampling: Sampling | Sequence[Sampling],
        seed: int,
        advance: Advance | None = None,
    ) -> Rollouts:
        failing = len(self.calls) < self.times
        self.calls.append((len(planned), seed))
        made = [self._one(p, failing and p.number in self.numbers) for p in planned]
        return Rollouts(made, EngineSeconds(decoding=1.0, own_tokens=2 * len(planned)))

    def refresh(self) -> None:
        """Nothing is remembered."""

    def _one(self, planned: Planned, broken: bool) -> Rollout:
        status: ExitStatus = "error" if broken else "unfinished" if planned.number == 1 else "submitted"
        said = (
            ("run", "submit")
            if planned.number == 0
            else (" run ", "run the tests")
            if planned.number == 1
            else ("submit",)
        )
        task = planned.task
        trajectory = Trajectory(
            task.task_id,
            task.cluster,
            task.source,
            planned.policy,
            planned.number,
            (Message("user", "issue"), *(Message("assistant", text) for text in said)),
            "",
            status,
            None if broken else planned.number == 0,
            extra={"public_passed": planned.number < 2},
        )
        own_T = np.arange(4) >= 2
        return Rollout(trajectory, np.arange(4, dtype=np.int32), own_T, np.zeros(4, dtype=np.float32))


def test_what_the_environment_failed_on_is_made_again_with_another_seed() -> None:
    engine = FailingEngine([2], times=1)
    made = make_attempts(engine, TASKS[:3], "p", 4, Sampling(), seed=5, retries=2)
    assert [calls for calls, _ in engine.calls] == [12, 3]
    assert engine.calls[0][1] != engine.calls[1][1]
    assert (made.retried, made.lost) == (3, 0)
    assert (made.seconds.decoding, made.seconds.own_tokens) == (2.0, 30), "of both calls"
    assert [(r.trajectory.task_id, r.trajectory.attempt) for r in made.rollouts] == [
        (t.task_id, n) for t in TASKS[:3] for n in range(4)
    ]


def test_what_stays_without_a_label_is_left_out_and_counted_or_too_much() -> None:
    made = make_attempts(FailingEngine([2], times=9), TASKS[:1], "p", 16, Sampling(), seed=5, retries=2)
    assert (len(made.rollouts), made.retried, made.lost) == (15, 2, 1)
    with pytest.raises(RmlabError, match="4 of 16 attempts have no label after 1 retries: the sandbox fails"):
        make_attempts(FailingEngine([2, 3, 4, 5], times=9), TASKS[:1], "p", 16, Sampling(), seed=5, retries=1)


def test_behaviour_by_hand() -> None:
    """Attempt 0: run, submit, resolved. Attempt 1: run twice (one message is no action), unfinished. Attempt 2: submit."""
    made = make_attempts(FailingEngine([], times=0), TASKS[:1], "p", 3, Sampling(), seed=0, retries=0)
    assert behaviour(made.rollouts) == pytest.approx(
        {
            "true_rate": 1 / 3,
            "unfinished_rate": 1 / 3,
            "ran_share": 2 / 3,
            "public_share": 2 / 3,
            "turns": 5 / 3,
            "tokens": 2.0,
            "distinct_share": 1.0,
            "truncated_share": 0.0,
        }
    )
