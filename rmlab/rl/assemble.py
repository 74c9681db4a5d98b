"""Sets up a training from its configuration and the policy, verifier and tasks that it names.

May it start from this policy, on these tasks and under these rules? A warm start recorded in policy.json the clusters of functions
that it was trained on, and the rules of its environment.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import Edits, EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks
from rmlab.microswe.sandbox import Sandbox
from rmlab.microswe.task import Task
from rmlab.models.tokenizer import load_tokenizer
from rmlab.paths import runs_folder
from rmlab.policies.folder import record_of
from rmlab.policies.language_engine import LanguageEngine
from rmlab.rl.artifacts import ArtifactBuffer
from rmlab.rl.batch import RolloutContext, TaskSampler
from rmlab.rl.before import beginning
from rmlab.rl.config import RLRun
from rmlab.rl.held_out import benchmarks, pooled_benchmarks
from rmlab.rl.learner import make_learner
from rmlab.rl.loop import Loop
from rmlab.rl.reward_model import load_reward_model, reads_less
from rmlab.tracking.references import Reference
from rmlab.tracking.run import RunLogger
from rmlab.training.device import accelerator
from rmlab.verifiers.verifier import SCORED_IN

PASSED_ON = ("shown_clusters",)
"""Of a start's record, what holds of the policies that come from it. The rules of play are those of their own training."""


def select_tasks(
    record: Mapping[str, Any], tasks: Sequence[Task], name: str, environment: EnvironmentConfig
) -> list[Task]:
    """The tasks of the part `rl` to train on; says what is left out of them, and which rules of play the start was not taught.

    Raises DataError as `check_shown` does.
    """
    check_shown(record, tasks, name)
    for words in other_rules(record, environment):
        print(words, file=sys.stderr)
    whole = [task for task in tasks if task.part == "rl"]
    trainable = trainable_tasks(whole, environment)
    if len(trainable) < len(whole):
        print(
            f"{len(whole) - len(trainable)} of {len(whole)} tasks have two changed lines and are not trained on: every edit starts over"
        )
    return trainable


def check_shown(record: Mapping[str, Any], tasks: Sequence[Task], name: str) -> None:
    """Raises DataError where a task of another part than `supervised` is in a cluster that the policy was shown.

    record: policy.json, {} where there is none: nothing is known of a policy from elsewhere.
    """
    clusters = record.get("shown_clusters", [])
    if not isinstance(clusters, list) or not all(isinstance(name, str) for name in clusters):
        raise DataError(f"start={name}: shown_clusters in its policy.json is not a list of names: get the policy again")
    shown = set(clusters)
    mixed = next((task for task in tasks if task.part != "supervised" and task.cluster in shown), None)
    if mixed is not None:
        raise DataError(
            f"start={name} was shown functions of the cluster {mixed.cluster}, and {mixed.task_id} of the part {mixed.part} is "
            "in it: the parts never mix. Name the tasks files from which its demonstrations were kept apart, or train it again."
        )


def other_rules(record: Mapping[str, Any], environment: EnvironmentConfig) -> list[str]:
    """The rules of play that the policy was taught and that differ from these, in words: allowed, and said."""
    taught = record.get("environment", {})
    now = {"edits": environment.edits.value, "max_turns": environment.max_turns}
    if taught:
        taught = {"edits": Edits.build_up.value, **taught}  # from before there was a choice
    return [
        f"environment.{key}={value}, but the start was trained with {taught[key]}"
        for key, value in now.items()
        if key in taught and taught[key] != value
    ]


def trainable_tasks(tasks: Sequence[Task], environment: EnvironmentConfig) -> list[Task]:
    """The tasks that a policy can learn from: where edits start over, none with two changed lines, which one edit cannot mend."""
    return [task for task in tasks if environment.edits is Edits.build_up or len(task.lines) == 1]


SCORED_AT_ONCE = 4  # as many tokens as are trained on: nothing is kept for a gradient


def make_loop(
    settings: RLRun,
    loaded: LoadedTasks,
    sandbox: Sandbox,
    start: Reference,
    verifiers: Sequence[Reference],
    run_hash: str,
    logger: RunLogger,
) -> Loop:
    """Policy, engine, reward model and tasks of one training, ready to go."""
    device = accelerator(settings.training, settings.runtime)
    where = str(device.device.type)
    tokenizer = load_tokenizer(start.folder)
    learner = make_learner(start.folder, settings.lora, settings.optimizer, settings.seed, tokenizer.pad_id, device)
    at_once = settings.rl.batch_tokens * (SCORED_AT_ONCE if where == "cuda" else 1)
    reward_model = (
        load_reward_model(verifiers, settings.reward, where, at_once, settings.over_length) if verifiers else None
    )
    if reward_model is not None:
        logger.tags({SCORED_IN: reward_model.verifiers[0].scored_in})
    if reward_model and reads_less(reward_model, settings.environment.evidence):
        print(
            "the verifier was trained on attempts with the environment's final value but reads attempts without it: train one with "
            "prompt.evidence=voluntary to compare like with like"
        )
    trainable = select_tasks(record_of(start.folder), loaded.tasks, settings.start, settings.environment)
    engine = LanguageEngine(learner.model, tokenizer, sandbox, settings.environment, settings.engine, where)
    tasks = {task.task_id: task for task in loaded.tasks}
    context = RolloutContext(
        engine,
        TaskSampler(trainable, settings.seed),
        reward_model,
        tasks,
        settings.reward,
        settings.algorithm,
        settings.rl,
        settings.name,
        settings.seed,
    )
    watch, folder = settings.watch, runs_folder() / "cells" / run_hash
    validation = sorted(loaded.part("validation"), key=lambda t: fingerprint(["watch", t.task_id]))[: watch.tasks]
    number = watch.held_out_tasks
    held_out = {} if number == 0 else benchmarks(loaded.tasks, number, watch.long_lines)
    pooled_benchmarks(held_out, watch.outcome_without)  # refused before anything is trained
    return Loop(
        learner,
        context,
        settings.optimizer,
        watch,
        validation,
        held_out,
        run_hash,
        folder / "state.safetensors",
        lambda metrics, step: logger.metrics(metrics, step),
        ArtifactBuffer(folder / "files", logger.artifact),
        beginning(settings, start.fingerprint(), where),
        checkpoint_seconds=settings.runtime.checkpoint_seconds,
        show=settings.runtime.progress,
    )
