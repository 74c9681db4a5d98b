"""What became of the policies of a block: pass@1 sampled and greedy, the hacking gap, and how many end below their start.

The plan of which_metric_foretells_rl shows these and tests none of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.foretelling.runs import PaidRun, Study

SHOWN = ("execution", "execution_free", "second_seed", "hybrid", "voluntary")
"""Blocks whose rewards have nothing done to one verifier; the others are in `analysis.foretelling.causal.moved`."""
MEANS = {
    "pass_at_1_before": "pass@1 before RL",
    "pass_at_1": "pass@1 after RL",
    "greedy_before": "greedy before",
    "greedy": "greedy after",
    "hacking_gap": "hacking gap",
}
"""Means over runs, as tables write them."""


@dataclass(frozen=True)
class Ends:
    """below, above: how many policies are shown to end so (95 % interval, paired by task). collapsed: how many end below their start at
    all. means: by name of MEANS; without the hacking gap where no run has a verifier."""

    runs: int
    below: int
    above: int
    collapsed: int
    means: Mapping[str, float]


def ends(study: Study) -> dict[tuple[str, str], Ends]:
    """By block and start of the plan, and by block and "" over both starts."""
    found = {}
    for block in SHOWN:
        runs = study.of(block)
        for start in ("", *sorted({run.cell["start"] for run in runs})) if runs else ():
            found[block, start] = _ends([run for run in runs if start in ("", run.cell["start"])])
    return found


def _ends(runs: Sequence[PaidRun]) -> Ends:
    moved_N = [run.moved for run in runs]
    ways = {"pass_at_1": "sampled", "greedy": "greedy"}
    means = {}
    for name, way in ways.items():
        both = [run.policy.outcome["held_out"]["all"][way] for run in runs]
        means[f"{name}_before"] = float(np.mean([one["before"] for one in both]))
        means[name] = float(np.mean([one["after"] for one in both]))
    gaps = [run.policy.outcome["hacking_gap"] for run in runs if run.cell["verifier"]]
    if known := [gap for gap in gaps if gap is not None]:
        means["hacking_gap"] = float(np.mean(known))
    return Ends(
        len(runs),
        sum(moved < 0 for moved in moved_N),
        sum(moved > 0 for moved in moved_N),
        sum(run.outcome < run.before for run in runs),
        means,
    )
