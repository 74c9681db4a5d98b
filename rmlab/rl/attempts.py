"""Fresh attempts of a policy: which tasks come next, and attempts that the environment failed on made again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmlab.errors import RmlabError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.task import Task
from rmlab.policies.engine import Engine, EngineSeconds, Rollout, Sampling
from rmlab.policies.rollout import Planned, plan
from rmlab.progress import Advance

BROKEN_SHARE = 0.1  # more attempts than this that stay without a label are not an accident


class TaskSampler:
    """Tasks in an order drawn anew each epoch by seed; `drawn` is its whole state."""

    def __init__(self, tasks: Sequence[Task], seed: int, drawn: int = 0):
        if not tasks:
            raise RmlabError("no task of the RL part holds on this machine: `rmlab doctor` says what does")
        self.tasks, self.seed, self.drawn = sorted(tasks, key=lambda task: task.task_id), seed, drawn
        self._epoch, self._order = -1, list[int]()

    def draw(self, number: int) -> list[Task]:
        """The next tasks, all different (where an epoch ends within them, what was drawn already is passed over).

        Raises UsageError where there are not as many.
        """
        if number > len(self.tasks):
            raise UsageError(f"{number} different tasks are asked for and {len(self.tasks)} are there: lower rl.groups")
        drawn: dict[str, Task] = {}
        while len(drawn) < number:
            task = self._next()
            drawn.setdefault(task.task_id, task)
        return list(drawn.values())

    def _next(self) -> Task:
        epoch, place = divmod(self.drawn, len(self.tasks))
        if epoch != self._epoch:
            keys = [fingerprint([self.seed, epoch, task.task_id]) for task in self.tasks]
            self._epoch, self._order = epoch, sorted(range(len(keys)), key=keys.__getitem__)
        self.drawn += 1
        return self.tasks[self._order[place]]


@dataclass(frozen=True)
class LabelledAttempts:
    """rollouts: with a label, in the order of the plan. retried: made again. lost: still without a label, left out. seconds: where
    the time of all of them went."""

    rollouts: list[Rollout]
    retried: int
    lost: int
    seconds: EngineSeconds


class SampledAndGreedy(NamedTuple):
    """Attempts with a label, in the order of tasks, and where the time of making them went."""

    sampled: list[Rollout]
    greedy: list[Rollout]
    seconds: EngineSeconds


def make_attempts(
    engine: Engine,
    tasks: Sequence[Task],
    name: str,
    attempts: int,
    sampling: Sampling,
    seed: int,
    retries: int,
    advance: Advance | None = None,
) -> LabelledAttempts:
    """`attempts` attempts at each task. An attempt that ended as an error of the environment is made again, up to `retries` times.

    name: of the policy in the trajectories. Raises RmlabError where over a tenth stays without a label.
    """
    rollouts, retried, seconds = _made(
        engine, [(planned, sampling) for planned in plan(tasks, [name], attempts)], seed, retries, advance
    )
    kept = labelled(rollouts, retries)
    return LabelledAttempts(kept, retried, len(rollouts) - len(kept), seconds)


def sampled_and_greedy(
    engine: Engine,
    tasks: Sequence[Task],
    name: str,
    attempts: int,
    sampling: Sampling,
    seed: int,
    retries: int,
    advance: Advance | None = None,
) -> SampledAndGreedy:
    """`attempts` sampled attempts at each task and the greedy one, through the engine at once; in the order of tasks, with labels."""
    likeliest = Sampling(0.0, sampling.max_action_tokens)
    number = len(tasks) * attempts
    wanted = [
        *((p, sampling) for p in plan(tasks, [name], attempts)),
        *((p, likeliest) for p in plan(tasks, [name], 1)),
    ]
    rollouts, _, seconds = _made(engine, wanted, seed, retries, advance)
    return SampledAndGreedy(labelled(rollouts[:number], retries), labelled(rollouts[number:], retries), seconds)


def labelled(rollouts: Sequence[Rollout], retries: int) -> list[Rollout]:
    """Those with a label. Raises RmlabError where over a tenth has none."""
    kept = [rollout for rollout in rollouts if rollout.trajectory.resolved is not None]
    if len(rollouts) - len(kept) > BROKEN_SHARE * len(rollouts):
        raise RmlabError(
            f"{len(rollouts) - len(kept)} of {len(rollouts)} attempts have no label after {retries} retries: the sandbox fails on "
            "this machine (`rmlab doctor`); nothing is learned from attempts that nobody could test"
        )
    return kept


def _made(
    engine: Engine, wanted: Sequence[tuple[Planned, Sampling]], seed: int, retries: int, advance: Advance | None
) -> tuple[list[Rollout], int, EngineSeconds]:
    """One rollout for each that is wanted, in order, how many were made again, and where the time went."""
    rollouts, seconds = engine.rollout(
        [planned for planned, _ in wanted], [sampling for _, sampling in wanted], seed, advance
    )
    retried = 0
    for again in range(1, retries + 1):
        failed = [i for i, rollout in enumerate(rollouts) if rollout.trajectory.resolved is None]
        if not failed:
            break
        retried += len(failed)
        made, more = engine.rollout(
            [wanted[i][0] for i in failed],
            [wanted[i][1] for i in failed],
            int(fingerprint([seed, "again", again])[:8], 16),
        )
        seconds += more
        for i, rollout in zip(failed, made, strict=True):
            rollouts[i] = rollout
    return rollouts, retried, seconds
