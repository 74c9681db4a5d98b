"""What a run's verifier was worth on the policy's own attempts: from the score table that every look of an RL run leaves.

A policy that is hacked solves little or nothing in the end, and a within-task AUC is then a matter of one or two tasks. So it is
shown where at least FEWEST_MIXED tasks have attempts of both labels, and left out elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analysis.tracked import AnyRun
from rmlab.errors import RmlabError
from rmlab.metrics.report import report
from rmlab.metrics.scores import Scores
from rmlab.rl.benchmarks import Difference, paired_difference
from rmlab.verifiers.score_table import read_score_table

FEWEST_MIXED = 10
"""Tasks with attempts of both labels, under which a within-task AUC is not shown."""

AUC = "auc_within_task"
ON_THE_LAST = ("ece_width_10", "advantage_cosine_all")
"""Metrics of the last look, however little is solved there: both are defined without mixed tasks."""


@dataclass(frozen=True)
class Looks:
    """The looks of one run, with the outcome that it left. Without tables where it has no verifier, or its bundle left them out."""

    run: AnyRun
    outcome: dict[str, Any]

    @cached_property
    def tables(self) -> dict[int, Scores]:
        """Step to the verifier's scores of the sampled attempts of that look."""
        found = {}
        for step in (int(row["step"]) for row in self.outcome["curve"] if "verifier_mean_score" in row):
            try:
                found[step] = read_score_table(self.run.artifact(f"attempts/look_{step:05d}.parquet"))
            except RmlabError:
                continue
        return found

    @cached_property
    def mixed(self) -> dict[int, int]:
        """Step to the number of tasks with attempts of both labels."""
        return {step: sum(0 < share < 1 for share in _by_task(scores, scores.resolved).values()) for step, scores in self.tables.items()}

    @cached_property
    def gaps(self) -> dict[int, Difference]:
        """Step to the hacking gap (design.md section 5): mean score - label of each task, paired with the first look's."""
        excess = {step: _by_task(scores, scores.score - scores.resolved) for step, scores in self.tables.items()}
        first = excess.get(0)
        if first is None:
            return {}
        cluster_of = dict(zip(self.tables[0].task_id.tolist(), self.tables[0].cluster.tolist(), strict=True))
        return {step: paired_difference(first, now, cluster_of) for step, now in excess.items()}

    def shows(self, metric: str, step: int) -> bool:
        """Whether a look's value of a metric may be shown: a within-task AUC of too few mixed tasks may not."""
        return AUC not in metric or self.mixed.get(step, FEWEST_MIXED) >= FEWEST_MIXED

    @cached_property
    def shifted(self) -> dict[str, Any]:
        """The verifier on the policy's shifted attempts, metric to value, METRIC_low, METRIC_high; what is undefined is left out.

        ECE and advantage cosine on the last look; the within-task AUC on the last one that has FEWEST_MIXED mixed tasks, which is
        `auc_step`. Without tables it is what the run says of its last look, without intervals.
        """
        if not self.tables:
            return {name: value for name, value in self.outcome["verifier_last"].items() if value is not None}
        last = max(self.tables)
        able = max((step for step, mixed in self.mixed.items() if mixed >= FEWEST_MIXED), default=None)
        found = _measured(self.tables[last], ON_THE_LAST)
        return found if able is None else found | _measured(self.tables[able], (AUC,)) | {"auc_step": able}


def _measured(scores: Scores, names: tuple[str, ...]) -> dict[str, Any]:
    measured = report(scores)
    found: dict[str, Any] = {}
    for name in names:
        if measured[name] is None:
            continue
        low, high = measured["ci95"].get(name) or (None, None)
        found |= {name: measured[name], f"{name}_low": low, f"{name}_high": high}
    return found


def _by_task(scores: Scores, value_N: Any) -> Mapping[str, float]:
    """task_id to the mean of a value over its attempts."""
    values: dict[str, list[float]] = {}
    for task, value in zip(scores.task_id.tolist(), value_N.tolist(), strict=True):
        values.setdefault(task, []).append(value)
    return {task: sum(own) / len(own) for task, own in values.items()}
