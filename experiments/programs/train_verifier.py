"""Train verifier: one verifier, trained, scored and reported; one cell of a sweep.

    rmlab train preset=demo data.scale=1000 seed=1

pool → parts do not mix, prompts do not leak → tokenizer → lengths → selection → training → validation and evaluation are
scored, evaluation once → report and baselines → one MLflow run. A killed run goes on from its checkpoint.
"""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from rmlab.ablation import selection as choice
from rmlab.ablation.cells import Identity, identify, tokenizer_identity
from rmlab.ablation.factors import find_factors
from rmlab.ablation.pool import read_index
from rmlab.ablation.selection import DataConfig, Selection, select
from rmlab.ablation.single import run_once
from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.models import tokenizer as tokenizers
from rmlab.models.config import ModelConfig
from rmlab.paths import runs_folder
from rmlab.tracking.config import TrackingConfig, sweep_tags
from rmlab.training.config import OptimizerConfig, RuntimeConfig, TrainingConfig, canonical
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet
from rmlab.verifiers.config import SEMANTICS, EvaluationConfig, PromptConfig

if TYPE_CHECKING:
    from rmlab.tracking.run import RunLogger
    from rmlab.training.supervised import Trained
    from rmlab.verifiers.judgement import Results
    from rmlab.verifiers.material import Material
    from rmlab.verifiers.verifier import Verifier

POINTS = 200  # of each training series, however many steps there are


@dataclass
class VerifierRun:
    """Everything that makes one verifier. seed: of the draw, the first weights and the order of the batches."""

    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
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
    index = read_index(config.data.path)
    if config.model.pretrained:
        tokenizer = _folder_identity(Path(config.model.pretrained))
    else:
        tokenizer = tokenizer_identity(config.model.tokenizer, index.part("supervised"), tokenizers.SEMANTICS)
    return identify(config, pool=index.fingerprint, tokenizer=tokenizer, semantics=SEMANTICS | {"select": choice.SEMANTICS},
                    factors=find_factors(config.tracking.factors))


def prepare(configs: Sequence[DictConfig]) -> None:
    """Makes tokenizers, token ids and baselines once for all cells. Raises an RmlabError where a device or an example is missing."""
    from rmlab.training.device import resolve_device
    from rmlab.verifiers.baselines import baseline_report

    made: dict[str, Material] = {}
    for config in configs:
        settings = _settings(config)
        resolve_device(settings.runtime.device)
        key = fingerprint([settings.data.path, asdict(settings.model), asdict(settings.prompt), asdict(settings.evaluation)])
        if key not in made:
            made[key] = ready = _material(settings)
            baseline_report(ready.judged, ready.pool.part("validation"), replicates=settings.evaluation.replicates)
        choose(made[key], settings)


def run(config: DictConfig) -> str:
    """Trains, scores and reports one verifier as one tracked run; returns its id.

    Raises an RmlabError for bad data, a missing device, a level that the data cannot fill, or a store that cannot be written.
    """
    from rmlab.tracking.run import RunLogger
    from rmlab.tracking.store import Store
    from rmlab.training.device import accelerator
    from rmlab.verifiers.judgement import judge

    settings = _settings(config)
    device = accelerator(settings.training, settings.runtime)
    who = identity(config)
    cell = runs_folder() / "cells" / who.config_hash
    experiment = settings.tracking.experiment or settings.tracking.sweep or "verifiers"
    name = settings.tracking.name or f"scale={settings.data.scale} s{settings.seed}"
    tags = {**sweep_tags(settings.tracking), "config_hash": who.config_hash, "control_hash": who.control_hash,
            "device": str(device.device)}
    with RunLogger.start(Store.open(settings.tracking.uri), experiment, name, kind="verifier", tags=tags, once=True,
                         replaces=settings.tracking.replaces) as logger:
        logger.text("config.yaml", OmegaConf.to_yaml(config, resolve=True))
        ready = _material(settings)
        chosen = choose(ready, settings)
        _log_inputs(logger, ready, chosen, settings)
        verifier, took = fit(ready, chosen, settings, device, cell, logger)
        results = judge(verifier, ready, chosen.record()["resolved"] / settings.data.scale, settings.evaluation,
                        autocast=device.autocast, show=settings.runtime.progress)
        _log_results(logger, verifier, results, settings)
    shutil.rmtree(cell, ignore_errors=True)
    print(_summary(name, logger.run_id, took, results))
    return logger.run_id


