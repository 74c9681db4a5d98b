"""What the verifiers of all folds leave in the store together: their pooled scores, and the reports on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rmlab.fingerprint import fingerprint
from rmlab.metrics.report import report
from rmlab.metrics.thin import cautions
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.scratch import scratch_folder
from rmlab.tracking.notes import NOTE, run_note
from rmlab.tracking.run import RunLogger
from rmlab.tracking.tags import origin_tags
from rmlab.trajectories.folds import Fold, FoldsConfig
from rmlab.verifiers.dataset import VerifierData, evaluated, scored_words
from rmlab.verifiers.encoding import Encoded, cut_counts
from rmlab.verifiers.evaluation import Results, log_report, log_tables
from rmlab.verifiers.out_of_fold import baseline_reports, fold_baselines, of_policies, pooled
from rmlab.verifiers.training import VerifierSettings, run_name


@dataclass(frozen=True)
class JudgedFold:
    """A fold when it is done. scores: of all that was left out. resolved: in its training set. took: of its training."""

    fold: Fold
    ready: VerifierData
    scores: Scores
    resolved: int
    took: dict[str, float]
    validation: dict[str, Any]


def log_folds(
    done: Sequence[JudgedFold], settings: VerifierSettings, folds: FoldsConfig, logger: RunLogger
) -> tuple[Scores, list[Encoded], str]:
    """Reports on the pooled scores: of the policies that are trained on together, of each alone, of those never seen.

    Gives the scores that are judged, their attempts in the same order, and what came out: a line, and in further ones what has to be
    known before the values are believed.
    """
    unseen, replicates = folds.unseen, settings.evaluation.replicates
    everything = pooled([one.scores for one in done])
    policies = sorted({str(policy) for policy in everything.policy})
    judged = of_policies(everything, [policy for policy in policies if policy not in unseen])
    read = [e for one in done for e in one.ready.evaluation if e.trajectory.policy not in unseen]
    found = report(judged, replicates=replicates, folds=folds.number)
    found["fit_rate"] = sum(e.n_tokens < settings.prompt.max_tokens for e in read) / len(read)
    found |= cut_counts(read)
    baselines = fold_baselines([one.ready for one in done], unseen)
    results = Results(judged, found, None, None, baseline_reports(baselines, replicates))
    log_tables(logger, results)
    logger.json(
        "by_policy.json",
        {policy: report(of_policies(everything, [policy]), replicates=replicates) for policy in policies},
    )
    tables = {"policy_identity_scores": baselines["policy_identity"], "unseen_scores": of_policies(everything, unseen)}
    with scratch_folder() as scratch:
        for title, table in tables.items():
            if not isinstance(table, dict) and len(table):
                write_score_table(scratch / f"{title}.parquet", table)
                logger.artifact(scratch / f"{title}.parquet")
    if unseen:
        log_report(logger, "unseen", report(of_policies(everything, unseen), replicates=replicates))
    logger.json(
        "folds.json",
        [
            {
                "fold": one.fold.number,
                **{part: one.fold.clusters(part) for part in ("evaluation", "verifier", "validation")},
                "tokenizer": one.ready.tokenizer.fingerprint,
                **one.took,
                "validation": one.validation,
            }
            for one in done
        ],
    )
    logger.metrics({f"train/{key}": sum(one.took[key] for one in done) for key in done[0].took})
    across = ", ".join(f"RM@{k} across policies {value:.3f}" for k, value in (found["rm_at_k_across"] or {}).items())
    of_tasks = scored_words(
        [e.trajectory for e in read],
        _tasks_there(done, settings, unseen),
        f"evaluation.tasks={settings.evaluation.tasks} a fold",
    )
    said = f"{len(done)} folds, {of_tasks} judged out of fold; {across}"
    beware = cautions(found, judged)
    note = run_note(run_name(settings), found, results.baselines, origin_tags()["mlflow.source.name"], beware)
    logger.tags(
        {
            "tokenizer": fingerprint([one.ready.tokenizer.fingerprint for one in done]),
            "pretraining": done[0].ready.pretraining,
            "over_length": settings.prompt.over_length.value,
            NOTE: f"{said}\n\n{note}",
        }
    )
    return judged, read, "\n  ".join([said, *beware])


def _tasks_there(done: Sequence[JudgedFold], settings: VerifierSettings, unseen: Sequence[str]) -> int:
    """Tasks of which `evaluation.tasks` chooses, of the policies that are trained on, in all folds."""
    parts = ([t for t in one.fold.trajectories if t.split == "evaluation" and t.policy not in unseen] for one in done)
    return len({t.task_id for part in parts for t in evaluated(part, settings.evaluation, None)})
