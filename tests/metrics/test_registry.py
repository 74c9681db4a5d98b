"""One entry in the registry is all that a metric needs, and no number has moved since the registry is there."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from rmlab.metrics import registry
from rmlab.metrics.compare import compare
from rmlab.metrics.metric import Metric
from rmlab.metrics.report import report
from rmlab.metrics.table import Floats, Table, ratio, sum_by
from rmlab.metrics.weighted import Statistic, Values
from rmlab.pages.report_page import report_page
from rmlab.pages.report_tables import show
from rmlab.scores.table import read_score_table
from rmlab.verifiers.evaluation import log_report

DATA = Path(__file__).parents[1] / "data"
NO_METRICS = {"post_hoc", "post_hoc_fitted_on", "ci95", "replicates", "seed"}


def assert_same(expected, found, path):
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_same(value, found[key], f"{path}.{key}")
    elif isinstance(expected, list | float):
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15), path
    else:
        assert found == expected, path


@pytest.mark.parametrize("case", sorted(path.stem for path in (DATA / "metric_cases").glob("*.csv")))
def test_reports_are_what_they_were(case):
    found = report(read_score_table(DATA / "metric_cases" / f"{case}.csv"), replicates=200, folds=5)
    assert_same(json.loads((DATA / "reports.json").read_text())[case], found, case)


def test_a_report_holds_the_registry_and_nothing_else(make_scores):
    for scores in (make_scores(0), make_scores(1, policies=3)):
        found = report(scores, replicates=20)
        names = [metric.name for metric in registry.METRICS]
        assert len(set(names)) == len(names)
        assert set(found) - NO_METRICS == set(names)
        with_interval = {
            metric.name for metric in registry.METRICS if metric.statistic and found[metric.name] is not None
        }
        assert {name for name, ends in found["ci95"].items() if ends is not None} == with_interval


def test_the_list_in_the_documentation_is_that_of_the_registry():
    page = Path(__file__).parents[2] / "analysis" / "metrics.md"
    assert page.read_text() == registry.markdown(), (
        "run `.venv/bin/python -m rmlab.metrics.registry > analysis/metrics.md`"
    )


class MeanScore(Statistic):
    def __init__(self, table: Table) -> None:
        super().__init__(table)
        rows = table.scored
        self.sum_C2 = np.column_stack(
            [sum_by(rows.cluster_N, value_N, rows.clusters) for value_N in (rows.score_N, np.ones(len(rows.score_N)))]
        )

    def values(self, weight_RC: Floats) -> Values:
        score_R, rows_R = (weight_RC @ self.sum_C2).T
        return {"mean_score": ratio(score_R, rows_R)}


@dataclass
class Logged:
    """Takes metrics as a run does."""

    names: list[str] = field(default_factory=list)

    def metric(self, name: str, value: float, step: int = 0) -> None:
        self.names.append(name)


def test_one_entry_brings_a_metric_into_report_intervals_comparison_tables_and_mlflow(make_scores, monkeypatch, capsys):
    metric = Metric("mean_score", "mean of the scores", "Calibration", "mean score", "a note", MeanScore)
    monkeypatch.setattr(registry, "METRICS", (*registry.METRICS, metric))
    scores = make_scores(0)
    found = report(scores, replicates=50)
    assert found["mean_score"] == pytest.approx(np.nanmean(scores.score))
    low, high = found["ci95"]["mean_score"]
    assert low < found["mean_score"] < high
    assert compare(scores, scores, swaps=10, replicates=10)["metrics"]["mean_score"]["difference"] == 0
    show("a table", found)
    assert "mean score" in capsys.readouterr().out
    assert "mean score" in report_page("a table", found, scores)
    logged = Logged()
    log_report(logged, "eval", found)
    assert {"eval/mean_score", "eval/rm_at_k", "eval/tasks_at_k"} <= set(logged.names)
    assert "| `mean_score` | mean of the scores | percentile |" in registry.markdown()


def test_what_did_not_happen_is_no_metric(make_scores):
    error = {"1": 0.0, "2": 0.0}
    found = report(make_scores(0), replicates=50) | {
        "rm_at_k_weighted": {"1": 0.5, "2": 0.6},
        "rm_at_k_weighted_standard_error": error,
    }
    logged = Logged()
    log_report(logged, "eval", found | {"cut_tokens": 0, "cut_attempts": 3})
    assert "eval/rm_at_k_weighted" in logged.names
    assert "eval/rm_at_k_weighted_standard_error" not in logged.names
    assert ("eval/cut_attempts" in logged.names, "eval/cut_tokens" in logged.names) == (True, False)
    error["2"] = 0.01
    log_report(logged, "eval", found)
    assert "eval/rm_at_k_weighted_standard_error" in logged.names
