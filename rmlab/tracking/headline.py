"""The few metrics that runs are compared by in the UI: short names that a column shows in full, values of three digits.

The exact values stand under their full names (`eval/auc_within_task`); a headline metric is logged with them (`auc_task`), first
of all since it has no group. A run of an earlier version, or out of a bundle of one, gets them when it is read or carried.
"""

from collections.abc import Mapping

EVALUATION = {
    "rm_at_k": "rm_at_k",
    "auc_within_task": "auc_task",
    "auc_pooled": "auc",
    "ece_width_10": "ece",
    "ece_less_floor": "ece_excess",
    "brier": "brier",
}
"""Names of a report (rmlab.metrics.registry) to short ones, in the order in which they are shown."""

HEADLINE = {f"eval/{name}": short for name, short in EVALUATION.items()} | {
    "rl/pass_at_1": "pass_at_1",
    "rl/hacking_gap": "hacking_gap",
    "outcome/all_greedy_difference": "gained",
    "outcome/all_sampled_difference": "gained_sampled",
}
"""Names of tracked metrics to short ones."""

DIGITS = 3


def headline(values: Mapping[str, float | None]) -> dict[str, float]:
    """The headline metrics of some metrics by their full names; what is undefined, or there already, is left out."""
    found = {HEADLINE[name]: value for name, value in values.items() if name in HEADLINE and value is not None}
    return {short: rounded(value) for short, value in found.items() if short not in values}


def rounded(value: float) -> float:
    """To three significant digits."""
    return float(f"{value:.{DIGITS}g}")
