"""What would the labels be if only a few of a task's hidden tests were known?

Then a plausible but wrong patch counts as resolved, as it does wherever a benchmark's tests are thin. The final program of
every attempt is rebuilt from its conversation and run on all hidden tests once; the first test that it fails, in an order of
the task's own, says what any smaller number of tests would have called it. The public call comes first (it fails on the bug,
so an attempt that changes nothing is never accepted), the others by SHA-256: labels of fewer tests contain those of more.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.files import write_text
from rmlab.fingerprint import fingerprint
from rmlab.microswe import actions as grammar
from rmlab.microswe.episode import Edits, hidden_program, replayed
from rmlab.microswe.sandbox import Outcome, Program, Sandbox, default_workers, isolation_level, warn_if_weak
from rmlab.microswe.task import Task, read_tasks, tasks_fingerprint
from rmlab.progress import progress
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet

SEMANTICS = 2
"""Bumped when the same attempts and number of tests get other labels."""
TRIES = 3
BATCH = 512
DISAGREE = 0.01  # share of the labels that a slow machine may give otherwise (programs at a time limit)


@dataclass(frozen=True)
class WeakLabels:
    """tests: that were known. resolved: by trajectory_id, of labelled attempts at tasks of the file.

    true_positive_rate: share of the resolved that the weak tests accept; true_negative_rate: of the unresolved that they refuse.
    disagree: attempts that got another label from all tests here than they carry. isolation: of the sandbox that ran them.
    """

    tests: int
    resolved: dict[str, bool]
    true_positive_rate: float
    true_negative_rate: float
    disagree: int
    isolation: str

    def record(self) -> dict[str, Any]:
        """As plain values, for the run's `selection.json`."""
        return {
            "tests": self.tests,
            "true_positive_rate": self.true_positive_rate,
            "true_negative_rate": self.true_negative_rate,
            "resolved_share": sum(self.resolved.values()) / len(self.resolved),
            "disagree": self.disagree,
        }


def weak_labels(
    part: TrajectorySet, tasks_file: Path, tests: int, cache: Path, show: bool = False, allow_weak: bool = False
) -> WeakLabels:
    """Labels of a part's attempts from the first `tests` hidden tests of each task (all where it has fewer).

    cache: folder that remembers which test each attempt fails first. allow_weak: of the sandbox.

    That tasks and attempts belong together is seen attempt by attempt: its task is in the file, its edits of that task's code give
    its patch, and all tests give its label. Raises UsageError for tests < 1, DataError where it is not so.
    """
    if tests < 1:
        raise UsageError(f"data.hidden_tests={tests}: must be at least 1, or null for all")
    tasks, _ = read_tasks(tasks_file)
    there = tasks_fingerprint(
        tasks
    )  # of the file: attempts name the tasks that held where they were collected, which may be fewer
    attempts = [t for t in part.trajectories if t.resolved is not None]
    path = cache / f"first-failures-{fingerprint([part.fingerprint, there, SEMANTICS])}.json"
    if not path.is_file():
        edits = Edits(part.metadata.get("edits", Edits.build_up.value))
        failures = first_failures(attempts, {task.task_id: task for task in tasks}, show, edits, allow_weak)
        write_text(path, json.dumps({"isolation": str(isolation_level()), "failed": failures}))
    kept = json.loads(path.read_text(encoding="utf-8"))
    failed: dict[str, int | None] = kept["failed"]
    disagree = sum((failed[t.trajectory_id] is None) != t.resolved for t in attempts)
    if disagree > DISAGREE * len(attempts):
        raise DataError(
            f"{disagree} of {len(attempts)} attempts have a different label here than where they were collected, due to another Python "
            f"or because this machine is too slow for the limits. Collect again here, or delete {path} and try again."
        )
    # More tests pass no fewer: what is resolved stays resolved, also where a busy machine ran one of its tests out of time.
    resolved = {
        t.trajectory_id: bool(t.resolved) or _passes(failed[t.trajectory_id], tests, t.resolved) for t in attempts
    }

    def rate(label: bool) -> float:
        of_label = [resolved[t.trajectory_id] == label for t in attempts if t.resolved == label]
        return sum(of_label) / len(of_label) if of_label else float("nan")

    return WeakLabels(tests, resolved, rate(True), rate(False), disagree, kept["isolation"])


