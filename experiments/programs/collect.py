"""Collect: rolls policies out in micro-SWE and writes a trajectory set, labelled by hidden tests.

    rmlab collect output=runs/mine.parquet policy=[careful,hasty] parts.evaluation.tasks=50
    rmlab collect output=runs/mine.parquet policy=[careful,language] language.language.model=FOLDER parts.verifier.tasks=50

Deterministic by seed, whatever the workers and the batch. Finished attempts are kept in the runs folder until the set is written: the
same command goes on where a killed collection stopped, and does nothing where the set is finished. However many attempts there are,
some thousand are held at once.
"""

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

import rmlab
from rmlab.configuration import compose
from rmlab.errors import UsageError
from rmlab.files import PARQUET, check_output, exclusive, only_writer
from rmlab.fingerprint import UNHASHED, fingerprint, hashed_values
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks, load_tasks
from rmlab.microswe.sandbox import IsolationLevel, Sandbox, SandboxConfig, default_workers, warn_if_weak
from rmlab.microswe.task import read_tasks, tasks_fingerprint
from rmlab.paths import runs_folder
from rmlab.policies.collection import PartsConfig, planned_attempts
from rmlab.policies.engine import EngineConfig
from rmlab.policies.language import LanguagePolicyConfig, play, stated
from rmlab.policies.policy import ScriptedConfig
from rmlab.policies.rollout_processes import RolloutPlan, RolloutProcesses
from rmlab.policies.scripted import make_policy
from rmlab.progress import progress
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.parameters import describe_single, parameters
from rmlab.tracking.references import find_model
from rmlab.tracking.run_index import has_finished
from rmlab.tracking.tags import commit, rmlab_as_called
from rmlab.trajectories.parts import TrajectoryParts, WrittenSet, written_before
from rmlab.wording import counted, duration

if TYPE_CHECKING:
    from rmlab.tracking.run import RunLogger

EXPERIMENT, KIND = "collections", "collection"
CPU_SECONDS = 0.016  # of an attempt of the shipped scripts at the starter set's tasks, its programs included
LAST_WORDS = 5.0  # seconds in which the processes of a collection that was killed keep what they have finished, and end


@dataclass
class CollectConfig:
    """tasks, output: paths. policy: name -> script; language: name -> language model (conf/policy holds both kinds).

    batch: scripted attempts played at once. tracked: log to MLflow too.
    """

    tasks: str = field(default=MISSING, metadata=UNHASHED)
    output: str = field(default=MISSING, metadata=UNHASHED)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    policy: dict[str, ScriptedConfig] = field(default_factory=dict)
    language: dict[str, LanguagePolicyConfig] = field(default_factory=dict, metadata=UNHASHED)

    @property
    def names(self) -> list[str]:
        """Of all policies, sorted."""
        return sorted([*self.policy, *self.language])

    parts: PartsConfig = field(default_factory=PartsConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    seed: int = 0
    workers: int = field(default=2, metadata=UNHASHED)
    batch: int = field(default=1024, metadata=UNHASHED)
    progress: bool = field(default=True, metadata=UNHASHED)
    tracked: bool = field(default=True, metadata=UNHASHED)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)


ConfigStore.instance().store(name="collect_schema", node=CollectConfig)


def main(overrides: Sequence[str], force: bool = False) -> WrittenSet:
    """Composes `conf/collect.yaml` with the overrides and collects."""
    config = compose("collect", list(overrides))
    describe_single(config, overrides)
    return run(config, command=shlex.join([*rmlab_as_called(), "collect", *overrides]), force=force)


