"""Train verifier: one verifier, trained, scored and reported; one cell of a sweep.

    rmlab train preset=demo data.scale=1000 seed=1

pool → parts do not mix, prompts do not leak → tokenizer → lengths → selection → training → validation and evaluation are
scored, evaluation once → report and baselines → one MLflow run. A killed run goes on from its checkpoint.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.launchers.jobs import HEAVY
from rmlab.microswe.sandbox import SandboxConfig
from rmlab.models import tokenizer as tokenizers
from rmlab.models.config import ModelConfig
from rmlab.models.load import folder_identity
from rmlab.paths import runs_folder
from rmlab.selection import select as choice
from rmlab.selection import weak_tests
from rmlab.selection.pool import read_index
from rmlab.selection.select import DataConfig, Selection, select
from rmlab.sweep.cells import Identity, identify, tokenizer_identity
from rmlab.sweep.factors import find_factors
from rmlab.sweep.single import run_once
from rmlab.tracking.config import TrackingConfig, sweep_tags
from rmlab.tracking.notes import NOTE, run_note
from rmlab.tracking.origin import origin_tags
from rmlab.training.config import OptimizerConfig, RuntimeConfig, TrainingConfig, canonical
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.answer import lesson_part
from rmlab.verifiers.config import SEMANTICS, EvaluationConfig, ObjectiveConfig, PromptConfig

if TYPE_CHECKING:
    from rmlab.tracking.run import RunLogger
    from rmlab.training.supervised import Trained
    from rmlab.verifiers.dataset import Material
    from rmlab.verifiers.verifier import Verifier

PRELOAD = [
    *HEAVY,
    "rmlab.verifiers.run_record",
    "rmlab.verifiers.objective",
    "rmlab.pages.browse_page",
    "rmlab.training.supervised",
    "rmlab.training.device",
    "rmlab.models.load",
]
SHARED = {"data.path": "rmlab.verifiers.dataset:hold"}
POINTS = 200  # of each training series, however many steps there are


@dataclass
class VerifierRun:
    """Everything that makes one verifier. seed: of the draw, the first weights and the order of the batches."""

    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)


ConfigStore.instance().store(name="train_verifier_schema", node=VerifierRun)


def main(overrides: Sequence[str], force: bool = False) -> str:
    """Composes `conf/train_verifier.yaml` with the overrides, trains, and returns the MLflow run id.

    A configuration that is finished is not trained again unless `force`; one that is being trained is waited for.
    """
    config = compose("train_verifier", list(overrides))
    return run_once(config, identity(config).config_hash, run, force)


def identity(config: DictConfig) -> Identity:
    """Both hashes of a run, from its configuration and the content of its inputs."""
    if not config.data.path:
        raise UsageError(
            "data.path has to be given: `rmlab import` reads trajectories of others, `rmlab trajectories split` parts them"
        )
    index = read_index(config.data.path)
    if config.model.pretrained:
        tokenizer = folder_identity(Path(config.model.pretrained))
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


def prepare(configs: Sequence[DictConfig]) -> None:
    """Makes tokenizers, token ids and baselines once for all cells. Raises an RmlabError where a device or an example is missing."""
    from rmlab.scores.baselines import baseline_report
    from rmlab.training.device import resolve_device

    made: dict[str, Material] = {}
    for config in configs:
        settings = _settings(config)
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
    from rmlab.pages.browse_page import browse_page, join
    from rmlab.tracking.run import RunLogger
    from rmlab.tracking.store import Store
    from rmlab.training.device import accelerator, device_name
    from rmlab.verifiers.evaluation import judge
    from rmlab.verifiers.run_record import log_results, summary

    settings = _settings(config)
    device = accelerator(settings.training, settings.runtime)
    who = identity(config)
    cell = runs_folder() / "cells" / who.config_hash
    experiment = settings.tracking.experiment or settings.tracking.sweep or "verifiers"
    name = settings.tracking.name or f"scale={settings.data.scale} s{settings.seed}"
    tags = {
        **sweep_tags(settings.tracking),
        "config_hash": who.config_hash,
        "control_hash": who.control_hash,
        "device": device_name(str(device.device.type)),
    }
    with RunLogger.start(
        Store.open(settings.tracking.uri),
        experiment,
        name,
        kind="verifier",
        tags=tags,
        once=True,
        replaces=settings.tracking.replaces,
    ) as logger:
        logger.text("config.yaml", OmegaConf.to_yaml(config, resolve=True))
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
        logger.tags({NOTE: run_note(name, results.report, results.baselines, origin_tags()["mlflow.source.name"])})
        logger.text(
            "browse.html", browse_page(name, join(results.evaluation, [e.trajectory for e in ready.evaluation]))
        )
    shutil.rmtree(cell, ignore_errors=True)
    print(summary(name, logger.run_id, took, results))
    return logger.run_id


def choose(ready: "Material", settings: VerifierRun) -> Selection[Trajectory]:
    """The training set: filtered by length first, then chosen. Raises DataError where the total cannot be filled."""
    if (room := settings.data.room) and room > settings.prompt.max_tokens:
        raise UsageError(
            f"data.fits={room} is longer than the context, prompt.max_tokens={settings.prompt.max_tokens}: what is trained "
            "on has to be read whole. Lower it, or set it to null."
        )
    fits = {
        e.trajectory.trajectory_id for e in ready.verifier if e.ids is not None and (room is None or e.n_tokens < room)
    }
    return select(
        (e.trajectory for e in ready.verifier), settings.data, settings.seed, lambda t: t.trajectory_id in fits
    )


def fit(
    ready: "Material",
    chosen: Selection[Trajectory],
    settings: VerifierRun,
    device: Any,
    cell: Path,
    logger: "RunLogger",
) -> "tuple[Verifier, Trained]":
    """Trains a verifier on the chosen set; its checkpoint lies in the folder `cell` while it is under way."""
    from rmlab.training.batching import total_steps
    from rmlab.training.supervised import train
    from rmlab.verifiers.answer import prove_answers, spread
    from rmlab.verifiers.objective import lesson
    from rmlab.verifiers.prompt import render
    from rmlab.verifiers.verifier import Verifier

    proven_on = [chosen.chosen[i] for i in spread(len(chosen.chosen))]
    answer = prove_answers(ready.tokenizer, [render(t, ready.tokenizer.reserved, settings.prompt) for t in proven_on])
    ids = {e.trajectory.trajectory_id: e.ids for e in ready.verifier if e.ids is not None}
    training = canonical(settings.training, settings.data.scale)
    learned = lesson(chosen.chosen, ids, [e.trajectory for e in ready.verifier], settings.objective, training, answer)
    model = _first_weights(settings, ready.tokenizer.size, learned.scalar)
    _log_inputs(logger, ready, chosen, settings, model, learned.record)
    every = max(total_steps(len(learned.items), learned.training) // POINTS, 1)

    def log(step: int, loss: float, rate: float, speed: float) -> None:
        if step % every == 0 or step == 1:
            logger.metrics({"train/loss": loss, "train/learning_rate": rate, "train/tokens_per_second": speed}, step)

    def watch(step: int, routers: dict[str, float]) -> None:
        if step % every == 0 or step == 1:
            logger.metrics(routers, step)

    took = train(
        model,
        learned.items,
        ready.tokenizer.pad_id,
        device,
        optimizer=settings.optimizer,
        training=learned.training,
        runtime=settings.runtime,
        seed=settings.seed,
        checkpoint=cell / "checkpoint.safetensors",
        log=log,
        watch=watch,
        loss=learned.loss,
        title=settings.tracking.name or "training",
    )
    logger.metrics({"train/steps": took.steps, "train/tokens": took.tokens, "train/seconds": took.seconds})
    return Verifier(model, ready.tokenizer, settings.prompt, answer, settings.training.dtype), took


def _first_weights(settings: VerifierRun, vocabulary: int, scalar: bool) -> Any:
    """The model before training. Raises RmlabError where the context is longer than it has positions for."""
    from rmlab.models.heads import ScalarModel
    from rmlab.models.load import load_model, scratch_model
    from rmlab.models.moe import experts_of
    from rmlab.verifiers.config import check_positions

    if settings.model.pretrained:
        model = load_model(Path(settings.model.pretrained))
        if experts_of(model):
            model.config.router_aux_loss_coef = settings.model.balance
    else:
        model = scratch_model(settings.model, vocabulary, settings.seed)
    check_positions(int(model.config.max_position_embeddings), settings.model, settings.prompt)
    return ScalarModel(model, settings.seed) if scalar else model


def _log_inputs(
    logger: "RunLogger",
    ready: "Material",
    chosen: Selection[Trajectory],
    settings: VerifierRun,
    model: Any,
    objective: dict[str, Any],
) -> None:
    """What the run reads, and the few parameters that runs are compared by."""
    from rmlab.verifiers.run_record import log_inputs, model_parameters

    record = chosen.record()
    weak = ready.weak.record() if ready.weak else None
    log_inputs(
        logger, ready, chosen.chosen, {**record, "objective": objective, "weak_tests": weak}, Path(settings.data.path)
    )
    logger.params(
        {
            "seed": settings.seed,
            "data_scale": settings.data.scale,
            "resolved_share": round(record["resolved"] / record["taken"], 4),
            "learning_rate": settings.optimizer.learning_rate,
            "epochs": settings.training.epochs,
            "match": settings.training.match.value,
            "objective": settings.objective.kind.value,
            **model_parameters(model),
        }
    )
    if weak and ready.weak:
        logger.tags({"isolation": ready.weak.isolation})
        logger.metrics({f"labels/{name}": value for name, value in weak.items()})


def _material(settings: VerifierRun) -> "Material":
    from rmlab.verifiers.config import check_context
    from rmlab.verifiers.dataset import read_material

    check_context(settings.model, settings.prompt)
    return read_material(
        Path(settings.data.path),
        settings.model,
        settings.prompt,
        settings.evaluation,
        runs_folder() / "cache",
        settings.runtime.progress,
    )


def _labelled(ready: "Material", settings: VerifierRun) -> "Material":
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
        raise DataError(
            f"data.tasks={path}: there is no such file. Name the tasks file that the trajectories were collected from."
        )
    return file_fingerprint(path)


if __name__ == "__main__":
    load_program("train_verifier").main(sys.argv[1:])  # by its path, as `rmlab train` does: one schema class, not two
