"""The causal experiments of which_metric_foretells_rl: one property of a reward is changed, seeds and tasks are paired."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.causal import Equivalence, Rates, compared, paired_spread
from analysis.foretelling_runs import PaidRun, Study
from rmlab.metrics.sweep_levels import LEAST_SEEDS, Spread

MARGIN = 0.03
BLOCKS = ("distortion", "unnormalised", "affine", "difficulty")


def causal(study: Study) -> dict[str, Equivalence]:
    """Every comparison of which three seeds are there, by its name."""
    distortion, unnormalised = (_by_condition(study.of(block)) for block in ("distortion", "unnormalised"))
    affine, parts = _by_condition(study.of("affine")), _by_condition(study.of("difficulty"))
    families = [
        {
            f"calibration: {name}": (distortion.get("recalibrated", {}), own)
            for name, own in distortion.items()
            if name != "recalibrated"
        },
        {
            "unnormalised: shifted_far_up": (
                unnormalised.get("recalibrated", {}),
                unnormalised.get("shifted_far_up", {}),
            )
        },
        {"control: -1 + 4 r": (distortion.get("recalibrated", {}), affine.get("recalibrated", {}))},
        {
            "within task: good less poor": (_mean(parts, "poor "), _mean(parts, "good ")),
            "difficulty: with less without": (_mean(parts, " without"), _mean(parts, " with")),
        },
    ]
    clusters = next(
        (run.clusters for block in BLOCKS for run in study.of(block)), {}
    )  # all are judged on the same tasks
    found: dict[str, Equivalence] = {}
    for family in families:
        spreads: dict[str, Spread] = {}
        for name, (then, now) in family.items():
            seeds = sorted(then.keys() & now.keys())
            if len(seeds) >= LEAST_SEEDS:
                spreads[name] = paired_spread([(then[seed], now[seed]) for seed in seeds], clusters)
        found |= compared(spreads, MARGIN)
    return found


def _by_condition(runs: Sequence[PaidRun]) -> dict[str, dict[str, Rates]]:
    """Condition -> RL seed -> rates by task. The condition of a difficulty experiment has the role of its verifier in front."""
    found: dict[str, dict[str, Rates]] = {}
    for run in runs:
        role = f"{run.cell['verifier']} " if run.cell["block"] == "difficulty" else ""
        found.setdefault(role + run.cell["condition"], {})[run.cell["seed"]] = run.rates
    return found


def _mean(parts: Mapping[str, Mapping[str, Rates]], word: str) -> dict[str, Rates]:
    """By seed, the mean rates of the two conditions whose name begins or ends so; seeds that one of them lacks are left out."""
    own = [by_seed for name, by_seed in parts.items() if name.startswith(word) or name.endswith(word)]
    if len(own) != 2:
        return {}
    seeds = own[0].keys() & own[1].keys()
    return {seed: {task: (rate + own[1][seed][task]) / 2 for task, rate in own[0][seed].items()} for seed in seeds}


MOVED = ("auc_within_task", "auc_pooled", "ece_width_10")


def moved(study: Study) -> list[dict[str, Any]]:
    """What each condition changed of the verifier: its metrics, as it pays, on the start's own attempts at validation tasks before the
    first step, mean over seeds. A row a block, verifier and condition."""
    rows: dict[tuple[str, ...], list[Mapping[str, float]]] = {}
    for block in BLOCKS:
        for run in study.of(block):
            key = (block, run.cell["verifier"], run.cell["condition"])
            rows.setdefault(key, []).append(run.policy.outcome.get("verifier_first", {}))
    return [
        {"block": block, "verifier": verifier, "condition": condition, "runs": len(own)}
        | {
            name: float(np.mean(known)) if (known := [one[name] for one in own if name in one]) else None
            for name in MOVED
        }
        for (block, verifier, condition), own in rows.items()
    ]
