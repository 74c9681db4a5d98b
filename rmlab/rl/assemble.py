"""From a configuration and what it names to a training that is ready to go."""

from collections.abc import Sequence

from rmlab.fingerprint import fingerprint
from rmlab.microswe.loading import LoadedTasks
from rmlab.microswe.sandbox import Sandbox
from rmlab.models.tokenizer import load_tokenizer
from rmlab.paths import runs_folder
from rmlab.policies.folder import record_of
from rmlab.policies.language_engine import LanguageEngine
from rmlab.rl.artifacts import ArtifactBuffer
from rmlab.rl.attempts import TaskSampler
from rmlab.rl.batch import RolloutContext
from rmlab.rl.config import RLRun
from rmlab.rl.held_out import benchmarks, pooled_benchmarks
from rmlab.rl.initial_policy import select_tasks
from rmlab.rl.learner import make_learner
from rmlab.rl.loop import Loop
from rmlab.rl.reward_model import load_reward_model, reads_less
from rmlab.tracking.query import Reference
from rmlab.tracking.run import RunLogger
from rmlab.training.device import accelerator

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
    if reward_model and reads_less(reward_model, settings.environment.evidence):
        print(
            "the verifier was trained on attempts with the environment's final value and reads attempts without it: train one with "
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
        checkpoint_seconds=settings.runtime.checkpoint_seconds,
        show=settings.runtime.progress,
    )
