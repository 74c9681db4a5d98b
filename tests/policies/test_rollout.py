"""Many attempts at once: programs are shared, none waits for another's, and who plays an attempt makes no difference."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rmlab.errors import RmlabError, UsageError
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.sandbox import Limits, Program, Sandbox
from rmlab.policies import rollout_processes
from rmlab.policies.policy import Attempt, ScriptedConfig
from rmlab.policies.programs import Executor, SharedPrograms
from rmlab.policies.rollout import PlannedTask, plan, played, rollout
from rmlab.policies.rollout_processes import RolloutPlan, RolloutProcesses
from rmlab.policies.scripted import ScriptedPolicy
from rmlab.trajectories.parts import TrajectoryParts
from rmlab.trajectories.store import TrajectorySet, read_trajectories

SCRIPTS = {name: ScriptedPolicy(name, ScriptedConfig()) for name in ("a", "b")}


@pytest.fixture(scope="module")
def tasks(starter_tasks):
    return starter_tasks.part("validation")[::60][:4]


class Loops:
    """Says what is written down: an edit that never ends where its number is 0, none else."""

    name = "loops"

    def act(self, attempts: Sequence[Attempt]) -> list[str]:
        return [self._next(attempt) for attempt in attempts]

    def _next(self, attempt: Attempt) -> str:
        begins = len(attempt.episode.messages) == 1
        return "edit 2: while True: pass" if attempt.number == 0 and begins else "submit"


@pytest.fixture(scope="module")
def short(tasks):
    """Tasks of one line."""
    fields = {
        "entry": "f",
        "context": "",
        "inputs": ("(1,)",),
        "outputs": ("1",),
        "public": 0,
        "original": "def f(x):\n    return x",
    }
    return [replace(tasks[0], task_id=f"t{n}", code=f"def f(x):\n    return x + {n + 1}", **fields) for n in range(4)]


def test_an_attempt_does_not_wait_for_another_ones_endless_program(short):
    with Sandbox(2, Limits(call_seconds=0.5)) as quick:
        planned = plan(short[:1], ["loops"], 1) + plan(short, ["loops"], 3, first=1)
        made = list(played(planned, {"loops": Loops()}, quick, EnvironmentConfig(), 0, batch=4))
    assert sorted(i for i, _ in made) == list(range(13))
    last, attempt = made[-1]
    assert last == 0, "all others are over before it, though no more than 4 are under way at once"
    assert "over the limits" in attempt.messages[-1].content


def test_what_has_no_time_left_ends_as_an_error_of_the_environment(short):
    with Sandbox(1, Limits(call_seconds=5.0, batch_seconds=0.5)) as hurried:
        environment = EnvironmentConfig(retries=0)
        [attempt] = rollout(plan(short[:1], ["loops"], 1), {"loops": Loops()}, hurried, environment, 0)
    assert (attempt.exit_status, attempt.resolved) == ("error", None)


def test_equal_programs_run_once_however_many_wait_for_them(sandbox, monkeypatch):
    ran: Counter[Program] = Counter()
    stream = sandbox.stream

    def counting(*arguments):
        made = stream(*arguments)
        add = made.add

        def added(program):
            ran[program] += 1
            return add(program)

        made.add = added
        return made

    monkeypatch.setattr(sandbox, "stream", counting)
    programs = [Program("", f"def f():\n    return {n % 3}", "f", ("()",)) for n in range(9)]
    found = {}
    with SharedPrograms[int](Executor(sandbox)) as shared:
        for n, program in enumerate(programs):
            shared.add(n, program)
        while len(found) < 9:
            found.update(shared.outcomes(wait=True))
        shared.add(9, programs[0])
        [(owner, again)] = shared.outcomes(wait=True)
    assert {n: outcome.results[0].value for n, outcome in found.items()} == {n: str(n % 3) for n in range(9)}
    assert (owner, again) == (9, found[0])
    assert set(ran.values()) == {1}


def test_a_policy_that_is_not_there_is_named(sandbox, tasks):
    with pytest.raises(UsageError, match="policy 'nobody' is not configured: there are a, b"):
        rollout(plan(tasks[:1], ["nobody"], 1), SCRIPTS, sandbox, EnvironmentConfig(), 0)


def collection(tasks, folder, finished=None, policies=SCRIPTS, batch=8):
    wanted = [PlannedTask(task, tuple(policies), 3) for task in tasks]
    return RolloutPlan(wanted, finished or {}, policies, EnvironmentConfig(), 0, batch, folder)


def kept(folder):
    return [t for path in TrajectoryParts(folder).files() for t in read_trajectories(path).trajectories]


def test_several_processes_make_the_attempts_that_one_makes(sandbox, tasks, tmp_path, monkeypatch):
    alone = rollout(plan(tasks, ["a", "b"], 3), SCRIPTS, sandbox, EnvironmentConfig(), 0)
    monkeypatch.setattr(rollout_processes, "WORKERS", 1)
    before = {(tasks[0].task_id, "a"): {0, 2}}
    with RolloutProcesses(collection(tasks, tmp_path, before), sandbox) as processes:
        assert processes.count == 2
        assert sum(processes.play()) == 22
    again = [t for t in alone if t.attempt not in before.get((t.task_id, t.policy), ())]
    assert TrajectorySet(tuple(kept(tmp_path)), {}).fingerprint == TrajectorySet(tuple(again), {}).fingerprint
    assert TrajectoryParts(tmp_path).finished() == {
        (t.task_id, p): {1} if (t, p) == (tasks[0], "a") else {0, 1, 2} for t in tasks for p in "ab"
    }


class Fails(ScriptedPolicy):
    def act(self, attempts: Sequence[Attempt]) -> list[str]:
        raise RmlabError("it has no idea")


def test_what_goes_wrong_in_a_process_is_raised_in_the_first(sandbox, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(rollout_processes, "WORKERS", 1)
    failing = {"a": Fails("a", ScriptedConfig())}
    with (
        RolloutProcesses(collection(tasks, tmp_path, policies=failing), sandbox) as processes,
        pytest.raises(RmlabError, match="it has no idea"),
    ):
        list(processes.play())


def test_processes_that_are_stopped_keep_what_they_finished(sandbox, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(rollout_processes, "WORKERS", 1)
    monkeypatch.setattr(rollout_processes, "TELL_SECONDS", 0)
    with RolloutProcesses(collection(tasks, tmp_path, batch=2), sandbox) as processes:
        playing = processes.play()
        told = next(playing)
        processes.stop()
    finished = kept(tmp_path)
    assert told <= len(finished) <= 24
    assert not any(process.is_alive() for process in processes._processes)


def test_a_process_that_is_killed_is_missed(sandbox, tasks, tmp_path, monkeypatch):
    monkeypatch.setattr(rollout_processes, "WORKERS", 1)
    with RolloutProcesses(collection(tasks, tmp_path), sandbox) as processes:
        processes._processes[0].kill()
        with pytest.raises(RmlabError, match=r"has died\. Finished attempts are kept"):
            list(processes.play())


ATTEMPTS = """
import resource, sys
from pathlib import Path
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import read_tasks
from rmlab.paths import STARTER
from rmlab.policies.policy import ScriptedConfig
from rmlab.policies.rollout import PlannedTask
from rmlab.policies.rollout_processes import RolloutPlan, RolloutProcesses
from rmlab.policies.scripted import ScriptedPolicy
from rmlab.trajectories.parts import TrajectoryParts

folder, tasks = Path(sys.argv[1]), read_tasks(STARTER / "tasks.parquet")[0]
script = ScriptedPolicy("a", ScriptedConfig(slips=0.0, patience=1))
wanted = [PlannedTask(task, ("a",), 200) for task in sorted(tasks, key=lambda t: t.task_id)[:3000:300]]
with Sandbox(2) as sandbox, RolloutProcesses(
    RolloutPlan(wanted, {}, {"a": script}, EnvironmentConfig(), 0, 512, folder), sandbox
) as processes:
    for done, _ in enumerate(processes.play(), 1):
        if done in (500, 2_000):
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
written = TrajectoryParts(folder).write(folder / "set" / "set.parquet", {})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, len(written))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_attempts(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", ATTEMPTS, str(tmp_path)], capture_output=True, text=True, check=True, timeout=900
    )
    few, many, written, attempts = map(int, ran.stdout.split())
    assert attempts == 2_000
    assert many - few < 4, "megabytes; 1,500 attempts as records take over 8"
    assert written - many < 250, "a row group, at most 32 MB, and the room in which it is compressed"