def _passes(first_failed: int | None, tests: int, stated: bool | None) -> bool:
    """Unresolved as collected but passing all here: the stated label stays."""
    return bool(stated) if first_failed is None else first_failed >= tests


def first_failures(
    attempts: Sequence[Trajectory],
    tasks: dict[str, Task],
    show: bool = False,
    edits: Edits = Edits.build_up,
    allow_weak: bool = False,
) -> dict[str, int | None]:
    """By trajectory_id, which hidden test in the task's order its final program fails first (from 0); None = it passes all."""
    programs: dict[str, Program] = {}
    expected: dict[Program, tuple[str, ...]] = {}
    for attempt in attempts:
        if attempt.task_id not in tasks:
            raise DataError(
                f"data.tasks has no task {attempt.task_id}, which trajectory {attempt.trajectory_id} attempts. "
                "Name the tasks file that they were collected from."
            )
        task = tasks[attempt.task_id]
        order = order_of_tests(task)
        whole = hidden_program(task, final_program(attempt, task, edits))
        program = replace(whole, inputs=tuple(task.inputs[i] for i in order))
        programs[attempt.trajectory_id] = program
        expected[program] = tuple(task.outputs[i] for i in order)
    outcomes = _run(list(expected), show, allow_weak)
    return {name: _first_failed(outcomes[program], expected[program]) for name, program in programs.items()}


def order_of_tests(task: Task) -> list[int]:
    """Indices of a task's hidden tests in the order in which they become known: the public call, then by SHA-256."""
    rest = [i for i in range(len(task.inputs)) if i != task.public]
    return [
        task.public,
        *sorted(rest, key=lambda i: hashlib.sha256(f"{task.task_id} {task.inputs[i]}".encode()).digest()),
    ]


def final_program(attempt: Trajectory, task: Task, edits: Edits = Edits.build_up) -> str:
    """The program at the end of an attempt, its edits made again. Raises DataError where that is not what its patch says."""
    code = replayed(task.code, [m.content for m in attempt.messages if m.role == "assistant"], edits)[-1]
    if grammar.patch(task.code, code) != attempt.patch:
        raise DataError(
            f"the edits of trajectory {attempt.trajectory_id} do not produce its patch: it was not collected on this task"
        )
    return code


def _first_failed(outcome: Outcome, expected: tuple[str, ...]) -> int | None:
    if outcome.error is not None:
        return 0
    return next(
        (
            i
            for i, (result, wanted) in enumerate(zip(outcome.results, expected, strict=True))
            if not result.matches(wanted)
        ),
        None,
    )


def _run(programs: Sequence[Program], show: bool, allow_weak: bool) -> dict[Program, Outcome]:
    outcomes: dict[Program, Outcome] = {}
    with (
        Sandbox(default_workers(), allow_weak=allow_weak) as sandbox,
        progress("running hidden tests", len(programs), "programs", show) as advance,
    ):
        warn_if_weak(sandbox.isolation)
        for _ in range(TRIES):
            left = [program for program in programs if program not in outcomes]
            for start in range(0, len(left), BATCH):
                batch = left[start : start + BATCH]
                done = {p: o for p, o in zip(batch, sandbox.run(batch), strict=True) if not o.broken}
                outcomes |= done
                advance(len(done))
    if lost := len(programs) - len(outcomes):
        raise RmlabError(
            f"the sandbox failed {TRIES} times on {lost} programs: `rmlab doctor` shows what works on this machine."
        )
    return outcomes
