"""What is shown, what is not, and that leaving the final value out is what collecting without it gives."""

from dataclasses import replace

import pytest

from rmlab.errors import DataError
from rmlab.microswe.episode import EnvironmentConfig, Evidence
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import read_tasks
from rmlab.paths import STARTER
from rmlab.policies.policy import Runs, ScriptedConfig, Stops
from rmlab.policies.rollout import plan, rollout
from rmlab.policies.scripted import ScriptedPolicy
from rmlab.trajectories.record import Message
from rmlab.verifiers.config import PromptConfig, PromptView
from rmlab.verifiers.prompt import render, turns_of, visible
from tests.verifiers.examples import episode

WITH_RUNS = replace(
    episode(4, True),
    messages=(
        *episode(4, True).messages[:1],
        Message("assistant", "run"),
        Message("user", "got 4"),
        *episode(4, True).messages[1:3],
        Message("assistant", " run\n"),
        Message("user", "got 11"),
        Message("assistant", "run now"),
        Message("user", "error: say one of"),
        *episode(4, True).messages[3:],
    ),
)


def said(config: PromptConfig) -> list[str]:
    return [m.content for m in visible(WITH_RUNS, config).messages]


def test_all_but_the_agents_own_runs() -> None:
    whole = [m.content for m in WITH_RUNS.messages]
    assert said(PromptConfig(shows=PromptView.without_runs)) == [
        whole[0],
        *whole[3:5],
        "run now",
        "error: say one of",
        "submit",
        "final got 11",
    ]
    assert "Last: final got 11" in render(WITH_RUNS, config=PromptConfig(shows=PromptView.without_runs))
    both = PromptConfig(shows=PromptView.without_runs, evidence=Evidence.voluntary)
    assert said(both)[-1] == "submit"
    assert "Last: error: say one of" in render(WITH_RUNS, config=both)


def test_the_patch_only() -> None:
    config = PromptConfig(shows=PromptView.patch_only)
    assert render(WITH_RUNS, config=config) == (
        "<|im_start|>user\nf(4) should return 11 but got 4\n1 def f(x):\n2     return x<|im_end|>\n"
        "<|im_start|>user\nAsked: f(4) should return 11 but got 4\n"
        "Patch:\n-2     return x\n+    return 2 * x + 3\n"
        "Is the issue solved? Answer YES or NO.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert turns_of(WITH_RUNS, config) == 3


def test_the_default_shows_the_whole_attempt() -> None:
    assert visible(WITH_RUNS, PromptConfig()) is WITH_RUNS
    assert render(WITH_RUNS, config=PromptConfig()) == render(WITH_RUNS)


def test_another_conversation_is_refused_rather_than_shown_whole() -> None:
    foreign = replace(
        WITH_RUNS, messages=(Message("user", "It crashes"), Message("assistant", "run"), Message("tool", "got 3"))
    )
    for config, advice in (
        (PromptConfig(shows=PromptView.without_runs), r"Use prompt\.shows=whole \(or patch_only\)\.$"),
        (PromptConfig(evidence=Evidence.voluntary), r"Use prompt\.evidence=final\.$"),
        (
            PromptConfig(shows=PromptView.without_runs, evidence=Evidence.voluntary),
            r"Use prompt\.evidence=final and prompt\.shows",
        ),
    ):
        with pytest.raises(DataError, match=rf"is not a micro-SWE episode.*{advice}"):
            visible(foreign, config)
    assert visible(foreign, PromptConfig(shows=PromptView.patch_only)).messages == foreign.messages[:1]


def test_without_the_final_value_is_what_collecting_without_it_gives() -> None:
    tasks = [task for task in read_tasks(STARTER / "tasks.parquet")[0] if task.part == "validation"][:12]
    policies = {
        "careful": ScriptedPolicy("careful", ScriptedConfig()),
        "lost": ScriptedPolicy("lost", ScriptedConfig(runs=Runs.sometimes, stops=Stops.random, slips=0.2)),
    }
    planned = plan(tasks, list(policies), 2)
    with Sandbox(2) as sandbox:
        final, voluntary = (
            rollout(planned, policies, sandbox, EnvironmentConfig(evidence), 0) for evidence in Evidence
        )
    assert [visible(t, PromptConfig(evidence=Evidence.voluntary)) for t in final] == voluntary
    assert len({t.exit_status for t in final}) > 1
    assert all(len(a.messages) == len(b.messages) + 1 for a, b in zip(final, voluntary, strict=True))