def choose(ready: "Material", settings: VerifierRun) -> Selection[Trajectory]:
    """The training set: filtered by length first, then chosen. Raises DataError where the total cannot be filled."""
    if (room := settings.data.room) and room > settings.prompt.max_tokens:
        raise UsageError(f"data.fits={room} is longer than the context, prompt.max_tokens={settings.prompt.max_tokens}: what is trained "
                         "on has to be read whole. Lower it, or set it to null.")
    fits = {e.trajectory.trajectory_id for e in ready.verifier if e.ids is not None and (room is None or e.n_tokens < room)}
    return select((e.trajectory for e in ready.verifier), settings.data, settings.seed, lambda t: t.trajectory_id in fits)


def fit(ready: "Material", chosen: Selection[Trajectory], settings: VerifierRun, device: Any, cell: Path,
        logger: "RunLogger") -> "tuple[Verifier, Trained]":
    """Trains a verifier on the chosen set; its checkpoint lies in the folder `cell` while it is under way."""
    from rmlab.models.pretrained import load_model
    from rmlab.models.scratch import scratch_model
    from rmlab.training.batching import total_steps
    from rmlab.training.supervised import Example, train
    from rmlab.verifiers.answer import prove_answers
    from rmlab.verifiers.prompt import render
    from rmlab.verifiers.verifier import Verifier

    answer = prove_answers(ready.tokenizer, [render(t, ready.tokenizer.reserved) for t in chosen.chosen])
    if settings.model.pretrained:
        model = load_model(Path(settings.model.pretrained))
    else:
        if settings.prompt.max_tokens > settings.model.max_positions:
            raise RmlabError(f"prompt.max_tokens={settings.prompt.max_tokens} is longer than "
                             f"model.max_positions={settings.model.max_positions}: raise the model's or lower the prompt's")
        model = scratch_model(settings.model, ready.tokenizer.size, settings.seed)
    logger.params({"model_parameters": sum(p.numel() for p in model.parameters())})
    ids = {e.trajectory.trajectory_id: e.ids for e in ready.verifier}
    examples = [Example(ids[t.trajectory_id], answer.target(bool(t.resolved))) for t in chosen.chosen]  # type: ignore[arg-type]  # chosen ones fit
    training = canonical(settings.training, settings.data.scale)
    every = max(total_steps(len(examples), training) // POINTS, 1)

    def log(step: int, loss: float, rate: float, speed: float) -> None:
        if step % every == 0 or step == 1:
            logger.metrics({"train/loss": loss, "train/learning_rate": rate, "train/tokens_per_second": speed}, step)

    took = train(model, examples, ready.tokenizer.pad_id, device, optimizer=settings.optimizer, training=training,
                 runtime=settings.runtime, seed=settings.seed, checkpoint=cell / "checkpoint.safetensors", log=log,
                 title=settings.tracking.name or "training")
    logger.metrics({"train/steps": took.steps, "train/tokens": took.tokens, "train/seconds": took.seconds})
    return Verifier(model, ready.tokenizer, settings.prompt, answer), took


def _log_inputs(logger: "RunLogger", ready: "Material", chosen: Selection[Trajectory], settings: VerifierRun) -> None:
    """What the run reads: data sets, the table of the choice, and the few parameters that runs are compared by."""
    from rmlab.verifiers.encoding import unfit_counts

    record = chosen.record()
    record["evaluation_unfit"] = unfit_counts(ready.evaluation)
    logger.json("selection.json", record)
    logger.params({
        "seed": settings.seed, "data_scale": settings.data.scale, "resolved_share": round(record["resolved"] / record["taken"], 4),
        "learning_rate": settings.optimizer.learning_rate, "epochs": settings.training.epochs, "match": settings.training.match.value,
        "hidden_size": settings.model.hidden_size, "layers": settings.model.layers,
    })
    logger.tags({"dataset": ready.pool.fingerprint, "tokenizer": ready.tokenizer.fingerprint})
    source = {"path": Path(settings.data.path).name, "pool": ready.pool.fingerprint, **ready.pool.metadata}
    parts = {"training": chosen.chosen, "validation": [e.trajectory for e in ready.validation],
             "evaluation": [e.trajectory for e in ready.evaluation]}
    for context, trajectories in parts.items():
        part = TrajectorySet(tuple(trajectories), {})
        logger.dataset(Path(settings.data.path).stem, part.fingerprint, context, source,
                       {"trajectories": len(part), "resolved": sum(t.resolved is True for t in part.trajectories)})


def _log_results(logger: "RunLogger", verifier: "Verifier", results: "Results", settings: VerifierRun) -> None:
    from rmlab.verifiers.score_table import write_score_table
    from rmlab.verifiers.verifier import save_verifier

    logger.json("report.json", results.report)
    logger.json("baselines.json", results.baselines)
    for part, found in (("eval", results.report), ("validation", results.validation_report)):
        for name, value in (found or {}).items():
            if isinstance(value, dict) and name.endswith("_at_k"):
                for k, at_k in value.items():
                    logger.metric(f"{part}/{name}", at_k, int(k))
            elif isinstance(value, int | float) and name not in ("replicates", "seed"):
                logger.metric(f"{part}/{name}", value)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_score_table(folder / "scores.parquet", results.evaluation)
        logger.artifact(folder / "scores.parquet")
        if results.validation is not None:
            logger.json("validation_report.json", results.validation_report)
            write_score_table(folder / "validation_scores.parquet", results.validation)
            logger.artifact(folder / "validation_scores.parquet")
        save_verifier(folder / "model", verifier)
        logger.artifact(folder / "model")


def _material(settings: VerifierRun) -> "Material":
    from rmlab.verifiers.material import read_material

    return read_material(Path(settings.data.path), settings.model, settings.prompt, settings.evaluation, runs_folder() / "cache")


def _settings(config: DictConfig) -> VerifierRun:
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, VerifierRun)
    return settings


