"""Labels from a few hidden tests: by execution, nested, and with their own rates."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.microswe.episode import Edits, EnvironmentConfig
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import read_tasks, tasks_fingerprint, write_tasks
from rmlab.paths import STARTER
from rmlab.policies.policy import ScriptedConfig, Stops
from rmlab.policies.rollout import plan, rollout
from rmlab.policies.scripted import ScriptedPolicy
from rmlab.selection.weak_tests import final_program, first_failures, order_of_tests, weak_labels
from rmlab.trajectories.record import Message
from rmlab.trajectories.store import TrajectorySet, read_trajectories

TASKS = [task for task in read_tasks(STARTER / "tasks.parquet")[0] if task.part == "verifier"][:10]


@pytest.fixture(scope="module")
def attempts():
    with Sandbox(2) as sandbox:
        return rollout(
            plan(TASKS, ["hasty"], 4),
            {"hasty": ScriptedPolicy("hasty", ScriptedConfig())},
            sandbox,
            EnvironmentConfig(),
            0,
        )


@pytest.fixture(scope="module")
def tasks_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks") / "tasks.parquet"
    write_tasks(path, TASKS, {})
    return path


def test_labels_of_fewer_tests_contain_those_of_more_and_all_tests_give_the_labels(
    attempts, tasks_file, tmp_path
) -> None:
    part = TrajectorySet(tuple(attempts), {"tasks_fingerprint": tasks_fingerprint(TASKS)})
    by_tests = {m: weak_labels(part, tasks_file, m, tmp_path) for m in (1, 2, 4, 99)}
    assert len(list(tmp_path.iterdir())) == 1, "every attempt ran once"
    accepted = [{name for name, yes in weak.resolved.items() if yes} for weak in by_tests.values()]
    assert all(by_fewer >= by_more for by_fewer, by_more in pairwise(accepted))
    assert by_tests[99].resolved == {t.trajectory_id: t.resolved for t in attempts}
    assert by_tests[1].resolved == {t.trajectory_id: t.extra["public_passed"] for t in attempts}, (
        "the public call comes first"
    )
    wrong = [t for t in attempts if not t.resolved]
    assert by_tests[1].true_negative_rate == pytest.approx(
        1 - sum(t.extra["public_passed"] for t in wrong) / len(wrong)
    )
    assert {weak.true_positive_rate for weak in by_tests.values()} == {1.0}
    assert by_tests[1].true_negative_rate < by_tests[99].true_negative_rate == 1.0
    assert (by_tests[99].disagree, by_tests[2].record()["tests"]) == (0, 2)


def test_edits_that_start_over_are_made_again_as_they_were(tasks_file, tmp_path) -> None:
    script = ScriptedConfig(patience=3, haste=0.0, stops=Stops.patience, hand=0.3)
    with Sandbox(2) as sandbox:
        made = rollout(
            plan(TASKS, ["s"], 3),
            {"s": ScriptedPolicy("s", script)},
            sandbox,
            EnvironmentConfig(edits=Edits.start_over),
            0,
        )
    metadata = {"tasks_fingerprint": tasks_fingerprint(TASKS)}
    known = weak_labels(TrajectorySet(tuple(made), metadata | {"edits": "start_over"}), tasks_file, 99, tmp_path)
    assert known.resolved == {t.trajectory_id: t.resolved for t in made}
    with pytest.raises(DataError, match="do not produce its patch"):
        weak_labels(TrajectorySet(tuple(made[1:]), metadata), tasks_file, 99, tmp_path)


def test_where_nothing_keeps_programs_in_attempts_run_only_by_the_users_word(
    attempts, tasks_file, tmp_path, weak_machine
) -> None:
    part = TrajectorySet(tuple(attempts), {"tasks_fingerprint": tasks_fingerprint(TASKS)})
    with pytest.raises(RmlabError, match=r"sandbox\.allow_weak=true runs model-written code"):
        weak_labels(part, tasks_file, 99, tmp_path)
    known = weak_labels(part, tasks_file, 99, tmp_path, allow_weak=True)
    assert known.isolation.startswith("limits: rlimits, as ")
    assert known.resolved == {t.trajectory_id: t.resolved for t in attempts}
    assert weak_labels(part, tasks_file, 1, tmp_path).isolation == known.isolation, "as it was when they ran"


def test_an_attempt_that_changes_nothing_is_never_accepted(attempts) -> None:
    idle = replace(
        attempts[0], messages=(attempts[0].messages[0], Message("assistant", "submit")), patch="", resolved=False
    )
    assert final_program(idle, TASKS[0]) == TASKS[0].code
    assert first_failures([idle], {task.task_id: task for task in TASKS}) == {idle.trajectory_id: 0}
    for task in TASKS:
        assert order_of_tests(task)[0] == task.public
        assert sorted(order_of_tests(task)) == list(range(len(task.inputs)))


def test_attempts_may_have_been_collected_where_not_all_of_the_files_tasks_held(attempts, tasks_file, tmp_path) -> None:
    """A Python under which some tasks do not hold leaves these out and names the others: attempts at them are labelled all the same."""
    whole = TrajectorySet(tuple(attempts), {"tasks_fingerprint": tasks_fingerprint(TASKS)})
    fewer = TrajectorySet(tuple(attempts), {"tasks_fingerprint": "0" * 16})
    expected = weak_labels(whole, tasks_file, 1, tmp_path / "whole").resolved
    assert weak_labels(fewer, tasks_file, 1, tmp_path / "fewer").resolved == expected


def test_what_does_not_belong_together_is_refused(attempts, tasks_file, tmp_path) -> None:
    part = TrajectorySet(tuple(attempts), {"tasks_fingerprint": "0" * 16})
    with pytest.raises(UsageError, match=r"data\.hidden_tests=0"):
        weak_labels(part, tasks_file, 0, tmp_path)
    with pytest.raises(DataError, match="do not produce its patch"):
        final_program(replace(attempts[0], patch="1- a\n1+ b"), TASKS[0])
    with pytest.raises(DataError, match=r"data\.tasks has no task .*Name the tasks file that they were collected from"):
        first_failures(attempts[:1], {})
    flipped = TrajectorySet(
        tuple(replace(t, resolved=not t.resolved) for t in attempts), {"tasks_fingerprint": tasks_fingerprint(TASKS)}
    )
    with pytest.raises(DataError, match=r"40 of 40 attempts have a different label here"):
        weak_labels(flipped, tasks_file, 1, tmp_path)


def test_shipped_tasks_and_trajectories_belong_together() -> None:
    assert read_trajectories(STARTER / "trajectories.parquet").metadata["tasks_fingerprint"] == tasks_fingerprint(
        read_tasks(STARTER / "tasks.parquet")[0]
    )