def run(config: DictConfig, command: str = "rmlab collect", force: bool = False) -> WrittenSet:
    """Collects what the configuration asks for, writes the set and says what is in it. Where it is written, nothing is done unless `force`.

    Raises UsageError for unknown names, and where the output holds something else, unless `force`.
    """
    settings = _settings(config)
    output = Path(settings.output)
    # scripts write only what this project's own code offers them
    with Sandbox(settings.workers, allow_weak=settings.sandbox.allow_weak or not settings.language) as sandbox:
        warn_if_weak(sandbox.isolation)
        loaded = load_tasks(Path(settings.tasks), sandbox)
        for reason, sources in loaded.left_out.items():
            print(f"left out: {counted(sum(sources.values()), 'task')} ({reason}): {sources}", file=sys.stderr)
        planned = planned_attempts(loaded, settings.parts, settings.names, settings.seed)
        for model in settings.language.values():  # a name is looked up in this collection's store
            model.model = str(find_model(model.model, "config.json", settings.tracking.uri).folder)
        models = {name: stated(model) for name, model in settings.language.items()}
        run_hash = config_hash(config, loaded.fingerprint, models)
        under_way = runs_folder() / "cells" / fingerprint([run_hash, rmlab.__version__, commit()])
        lock = runs_folder() / "locks" / f"collection-{under_way.name}.lock"
        with exclusive(lock, "this collection", LAST_WORDS), only_writer(output, "the set", LAST_WORDS):
            there = None if force else written_before(output, run_hash)
            if there is not None and (not settings.tracked or has_finished(settings.tracking.uri, run_hash)):
                print(f"finished already: {there.summary} (--force collects it again)")
                return there
            kept = TrajectoryParts(under_way)
            scripts = {name: make_policy(name, script) for name, script in settings.policy.items()}
            rollouts = RolloutPlan(
                planned, kept.finished(), scripts, settings.environment, settings.seed, settings.batch, under_way
            )
            with (
                RolloutProcesses(rollouts, sandbox) as processes,  # forked before tracking has threads
                _start(settings, run_hash, sandbox.isolation) if settings.tracked else nullcontext() as logger,
            ):
                collect(processes, settings, kept, command + (" --force" if force else ""))
                written = kept.write(
                    output,
                    {
                        "command": command,
                        "config_hash": run_hash,
                        "seed": str(settings.seed),
                        "tasks_fingerprint": loaded.fingerprint,
                        "rmlab_version": rmlab.__version__,
                        "environment": settings.environment.evidence.value,
                        "edits": settings.environment.edits.value,
                        "max_turns": str(settings.environment.max_turns),
                    }
                    | ({"language_policies": json.dumps(models)} if models else {})
                    | ({"isolation": str(sandbox.isolation)} if sandbox.isolation.weak else {}),
                )
                if logger is not None:
                    _log(logger, written, loaded, settings)
                    logger.configuration(config)
                shutil.rmtree(under_way, ignore_errors=True)
    print(written)
    return written


def _settings(config: DictConfig) -> CollectConfig:
    settings = cast(CollectConfig, OmegaConf.to_object(config))
    if not settings.names:
        raise UsageError("no policy is configured: name some, e.g. policy=[careful,hasty]")
    if both := set(settings.policy) & set(settings.language):
        raise UsageError(f"{sorted(both)[0]} is the name of a script and of a language model: rename one of them")
    check_output(Path(settings.output), [Path(settings.tasks)], PARQUET)
    return settings


def dry_run(overrides: Sequence[str]) -> str:
    """What would be collected and how long it would take, in words. Runs and writes nothing; the tasks are not proven."""
    settings = _settings(compose("collect", list(overrides)))
    tasks, _ = read_tasks(Path(settings.tasks))
    loaded = LoadedTasks(tuple(tasks), {}, tasks_fingerprint(tasks))
    planned = planned_attempts(loaded, settings.parts, settings.names, settings.seed)
    lines = [f"{settings.output}: {counted(sum(map(len, planned)), 'attempt')} at {counted(len(planned), 'task')}"]
    for part in dict.fromkeys(planned_task.task.part for planned_task in planned):
        own = [planned_task for planned_task in planned if planned_task.task.part == part]
        lines.append(
            f"  {part}: {counted(sum(map(len, own)), 'attempt')} at {counted(len(own), 'task')} by {', '.join(own[0].policies)}"
        )
    scripted = sum(p.attempts * len(settings.policy.keys() & set(p.policies)) for p in planned)
    cores = min(settings.workers, default_workers())
    lines.append(
        f"  {counted(scripted, 'attempt')} of scripts: about {duration(scripted * CPU_SECONDS / cores)} with "
        f"{counted(settings.workers, 'worker')} on {counted(default_workers(), 'core')}"
    )
    if models := sum(map(len, planned)) - scripted:
        lines.append(f"  {counted(models, 'attempt')} of language models: their time depends on model and device")
    return "\n".join(lines)