def _folder_identity(folder: Path) -> str:
    """Of every file of a pretrained model: its weights change results as its tokenizer does."""
    if not folder.is_dir():
        raise DataError(f"model.pretrained={folder}: there is no such folder. Models are not downloaded here; name a local one.")
    return fingerprint(sorted([p.name, file_fingerprint(p)] for p in folder.iterdir() if p.suffix in (".json", ".safetensors", ".txt")))


def _summary(name: str, run_id: str, took: "Trained", results: "Results") -> str:
    """What was found, in a few lines."""
    report, baselines = results.report, results.baselines
    most = max(report["rm_at_k"], key=int)
    low, high = report["ci95"].get("auc_within_task") or (None, None)
    speed = took.tokens / max(took.seconds, 1e-9)
    return "\n".join([
        f"{name}: {took.steps} steps, {took.tokens:,} tokens in {took.seconds:.1f} s ({speed:,.0f} tokens/s)",
        f"  AUC within task {_number(report['auc_within_task'])} [{_number(low)}, {_number(high)}], "
        f"pooled {_number(report['auc_pooled'])}, ECE {_number(report['ece_width_10'])}",
        f"  pass@1 {_number(report['pass_at_k']['1'])}, RM@{most} {_number(report['rm_at_k'][most])}, "
        f"pass@{most} {_number(report['pass_at_k'][most])}",
        *(f"  {baseline}: AUC within task {_number(found.get('auc_within_task'))}, RM@{most} {_number(found['rm_at_k'].get(most))}"
          for baseline, found in baselines.items() if found.get("rm_at_k")),
        f"  MLflow run {run_id}",
    ])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    load_program("train_verifier").main(sys.argv[1:])  # by its path, as `rmlab train` does: one schema class, not two
