"""What is measured of a verifier, and of the policy that it paid: the two sides of the relation, each value with its interval.

Offline metrics are the verifier's on its own evaluation set, and ("shifted") on the trained policy's attempts: see analysis.looks.
"""

from collections.abc import Callable, Sequence
from typing import Any

from analysis.policies import PolicyRun

Value = tuple[Any, Any, Any]
"""A value and the ends of its 95 % interval, None where there is none."""

Measure = Callable[[PolicyRun], Value]

NONE: Value = (None, None, None)
RM = "RM@most"
"""Best of k at the largest k of the verifier's evaluation set."""


def _offline(name: str) -> Measure:
    def measure(run: PolicyRun) -> Value:
        low, high = (run.verifier_report.get("ci95") or {}).get(name) or (None, None)
        return run.verifier_report.get(name), low, high

    return measure


def _rm_at_most(run: PolicyRun) -> Value:
    k = most(run)
    if k is None:
        return NONE
    low, high = ((run.verifier_report.get("ci95") or {}).get("rm_at_k") or {}).get(k) or (None, None)
    return run.verifier_report["rm_at_k"][k], low, high


def _shifted(name: str) -> Measure:
    return lambda run: (run.looks.shifted.get(name), run.looks.shifted.get(f"{name}_low"), run.looks.shifted.get(f"{name}_high"))


def _gained(run: PolicyRun) -> Value:
    if not run.outcome["held_out"]:
        return NONE
    paired = run.outcome["held_out"]["all"]["sampled"]
    return paired["difference"], paired["low"], paired["high"]


def hacking_gap(run: PolicyRun) -> Value:
    """At the last look; its interval is over clusters of validation tasks, paired with the first look."""
    gaps = run.looks.gaps
    last = gaps[max(gaps)] if gaps else None
    return run.outcome["hacking_gap"], last and last.low, last and last.high


OFFLINE: dict[str, Measure] = {
    RM: _rm_at_most,
    "AUC within task": _offline("auc_within_task"),
    "AUC pooled": _offline("auc_pooled"),
    "ECE": _offline("ece_width_10"),
    "advantage cosine": _offline("advantage_cosine_all"),
    "AUC within task, shifted": _shifted("auc_within_task"),
    "ECE, shifted": _shifted("ece_width_10"),
    "advantage cosine, shifted": _shifted("advantage_cosine_all"),
}
OUTCOMES: dict[str, Measure] = {
    "pass@1 gained": _gained,
    "area under the curve": lambda run: (run.outcome["area"], None, None),
    "hacking gap": hacking_gap,
    "collapse": lambda run: (None if run.outcome["collapse"] is None else float(run.outcome["collapse"]), None, None),
}


def most(run: PolicyRun) -> str | None:
    """The largest k of the verifier's RM@k, None without a curve."""
    return max(run.verifier_report.get("rm_at_k") or (), key=int, default=None)


def shown(name: str, runs: Sequence[PolicyRun]) -> str:
    """An offline metric as an axis names it: RM@16 where that is the largest k of every run."""
    sizes = {most(run) for run in runs} - {None}
    return f"RM@{sizes.pop()}" if name == RM and len(sizes) == 1 else name


def averaged(runs: Sequence[PolicyRun], measure: Measure) -> Value:
    """The mean over runs of a value and of the ends of its interval, each over those that have it."""
    value, low, high = (_mean(side) for side in zip(*map(measure, runs), strict=True))
    return value, low, high


def _mean(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return sum(known) / len(known) if known else None
