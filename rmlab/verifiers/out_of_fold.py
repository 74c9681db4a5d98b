"""How well does a verifier score repositories that it never saw? One verifier per fold, with their scores pooled into one table.

Scores within a fold come from one verifier, scores of different folds from different ones, so a pooled AUC also reflects how
well these agree on the base rate. The choice between several attempts at a task is made within a fold.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rmlab.baselines.rules import Reason, score_baselines
from rmlab.errors import DataError
from rmlab.metrics.report import report
from rmlab.models.config import ModelConfig
from rmlab.models.tokenizer import load_tokenizer
from rmlab.scores.scores import Scores
from rmlab.trajectories.folds import Fold
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.splitting import check_parts
from rmlab.trajectories.store import TrajectorySet
from rmlab.verifiers.answer import verifier_tokenizer
from rmlab.verifiers.config import EvaluationConfig, PromptConfig
from rmlab.verifiers.dataset import READ, VerifierData, check_pretraining, evaluated
from rmlab.verifiers.encoding import Encoded, encode
from rmlab.verifiers.prompt import check_leaks


def fold_data(
    fold: Fold,
    metadata: Mapping[str, str],
    model: ModelConfig,
    prompt: PromptConfig,
    evaluation: EvaluationConfig,
    cache: Path,
) -> VerifierData:
    """What the verifier of a fold is made from: parts proven apart, prompts proven free of outcomes, all of it as token ids.

    A tokenizer of our own is trained on what the fold learns from, by all policies whatever the level, and never on a label.
    metadata: of the pool's file. cache: folder of tokenizers and token ids that all cells share. Raises DataError.
    """
    pool = TrajectorySet(fold.trajectories, dict(metadata))
    check_parts(pool.trajectories)
    read = TrajectorySet(tuple(t for t in pool.trajectories if t.split in READ), pool.metadata)
    check_leaks(read.trajectories)
    pretraining = check_pretraining(Path(model.pretrained) if model.pretrained else None, pool)
    lessons = read.part("verifier").trajectories
    tokenizer = (
        load_tokenizer(Path(model.pretrained), add_markers=True)
        if model.pretrained
        else verifier_tokenizer(lessons, model.tokenizer, cache / "tokenizers")
    )
    judged = evaluated(read.part("evaluation").trajectories, evaluation, evaluation.tasks)
    watched = evaluated(read.part("validation").trajectories, evaluation, evaluation.validation_tasks)
    if not judged or not watched:
        raise DataError(
            f"fold {fold.number} has nothing to {'evaluate' if not judged else 'validate on'}: check the keys of evaluation and folds"
        )

    def encoded(trajectories: Sequence[Trajectory]) -> list[Encoded]:
        return encode(trajectories, tokenizer, prompt, cache / "token_ids")

    return VerifierData(pool, tokenizer, encoded(lessons), encoded(watched), encoded(judged), prompt, pretraining)


def pooled(tables: Sequence[Scores]) -> Scores:
    """One table of the rows of several, in their order. Raises DataError where an attempt was scored in two folds."""
    return Scores(
        **{name: np.concatenate([getattr(table, name) for table in tables]) for name in Scores.__dataclass_fields__}
    )


def of_policies(scores: Scores, policies: Sequence[str]) -> Scores:
    return scores.select(np.isin(scores.policy, list(policies)))


def fold_baselines(materials: Sequence[VerifierData], unseen: Sequence[str]) -> dict[str, Scores | Reason]:
    """The scores of every baseline, fitted in each fold on all that is not judged there, pooled; or why there are none.

    unseen: policies whose attempts are not judged here.
    """
    by_fold: list[dict[str, Scores | Reason]] = []
    for ready in materials:
        known = TrajectorySet(
            tuple(t for t in ready.pool.trajectories if t.split in ("verifier", "validation")), ready.pool.metadata
        )
        judged = TrajectorySet(
            tuple(t for t in ready.judged.trajectories if t.policy not in unseen), ready.pool.metadata
        )
        by_fold.append(score_baselines(judged, known))
    pooled_tables: dict[str, Scores | Reason] = {}
    for name in by_fold[0]:
        tables = [baselines[name] for baselines in by_fold]
        reasons = [table for table in tables if not isinstance(table, Scores)]
        pooled_tables[name] = (
            reasons[0] if reasons else pooled([table for table in tables if isinstance(table, Scores)])
        )
    return pooled_tables


def baseline_reports(baselines: Mapping[str, Scores | Reason], replicates: int) -> dict[str, dict[str, Any]]:
    """name -> all metrics, or {"reason": ...}."""
    return {
        name: report(values, replicates=replicates) if isinstance(values, Scores) else dict(values)
        for name, values in baselines.items()
    }
