"""The causal experiments of which_metric_foretells_rl: one property of a reward is changed, seeds and tasks are paired."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from analysis.foretelling.equivalence import Equivalence, Rates, compared, paired_spread
from analysis.foretelling.runs import PaidRun, Study, changes_scores
from rmlab.metrics.sweep_levels import LEAST_SEEDS, Spread

MARGIN = 0.03
BLOCKS = ("distortion", "unnormalised", "affine", "difficulty")


class Pair(NamedTuple):
    """What runs that are compared have in common. start: their first weights, by content. verifier: the training that pays them, by the
    content of its weights; "" where verifiers are compared."""

    seed: str
    start: str
    verifier: str = ""


Side = Mapping[Pair, Rates]
"""The runs of one condition: rates by task."""


def causal(study: Study) -> dict[str, Equivalence]:
    """Every comparison of which three seeds are there, by its name."""
    # all are judged on the same tasks
    clusters = next((run.clusters for block in BLOCKS for run in study.of(block)), {})
    found: dict[str, Equivalence] = {}
    for family in _families(study):
        spreads: dict[str, Spread] = {}
        for name, (then, now) in family.items():
            pairs = sorted(then.keys() & now.keys())
            if len(pairs) >= LEAST_SEEDS:
                spreads[name] = paired_spread([(then[pair], now[pair]) for pair in pairs], clusters)
        found |= compared(spreads, MARGIN)
    return found


def unpaired(study: Study) -> list[str]:
    """A line each comparison and RL seed whose two sides are there, but with other first weights or another training of the verifier:
    they are not compared."""
    lines = []
    for name, (then, now) in ((name, sides) for family in _families(study) for name, sides in family.items()):
        both = {pair.seed for pair in then} & {pair.seed for pair in now}
        for seed in sorted(both - {pair.seed for pair in then.keys() & now.keys()}):
            lines.append(
                f"{name}, seed {seed}: its runs differ in their first weights or in the training of their verifier"
            )
    return lines


def _families(study: Study) -> list[dict[str, tuple[Side, Side]]]:
    """Comparisons by name, reference and condition; those of one family pool the variance of their seeds. None is corrected for others."""
    distortion, unnormalised = (_by_condition(study.of(block)) for block in ("distortion", "unnormalised"))
    affine, parts = _by_condition(study.of("affine")), _by_condition(study.of("difficulty"))
    return [
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


def _by_condition(runs: Sequence[PaidRun]) -> Mapping[str, Side]:
    """By condition; that of a difficulty experiment, which compares two verifiers, has the role of its verifier in front."""
    found: dict[str, dict[Pair, Rates]] = {}
    for run in runs:
        tags = run.policy.run.tags
        pair = Pair(run.cell["seed"], tags.get("start_fingerprint", ""), tags.get("verifier_fingerprint", ""))
        role = ""
        if run.cell["block"] == "difficulty":
            role, pair = f"{run.cell['verifier']} ", pair._replace(verifier="")
        found.setdefault(role + run.cell["condition"], {})[pair] = run.rates
    return found


def _mean(parts: Mapping[str, Side], word: str) -> Side:
    """The mean rates of the two conditions whose name begins or ends so; pairs that one of them lacks are left out."""
    own = [side for name, side in parts.items() if name.startswith(word) or name.endswith(word)]
    if len(own) != 2:
        return {}
    return {
        pair: {task: (rate + own[1][pair][task]) / 2 for task, rate in own[0][pair].items()}
        for pair in own[0].keys() & own[1].keys()
    }


MOVED = ("auc_within_task", "auc_pooled", "ece_width_10")
POOLED = ("auc_within_task", "ece_width_10", "advantage_cosine")


def moved(study: Study) -> list[dict[str, Any]]:
    """What each condition changed of the verifier: its metrics, as it pays, on the start's own attempts at validation tasks before the
    first step, and on the frozen pool, where what is paid is known there, mean over seeds. And what became of the policies: pass@1
    after RL, mean over seeds, and how many are shown to end below and above their start. A row a block, verifier and condition."""
    rows: dict[tuple[str, ...], list[PaidRun]] = {}
    for block in BLOCKS:
        for run in study.of(block):
            rows.setdefault((block, run.cell["verifier"], run.cell["condition"]), []).append(run)
    return [
        {"block": block, "verifier": verifier, "condition": condition, "runs": len(own)}
        | {name: _mean_of([run.policy.outcome.get("verifier_first", {}).get(name) for run in own]) for name in MOVED}
        | {f"pool_{name}": _mean_of([run.verifier[name] for run in own if changes_scores(run.cell)]) for name in POOLED}
        | {
            "pass_at_1": float(np.mean([run.outcome for run in own])),
            "below": sum(run.moved < 0 for run in own),
            "above": sum(run.moved > 0 for run in own),
        }
        for (block, verifier, condition), own in rows.items()
    ]


def _mean_of(values: Sequence[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
