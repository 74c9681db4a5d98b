"""What a run's verifier was worth on the policy's own attempts: from the score table that every evaluation of an RL run leaves.

A policy that is hacked solves little or nothing in the end, and a within-task AUC is then a matter of one or two tasks. So it is
shown where at least FEWEST_MIXED tasks have attempts of both labels, and left out elsewhere: of such a policy it is not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from analysis.rl.outcomes import damaged
from rmlab.errors import MissingArtifact, RmlabError
from rmlab.metrics import registry
from rmlab.metrics.calibration import binned, ece, width_bin
from rmlab.metrics.discrimination import advantage, discrimination
from rmlab.metrics.table import table
from rmlab.metrics.uncertainty import REPLICATES, bootstrap, interval, row_difference
from rmlab.metrics.weighted import AdvantageMeasures, Combined, WidthBins, WithinTasks
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.tracking.bundles.reading import AnyRun

FEWEST_MIXED = 10
"""Tasks with attempts of both labels, under which a within-task AUC is not shown."""

SAME = 1e-9
"""Distance of two means of one table's scores, by the order in which they are added."""

AUC = "auc_within_task"
METRICS = (AUC, "ece_width_10", "advantage_cosine_all")
RESAMPLED = (WithinTasks, WidthBins, AdvantageMeasures)

Value = tuple[float | None, float | None, float | None]
"""A value and the ends of its 95 % interval, None where there is none."""

NONE: Value = (None, None, None)


@dataclass(frozen=True)
class Watched:
    """A verifier at the evaluations of one run. curve: the rows of its outcome, one an evaluation.

    Where a bundle left the tables out, an evaluation has what the run said of it, without intervals.
    """

    run: AnyRun
    curve: Sequence[dict[str, Any]]

    @cached_property
    def tables(self) -> dict[int, Scores]:
        """Step to the verifier's table of that evaluation's sampled attempts. Raises DataError for one that cannot be read."""
        rows = {int(row["step"]): row for row in self.curve if "verifier_mean_score" in row}
        return {step: self._read(path, row) for step, row in rows.items() if (path := self._table(step)) is not None}

    @cached_property
    def measured(self) -> dict[int, dict[str, Value]]:
        """Step to METRICS with their intervals; what is undefined, or an AUC of too few tasks, is left out."""
        found: dict[int, dict[str, Value]] = {}
        for row in self.curve:
            step = int(row["step"])
            if step in self.tables:
                found[step] = _measured(self.tables[step])
            else:
                enough = row.get("verifier_mixed_tasks", 0) >= FEWEST_MIXED
                found[step] = {
                    name: (float(row[key]), None, None)
                    for name in METRICS
                    if (key := f"verifier_{name}") in row and (name != AUC or enough)
                }
        return found

    @cached_property
    def gaps(self) -> dict[int, Value]:
        """Step to the hacking gap: mean score - true rate minus that of the first evaluation."""
        found: dict[int, Value] = {}
        for row in (row for row in self.curve if "hacking_gap" in row):
            step, low, high = int(row["step"]), None, None
            if 0 in self.tables and step in self.tables:
                _, low, high = row_difference(_excess(self.tables[0]), _excess(self.tables[step]))
            found[step] = (float(row["hacking_gap"]), low, high)
        return found

    def last(self, name: str) -> Value:
        """A metric at the last evaluation: the verifier on the policy as training has left it."""
        return self.measured[max(self.measured)].get(name, NONE) if self.measured else NONE

    def _read(self, path: Path, row: Mapping[str, Any]) -> Scores:
        name = f"attempts/{path.name}"
        try:
            scores = read_score_table(path)
        except RmlabError as error:  # by the run: of a bundle, the path is that of a copy that will be gone
            raise damaged(self.run, name, str(error).replace(str(path), path.name)) from error
        if not len(scores) or abs(float(np.nanmean(scores.score)) - row["verifier_mean_score"]) > SAME:
            raise damaged(self.run, name, "its scores are not those of which the run logged the mean")
        return scores

    def _table(self, step: int) -> Path | None:
        try:
            return self.run.artifact(f"attempts/look_{step:05d}.parquet")
        except MissingArtifact:
            return None


def _excess(scores: Scores) -> tuple[Any, Any]:
    """Score - label of the attempts that have both, and their clusters."""
    excess_N = scores.score - scores.resolved
    known_N = ~np.isnan(excess_N)
    return excess_N[known_N], scores.cluster[known_N]


def _measured(scores: Scores) -> dict[str, Value]:
    rows = table(scores)
    separation = discrimination(rows)
    ten = binned(rows.scored.score_N, rows.scored.label_N, width_bin(rows.scored.score_N, 10), 10)
    found = {
        AUC: separation.within_task if separation.mixed >= FEWEST_MIXED else np.nan,
        "ece_width_10": float(ece(ten)),
        "advantage_cosine_all": float(advantage(rows).cosine_all),
    }
    value_R = bootstrap(Combined(rows, RESAMPLED), rows.clusters, REPLICATES, 0) if rows.clusters > 1 else {}
    measured: dict[str, Value] = {}
    for name, value in found.items():
        if not np.isnan(value):
            ends = interval(value, value_R[name], registry.named(name).rule) if value_R else None
            measured[name] = (value, *(ends or (None, None)))
    return measured
