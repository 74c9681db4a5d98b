"""Warm start: teaches a language model to act in micro-SWE from demonstrations of mixed quality.

    rmlab warm-start model=path model.pretrained=FOLDER demonstrations.paths=[runs/demonstrations.parquet]

base model → demonstrations of the supervised part (and repairs of a corpus) → imitation, the loss on right actions → pass@1 on
held-out tasks, sampled and greedy → a model folder with policy.json. The folder is a policy for `rmlab collect policy=[language]`
and the start of `rmlab rl`.
"""

import shlex
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from rmlab.configuration import compose
from rmlab.errors import UsageError
from rmlab.files import MODEL, check_folder, check_input, only_writer
from rmlab.fingerprint import file_fingerprint, fingerprint, fingerprint_lines, hashed_values
from rmlab.microswe.build.joined import read_joined
from rmlab.microswe.loading import load_tasks
from rmlab.microswe.sandbox import IsolationLevel, Sandbox, warn_if_weak
from rmlab.models.load import folder_identity
from rmlab.paths import runs_folder
from rmlab.policies.conversation import PolicyPrompt
from rmlab.policies.demonstrations import SEMANTICS as LESSONS
from rmlab.policies.demonstrations import counts_in_words, training_set
from rmlab.policies.folder import RECORD
from rmlab.policies.repairs import SEMANTICS as REPAIRS
from rmlab.policies.success import held_out_success, held_out_tasks
from rmlab.policies.warm_start import TrainPolicyConfig, is_finished, keep, kept_folders, policy_record
from rmlab.stopping import says_how_to_go_on
from rmlab.tracking.parameters import describe_single, parameters
from rmlab.training.batching import SFTExample
from rmlab.training.config import SEMANTICS
from rmlab.training.pretrained import find_pretrained, pretrained_folder
from rmlab.trajectories.store import TrajectorySet, read_trajectories
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer
    from rmlab.tracking.run import RunLogger
    from rmlab.training.policy import Imitated

EXPERIMENT, KIND = "policies", "warm_start"
RENAMED = {"compiled": "runtime.compiled"}


ConfigStore.instance().store(name="train_policy_schema", node=TrainPolicyConfig)


def main(overrides: Sequence[str], force: bool = False) -> Path:
    """Composes `conf/train_policy.yaml` with the overrides and trains."""
    command = shlex.join(["rmlab", "warm-start", *overrides])
    with says_how_to_go_on(command + (" --force" if force else "")):
        config = compose("train_policy", list(overrides))
        describe_single(config, overrides)
        return run(config, command=command, force=force)


def run(config: DictConfig, command: str = "rmlab warm-start", force: bool = False) -> Path:
    """Trains and measures one policy and returns its folder. Where that holds this very policy, nothing is done unless `force`.

    Raises an RmlabError where the base, the demonstrations or the device are missing, or the loss is no longer finite.
    """
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, TrainPolicyConfig)
    if not settings.model.pretrained:
        raise UsageError(
            f"model={settings.model.name} has no weights: a policy starts from a pretrained model, for example "
            "model=path model.pretrained=FOLDER (rmlab pretrain writes one)"
        )
    find_pretrained(settings)
    folder = Path(settings.output)
    check_folder(folder, MODEL)
    pools = [read_trajectories(path) for path in settings.demonstrations.paths]
    read_joined(
        settings.tasks, settings.more_tasks
    )  # what may not be joined, or is not there, is said before anything is made of it
    if settings.repairs.each:
        check_input(
            Path(settings.repairs.corpus), "repairs.corpus names it; `rmlab pretrain only_corpus=true` builds one."
        )
    with ExitStack() as stack:
        stack.enter_context(only_writer(folder))
        by_model = settings.held_out.tasks != 0  # else only the tasks' own programs run
        sandbox = stack.enter_context(Sandbox(settings.workers, allow_weak=settings.sandbox.allow_weak or not by_model))
        warn_if_weak(sandbox.isolation)
        loaded = load_tasks(Path(settings.tasks), sandbox)
        for part in settings.held_out.parts if settings.held_out.tasks != 0 else []:
            held_out_tasks(
                loaded, part, settings.held_out.tasks, settings.seed
            )  # what is not there is said before training
        run_hash = config_hash(config, pools, loaded.fingerprint)
        if not force and is_finished(settings, run_hash):
            print(f"finished already: {folder} (--force trains it again)")
            return folder
        if (folder / RECORD).exists():
            print(f"{folder} already holds a policy, which this one will replace when it is done")
        repairs = drawn_from_corpus(settings)  # forks: before torch is imported
        under_way = runs_folder() / "cells" / run_hash
        logger = stack.enter_context(_start(settings, pools, run_hash, sandbox.isolation)) if settings.tracked else None
        model, tokenizer = the_base(settings)
        measure = partial(
            held_out_success,
            loaded=loaded,
            sandbox=sandbox,
            config=settings.held_out,
            environment=settings.environment,
            engine=settings.engine,
            runtime=settings.runtime,
            name=settings.model.name,
            seed=settings.seed,
        )
        prompt, tasks = PolicyPrompt(tokenizer), read_joined(settings.tasks, settings.more_tasks)
        taught, shown = training_set(
            pools, repairs, prompt, settings.demonstrations, settings.environment, tasks, settings.seed
        )
        print(f"demonstrations: {counts_in_words(shown['counts'])}")
        took = teach(model, taught, tokenizer, settings, under_way / "checkpoint.safetensors", logger)
        if took.resumed_at:
            print(f"resumed at step {took.resumed_at} of {took.steps}")
        record = (
            policy_record(pools, took, model, tokenizer, loaded, settings, command)
            | shown
            | {"config_hash": run_hash, "isolation": str(sandbox.isolation)}
        )
        for share, then in took.snapshots:
            found = measure(then, tokenizer, f"at {share:.0%} of training, ")
            keep(kept_folders(settings)[share], then, tokenizer, record | {"trained": share}, found, took)
        measured = measure(model, tokenizer)
        keep(folder, model, tokenizer, record | {"trained": 1.0}, measured, took)
        if logger:
            logger.configuration(config)
            logger.params(
                parameters(
                    settings,
                    {"seed": settings.seed, "model_parameters": model.num_parameters(), "lessons": len(taught)},
                )
            )
            logger.metrics(
                {k: v for name, found in measured.items() for k, v in found.metrics(f"held_out_{name}").items()}
            )
            for path in sorted(folder.iterdir()):  # `start=RUN` finds it there, and bundles can leave it out
                logger.artifact(path, "model")
    shutil.rmtree(under_way, ignore_errors=True)
    print(
        f"{folder}: {model.num_parameters():,} parameters, {counted(took.steps, 'step')}, {took.tokens:,} tokens in "
        f"{took.seconds_in_all:.0f} s ({took.tokens_per_second:,.0f} tokens/s)"
    )
    return folder


