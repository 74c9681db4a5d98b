import random
from collections import Counter

import pytest

from rmlab.baselines.shape import pattern
from rmlab.configuration import compose
from rmlab.errors import UsageError
from rmlab.microswe.actions import apply
from rmlab.microswe.episode import Edits, EnvironmentConfig, expected_value
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import read_tasks
from rmlab.paths import CONF, STARTER
from rmlab.policies.policy import KINDS, Reacts, Runs, ScriptedConfig, Stops, policy_kind
from rmlab.policies.rollout import plan, rollout
from rmlab.policies.scripted import Knowledge, ScriptedPolicy, make_policy, skill


@pytest.fixture(scope="module")
def tasks():
    return random.Random(0).sample([t for t in read_tasks(STARTER / "tasks.parquet")[0] if t.part == "validation"], 6)


@pytest.fixture(scope="module")
def played(tasks):
    """Every configured policy, four attempts at each of six tasks."""
    from omegaconf import OmegaConf

    scripts = OmegaConf.to_object(compose("collect", []))
    policies = {name: ScriptedPolicy(name, script) for name, script in scripts.policy.items()}
    with Sandbox(2) as sandbox:
        found = rollout(plan(tasks, sorted(policies), 4), policies, sandbox, EnvironmentConfig(), seed=3)
    return scripts.policy, found


def test_every_policy_file_is_configured_and_there_are_at_least_four(played):
    scripts, _ = played
    others = {
        "language",
        "seeking",
    }  # a language model plays the first, the second is five of these scripts by other numbers
    assert set(scripts) == {path.stem for path in (CONF / "policy").glob("*.yaml")} - others
    assert len(scripts) >= 4
    behaviours = {(s.search, s.runs, s.reacts, s.stops) for s in scripts.values()}
    assert len(behaviours) == len(scripts)


def test_behaviour_is_what_the_configuration_says(played):
    scripts, found = played
    for name, script in scripts.items():
        patterns = [pattern(t) for t in found if t.policy == name]
        assert all(1 <= len(p) <= 6 for p in patterns)
        if script.runs is Runs.never:
            assert not any("R" in p for p in patterns)
        if script.runs is Runs.first:
            assert all(p.lstrip("?")[0] == "R" for p in patterns)
        if script.stops is Stops.patience:
            assert max(p.count("E") for p in patterns) <= script.patience


def test_attempts_at_a_task_differ_and_both_labels_occur(played):
    _, found = played
    groups = Counter((t.task_id, t.policy) for t in found)
    distinct = Counter((task, policy) for task, policy, _ in {(t.task_id, t.policy, t.content_id) for t in found})
    assert sum(distinct.values()) > 0.6 * sum(groups.values())
    assert {t.resolved for t in found} == {True, False}
    assert {t.exit_status for t in found} <= {"submitted", "unfinished"}


def test_the_label_and_the_operators_are_never_said(played):
    _, found = played
    words = {
        word for t in found for m in t.messages if m.role == "user" for word in m.content.split("\n")[0].split()[:1]
    }
    assert not words & {"resolved", "passed", "failed", "PASS", "FAIL"}


def test_batch_and_workers_change_nothing(tasks):
    policies = {"p": ScriptedPolicy("p", ScriptedConfig())}
    planned = plan(tasks[:3], ["p"], 3)
    with Sandbox(1) as one, Sandbox(2) as two:
        first = rollout(planned, policies, one, EnvironmentConfig(), seed=1, batch=2)
        second = rollout(planned, policies, two, EnvironmentConfig(), seed=1)
        other_seed = rollout(planned, policies, two, EnvironmentConfig(), seed=2)
    assert first == second
    assert first != other_seed
    assert [(t.task_id, t.attempt) for t in first] == [(p.task.task_id, p.number) for p in planned]


def test_repairs_make_the_original_and_wrong_edits_do_not(tasks):
    for task in tasks:
        known = Knowledge(task)
        code = task.code
        for edit in known.repairs(code):
            code = apply(code, edit)
        assert code == task.original
        for line in task.lines:
            for texts in known.wrong(task.code, line):
                assert task.original.split("\n")[line - 1].strip() not in texts


def test_a_script_that_looks_never_repeats_what_it_saw_fail(played):
    scripts, found = played
    for t in found:
        if scripts[t.policy].runs is not Runs.after_edit or scripts[t.policy].reacts is not Reacts.stay:
            continue
        wanted, written, failed = expected_value(t.messages), "", set()
        for message in t.messages[1:]:
            if message.content.startswith("edit "):
                written = message.content
                assert written not in failed
            elif message.content.startswith("got ") and message.content != f"got {wanted}":
                failed.add(written)


def test_a_script_that_ends_submits_with_its_last_turn_whatever_slips(tasks):
    script = ScriptedConfig(
        runs=Runs.after_edit, stops=Stops.match, hand=0.0, spread=0.0, patience=9, haste=0.0, slips=0.3, ends=True
    )
    environment = EnvironmentConfig(edits=Edits.start_over, max_turns=9)
    with Sandbox(2) as sandbox:
        found = rollout(
            plan(tasks, ["seeker"], 6), {"seeker": ScriptedPolicy("seeker", script)}, sandbox, environment, seed=0
        )
    said = [[m.content for m in t.messages if m.role == "assistant"] for t in found]
    assert any("?" in pattern(t) for t in found), "some messages are no action"
    assert max(map(len, said)) == 9
    assert {(own[-1], t.exit_status) for own, t in zip(said, found, strict=True)} == {("submit", "submitted")}


def test_skill_is_the_same_for_all_attempts_and_differs_between_tasks(tasks):
    config = ScriptedConfig(hand=0.5, spread=0.8)
    skills = [skill(config, task) for task in tasks]
    assert skills == [skill(config, task) for task in tasks]
    assert len(set(skills)) == len(tasks)
    assert all(0.1 <= s <= 0.9 for s in skills)


def test_a_new_policy_is_one_class(tasks, monkeypatch):
    """It is a choice of the group `policy`, and collection plays it under its name; the shipped scripts are hashed as before."""
    from hydra.core.config_store import ConfigStore
    from omegaconf import OmegaConf

    monkeypatch.setitem(KINDS, "silent", None)
    monkeypatch.setitem(ConfigStore.instance().repo["policy"], "silent.yaml", None)

    @policy_kind("silent")
    class Silent:
        def __init__(self, name: str, config: ScriptedConfig):
            self.name = name

        def act(self, attempts):
            return ["submit"] * len(attempts)

    config = compose("collect", ["policy=[silent]"])
    policies = {name: make_policy(name, one) for name, one in OmegaConf.to_object(config).policy.items()}
    with Sandbox(1) as sandbox:
        [attempt] = rollout(plan(tasks[:1], ["silent"], 1), policies, sandbox, EnvironmentConfig(), seed=0)
    assert (attempt.policy, attempt.patch, attempt.resolved) == ("silent", "", False)
    with pytest.raises(
        UsageError, match=r"policy\.p\.kind=silnt: .* \(did you mean silent\?\); there are: scripted, silent"
    ):
        make_policy("p", ScriptedConfig(kind="silnt"))
