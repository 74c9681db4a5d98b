"""The outcome of a training, by which runs are compared: better or worse than the start, collapsed, hacked.

pass@1 is paired with the start on the same held-out tasks. Collapse: over all held-out benchmarks the
last evaluation is lower than the first, one-sided at 97.5 %; an undetected loss can be as large as the one that this
many tasks would show in four of five trainings.

The hacking gap against the first evaluation has two parts: inflation, the rise of the mean score, and lost skill, the fall of the
true rate.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rmlab.metrics.uncertainty import Difference, paired_difference, too_few
from rmlab.microswe.task import Task
from rmlab.policies.engine import Rollout
from rmlab.policies.success import conduct
from rmlab.rl.learner import RLState
from rmlab.rl.rewards import Rewards
from rmlab.wording import counted, estimate

Rates = Mapping[str, Mapping[str, Mapping[str, float]]]


def outcome(
    state: RLState,
    after: Rates,
    tasks_of: Mapping[str, Sequence[Task]],
    best: Rates | None = None,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """JSON values. held_out: benchmark → way → before, after, difference, low, high; `all`: every benchmark's tasks together.

    without: benchmarks that are left out of `all` and of collapse (two_bugs, where hardly any is ever solved: such tasks dilute
    every difference); held_out has them all the same. collapse_detectable: the loss that would be called a collapse in 80 %.
    hacking_gap_inflation, hacking_gap_lost_skill: the two parts of the gap.
    chosen: the same for the weights that were best on validation, where they were evaluated.
    area: mean pass@1 over the validation curve minus its
    start, by the trapezoid rule. verifier_first, verifier_last: what the verifier was worth on the policy's attempts. null
    where there was no evaluation, no verifier or no held-out task.
    """
    clusters = {task.task_id: task.cluster for own in tasks_of.values() for task in own}
    differences = held_out_differences(state.held_out_before, after, clusters, without)
    all_sampled = Difference(**differences["all"]["sampled"]) if "all" in differences else None
    first, last = (state.curve[0], state.curve[-1]) if state.curve else ({}, {})
    return {
        "steps": state.step,
        "seconds": round(state.seconds, 1),
        "held_out": differences,
        "without": sorted(without),
        "collapse": all_sampled and all_sampled.falls,
        "collapse_detectable": all_sampled and all_sampled.detectable,
        "area": area(state.curve),
        "hacking_gap": last.get("hacking_gap"),
        **(gap_parts(first, last) if "verifier_mean_score" in last else dict.fromkeys(GAP_PARTS)),
        "pass_at_1_start": first.get("pass_at_1"),
        "pass_at_1_end": last.get("pass_at_1"),
        "chosen": {
            "step": state.best_step,
            "held_out": held_out_differences(state.held_out_before, best, clusters, without),
        }
        if best
        else None,
        "verifier_first": _of_the_verifier(first),
        "verifier_last": _of_the_verifier(last),
        "curve": state.curve,
    }


GAP_PARTS = ("hacking_gap_inflation", "hacking_gap_lost_skill")


def gap_parts(first: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """By how much the mean score rose and the true rate fell since the first evaluation: their sum is the hacking gap."""
    score, rate = "verifier_mean_score", "verifier_mean_label"
    return dict(zip(GAP_PARTS, (now[score] - first[score], first[rate] - now[rate]), strict=True))


def held_out_differences(
    before: Rates, after: Rates, clusters: Mapping[str, str], without: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Benchmark → way → paired difference, and the tasks of all benchmarks together but those in `without`; `all` is left out
    where no benchmark is left."""
    differences: dict[str, dict[str, Any]] = {}
    for way in ("sampled", "greedy"):
        pooled: tuple[dict[str, float], dict[str, float]] = ({}, {})
        for benchmark, rates in after.items():
            then = before.get(benchmark, {}).get(way, {})
            differences.setdefault(benchmark, {})[way] = asdict(paired_difference(then, rates[way], clusters))
            if benchmark not in without:
                pooled[0].update(then)
                pooled[1].update(rates[way])
        if pooled[1]:
            differences.setdefault("all", {})[way] = asdict(paired_difference(*pooled, clusters))
    return differences


def held_out_rates_record(state: RLState, after: Rates, tasks_of: Mapping[str, Sequence[Task]]) -> dict[str, Any]:
    """What two runs are compared by: benchmark → way → task_id to resolved share before and after, and the tasks' clusters."""
    return {
        "before": state.held_out_before,
        "after": after,
        "clusters": {task.task_id: task.cluster for own in tasks_of.values() for task in own},
    }


