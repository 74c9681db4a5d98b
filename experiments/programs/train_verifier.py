"""Train verifier: one verifier, trained, scored and reported; one cell of a sweep.

    rmlab train preset=demo model=starter data.scale=1000 seed=1

pool → parts do not mix, prompts do not leak → tokenizer → lengths → selection → training → validation and evaluation are
scored, evaluation once → report and baselines → one MLflow run. A killed run goes on from its checkpoint.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from rmlab.configuration import compose
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.fingerprint import Identity, file_fingerprint, fingerprint
from rmlab.launchers.jobs import HEAVY, Job, call
from rmlab.launchers.rank_processes import Nodes, ranks_to_start, run_ranks
from rmlab.microswe.sandbox import SandboxConfig
from rmlab.models import tokenizer as tokenizers
from rmlab.models.load import folder_identity
from rmlab.paths import runs_folder
from rmlab.selection import select as choice
from rmlab.selection import weak_tests
from rmlab.selection.pool import read_index
from rmlab.sweep.cells import identify, tokenizer_identity
from rmlab.sweep.factors import find_factors
from rmlab.sweep.single_run import finished_elsewhere, finished_runs, run_once
from rmlab.tracking.dead_runs import LeaseMonitor, close_dead
from rmlab.tracking.notes import NOTE, run_note
from rmlab.tracking.parameters import describe_single
from rmlab.tracking.run_index import finished_run, runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.tags import ERROR, KILLED, STOPPED, origin_tags, set_tags
from rmlab.training.pretrained import find_pretrained, pretrained_folder
from rmlab.training.ranks import Ranks, other_ranks_fail_first
from rmlab.verifiers.answer import lesson_part
from rmlab.verifiers.config import SEMANTICS, check_context
from rmlab.verifiers.training import VerifierSettings, check_fits, check_room, choose, fit, planned_cost, run_name
from rmlab.wording import counted

if TYPE_CHECKING:
    from accelerate import Accelerator

    from rmlab.verifiers.dataset import VerifierData

PRELOAD = [
    *HEAVY,
    "rmlab.verifiers.evaluation",
    "rmlab.verifiers.objective",
    "rmlab.pages.browse",
    "rmlab.pages.report_page",
    "rmlab.training.supervised",
    "rmlab.training.device",
    "rmlab.models.load",
]
SHARED = {"data.path": "rmlab.verifiers.dataset:preload"}


@dataclass
class VerifierRun(VerifierSettings):
    """Everything that makes one verifier, and the sandbox that `data.hidden_tests` runs programs in."""

    sandbox: SandboxConfig = field(default_factory=SandboxConfig)


ConfigStore.instance().store(name="train_verifier_schema", node=VerifierRun)


def main(overrides: Sequence[str], force: bool = False) -> str:
    """Composes `conf/train_verifier.yaml` with the overrides, trains, and returns the MLflow run id.

    A configuration that is finished is not trained again unless `force`; one that is being trained is waited for.
    """
    config = compose("train_verifier", list(overrides))
    describe_single(config, overrides)
    if ranks_to_start(_settings(config).runtime) and Nodes.of_environment().index:
        return _done_elsewhere(config, force) or run(config)  # for a run that another machine tracks
    return run_once(config, identity(config).config_hash, run, force)


def _done_elsewhere(config: DictConfig, force: bool) -> str | None:
    """The finished run of this configuration, for which the machine that tracks starts no ranks. It waits for who is at work on it, and
    so does this one: else its ranks would wait in vain. The run that both make together begins only when all ranks are there."""
    if (store := Store.existing(config.tracking.uri)) is None:
        return None
    config_hash = identity(config).config_hash
    return finished_elsewhere(store, config_hash, finished_runs(store, config_hash) if force else ())


def identity(config: DictConfig) -> Identity:
    """Both hashes of a run, from its configuration and the content of its inputs."""
    if not config.data.path:
        raise UsageError(
            "data.path must be given: `rmlab import` imports trajectories, `rmlab trajectories split` splits them into parts"
        )
    index = read_index(config.data.path)
    if config.model.pretrained:
        tokenizer = folder_identity(pretrained_folder(config.model.pretrained, config.tracking.uri))
    else:
        lessons = index.part(lesson_part({row.split for row in index.rows}))
        tokenizer = tokenizer_identity(config.model.tokenizer, lessons, tokenizers.SEMANTICS)
    pool = index.fingerprint
    if (
        config.data.hidden_tests is not None
    ):  # other labels: they follow from the pool, the tests and how they are taken
        pool = fingerprint([pool, _file_identity(Path(config.data.tasks)), weak_tests.SEMANTICS])
    return identify(
        config,
        pool=pool,
        tokenizer=tokenizer,
        semantics=SEMANTICS | {"select": choice.SEMANTICS},
        factors=find_factors(config.tracking.factors),
    )


def check(config: DictConfig) -> None:
    """What `prepare` refuses of a configuration without reading text, whatever the device. Raises an RmlabError."""
    settings = _settings(config)
    find_pretrained(settings, warn=False)
    check_context(settings.model, settings.prompt)
    check_fits(settings)


def prepare(configs: Sequence[DictConfig]) -> None:
    """Makes tokenizers, token ids and baselines once for all cells. Raises an RmlabError where a device or an example is missing."""
    from rmlab.baselines.rules import baseline_report
    from rmlab.training.device import resolve_device

    made: dict[str, VerifierData] = {}
    for config in configs:
        settings = _settings(config)
        find_pretrained(settings, warn=False)
        resolve_device(settings.runtime.device)
        key = fingerprint(
            [settings.data.path, asdict(settings.model), asdict(settings.prompt), asdict(settings.evaluation)]
        )
        if key not in made:
            made[key] = ready = _material(settings)
            baseline_report(ready.judged, ready.fitted, replicates=settings.evaluation.replicates)
        choose(_labelled(made[key], settings), settings)


def run(config: DictConfig) -> str:
    """Trains, scores and reports one verifier as one tracked run; returns its id.

    Raises an RmlabError for bad data, a missing device, a level that the data cannot fill, or a store that cannot be written.
    """
    from rmlab.metrics.thin import cautions
    from rmlab.pages.browse import browse_page, most_wrong_first
    from rmlab.pages.report_page import RELIABILITY, reliability_picture
    from rmlab.training.device import accelerator, device_name
    from rmlab.verifiers.evaluation import judge, log_results, summary
    from rmlab.verifiers.tracked import start_run

    settings = _settings(config)
    if number := ranks_to_start(settings.runtime):
        return _run_on_ranks(config, number)
    find_pretrained(settings)
    device = accelerator(settings.training, settings.runtime)
    hashes = identity(config)
    cell = cell_folder(hashes)
    if not device.is_main_process:
        return _assist(settings, device, cell)
    name = run_name(settings)
    with (
        start_run(
            settings,
            config_hash=hashes.config_hash,
            control_hash=hashes.control_hash,
            device=device_name(str(device.device.type)),
            ranks=device.num_processes if device.num_processes > 1 else None,
        ) as logger,
        other_ranks_fail_first(Ranks.of(device)),
    ):
        logger.configuration(config)
        ready = _labelled(_material(settings), settings)
        chosen = choose(ready, settings)
        verifier, took = fit(ready, chosen, settings, device, cell, logger)
        results = judge(
            verifier,
            ready,
            chosen.record()["resolved"] / settings.data.scale,
            settings.evaluation,
            autocast=device.autocast,
            show=settings.runtime.progress,
        )
        log_results(logger, verifier, results)
        logger.text(RELIABILITY, reliability_picture(results.evaluation))
        beware, source = cautions(results.report, results.evaluation), origin_tags()["mlflow.source.name"]
        logger.tags({NOTE: run_note(name, results.report, results.baselines, source, beware)})
        logger.text(
            "browse.html",
            browse_page(name, most_wrong_first(results.evaluation, [e.trajectory for e in ready.evaluation])),
        )
    shutil.rmtree(cell, ignore_errors=True)
    print(summary(name, logger.run_id, took, results, ready.scored_words("evaluation")))
    return logger.run_id


def _run_on_ranks(config: DictConfig, number: int) -> str:
    """The run id that rank 0 of so many gives; what all of them read is made before, once."""
    prepare([config])
    hashes = identity(config)
    plain = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, enum_to_str=True))
    job = Job("this run", "train_verifier", "run", (plain,), cell_folder(hashes) / "ranks.log")
    try:
        return str(run_ranks(partial(call, job), number, job.log, PRELOAD))
    except BaseException as error:
        store = Store.open(config.tracking.uri)
        close_dead(store, runs_of(store, hashes.config_hash), LeaseMonitor())
        last = max(runs_of(store, hashes.config_hash), key=lambda info: info.start_time, default=None)
        if isinstance(error, RmlabError) and last is not None and last.status in (STOPPED, KILLED):
            set_tags(store, last.run_id, {ERROR: str(error)[:500]})  # rank 0 only knows that it was ended
        raise


def _assist(settings: VerifierRun, device: "Accelerator", cell: Path) -> str:
    """What the other ranks do of `run`: they train and score with rank 0, and track nothing."""
    from rmlab.verifiers.evaluation import assist

    with other_ranks_fail_first(Ranks.of(device)):
        ready = _labelled(_material(settings), settings)
        verifier, _ = fit(ready, choose(ready, settings), settings, device, cell)
        assist(verifier, ready, settings.evaluation, autocast=device.autocast)
    return ""


def cell_folder(hashes: Identity) -> Path:
    """Where a run keeps what it needs while it is under way."""
    return runs_folder() / "cells" / hashes.config_hash


def dry_run(overrides: Sequence[str]) -> str:
    """The configuration under the overrides and what it would cost, in words. Trains and tracks nothing.

    Raises an RmlabError for what `run` would refuse before its first step: a missing device, a level that the data cannot fill.
    """
    from rmlab.training.device import device_name, resolve_device
    from rmlab.verifiers.tracked import known_time

    config = compose("train_verifier", list(overrides))
    describe_single(config, overrides)
    settings, hashes = _settings(config), identity(config)
    find_pretrained(settings)
    device = device_name(resolve_device(settings.runtime.device))
    ready = _labelled(_material(settings), settings)
    chosen = choose(ready, settings)
    steps, tokens = planned_cost(ready, chosen, settings)
    record = chosen.record()
    store = Store.existing(settings.tracking.uri)
    whole = finished_run(runs_of(store, hashes.config_hash)) if store else None
    time = known_time(store, config, device, tokens) if store else None
    return "\n".join(
        [
            OmegaConf.to_yaml(config, resolve=True),
            f"{settings.tracking.name or 'this run'}, config_hash {hashes.config_hash}, on {device}",
            f"  trained on {record['taken']:,} attempts ({record['resolved']:,} resolved), {counted(steps, 'step')}, {tokens:,} tokens",
            f"  judged on {ready.scored_words('evaluation')}",
            f"  of validation: {ready.scored_words('validation')}",
            f"  time of training: {time or 'not known, no such model was trained here yet'}",
            f"  {'not trained yet' if whole is None else f'finished already in run {whole.run_id}: it would not be trained again'}",
        ]
    )


def _material(settings: VerifierRun) -> "VerifierData":
    from rmlab.verifiers.dataset import read_verifier_data, validated_pool

    check_context(settings.model, settings.prompt)
    check_room(validated_pool(Path(settings.data.path)).trajectories, settings)
    return read_verifier_data(
        Path(settings.data.path),
        settings.model,
        settings.prompt,
        settings.evaluation,
        runs_folder() / "cache",
        settings.runtime.progress,
    )


def _labelled(ready: "VerifierData", settings: VerifierRun) -> "VerifierData":
    from rmlab.verifiers.dataset import weakly_labelled

    return weakly_labelled(
        ready, settings.data, runs_folder() / "cache", settings.runtime.progress, settings.sandbox.allow_weak
    )


def _settings(config: DictConfig) -> VerifierRun:
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, VerifierRun)
    return settings


def _file_identity(path: Path) -> str:
    if not path.is_file():
        there_is = "it is a folder" if path.is_dir() else "there is no such file"
        raise DataError(
            f"data.tasks={path}: {there_is}. Name the tasks file that the trajectories were collected from."
        )
    return file_fingerprint(path)
