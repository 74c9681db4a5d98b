"""Playing many episodes at once: all attempts advance in lock-step through one sandbox and one call a policy.

Attempts that finish make room for the next ones, so the batch stays full. What a program did is remembered while its
task is being attempted: attempts at one task often hold the same program.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rmlab.errors import UsageError
from rmlab.microswe.episode import EnvironmentConfig, Episode
from rmlab.microswe.sandbox import OnOutcome, Outcome, Program, Sandbox
from rmlab.microswe.task import Task
from rmlab.policies.policy import Attempt, Policy, attempt_rng
from rmlab.progress import Advance
from rmlab.trajectories.record import Trajectory


@dataclass(frozen=True)
class Planned:
    """An attempt that is to be made."""

    task: Task
    policy: str
    number: int


def plan(tasks: Sequence[Task], policies: Sequence[str], attempts: int, first: int = 0) -> list[Planned]:
    """attempts at each task by each policy, task by task, numbered from `first`."""
    return [Planned(task, policy, first + n) for task in tasks for policy in policies for n in range(attempts)]


class Executor:
    """Runs programs through a sandbox and remembers the last `size` outcomes. Broken outcomes are not remembered.

    Several threads may run programs at once.
    """

    def __init__(self, sandbox: Sandbox, size: int = 20_000):
        self.sandbox = sandbox
        self.size = size
        self._known: OrderedDict[Program, Outcome] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, programs: Sequence[Program], on_outcome: OnOutcome | None = None) -> list[Outcome]:
        """The outcomes in order; equal programs run once. on_outcome: called with each index and outcome as soon as it is known."""
        where: dict[Program, list[int]] = {}
        for index, program in enumerate(programs):
            where.setdefault(program, []).append(index)
        with self._lock:
            found = {program: self._known[program] for program in where if program in self._known}
        new = [program for program in where if program not in found]

        def tell(program: Program, outcome: Outcome) -> None:
            if on_outcome is not None:
                for index in where[program]:
                    on_outcome(index, outcome)

        for program, outcome in found.items():
            tell(program, outcome)
        made = dict(zip(new, self.sandbox.run(new, lambda index, outcome: tell(new[index], outcome)), strict=True))
        found |= made
        with self._lock:
            self._known.update((program, outcome) for program, outcome in made.items() if not outcome.broken)
            for program in where:
                if program in self._known:
                    self._known.move_to_end(program)
            while len(self._known) > self.size:
                self._known.popitem(last=False)
        return [found[program] for program in programs]


def rollout(
    planned: Sequence[Planned],
    policies: Mapping[str, Policy],
    sandbox: Sandbox,
    environment: EnvironmentConfig,
    seed: int,
    batch: int = 1024,
    advance: Advance | None = None,
    told: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Plays every planned attempt and returns the trajectories in the order of the plan. told: is called with each as it is finished.

    The result depends on plan, policies, environment and seed alone, not on batch or workers (programs that run into a
    time limit on a slow machine excepted). Raises UsageError for a policy that is not among `policies`.
    """
    unknown = {p.policy for p in planned} - set(policies)
    if unknown:
        raise UsageError(f"policy {sorted(unknown)[0]!r} is not configured: there are {', '.join(sorted(policies))}")
    executor = Executor(sandbox)
    waiting = iter(enumerate(planned))
    active: dict[int, Attempt] = {}
    finished: dict[int, Trajectory] = {}
    while True:
        _fill(active, waiting, batch, environment, seed)
        if not active:
            return [finished[i] for i in range(len(planned))]
        _execute(active, executor)
        for i in [i for i, attempt in active.items() if attempt.episode.done]:
            attempt = active.pop(i)
            finished[i] = attempt.episode.trajectory(attempt.policy, attempt.number)
            if told is not None:
                told(finished[i])
            if advance is not None:
                advance(1)
        _act(active, policies)


def _fill(
    active: dict[int, Attempt],
    waiting: Iterator[tuple[int, Planned]],
    batch: int,
    environment: EnvironmentConfig,
    seed: int,
) -> None:
    while len(active) < batch and (entry := next(waiting, None)) is not None:
        i, p = entry
        rng = attempt_rng(seed, p.task.task_id, p.policy, p.number)
        active[i] = Attempt(Episode(p.task, environment), p.policy, p.number, rng)


def _execute(active: Mapping[int, Attempt], executor: Executor) -> None:
    needing = [(a.episode, a.episode.needs) for a in active.values() if a.episode.needs is not None]
    outcomes = executor.run([program for _, program in needing])
    for (episode, _), outcome in zip(needing, outcomes, strict=True):
        episode.receive(outcome)


def _act(active: Mapping[int, Attempt], policies: Mapping[str, Policy]) -> None:
    ready = [a for a in active.values() if a.episode.needs is None and not a.episode.done]
    for name in dict.fromkeys(a.policy for a in ready):
        group = [a for a in ready if a.policy == name]
        for attempt, text in zip(group, policies[name].act(group), strict=True):
            attempt.episode.act(text)
