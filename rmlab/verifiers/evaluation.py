"""How good is a verifier? Its score tables of validation and evaluation, their reports, and the baselines beside them.

What a verifier's run stores in tracking: its inputs, the few parameters by which runs are compared, its results.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rmlab.baselines.rules import baseline_report
from rmlab.metrics import thin
from rmlab.metrics.definitions import Report
from rmlab.metrics.registry import curves
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.scratch import scratch_folder
from rmlab.tracking.fold_logger import FoldLogger
from rmlab.tracking.run import RunLogger
from rmlab.tracking.views import EVALUATION
from rmlab.training.loop import Trained
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet
from rmlab.verifiers.config import EvaluationConfig
from rmlab.verifiers.dataset import VerifierData
from rmlab.verifiers.encoding import Encoded, cut_counts, cut_words, unfit_counts
from rmlab.verifiers.precision import Autocast
from rmlab.verifiers.verifier import SCORED_IN, Verifier, save_verifier
from rmlab.wording import counted, estimate, number


@dataclass(frozen=True)
class Results:
    """report has `fit_rate` too, the share of the judged attempts that fit the context, and what is not read of those that are
    read in part (`cut_attempts`, `cut_tokens`, ...). validation: None where there is none. pools: of `evaluation.pools`, by name."""

    evaluation: Scores
    report: Report
    validation: Scores | None
    validation_report: Report | None
    baselines: dict[str, dict[str, Any]]
    pools: "dict[str, PoolResult]" = field(default_factory=dict)


@dataclass(frozen=True)
class PoolResult:
    """What a verifier is worth on one of `evaluation.pools`; report as in `Results`."""

    scores: Scores
    report: Report
    baselines: dict[str, dict[str, Any]]


def judge(
    verifier: Verifier,
    material: VerifierData,
    training_prior: float,
    config: EvaluationConfig,
    *,
    autocast: Autocast = nullcontext,
    show: bool = False,
) -> Results:
    """Scores validation, then evaluation, then the further pools, once each, and reports on them.

    training_prior: share of resolved examples in training.
    """

    def scored(encoded: list[Encoded], title: str) -> Scores:
        scores = verifier.score(encoded, batch_tokens=config.batch_tokens, autocast=autocast, show=show, title=title)
        torch.cuda.empty_cache()  # what follows is work of the CPU, and other cells may share the GPU
        return scores

    def reported(attempts: list[Encoded], scores: Scores) -> Report:
        measured = report(scores, replicates=config.replicates, validation=validation, training_prior=training_prior)
        measured["fit_rate"] = sum(e.n_tokens < verifier.prompt.max_tokens for e in attempts) / len(attempts)
        return measured | cut_counts(attempts)

    def beside(attempts: TrajectorySet) -> dict[str, dict[str, Any]]:
        return baseline_report(attempts, material.fitted, replicates=config.replicates)

    def on_pool(name: str, attempts: list[Encoded]) -> PoolResult:
        scores = scored(attempts, f"scoring {name}")
        return PoolResult(scores, reported(attempts, scores), beside(material.shown(attempts)))

    validation = scored(material.validation, "scoring validation") if material.validation else None
    evaluation = scored(material.evaluation, "scoring evaluation")
    return Results(
        evaluation,
        reported(material.evaluation, evaluation),
        validation,
        report(validation, replicates=config.replicates) if validation else None,
        beside(material.judged),
        {name: on_pool(name, attempts) for name, attempts in material.pools.items()},
    )


def assist(verifier: Verifier, material: VerifierData, config: EvaluationConfig, *, autocast: Autocast) -> None:
    """What the other ranks do while rank 0 judges the verifier that all trained: they score the same sets in the same order as `judge`."""
    for encoded in (material.validation, material.evaluation, *material.pools.values()):
        if encoded:
            verifier.score(encoded, batch_tokens=config.batch_tokens, autocast=autocast)


def log_inputs(
    logger: RunLogger | FoldLogger,
    ready: VerifierData,
    chosen: Sequence[Trajectory],
    selection: Mapping[str, Any],
    path: Path,
) -> None:
    """What the run reads: the table of the choice (`selection.json`), data sets, and what its model has read before.

    chosen: the training set. selection: plain values of the choice. path: of the pool. What is not read of the training set is a
    metric (`train/cut_attempts`, `train/cut_tokens`, ...), as it is of what is judged.
    """
    drawn = {t.trajectory_id for t in chosen}
    cut = cut_counts([e for e in ready.verifier if e.trajectory.trajectory_id in drawn])
    logger.json(
        "selection.json",
        {
            **selection,
            "training_unfit": unfit_counts(ready.verifier),
            "training_cut": cut,
            "evaluation_unfit": unfit_counts(ready.evaluation),
            "evaluation_cut": cut_counts(ready.evaluation),
        },
    )
    logger.metrics({f"train/{name}": value for name, value in cut.items() if value})
    logger.tags(
        {
            "dataset": ready.pool.fingerprint,
            "tokenizer": ready.tokenizer.fingerprint,
            "pretraining": ready.pretraining,
            "over_length": ready.prompt.over_length.value,
        }
    )
    source = {"path": path.name, "pool": ready.pool.fingerprint, **ready.pool.metadata}
    parts = {
        "training": chosen,
        "validation": [e.trajectory for e in ready.validation],
        "evaluation": [e.trajectory for e in ready.evaluation],
        **{f"evaluation {name}": [e.trajectory for e in attempts] for name, attempts in ready.pools.items()},
    }
    for context, trajectories in parts.items():
        part = TrajectorySet(tuple(trajectories), {})
        logger.dataset(
            path.stem,
            part.fingerprint,
            context,
            source,
            {"trajectories": len(part), "resolved": sum(t.resolved is True for t in part.trajectories)},
        )


def model_parameters(model: Any) -> dict[str, int]:
    """The size of the model that is trained, as it is and not as it was asked for."""
    shape = {
        "model_parameters": sum(p.numel() for p in model.parameters()),
        "hidden_size": int(model.config.hidden_size),
        "layers": int(model.config.num_hidden_layers),
    }
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if trained < shape["model_parameters"]:
        shape["trained_parameters"] = trained
    experts = int(getattr(model.config, "num_experts", 0) or 0)
    if not experts:
        return shape | {"active_parameters": shape["model_parameters"]}
    in_experts = sum(p.numel() for name, p in model.named_parameters() if ".experts." in name)
    idle = in_experts * (experts - int(model.config.num_experts_per_tok)) // experts
    return shape | {"active_parameters": shape["model_parameters"] - idle, "experts": experts}


def log_results(logger: RunLogger, verifier: Verifier, results: Results) -> None:
    """Reports, baselines, metrics by part, score tables and the verifier itself."""
    log_tables(logger, results)
    logger.tags({SCORED_IN: verifier.scored_in})
    with scratch_folder() as scratch:
        save_verifier(scratch / "model", verifier)
        logger.artifact(scratch / "model")


def log_tables(logger: RunLogger, results: Results) -> None:
    """Reports, baselines, metrics by part and score tables."""
    logger.json("report.json", results.report)
    logger.json("baselines.json", results.baselines)
    log_report(logger, "eval", results.report)
    with scratch_folder() as folder:
        write_score_table(folder / "scores.parquet", results.evaluation)
        logger.artifact(folder / "scores.parquet")
        if results.validation is not None and results.validation_report is not None:
            log_report(logger, "validation", results.validation_report)
            logger.json("validation_report.json", results.validation_report)
            write_score_table(folder / "validation_scores.parquet", results.validation)
            logger.artifact(folder / "validation_scores.parquet")
        for name, pool in results.pools.items():
            log_report(logger, f"eval_{name}", pool.report)
            logger.json(f"{name}_report.json", pool.report)
            logger.json(f"{name}_baselines.json", pool.baselines)
            write_score_table(folder / f"{name}_scores.parquet", pool.scores)
            logger.artifact(folder / f"{name}_scores.parquet")


def log_report(logger: RunLogger, part: str, report: Mapping[str, Any]) -> None:
    """The numbers of a report as metrics `PART/NAME`, the headline first; best of k as a series whose step is k.

    What is 0 because it did not happen is left out: the error of a curve that is exact, and what is not read where all is.
    """
    first = [name for name in EVALUATION if name in report]
    for name in dict.fromkeys([*first, *report]):
        value = report[name]
        if name in curves() and value is not None:
            if name.endswith("_standard_error") and not any(value.values()):
                continue
            for k, at_k in value.items():
                logger.metric(f"{part}/{name}", at_k, int(k))
        elif name.startswith("cut_") and value == 0:
            continue
        elif isinstance(value, int | float) and name not in ("replicates", "seed"):
            logger.metric(f"{part}/{name}", value)


def summary(name: str, run_id: str, took: Trained, results: Results, judged: str) -> str:
    """What was found, in a few lines. judged: what was scored, by `VerifierData.scored_words`."""
    report, baselines = results.report, results.baselines
    most = max(report["rm_at_k"], key=int)
    speed = took.tokens_here / max(took.seconds, 1e-9)
    resumed = f", {took.tokens_here:,} of them since it resumed at step {took.resumed_at}," if took.resumed_at else ""
    cut, across = cut_words(report), thin.shows_across(report)
    return "\n".join(
        [
            f"{name}: {counted(took.steps, 'step')}, {took.tokens:,} tokens{resumed} in {took.seconds:.1f} s ({speed:,.0f} tokens/s)",
            f"  judged on {judged} in {counted(report['clusters'], 'cluster')}",
            f"  AUC within task {_with_ends(report, 'auc_within_task')}, pooled {_with_ends(report, 'auc_pooled')}, "
            f"ECE {_with_ends(report, 'ece_width_10')}, less its floor {_with_ends(report, 'ece_less_floor')}",
            *(
                [
                    f"  across policies: AUC within task {_with_ends(report, 'auc_within_task_across')}, "
                    f"{_best_across(report, report)}"
                ]
                if across
                else []
            ),
            *(
                [
                    "  AUC within task is not defined: no judged task has both a resolved and an unresolved attempt of one policy with "
                    "a score"
                ]
                if report["auc_within_task"] is None
                else []
            ),
            f"  pass@1 {number(report['pass_at_k']['1'])}"
            + (
                ""
                if most == "1"
                else (f", RM@{most} {number(report['rm_at_k'][most])}, pass@{most} {number(report['pass_at_k'][most])}")
            ),
            *(f"  {caution}" for caution in thin.cautions(report, results.evaluation)),
            *(
                f"  {baseline}: AUC within task {number(values.get('auc_within_task'))}{thin.beside(report, 'auc_within_task')}, "
                f"RM@{most} {number(values['rm_at_k'].get(most))}"
                + (
                    f"; across policies: AUC within task {number(values.get('auc_within_task_across'))}, {_best_across(report, values)}"
                    if across
                    else ""
                )
                for baseline, values in baselines.items()
                if values.get("rm_at_k")
            ),
            *([f"  of the attempts judged, {cut}"] if cut else []),
            *(
                f"  on {name}, {counted(pool.report['trajectories'], 'attempt')}: AUC within task "
                f"{_with_ends(pool.report, 'auc_within_task')}, ECE {_with_ends(pool.report, 'ece_width_10')}"
                for name, pool in results.pools.items()
            ),
            f"  MLflow run {run_id}: `rmlab runs list` and `rmlab ui` show it",
        ]
    )


def _best_across(report: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """`RM@4 0.287`, across policies and at the most attempts of a report, with its interval. values: the report's, or a rule's."""
    most = max(report["rm_at_k_across"], key=int)
    ends = report["ci95"].get("rm_at_k_across", {}).get(most) if values is report else None
    return f"RM@{most} {estimate((values.get('rm_at_k_across') or {}).get(most), ends)}"


def _with_ends(report: Mapping[str, Any], name: str) -> str:
    return estimate(report[name], report["ci95"].get(name)) + thin.beside(report, name)
