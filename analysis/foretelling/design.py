"""Does the set of verifiers let the study answer? The check that stands before any run of RL, and that its figure repeats.

The design of experiments/studies/which_metric_foretells_rl wants verifiers whose AUC within task is spread and whose ECE is moved apart
from it. Both are of a frozen pool of attempts. Ranks are taken within a start, as in the analysis itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.rl.rank_statistics import rank_correlations, unit_weights
from rmlab.wording import counted

VERIFIERS = 24
LOW, MOST_LOW, HIGH = 0.65, 4, 0.85
CORRELATION = 0.2
MIXED_TASKS = 100
BOTH = ("auc_within_task", "ece_width_10")
ABOUT = ("name", "block", "start", "column", "amount", "evidence", "seed")
METRICS = (
    "auc_within_task",
    "ece_width_10",
    "ece_less_floor",
    "auc_pooled",
    "brier",
    "advantage_cosine",
    "advantage_cosine_all",
    "mixed_tasks",
    "trajectories",
)


def row_of(cell: Mapping[str, str], report: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """A verifier with what a report says of it."""
    most = max(report["rm_at_k"], key=int)
    own = {name: report.get(name) for name in METRICS} | {"rm_at_most": report["rm_at_k"][most]}
    return {name: cell[name] for name in ABOUT} | own | {"run_id": run_id}


def faults(rows: Sequence[Mapping[str, Any]], there: str = "are trained") -> list[str]:
    """What the design wants and these verifiers have not, a sentence each. there: what is true of those in `rows`, in words."""
    found = []
    if len(rows) < VERIFIERS:
        found.append(f"{len(rows)} of {VERIFIERS} verifiers {there}.")
    if lacking := [row["name"] for row in rows if not known([row])]:
        found.append(f"Of {', '.join(lacking)} the AUC within task or the ECE is not known.")
    rows = known(rows)
    if len(rows) < 3:
        return found
    auc_N = [float(row["auc_within_task"]) for row in rows]
    if (low := sum(value < LOW for value in auc_N)) > MOST_LOW:
        found.append(f"{counted(low, 'verifier')} have an AUC within task below {LOW}, at most {MOST_LOW} should.")
    if max(auc_N) < HIGH:
        found.append(f"The highest AUC within task is {max(auc_N):.3f}, it should be {HIGH} or more.")
    rho = correlation(rows)
    if not abs(rho) < CORRELATION:
        found.append(f"AUC within task and ECE correlate by {rho:+.2f}, it should be less than {CORRELATION} in size.")
    if few := [row["name"] for row in rows if float(row["mixed_tasks"]) < MIXED_TASKS]:
        found.append(f"The pool has fewer than {MIXED_TASKS} tasks with attempts of both labels for {', '.join(few)}.")
    return found


def known(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those that have an AUC within task and an ECE; what a table has empty is undefined."""
    return [row for row in rows if not {None, ""} & {row[name] for name in BOTH}]


def correlation(rows: Sequence[Mapping[str, Any]]) -> float:
    """Spearman's coefficient of AUC within task and ECE, within starts, of those that have both."""
    rows = known(rows)
    auc_N, ece_N = ([float(row[name]) for row in rows] for name in BOTH)
    starts = [row["start"] for row in rows]
    return float(rank_correlations(auc_N, ece_N, unit_weights(None, starts, len(rows), 0), starts)[0])