def collect(processes: RolloutProcesses, settings: CollectConfig, kept: TrajectoryParts, command: str) -> None:
    """Plays the attempts of the plan and keeps them: scripts all together, then language models one after the other.

    Those that an earlier process of the same collection finished are not played again.
    """
    rollouts = processes.plan
    total, already = sum(map(len, rollouts.tasks)), len(kept)
    if already:
        print(f"continuing: {already:,} of {total:,} attempts were finished before", file=sys.stderr)
    try:
        with progress("collecting", total, "episodes", settings.progress, already=already) as advance:
            for finished in processes.play():
                advance(finished)
            for name, model in settings.language.items():
                if mine := list(rollouts.left([name])):
                    play(model, mine, processes.sandbox, settings.environment, settings.seed, advance, kept.add)
    except KeyboardInterrupt:
        processes.stop()
        kept.flush()
        print(
            f"\nStopped; {len(kept):,} of {total:,} attempts are finished and kept. Continue with: {command}",
            file=sys.stderr,
        )
        raise


def _start(settings: CollectConfig, run_hash: str, isolation: IsolationLevel) -> "RunLogger":
    """The run, which says from its beginning how well the code that policies write is kept in."""
    from rmlab.tracking.run import start_single

    return start_single(
        settings.tracking,
        EXPERIMENT,
        f"{Path(settings.output).stem} s{settings.seed}",
        kind=KIND,
        tags={"config_hash": run_hash, "device": devices(settings), "isolation": str(isolation)},
        params=parameters(settings, {"seed": settings.seed, "policies": len(settings.names)}),
    )


def _log(logger: "RunLogger", written: WrittenSet, loaded: LoadedTasks, settings: CollectConfig) -> None:
    """What was read and what came out."""
    left_out = sum(sum(sources.values()) for sources in loaded.left_out.values())
    logger.dataset(
        Path(settings.tasks).stem,
        loaded.fingerprint,
        "collection",
        {"path": Path(settings.tasks).name},
        {"tasks": len(loaded.tasks), "left_out": left_out},
    )
    logger.tags({"dataset": written.fingerprint})
    logger.metrics({"collect/trajectories": len(written), "collect/resolved_rate": written.resolved_rate})
    logger.artifact(Path(settings.output))


def config_hash(config: DictConfig, tasks: str, models: Mapping[str, Any]) -> str:
    """Of everything that can change a collection. tasks: fingerprint; models: what language policies are, by name."""
    changes = hashed_values(config)
    changes["policy"] = {
        name: {k: v for k, v in one.items() if (k, v) != ("kind", "scripted")}
        for name, one in changes["policy"].items()
    }  # the only kind there was before kinds had names
    usual = EngineConfig()
    engines = {  # what of an engine changes attempts, where it is not the default
        name: [one.engine.dtype, one.engine.capacity]
        for name, one in config.language.items()
        if (one.engine.dtype, one.engine.capacity) != (usual.dtype, usual.capacity)
    }
    return fingerprint(
        {"program": "collect", "config": changes, "tasks": tasks, "models": dict(models)}
        | ({"engines": engines} if engines else {})
    )


def devices(settings: CollectConfig) -> str:
    """Where language models played, `cpu` where all policies are scripts."""
    if not settings.language:
        return "cpu"
    from rmlab.training.device import resolve_device

    return " ".join(sorted({str(resolve_device(model.device)) for model in settings.language.values()}))
