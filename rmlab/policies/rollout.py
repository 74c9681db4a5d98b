"""Playing many episodes at once through one sandbox: each attempt goes on as soon as its own program has run.

Attempts that finish make room for the next ones, so the workers stay busy.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rmlab.errors import UsageError
from rmlab.microswe.episode import EnvironmentConfig, Episode
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import Task
from rmlab.policies.policy import Attempt, Policy, attempt_rng
from rmlab.policies.programs import Executor, SharedPrograms
from rmlab.progress import Advance
from rmlab.trajectories.record import Trajectory


@dataclass(frozen=True, slots=True)
class Planned:
    """An attempt that is to be made."""

    task: Task
    policy: str
    number: int


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """All attempts that are to be made at one task: `attempts` by each policy."""

    task: Task
    policies: tuple[str, ...]
    attempts: int

    def __len__(self) -> int:
        return len(self.policies) * self.attempts

    def __iter__(self) -> Iterator[Planned]:
        return (Planned(self.task, policy, n) for policy in self.policies for n in range(self.attempts))


def plan(tasks: Sequence[Task], policies: Sequence[str], attempts: int, first: int = 0) -> list[Planned]:
    """attempts at each task by each policy, task by task, numbered from `first`."""
    return [Planned(task, policy, first + n) for task in tasks for policy in policies for n in range(attempts)]


ACTING = 16  # attempts that act between two looks at whether a worker needs its next program
REMEMBERED = 5000  # outcomes: attempts at one task are played at about one time, so older ones are not asked for again


def rollout(
    planned: Sequence[Planned],
    policies: Mapping[str, Policy],
    sandbox: Sandbox,
    environment: EnvironmentConfig,
    seed: int,
    batch: int = 1024,
    advance: Advance | None = None,
    on_finished: Callable[[Trajectory], None] | None = None,
) -> list[Trajectory]:
    """Plays every planned attempt and returns the trajectories in the order of the plan. on_finished: called with each when it is.

    The result depends on plan, policies, environment and seed alone, not on batch or workers (programs that run into a
    time limit on a slow machine excepted). Raises UsageError for a policy that is not among `policies`.
    """
    finished: dict[int, Trajectory] = {}
    for index, trajectory in played(planned, policies, sandbox, environment, seed, batch):
        finished[index] = trajectory
        if on_finished is not None:
            on_finished(trajectory)
        if advance is not None:
            advance(1)
    return [finished[index] for index in range(len(planned))]


def played(
    planned: Iterable[Planned],
    policies: Mapping[str, Policy],
    sandbox: Sandbox,
    environment: EnvironmentConfig,
    seed: int,
    batch: int = 1024,
) -> Iterator[tuple[int, Trajectory]]:
    """As `rollout`, in the order in which attempts are finished, each with its place in the plan; holds `batch` attempts at most.

    An attempt goes on as soon as its own program is known, and the next one is opened when it is over, so that workers are
    busy until few attempts are left.
    """
    unopened = enumerate(planned)
    ready: deque[tuple[int, Attempt]] = deque()
    under_way = 0
    with SharedPrograms[tuple[int, Attempt]](Executor(sandbox, REMEMBERED)) as programs:
        while True:
            while under_way < batch and (entry := next(unopened, None)) is not None:
                attempt = _opened(entry[1], policies, environment, seed)
                _go_on((entry[0], attempt), programs, ready)
                under_way += 1
            if not under_way:
                return
            for owner, outcome in programs.outcomes(wait=not ready):
                index, attempt = owner
                attempt.episode.receive(outcome)
                if attempt.episode.done:
                    under_way -= 1
                    yield index, attempt.episode.trajectory(attempt.policy, attempt.number)
                else:
                    _go_on(owner, programs, ready)
            acting = [ready.popleft() for _ in range(min(ACTING, len(ready)))]
            for name in dict.fromkeys(attempt.policy for _, attempt in acting):
                group = [owner for owner in acting if owner[1].policy == name]
                texts = policies[name].act([attempt for _, attempt in group])
                for owner, text in zip(group, texts, strict=True):
                    owner[1].episode.act(text)
                    _go_on(owner, programs, ready)


def _opened(planned: Planned, policies: Mapping[str, Policy], environment: EnvironmentConfig, seed: int) -> Attempt:
    if planned.policy not in policies:
        raise UsageError(f"policy {planned.policy!r} is not configured: there are {', '.join(sorted(policies))}")
    rng = attempt_rng(seed, planned.task.task_id, planned.policy, planned.number)
    return Attempt(Episode(planned.task, environment), planned.policy, planned.number, rng)


def _go_on(
    owner: tuple[int, Attempt], programs: SharedPrograms[tuple[int, Attempt]], ready: deque[tuple[int, Attempt]]
) -> None:
    """Begins the program that an attempt needs, or puts it among those that act next."""
    if (program := owner[1].episode.needs) is None:
        ready.append(owner)
    else:
        programs.add(owner, program)
