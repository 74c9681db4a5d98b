"""What came of a training? The summary by which runs are compared: better or worse than the start, collapsed, hacked.

pass@1 is paired with the start on the same held-out tasks. Collapse: over all held-out benchmarks the
last evaluation is lower than the first, one-sided at 97.5 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rmlab.metrics.uncertainty import Difference, paired_difference
from rmlab.microswe.task import Task
from rmlab.policies.engine import Rollout
from rmlab.policies.success import conduct
from rmlab.rl.learner import State
from rmlab.rl.rewards import Rewards

Rates = Mapping[str, Mapping[str, Mapping[str, float]]]


def outcome(
    state: State, after: Rates, tasks_of: Mapping[str, Sequence[Task]], best: Rates | None = None
) -> dict[str, Any]:
    """JSON values. held_out: benchmark → way → before, after, difference, low, high; `all`: every benchmark's tasks together.

    chosen: the same for the weights that were best on validation, where they were evaluated.
    area: mean pass@1 over the validation curve minus its
    start, by the trapezoid rule. verifier_first, verifier_last: what the verifier was worth on the policy's attempts. null
    where there was no evaluation, no verifier or no held-out task.
    """
    clusters = {task.task_id: task.cluster for own in tasks_of.values() for task in own}
    differences = held_out_differences(state.held_out_before, after, clusters)
    first, last = (state.curve[0], state.curve[-1]) if state.curve else ({}, {})
    return {
        "steps": state.step,
        "seconds": round(state.seconds, 1),
        "held_out": differences,
        "collapse": Difference(**differences["all"]["sampled"]).falls if after else None,
        "area": area(state.curve),
        "hacking_gap": last.get("hacking_gap"),
        "pass_at_1_start": first.get("pass_at_1"),
        "pass_at_1_end": last.get("pass_at_1"),
        "chosen": {"step": state.best_step, "held_out": held_out_differences(state.held_out_before, best, clusters)}
        if best
        else None,
        "verifier_first": _of_the_verifier(first),
        "verifier_last": _of_the_verifier(last),
        "curve": state.curve,
    }


def held_out_differences(before: Rates, after: Rates, clusters: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Benchmark → way → paired difference, and all benchmarks' tasks together; empty where there is none."""
    found: dict[str, dict[str, Any]] = {}
    for way in ("sampled", "greedy"):
        pooled: tuple[dict[str, float], dict[str, float]] = ({}, {})
        for benchmark, rates in after.items():
            then = before.get(benchmark, {}).get(way, {})
            found.setdefault(benchmark, {})[way] = _plain(paired_difference(then, rates[way], clusters))
            pooled[0].update(then)
            pooled[1].update(rates[way])
        if after:
            found.setdefault("all", {})[way] = _plain(paired_difference(*pooled, clusters))
    return found


def held_out_rates_record(state: State, after: Rates, tasks_of: Mapping[str, Sequence[Task]]) -> dict[str, Any]:
    """What two runs are compared by: benchmark → way → task_id to resolved share before and after, and the tasks' clusters."""
    return {
        "before": state.held_out_before,
        "after": after,
        "clusters": {task.task_id: task.cluster for own in tasks_of.values() for task in own},
    }


def described(found: Mapping[str, Any]) -> list[str]:
    """An outcome in a few lines."""
    lines = [
        f"  {benchmark}, {way}: {_said(difference)}"
        for benchmark, ways in found["held_out"].items()
        for way, difference in ways.items()
    ]
    if (chosen := found["chosen"]) is not None:
        lines.append(
            f"  chosen on validation: step {chosen['step']}; all, sampled: {_said(chosen['held_out']['all']['sampled'])}"
        )
    gap = found["hacking_gap"]
    return [*lines, f"  collapse: {found['collapse']}, hacking gap {'-' if gap is None else f'{gap:+.3f}'}"]


def signal(history: Sequence[Sequence[Any]]) -> list[str]:
    """A line that says so where no group of any step had a signal: such a training teaches nothing. history: of its state."""
    shares = [float(value) for name, value, *_ in history if name == "rl/signal_share"]
    if not shares or max(shares) > 0:
        return []
    return [
        "  no group of any step had a signal (all attempts at a task were paid alike): nothing was learned, the policy is its start"
    ]