def config_hash(config: DictConfig, pools: Sequence[TrajectorySet], tasks: str) -> str:
    """Of everything that can change the policy or what is measured of it. tasks: fingerprint of those that hold here."""
    plain = hashed_values(config)
    if more := config.more_tasks:  # a run without any keeps its hash
        plain["more_tasks"] = [file_fingerprint(Path(name)) for name in more]
    plain["model"] = [
        plain["model"]["name"],
        folder_identity(pretrained_folder(config.model.pretrained, config.tracking.uri)),
    ]  # attempts are drawn by its name
    plain["demonstrations"]["paths"] = [pool.fingerprint for pool in pools]
    plain["repairs"]["corpus"] = file_fingerprint(Path(plain["repairs"]["corpus"])) if plain["repairs"]["each"] else ""
    semantics = {"training": SEMANTICS, "lessons": LESSONS, "repairs": REPAIRS if plain["repairs"]["each"] else 0}
    return fingerprint({"program": "train_policy", "semantics": semantics, "config": plain, "tasks": tasks})


def the_base(settings: TrainPolicyConfig) -> "tuple[Any, Tokenizer]":
    """The model that learns, in float32 on the CPU, with adapters where they are asked for, and its tokenizer."""
    from rmlab.models.load import load_model
    from rmlab.models.lora import with_adapters
    from rmlab.models.tokenizer import load_tokenizer

    folder = Path(str(settings.model.pretrained))
    return with_adapters(load_model(folder), settings.lora, settings.seed), load_tokenizer(folder)


def drawn_from_corpus(settings: TrainPolicyConfig) -> list[str]:
    """Repairs drawn from the functions of the corpus (`rmlab.policies.repairs`); none where none are asked for."""
    if not settings.repairs.each:
        return []
    from rmlab.policies.repairs import corpus_repairs

    tasks = read_joined(settings.tasks, settings.more_tasks)
    corpus, each = Path(settings.repairs.corpus), settings.repairs.each
    return corpus_repairs(corpus, tasks, each, settings.seed, settings.workers, settings.runtime.progress)


def teach(
    model: Any,
    taught: Sequence[SFTExample],
    tokenizer: "Tokenizer",
    settings: TrainPolicyConfig,
    checkpoint: Path,
    logger: "RunLogger | None",
) -> "Imitated":
    """Imitation, from a checkpoint where there is one; the model stays on the CPU in the end."""
    from rmlab.training.loop import step_metrics
    from rmlab.training.policy import imitate

    def log(step: int, loss: float, rate: float, speed: float) -> None:
        if logger:
            logger.metrics(step_metrics(loss, rate, speed), step)

    return imitate(
        model,
        taught,
        tokenizer.pad_id,
        optimizer=settings.optimizer,
        training=settings.training,
        runtime=settings.runtime,
        seed=settings.seed,
        snapshots=settings.snapshots,
        checkpoint=checkpoint,
        log=log,
    )


def _start(
    settings: TrainPolicyConfig, pools: Sequence[TrajectorySet], run_hash: str, isolation: IsolationLevel
) -> "RunLogger":
    from rmlab.tracking.run import start_single
    from rmlab.training.device import device_name, resolve_device

    dataset = fingerprint_lines(pool.fingerprint for pool in pools)
    logger = start_single(
        settings.tracking,
        EXPERIMENT,
        f"{settings.model.name} s{settings.seed}",
        kind=KIND,
        tags={
            "dataset": dataset,
            "config_hash": run_hash,
            "isolation": str(isolation),
            "device": device_name(resolve_device(settings.runtime.device)),
        },
    )
    logger.dataset(
        "demonstrations",
        dataset,
        "training",
        {"path": ", ".join(Path(p).name for p in settings.demonstrations.paths)},
        {"trajectories": sum(len(pool) for pool in pools)},
    )
    return logger
