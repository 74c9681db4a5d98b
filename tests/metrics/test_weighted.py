"""The fast values under weights of clusters against the definitions on the table that is really resampled."""

from dataclasses import replace

import numpy as np
import pytest

from rmlab.metrics import registry, weighted, weighted_sorted
from rmlab.metrics.best_of_k import sizes_of_k
from rmlab.metrics.calibration import binned, ece, prior_corrected, width_bin
from rmlab.metrics.report import report
from rmlab.metrics.table import table
from rmlab.metrics.weighted_sorted import SortedRows
from rmlab.scores.scores import Scores

PRIORS = (0.3, 0.6)
NEARLY = {"calibration_slope", "calibration_intercept"}


def all_exact(rows):
    kinds = [kind for kind in registry.statistics() if kind is not weighted.Recalibrations]
    return weighted.Combined(replace(rows, priors=PRIORS), kinds).values


def really_resampled(scores, weights):
    """Each cluster as often as its weight says; copies are other tasks."""
    _, code = np.unique(scores.cluster, return_inverse=True)
    rows, copy = [], []
    for c, times in enumerate(weights.astype(int)):
        for i in range(times):
            mine = np.flatnonzero(code == c)
            rows += mine.tolist()
            copy += [f"#{i}"] * len(mine)
    return Scores.of(
        [f"{scores.task_id[r]}{c}" for r, c in zip(rows, copy, strict=True)],
        scores.score[rows],
        scores.resolved[rows],
        policy=scores.policy[rows],
        cluster=[f"{scores.cluster[r]}{c}" for r, c in zip(rows, copy, strict=True)],
    )


@pytest.mark.parametrize(
    ("policies", "cluster_size", "ties"), [(1, 1, True), (1, 3, False), (2, 2, True), (3, 1, False)]
)
@pytest.mark.parametrize("seed", range(4))
def test_every_metric_equals_its_definition_on_the_resampled_table(make_scores, policies, cluster_size, ties, seed):
    scores = make_scores(seed, policies=policies, cluster_size=cluster_size, ties=ties)
    rows = table(scores)
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(rows.clusters, np.full(rows.clusters, 1 / rows.clusters), size=6).astype(float)
    weights[0] = 1.0
    weights[1] = 0.0
    weights[1, 0] = 2.0  # one cluster drawn twice: much is undefined
    found = all_exact(rows)(weights)
    largest = {
        "rm_at_k": rows.most_attempts,
        "pass_at_k": rows.most_attempts,
        "rm_at_k_across": rows.most_attempts_across,
    }
    for r, weight in enumerate(weights):
        drawn = really_resampled(scores, weight)
        drawn_rows = table(drawn).scored
        expected = report(drawn, replicates=0)
        corrected = prior_corrected(drawn_rows.score_N, *PRIORS)
        expected["ece_prior_corrected"] = float(
            ece(binned(corrected, drawn_rows.label_N, width_bin(corrected, 10), 10))
        )
        for name, values in found.items():
            if name in largest:
                known = expected[name] or {}
                for j, k in enumerate(sizes_of_k(largest[name])):
                    # a resample without the largest tasks has a shorter curve; its end holds for larger k
                    at = known.get(str(k), known[max(known, key=int)] if known else None)
                    if at is not None:
                        assert values[r, j] == pytest.approx(at, abs=1e-9), (name, k)
            else:
                value = expected[name]
                assert values[r] == pytest.approx(float("nan") if value is None else value, abs=1e-9, nan_ok=True), (
                    name,
                    r,
                )


@pytest.mark.slow
def test_the_recalibration_is_nearly_that_of_the_resampled_table(make_scores):
    scores = make_scores(5, tasks=150, ties=False)
    rows = table(scores)
    weights = (
        np.random.default_rng(0)
        .multinomial(rows.clusters, np.full(rows.clusters, 1 / rows.clusters), size=40)
        .astype(float)
    )
    weights[0] = 1.0
    found = weighted.Recalibrations(rows).values(weights)
    for name in NEARLY:
        refitted = np.array([report(really_resampled(scores, weight), replicates=0)[name] for weight in weights])
        assert found[name][0] == pytest.approx(refitted[0], abs=1e-9)
        assert found[name] == pytest.approx(refitted, abs=0.5 * refitted.std())
        assert found[name].std() == pytest.approx(refitted.std(), rel=0.15)


def test_chunks_of_weightings_give_the_same(make_scores, monkeypatch):
    rows = table(make_scores(1, tasks=30))
    weights = np.random.default_rng(0).multinomial(30, np.full(30, 1 / 30), size=50).astype(float)
    whole = SortedRows(rows).values(weights)
    monkeypatch.setattr(weighted_sorted, "ROWS_AT_ONCE", 3 * len(rows.score_N))
    parts = SortedRows(rows).values(weights)
    for name in whole:
        assert parts[name] == pytest.approx(whole[name], abs=0, nan_ok=True)


def test_nothing_scored_is_undefined_everywhere():
    rows = table(Scores.of(["t", "u"], [float("nan")] * 2, [1, 0]))
    found = all_exact(rows)(np.ones((3, 2)))
    assert found["score_rate"].tolist() == [0, 0, 0]
    assert found["rm_at_k"].tolist() == [[0.5]] * 3
    for name in (
        "auc_pooled",
        "ece_width_10",
        "ece_mass_10",
        "ece_debiased",
        "mce",
        "brier",
        "advantage_cosine",
        "auc_within_task",
    ):
        assert np.isnan(found[name]).all(), name
