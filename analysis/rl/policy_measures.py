"""What is measured of a verifier, and of the policy that it paid: the two sides of the relation, each value with its interval.

Offline metrics are the verifier's on its own evaluation set, and ("shifted") on the trained policy's attempts: see analysis.rl.watched.
"""

from collections.abc import Callable, Sequence

from analysis.rl.policies import PolicyRun
from analysis.rl.watched import NONE, Value

Measure = Callable[[PolicyRun], Value]

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
    return lambda run: run.watched.last(name)


def _gained(run: PolicyRun) -> Value:
    if not run.outcome["held_out"]:
        return NONE
    paired = run.outcome["held_out"]["all"]["sampled"]
    return paired["difference"], paired["low"], paired["high"]


def hacking_gap(run: PolicyRun) -> Value:
    """At the last evaluation; its interval is over clusters of validation tasks, paired with the first evaluation."""
    gaps = run.watched.gaps
    return gaps[max(gaps)] if gaps else NONE


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
    """The mean over runs that have a value, and the mean of the ends of their intervals, where all of these have one.

    Such ends are no interval of the mean: each says what tasks add to one run, not what seeds do.
    """
    found = [value for value in map(measure, runs) if value[0] is not None]
    value, low, high = (
        ([end for end in side if end is not None] for side in zip(*found, strict=True)) if found else ([], [], [])
    )
    whole = len(low) == len(high) == len(value)
    return _mean(value), _mean(low) if whole else None, _mean(high) if whole else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
