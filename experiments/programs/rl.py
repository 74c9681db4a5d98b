"""RL: trains a policy in micro-SWE, paid by execution, by a verifier or by both, and measures what became of it.

    rmlab rl start=runs/policies/smollm2-s0 reward=hybrid verifier=data_scale/demo/4000/s0 runtime=cuda engine=cuda

start and verifiers found → sandbox → tasks → policy, engine, reward model → evaluation → steps and evaluations → held-out benchmarks →
one MLflow run. The same command goes on after a kill, or after `rl.max_minutes`: the state lies in the runs folder under the config_hash.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from rmlab.configuration import compose
from rmlab.errors import DataError, StoreError, UsageError
from rmlab.fingerprint import UNHASHED, file_fingerprint, fingerprint, hashed_values
from rmlab.microswe.episode import Edits, EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks, joined_tasks
from rmlab.microswe.sandbox import Limits, Sandbox, SandboxConfig, warn_if_weak
from rmlab.models.config import LoraConfig
from rmlab.paths import runs_folder
from rmlab.policies.engine import EngineConfig
from rmlab.policies.folder import record_of
from rmlab.rl.config import (
    SEMANTICS,
    AlgorithmConfig,
    Calibration,
    LimitsConfig,
    LoopConfig,
    RewardConfig,
    Unread,
    WatchConfig,
    check_options,
)
from rmlab.rl.rewards import check_reward
from rmlab.sweep.cells import Identity, identify, without_keys
from rmlab.sweep.factors import find_factors
from rmlab.sweep.multirun import run_once
from rmlab.tracking.config import TrackingConfig, sweep_tags
from rmlab.tracking.parameters import describe_single, parameters
from rmlab.tracking.query import VALIDATION_SCORES, Reference, find_model
from rmlab.training.config import Dtype, OptimizerConfig, RuntimeConfig
from rmlab.training.device import compiled_layers
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.rl.learner import RLState
    from rmlab.rl.loop import Loop
    from rmlab.tracking.run import RunLogger

EXPERIMENT, KIND = "policies", "rl"
FIXED_LIMIT = (
    "what one program may use is the same in every command (rmlab.microswe.sandbox.Limits); limits.batch_seconds bounds "
    "all that run at once"
)
RENAMED = {
    "rl.checkpoint_seconds": "runtime.checkpoint_seconds",
    "runtime.micro_batch_tokens": "rl.batch_tokens",
    "limits.call_seconds": FIXED_LIMIT,
    "limits.program_seconds": FIXED_LIMIT,
}
PRELOAD: tuple[str, ...] = ()  # the sandbox's workers are forked before torch is imported
SCORED_AT_ONCE = 4  # as many tokens as are trained on: nothing is kept for a gradient
VARIED = ("seed", "verifier", "reward", "environment.evidence")  # what the arms of one figure may differ in


@dataclass
class ArithmeticConfig:
    """dtype: of training and scoring (bfloat16 = autocast over float32 weights). threads: on the CPU."""

    dtype: Dtype = Dtype.float32
    threads: int = 2


@dataclass
class RLRun:
    """Everything that makes one policy. start: a folder, a run or a cell. verifier: likewise; "" where nobody scores.

    With reward=execution a verifier pays nothing and is watched all the same. over_length: what becomes of an attempt that a
    verifier cannot read whole. more_tasks: files of tasks of the part rl alone, trained on too. name: of the policy in its
    trajectories. keep_model: the trained policy becomes an artifact. workers: of the sandbox.
    """

    start: str = field(default=MISSING, metadata=UNHASHED)
    verifier: str = ""
    over_length: Unread = Unread.error
    tasks: str = field(default=MISSING, metadata=UNHASHED)
    more_tasks: list[str] = field(default_factory=list, metadata=UNHASHED)
    name: str = "policy"
    seed: int = 0
    workers: int = field(default=2, metadata=UNHASHED)
    keep_model: bool = field(default=True, metadata=UNHASHED)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    rl: LoopConfig = field(default_factory=LoopConfig)
    watch: WatchConfig = field(default_factory=WatchConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: ArithmeticConfig = field(default_factory=ArithmeticConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)


ConfigStore.instance().store(name="rl_schema", node=RLRun)


def main(overrides: Sequence[str], force: bool = False) -> str:
    """Composes `conf/rl.yaml` with the overrides, trains, and returns the MLflow run id.

    A configuration that is finished is not trained again unless `force`; one that is being trained is waited for.
    """
    config = compose("rl", list(overrides))
    describe_single(config, overrides)
    _settings(config)
    return run_once(config, identity(config).config_hash, run, force)


def identity(config: DictConfig) -> Identity:
    """Both hashes of a run: its configuration, the tasks that hold here, and the content of the policy and verifiers that it names."""
    settings = _settings(config)  # what has no value is told first
    plain = hashed_values(config)
    if settings.environment.edits is Edits.start_over:
        plain["practised"] = (
            "tasks of one changed line"  # a later choice: what was trained on all of them is told apart
        )
    uri = config.tracking.uri
    record_of(
        find_model(config.start, "config.json", uri).folder
    )  # a damaged one is said before a finished run is looked for
    plain["verifier"] = _content(config.verifier, "verifier.json", uri) if config.verifier else ""
    plain["reward"]["ensemble"] = [_content(name, "verifier.json", uri) for name in config.reward.ensemble]
    if (
        config.verifier and settings.reward.calibration is not Calibration.none
    ):  # what the calibration is fitted on pays too
        plain["calibrated_on"] = [
            file_fingerprint(find_model(name, "verifier.json", uri).beside(VALIDATION_SCORES))
            for name in [config.verifier, *config.reward.ensemble]
        ]
    return identify(
        plain,
        pool=joined_tasks(settings.tasks, settings.more_tasks, settings.workers).fingerprint,
        tokenizer=_content(config.start, "config.json", uri),
        semantics={"rl": SEMANTICS},
        factors=find_factors(config.tracking.factors),
    )


def prepare(configs: Sequence[DictConfig]) -> None:
    """Nothing is shared between cells; proves that the device is there. Raises RmlabError otherwise."""
    from rmlab.training.device import resolve_device

    for config in configs:
        resolve_device(config.runtime.device)


def run(config: DictConfig) -> str:
    """Trains one policy as one tracked run; returns its id. Where the time is up first, the run is left `stopped` and resumable.

    Raises an RmlabError for a start, verifier or device that is not there, options that contradict, and training that diverges.
    """
    began = time.monotonic()
    settings = _settings(config)
    who = identity(config)
    uri = settings.tracking.uri
    start = find_model(settings.start, "config.json", uri)
    verifiers = [
        find_model(name, "verifier.json", uri) for name in [settings.verifier, *settings.reward.ensemble] if name
    ]
    loaded = joined_tasks(settings.tasks, settings.more_tasks, settings.workers)
    with (
        Sandbox(settings.workers, limits(settings.limits), allow_weak=settings.sandbox.allow_weak) as sandbox,
        _tracked(settings, who, start, verifiers, loaded, str(sandbox.isolation)) as logger,
    ):
        warn_if_weak(sandbox.isolation)
        logger.configuration(config)
        if verifiers:
            try:  # travels with the policy it made
                logger.text("verifier_report.json", verifiers[0].beside("report.json").read_text(encoding="utf-8"))
            except (DataError, StoreError) as error:
                print(f"the verifier's report is not there, so this run says nothing of its offline metrics: {error}")
        from rmlab.rl.outcome import timed

        loop = make_loop(settings, loaded, sandbox, start, verifiers, who.config_hash, logger)
        state = loop.start()
        logger.replay(state.history)
        loop.artifacts.send_again()
        minutes = settings.rl.max_minutes
        with compiled_layers(loop.learner.model, settings.runtime.compiled):
            done = loop.train(state, None if minutes is None else began + 60 * minutes)
        if not done:
            print(
                f"stopped after {minutes:.1f} minutes at step {state.step} of {settings.rl.steps}: the same command goes on from there "
                f"({loop.checkpoint})",
                *timed(state.history),
                sep="\n",
            )
            logger.fail(SystemExit())
            return logger.run_id
        summary = _finish(logger, loop, state, settings, start)
        logger.finish()
    shutil.rmtree(loop.checkpoint.parent, ignore_errors=True)
    print(summary)
    return logger.run_id


def limits(config: LimitsConfig) -> Limits:
    """As the sandbox takes them."""
    return Limits(batch_seconds=config.batch_seconds)


def make_loop(
    settings: RLRun,
    loaded: LoadedTasks,
    sandbox: Sandbox,
    start: Reference,
    verifiers: Sequence[Reference],
    run_hash: str,
    logger: "RunLogger",
) -> "Loop":
    """Policy, engine, reward model and tasks of one training, ready to go."""
    from rmlab.models.tokenizer import load_tokenizer
    from rmlab.policies.language_engine import LanguageEngine
    from rmlab.rl.artifacts import ArtifactBuffer
    from rmlab.rl.attempts import TaskSampler
    from rmlab.rl.evaluation import benchmarks, pooled_benchmarks
    from rmlab.rl.initial_policy import select_tasks
    from rmlab.rl.learner import make_learner
    from rmlab.rl.loop import Loop
    from rmlab.rl.reward_model import load_reward_model, reads_less
    from rmlab.rl.update import RolloutContext
    from rmlab.training.device import accelerator

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


def _finish(logger: "RunLogger", loop: "Loop", state: "RLState", settings: RLRun, start: Reference) -> str:
    """What came of it, as an artifact, as metrics and in a few lines."""
    from rmlab.models.tokenizer import load_tokenizer
    from rmlab.rl.initial_policy import PASSED_ON
    from rmlab.rl.learner import save_learned
    from rmlab.rl.outcome import described, held_out_rates_record, outcome, outcome_metrics, signal, timed

    found = outcome(state, loop.held_out_after, loop.held_out, loop.held_out_best, settings.watch.outcome_without)
    logger.json("outcome.json", found)
    logger.json("held_out.json", held_out_rates_record(state, loop.held_out_after, loop.held_out))
    logger.metrics(outcome_metrics(found))
    if settings.keep_model:
        with tempfile.TemporaryDirectory() as name:
            save_learned(
                Path(name) / "model",
                loop.learner,
                load_tokenizer(start.folder),
                {
                    "start": settings.start,
                    "seed": settings.seed,
                    "steps": settings.rl.steps,
                    "reward": asdict(settings.reward),
                    "verifier": settings.verifier,
                    "environment": asdict(settings.environment),
                    **{k: v for k, v in record_of(start.folder).items() if k in PASSED_ON},
                },
            )
            logger.artifact(Path(name) / "model")
    name = settings.tracking.name or settings.name
    said = [*signal(state.history), *described(found), *timed(state.history)]
    return "\n".join(
        [f"{name}: {counted(state.step, 'step')} in {state.seconds:.0f} s", *said, f"  MLflow run {logger.run_id}"]
    )


@contextmanager
def _tracked(
    settings: RLRun,
    who: Identity,
    start: Reference,
    verifiers: Sequence[Reference],
    loaded: LoadedTasks,
    isolation: str,
) -> "Iterator[RunLogger]":
    """The run, opened; an error closes it as failed, an end of the block leaves it to its body."""
    from rmlab.tracking.run import RunLogger
    from rmlab.tracking.store import Store
    from rmlab.training.device import device_name, resolve_device

    tracking, reward = settings.tracking, settings.reward
    name = tracking.name or f"{settings.name} {reward.mode} s{settings.seed}"
    tags = {
        **sweep_tags(tracking),
        "config_hash": who.config_hash,
        "control_hash": who.control_hash,
        "isolation": isolation,
        "start": settings.start,
        "start_run": start.run_id,
        "start_fingerprint": _content(settings.start, "config.json", tracking.uri),
        "reward": reward.mode,
        "evidence": settings.environment.evidence.value,
        "dataset": loaded.fingerprint,
        "device": device_name(resolve_device(settings.runtime.device)),
        "fixed": without_keys(who, VARIED),
        "reward_variant": reward.variant,
    }
    if verifiers:
        tags |= {
            "verifier": settings.verifier,
            "verifier_run": verifiers[0].run_id,
            "verifier_name": verifiers[0].run_name,
            "verifier_fingerprint": verifiers[0].fingerprint(),
            "verifier_training": verifiers[0].run.tags.get("config_hash", "") if verifiers[0].run else "",
        }
    logger = RunLogger.start(
        Store.open(tracking.uri),
        tracking.experiment or tracking.sweep or EXPERIMENT,
        name,
        kind=KIND,
        once=True,
        replaces=tracking.replaces,
        tags={k: v for k, v in tags.items() if v},
        params=parameters(
            settings,
            {
                "seed": settings.seed,
                "reward": reward.mode,
                "reward_weight": reward.weight,
                "learning_rate": settings.optimizer.learning_rate,
                "steps": settings.rl.steps,
                "edits": settings.environment.edits.value,
                "max_turns": settings.environment.max_turns,
                "algorithm": settings.algorithm.name.value,
            },
        ),
    )
    try:
        names = ", ".join(Path(name).name for name in [settings.tasks, *settings.more_tasks])
        logger.dataset(
            Path(settings.tasks).stem, loaded.fingerprint, "rl", {"path": names}, {"tasks": len(loaded.part("rl"))}
        )
        yield logger
    except BaseException as error:
        logger.fail(error)
        raise


@cache
def _content(name: str, record: str, uri: str | None) -> str:
    return find_model(name, record, uri).fingerprint()


def _settings(config: DictConfig) -> RLRun:
    if missing := sorted(OmegaConf.missing_keys(config)):
        raise UsageError(
            f"{missing[0]} has no value: name one, for example {missing[0]}=runs/policies/starter-s0 "
            "(`rmlab warm-start` makes one)"
        )
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, RLRun)
    check_reward(settings.reward, settings.verifier)
    check_options(settings.rl)
    return settings
