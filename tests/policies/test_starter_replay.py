"""The environment says today what it said when the shipped attempts were collected."""

import pytest
from omegaconf import OmegaConf

from rmlab.configuration import compose
from rmlab.microswe.episode import Edits, EnvironmentConfig, Episode, expected_value, issue
from rmlab.microswe.loading import prove
from rmlab.microswe.sandbox.values import show
from rmlab.microswe.task import read_tasks
from rmlab.paths import STARTER
from rmlab.policies.collection import planned_attempts
from rmlab.policies.programs import Executor
from rmlab.policies.rollout import rollout
from rmlab.policies.scripted import make_policy
from rmlab.trajectories.record import Message
from rmlab.trajectories.store import read_trajectories

pytestmark = pytest.mark.skipif(
    not (STARTER / "trajectories.parquet").is_file(), reason="the shipped trajectories are not in this checkout"
)


@pytest.fixture(scope="module")
def shipped():
    tasks, _ = read_tasks(STARTER / "tasks.parquet")
    pool = read_trajectories(STARTER / "trajectories.parquet")
    return {task.task_id: task for task in tasks}, pool


@pytest.mark.parametrize("count", [60, pytest.param(150, marks=pytest.mark.slow)])
def test_shipped_attempts_replay_to_the_same_words_and_labels(sandbox, shipped, count):
    tasks, pool = shipped
    every = len(pool) // count
    drawn = pool.trajectories[::every]
    assert all(t.task_id in tasks for t in drawn)
    # loading leaves out a task whose original runs only with the library's own copy of it, which is not there for its programs
    verdicts = prove([tasks[name] for name in {t.task_id: None for t in drawn}], sandbox)
    attempts = [t for t in drawn if t.task_id not in verdicts]
    assert len(attempts) > 0.98 * len(drawn)
    environment = EnvironmentConfig(
        edits=Edits(pool.metadata.get("edits", "build_up")), max_turns=int(pool.metadata.get("max_turns", "6"))
    )
    episodes = [Episode(tasks[t.task_id], environment) for t in attempts]
    said = [iter([m.content for m in t.messages if m.role == "assistant"]) for t in attempts]
    executor = Executor(sandbox)
    while active := [i for i, episode in enumerate(episodes) if not episode.done]:
        needing = [i for i in active if episodes[i].needs is not None]
        outcomes = executor.run([program for i in needing if (program := episodes[i].needs) is not None])
        for i, outcome in zip(needing, outcomes, strict=True):
            episodes[i].receive(outcome)
        for i in active:
            if episodes[i].needs is None and not episodes[i].done:
                episodes[i].act(next(said[i]))
    for attempt, episode in zip(attempts, episodes, strict=True):
        again = episode.trajectory(attempt.policy, attempt.attempt)
        assert again.messages == attempt.messages
        assert (again.resolved, again.patch, again.exit_status) == (
            attempt.resolved,
            attempt.patch,
            attempt.exit_status,
        )


def test_scripts_make_the_shipped_attempts_again(sandbox, shipped, starter_tasks):
    """At a few tasks: the whole set, by `rmlab collect`, takes minutes."""
    few = [
        f"parts.{part}.tasks={n}"
        for part, n in (("supervised", 8), ("verifier", 4), ("validation", 0), ("evaluation", 1))
    ]
    settings = OmegaConf.to_object(compose("collect", few))
    policies = {name: make_policy(name, script) for name, script in settings.policy.items()}
    tasks = planned_attempts(starter_tasks, settings.parts, settings.names, settings.seed)
    planned = [one for task in tasks for one in task]
    made = rollout(planned, policies, sandbox, settings.environment, settings.seed)
    by_id = {t.trajectory_id: t for t in shipped[1].trajectories}
    assert len(made) == 8 * 6 + 4 * 6 * 2 + 16 * 2
    assert [by_id.get(t.trajectory_id) for t in made] == made


def test_the_value_that_each_shipped_issue_asks_for_is_read_back(shipped):
    for task in shipped[0].values():
        assert expected_value([Message("user", issue(task, "got 7"))]) == show(task.public_output)
