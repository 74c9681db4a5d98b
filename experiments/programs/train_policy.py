"""Warm start: teaches a language model to act in micro-SWE from demonstrations of mixed quality.

    rmlab warm-start model=path model.pretrained=FOLDER demonstrations.paths=[runs/demonstrations.parquet]

base model → demonstrations of the supervised part (and repairs of a corpus) → imitation, the loss on right actions → pass@1 on
held-out tasks, sampled and greedy → a model folder with policy.json. The folder is a policy for `rmlab collect policy=[language]`
and the start of `rmlab rl`.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

import rmlab
from rmlab.configuration import compose
from rmlab.errors import DataError, UsageError
from rmlab.files import MODEL, check_folder, only_writer
from rmlab.fingerprint import UNHASHED, file_fingerprint, fingerprint, fingerprint_lines, hashed_values
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks, load_tasks, read_joined
from rmlab.microswe.sandbox import IsolationLevel, Sandbox, SandboxConfig, warn_if_weak
from rmlab.models.config import LoraConfig, ModelConfig
from rmlab.models.load import folder_identity
from rmlab.paths import runs_folder
from rmlab.policies.demonstrations import SEMANTICS as LESSONS
from rmlab.policies.demonstrations import (
    DemonstrationsConfig,
    HeldOutConfig,
    RepairsConfig,
    attempts_to_learn_from,
    lessons,
    repair_lessons,
)
from rmlab.policies.engine import EngineConfig
from rmlab.policies.folder import RECORD, has_weights, record_of, save_policy
from rmlab.policies.repairs import SEMANTICS as REPAIRS
from rmlab.policies.success import Success, held_out_success, held_out_tasks
from rmlab.progress import progress
from rmlab.stopping import says_how_to_go_on
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.parameters import describe_single, parameters
from rmlab.training.batching import SFTExample
from rmlab.training.config import SEMANTICS, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.pretrained import find_pretrained, pretrained_folder
from rmlab.trajectories.store import TrajectorySet, read_trajectories
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer
    from rmlab.tracking.run import RunLogger
    from rmlab.training.policy import Imitated

EXPERIMENT, KIND = "policies", "warm_start"
RENAMED = {"compiled": "runtime.compiled"}


@dataclass
class TrainPolicyConfig:
    """tasks, output: file and folder. more_tasks: files of tasks of the part rl alone, whose functions are held out too.

    workers: of the sandbox. tracked: log to MLflow. snapshots: shares of training at
    which the model is kept too, measured and saved as OUTPUT-at-SHARE: weaker policies of stated quality, for collections.
    """

    tasks: str = field(default=MISSING, metadata=UNHASHED)
    more_tasks: list[str] = field(default_factory=list, metadata=UNHASHED)
    output: str = field(default=MISSING, metadata=UNHASHED)
    seed: int = 0
    workers: int = field(default=2, metadata=UNHASHED)
    snapshots: list[float] = field(default_factory=list)
    tracked: bool = field(default=True, metadata=UNHASHED)
    demonstrations: DemonstrationsConfig = field(default_factory=DemonstrationsConfig)
    repairs: RepairsConfig = field(default_factory=RepairsConfig)
    held_out: HeldOutConfig = field(default_factory=HeldOutConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    runtime: MicroBatchRuntimeConfig = field(default_factory=MicroBatchRuntimeConfig)


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
    check_folder(Path(settings.output), MODEL)
    pools = [read_trajectories(path) for path in settings.demonstrations.paths]
    read_joined(
        settings.tasks, settings.more_tasks
    )  # what may not be joined, or is not there, is said before anything is made of it
    if settings.repairs.each and not Path(settings.repairs.corpus).is_file():
        raise DataError(
            f"repairs.corpus={settings.repairs.corpus}: there is no such file. `rmlab pretrain only_corpus=true` builds one."
        )
    with ExitStack() as stack:
        stack.enter_context(only_writer(Path(settings.output)))
        by_model = settings.held_out.tasks != 0  # else only the tasks' own programs run
        sandbox = stack.enter_context(Sandbox(settings.workers, allow_weak=settings.sandbox.allow_weak or not by_model))
        warn_if_weak(sandbox.isolation)
        loaded = load_tasks(Path(settings.tasks), sandbox)
        for part in settings.held_out.parts if settings.held_out.tasks != 0 else []:
            held_out_tasks(
                loaded, part, settings.held_out.tasks, settings.seed
            )  # what is not there is said before training
        who = config_hash(config, pools, loaded.fingerprint)
        folder = Path(settings.output)
        if not force and is_finished(settings, who):
            print(f"finished already: {folder} (--force trains it again)")
            return folder
        if (folder / RECORD).exists():
            print(f"{folder} holds a policy already: this one takes its place when it is done")
        texts = corpus_repairs(settings)  # forks: before torch is imported
        under_way = runs_folder() / "cells" / who
        logger = stack.enter_context(_start(settings, pools, who, sandbox.isolation)) if settings.tracked else None
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
        taught, shown = material(pools, texts, tokenizer, settings)
        took = teach(model, taught, tokenizer, settings, under_way / "checkpoint.safetensors", logger)
        if took.resumed_at:
            print(f"went on from step {took.resumed_at} of {took.steps}")
        record = (
            _record(pools, took, model, tokenizer, loaded, settings, command)
            | shown
            | {"config_hash": who, "isolation": str(sandbox.isolation)}
        )
        for share, then in took.snapshots:
            found = measure(then, tokenizer, f"at {share:.0%} of training, ")
            keep(snapshot(folder, share), then, tokenizer, record | {"trained": share}, found, took)
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


def is_finished(settings: TrainPolicyConfig, who: str) -> bool:
    """Whether the output folder holds this very policy, trained to its end, its snapshots beside it, and where it is to be tracked
    a finished run of it is in the store."""
    folder = Path(settings.output)
    for share in [1.0, *settings.snapshots]:
        kept = folder if share == 1.0 else snapshot(folder, share)
        try:
            record = record_of(kept)
        except DataError:
            return False  # written again whole
        if not has_weights(kept) or (record.get("config_hash"), record.get("trained")) != (who, share):
            return False
    if not settings.tracked:
        return True
    from rmlab.tracking.run_index import finished_run, runs_of
    from rmlab.tracking.store import Store

    return finished_run(runs_of(Store.open(settings.tracking.uri), who)) is not None


def snapshot(folder: Path, share: float) -> Path:
    """Where the policy stands that was kept after a share of training."""
    return folder.with_name(f"{folder.name}-at-{share}")


def the_base(settings: TrainPolicyConfig) -> "tuple[Any, Tokenizer]":
    """The model that learns, in float32 on the CPU, with adapters where they are asked for, and its tokenizer."""
    from rmlab.models.load import load_model
    from rmlab.models.lora import with_adapters
    from rmlab.models.tokenizer import load_tokenizer

    folder = Path(str(settings.model.pretrained))
    return with_adapters(load_model(folder), settings.lora, settings.seed), load_tokenizer(folder)


def corpus_repairs(settings: TrainPolicyConfig) -> list[str]:
    """Repairs drawn from the functions of the corpus, none of them a near copy of a held-out function; kept in the cache folder."""
    if not settings.repairs.each:
        return []
    from rmlab.policies.repairs import drawn_repairs, kept_repairs
    from rmlab.pretraining.corpus import Kind, read_corpus
    from rmlab.pretraining.near_copies import held_out_functions

    tasks = read_joined(settings.tasks, settings.more_tasks)
    held_out, corpus = held_out_functions(tasks), Path(settings.repairs.corpus)
    each, seed = settings.repairs.each, settings.seed
    python = list(sys.version_info[:2])  # whose way of writing code the broken lines have

    def draw() -> list[str]:
        codes = [document.text for document in read_corpus(corpus).of(Kind.code)]
        with progress("repairs", len(codes), "functions", settings.runtime.progress) as advance:
            return drawn_repairs(codes, held_out, each, seed, settings.workers, advance)

    return kept_repairs(
        runs_folder() / "cache", fingerprint([file_fingerprint(corpus), sorted(held_out), each, seed, python]), draw
    )


def material(
    pools: Sequence[TrajectorySet], texts: Sequence[str], tokenizer: "Tokenizer", settings: TrainPolicyConfig
) -> tuple[list[SFTExample], dict[str, Any]]:
    """What is taught, and what the record says of it: how much of what was left out, and which clusters were shown."""
    from rmlab.policies.language_prompt import PolicyPrompt

    config, environment, prompt = settings.demonstrations, settings.environment, PolicyPrompt(tokenizer)
    tasks = read_joined(settings.tasks, settings.more_tasks)
    chosen, counts = attempts_to_learn_from(pools, config, environment, tasks, settings.seed)
    found = lessons(chosen, prompt, config.capacity, environment.max_turns, environment.edits)
    repaired = repair_lessons(texts, prompt, config.capacity)
    counts |= {
        "lessons": len(found.lessons),
        "actions": found.actions,
        "left_out": found.left_out,
        "repairs": len(repaired),
        "repairs_too_long": len(texts) - len(repaired),
    }
    print(f"demonstrations: {json.dumps(counts)}")
    shown = {"counts": counts, "shown_clusters": sorted({t.cluster for t in chosen})}
    return [*list(found.lessons) * config.repeat, *repaired], shown


def teach(
    model: Any,
    taught: Sequence[SFTExample],
    tokenizer: "Tokenizer",
    settings: TrainPolicyConfig,
    checkpoint: Path,
    logger: "RunLogger | None",
) -> "Imitated":
    """Imitation, from a checkpoint where there is one; the model stays on the CPU in the end."""
    from rmlab.training.policy import imitate

    def log(step: int, loss: float, rate: float, speed: float) -> None:
        if logger:
            logger.metrics({"train/loss": loss, "train/learning_rate": rate, "train/tokens_per_second": speed}, step)

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


def keep(
    folder: Path,
    model: Any,
    tokenizer: "Tokenizer",
    record: dict[str, Any],
    measured: dict[str, Success],
    took: "Imitated",
) -> None:
    """Writes the model folder with what was measured of it and how its loss went."""
    held_out = {name: asdict(found) for name, found in measured.items()}
    save_policy(
        folder, model, tokenizer, record | {"held_out": held_out}, {"log.json": json.dumps(took.history) + "\n"}, MODEL
    )


def _record(
    pools: Sequence[TrajectorySet],
    took: "Imitated",
    model: Any,
    tokenizer: "Tokenizer",
    loaded: LoadedTasks,
    settings: TrainPolicyConfig,
    command: str,
) -> dict[str, Any]:
    """Everything that names this policy: what it learned from, and what that took."""
    import torch
    import transformers

    return {
        "command": command,
        "seed": settings.seed,
        "rmlab_version": rmlab.__version__,
        "base": settings.model.pretrained,
        "demonstrations": [pool.fingerprint for pool in pools],
        "tasks_fingerprint": loaded.fingerprint,
        "tokenizer_fingerprint": tokenizer.fingerprint,
        "parameters": model.num_parameters(),
        "steps": took.steps,
        "tokens": took.tokens,
        "taught_tokens": took.taught_tokens,
        "seconds": round(took.seconds_in_all, 1),
        "tokens_per_second": round(took.tokens_per_second),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name()
        if torch.cuda.is_available() and settings.runtime.device != "cpu"
        else "cpu",
        **{name: asdict(getattr(settings, name)) for name in ("lora", "optimizer", "training", "environment")},
    }


def _start(
    settings: TrainPolicyConfig, pools: Sequence[TrajectorySet], who: str, isolation: IsolationLevel
) -> "RunLogger":
    from rmlab.tracking.leases import close_stale
    from rmlab.tracking.run import RunLogger
    from rmlab.tracking.run_index import runs_of
    from rmlab.tracking.store import Store
    from rmlab.training.device import device_name, resolve_device

    name = settings.tracking.name or f"{settings.model.name} s{settings.seed}"
    dataset = fingerprint_lines(pool.fingerprint for pool in pools)
    store = Store.open(settings.tracking.uri)
    close_stale(store, runs_of(store, who))  # of a process that was killed
    logger = RunLogger.start(
        store,
        settings.tracking.experiment or EXPERIMENT,
        name,
        kind=KIND,
        tags={
            "dataset": dataset,
            "config_hash": who,
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