def timed(history: Sequence[Sequence[Any]]) -> list[str]:
    """Where the time of a training went, in seconds: means over steps, evaluations and held-out benchmarks. history: of its state."""
    values: dict[str, list[float]] = {}
    for name, value, *_ in history:
        values.setdefault(name, []).append(float(value))

    def parts(group: str, names: Sequence[str]) -> str:
        known = [(name, values[key]) for name in names if (key := f"{group}/seconds_{name}") in values]
        return ", ".join(f"{name} {np.mean(own):.1f}" for name, own in known)

    lines = []
    if "rl/seconds_step" in values:
        step = values["rl/seconds_step"]
        lines.append(
            f"  a step {np.mean(step):.1f} s (99 %: {np.quantile(step, 0.99):.1f}): "
            f"{parts('rl', ('rollout', 'scoring', 'update'))}; of the rollout {parts('rl', ('decoding', 'prefill', 'execution'))}"
        )
    if "rl/seconds_look" in values:
        lines.append(f"  an evaluation {np.mean(values['rl/seconds_look']):.1f} s")
    if "held_out/seconds" in values:
        lines.append(
            f"  the held-out benchmarks {np.mean(values['held_out/seconds']):.1f} s: "
            f"{parts('held_out', ('decoding', 'prefill', 'execution'))}"
        )
    return lines


def _said(difference: Mapping[str, float]) -> str:
    return (
        f"pass@1 {difference['before']:.3f} → {difference['after']:.3f} ({difference['difference']:+.3f} "
        f"[{difference['low']:+.3f}, {difference['high']:+.3f}], {difference['tasks']:.0f} tasks)"
    )


def area(curve: Sequence[Mapping[str, float]]) -> float | None:
    """Mean of pass@1 over the steps minus its first value; None with fewer than two evaluations."""
    if len(curve) < 2:
        return None
    step, value = (np.array([row[key] for row in curve], dtype=float) for key in ("step", "pass_at_1"))
    return float(np.trapezoid(value, step) / (step[-1] - step[0]) - value[0])


def outcome_metrics(found: dict[str, Any]) -> dict[str, float | None]:
    """An outcome as metrics by `outcome/...`; None where there is no value."""
    flat: dict[str, float | None] = {
        "outcome/steps": float(found["steps"]),
        "outcome/area": found["area"],
        "outcome/hacking_gap": found["hacking_gap"],
        "outcome/collapse": None if found["collapse"] is None else float(found["collapse"]),
    }
    for benchmark, ways in found["held_out"].items():
        for way, difference in ways.items():
            flat |= {
                f"outcome/{benchmark}_{way}_{key}": difference[key]
                for key in ("before", "after", "difference", "low", "high")
            }
    return flat


def _of_the_verifier(row: Mapping[str, float]) -> dict[str, float]:
    return {name.removeprefix("verifier_"): value for name, value in row.items() if name.startswith("verifier_")}


def _plain(difference: Any) -> dict[str, float]:
    return dict(asdict(difference))


def behaviour(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Of attempts with labels. true_rate: resolved. ran_share: made the public call at least once. turns: messages of the policy.
    tokens: that it said. distinct_share: different conversations among all. truncated_share: outgrew the engine's room."""
    if not rollouts:
        return {}
    own = [r.trajectory for r in rollouts]
    went = conduct(own)
    return {
        "true_rate": float(np.mean([bool(t.resolved) for t in own])),
        "unfinished_rate": went["unfinished"],
        "ran_share": went["ran"],
        "public_share": float(np.mean([bool(t.extra.get("public_passed")) for t in own])),
        "turns": went["turns"],
        "tokens": float(np.mean([r.own_tokens for r in rollouts])),
        "distinct_share": len({(t.task_id, t.content_id) for t in own}) / len(own),
        "truncated_share": float(np.mean([r.truncated for r in rollouts])),
    }


def paid(found: Rewards) -> dict[str, float]:
    """The mean reward, its standard deviation over attempts, and the mean of each of its parts."""
    return {
        "reward": float(found.total_N.mean()),
        "reward_std": float(found.total_N.std()),
        **{f"reward_{name}": float(part_N.mean()) for name, part_N in found.parts.items()},
    }