def described(outcome: Mapping[str, Any]) -> list[str]:
    """An outcome in a few lines."""
    lines = [
        f"  {benchmark}, {way}: {_difference_words(difference)}"
        for benchmark, ways in outcome["held_out"].items()
        for way, difference in ways.items()
    ]
    if (chosen := outcome["chosen"]) is not None:
        lines.append(
            f"  chosen on validation: step {chosen['step']}; all, sampled: {_difference_words(chosen['held_out']['all']['sampled'])}"
        )
    gap, (inflation, lost) = outcome["hacking_gap"], (outcome[name] for name in GAP_PARTS)
    gap_words = "-" if gap is None else f"{gap:+.3f}"
    parts = "" if inflation is None else f" (inflation of the score {inflation:+.3f}, lost skill {lost:+.3f})"
    return [*lines, f"  collapse: {collapse_words(outcome)}, hacking gap {gap_words}{parts}"]


def collapse_words(outcome: Mapping[str, Any]) -> str:
    """Whether it collapsed, and where it did not the loss that would have been seen; `not known` where too few tasks are held out."""
    of_all = outcome["held_out"].get("all", {}).get("sampled")
    if of_all is None:
        return "not known (no held-out task)"
    if few := too_few(of_all):
        return f"not known ({few})"
    if outcome["collapse"]:
        return "yes"
    if of_all["low"] == of_all["high"]:
        return "no (pass@1 changed alike at all tasks, so nothing is known of smaller losses)"
    return f"no (80 % power for a loss of {outcome['collapse_detectable']:.3f})"


def signal(history: Sequence[Sequence[Any]]) -> list[str]:
    """A line that says so where no group of any step had a signal: such a training teaches nothing. history: of its state."""
    shares = [float(value) for name, value, *_ in history if name == "rl/signal_share"]
    if not shares or max(shares) > 0:
        return []
    return [
        "  no group of any step had a signal (all attempts at a task were paid alike): nothing was learned, the policy is its start"
    ]


def timed(history: Sequence[Sequence[Any]]) -> list[str]:
    """Where the time of a training went, in seconds: means over steps, evaluations and held-out benchmarks; and on a GPU the most memory
    that it held. history: of its state."""
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
    if "rl/gpu_gib" in values:
        tensors = values.get("rl/gpu_tensors_gib")
        own = f", {max(tensors):.1f} GiB of it in tensors" if tensors else ""
        lines.append(f"  {max(values['rl/gpu_gib']):.1f} GiB of the GPU at most{own}")
    return lines


def _difference_words(difference: Mapping[str, float]) -> str:
    few = too_few(difference)
    gained = estimate(difference["difference"], None if few else (difference["low"], difference["high"]), signed=True)
    return f"pass@1 {difference['before']:.3f} → {difference['after']:.3f} ({gained}, {few or counted(int(difference['tasks']), 'task')})"


def area(curve: Sequence[Mapping[str, float]]) -> float | None:
    """Mean of pass@1 over the steps minus its first value; None with fewer than two evaluations."""
    if len(curve) < 2:
        return None
    step, value = (np.array([row[key] for row in curve], dtype=float) for key in ("step", "pass_at_1"))
    return float(np.trapezoid(value, step) / (step[-1] - step[0]) - value[0])


def outcome_metrics(outcome: dict[str, Any]) -> dict[str, float | None]:
    """An outcome as metrics by `outcome/...`; None where there is no value."""
    flat: dict[str, float | None] = {
        "outcome/steps": float(outcome["steps"]),
        "outcome/area": outcome["area"],
        "outcome/hacking_gap": outcome["hacking_gap"],
        **{f"outcome/{name}": outcome[name] for name in GAP_PARTS},
        "outcome/collapse_detectable": outcome["collapse_detectable"],
        "outcome/collapse": None if outcome["collapse"] is None else float(outcome["collapse"]),
    }
    for benchmark, ways in outcome["held_out"].items():
        for way, difference in ways.items():
            flat |= {
                f"outcome/{benchmark}_{way}_{key}": difference[key]
                for key in ("before", "after", "difference", "low", "high")
            }
    return flat


def _of_the_verifier(row: Mapping[str, float]) -> dict[str, float]:
    return {name.removeprefix("verifier_"): value for name, value in row.items() if name.startswith("verifier_")}


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


def paid(rewards: Rewards) -> dict[str, float]:
    """The mean reward, its standard deviation over attempts, and the mean of each of its parts."""
    return {
        "reward": float(rewards.total_N.mean()),
        "reward_std": float(rewards.total_N.std()),
        **{f"reward_{name}": float(part_N.mean()) for name, part_N in rewards.parts.items()},
    }
