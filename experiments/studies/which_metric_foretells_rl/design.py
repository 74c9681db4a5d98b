"""Every verifier and every run of RL of this study, by its name: writes cells.csv of the plan's folder.

    python experiments/studies/which_metric_foretells_rl/design.py
    python experiments/studies/which_metric_foretells_rl/design.py --times 1.4     # where the check of the design asks for it: README.md
    python experiments/studies/which_metric_foretells_rl/design.py --slopes 1.2 1.5 3 5 8 12

The columns say what a cell is, `overrides` what its command has beside the settings that all cells of its kind share (`study.py`).
A verifier that is chosen once all are trained stands by its role, `good` or `poor`, and so does what is fitted to it (SLOPE_...,
SHIFT_..., see `check.py`). Nothing here is random. Cells stand in the order in which they are begun: where the time runs out, each column
and start has as many runs as the others, but for one. What the check of the design has chosen becomes the default in this file, so that
both agree.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any

from analysis.foretelling.plan import plan_folder
from analysis.presentation.style import csv_text
from rmlab.files import write_text

AMOUNTS = (250, 430, 1000, 2400, 3800, 6000)
COLUMNS = {"balanced": "1:1", "mostly_unresolved": "1:4", "mostly_resolved": "4:1", "overconfident": "1:1"}
"""Column of the factorial -> resolved to unresolved attempts in training."""
TIMES = 1.0
"""What the amounts are multiplied by."""
LARGER = 1.4
"""The same where the check of the design asks for larger ones: at 4:1 the collected attempts fill 8,775."""
SLOPES = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""What the logits of `overconfident` are multiplied by, for each amount. A larger amount makes AUC higher and, of three columns, ECE lower
in the end; overconfidence that rises with the amount goes against it, and training is not touched."""
OTHER_SLOPES = ((1.2, 1.5, 3.0, 5.0, 8.0, 12.0), (1.2, 1.5, 2.0, 8.0, 16.0, 24.0), (3.0,) * 6, SLOPES[::-1])
"""In the order in which the check of the design falls back on them."""
EVERY_SLOPES = (SLOPES, *OTHER_SLOPES)
STARTS = ("a", "b")
"""Of the policies that learn. A verifier is listed with that of the policies that it pays as itself, one of the factorial or of the
voluntary ones; where it is the good or the poor one it pays policies of start a too, whichever start it is listed with."""
VOLUNTARY_AMOUNTS = (500, 1000, 2000, 4000)
VOLUNTARY_COLUMNS = ("balanced", "mostly_resolved")
DISTORTIONS = ("recalibrated", "flattened", "shifted_up", "shifted_far_up", "shifted_down")
ENDS = ("recalibrated", "shifted_far_up")
DISTORTION_SEEDS, CAUSAL_SEEDS = range(5), range(3)
FIRST_SEED, SECOND_SEED, VOLUNTARY_SEED = 1000, 1100, 1200
"""Of the verifiers: each has its own draw and order, and none has a seed of the verifiers that paid for the pool."""
Cell = dict[str, Any]


def verifiers(times: float = TIMES) -> list[Cell]:
    """24 of a factorial amount x column with final evidence, and 8 with voluntary evidence: each a training of its own. The largest
    amounts, which take longest, come first.

    times: the amounts of the 24; more than 1 is a second training of all, with other seeds.
    """
    first = FIRST_SEED if times <= 1 else SECOND_SEED
    final = [
        _verifier(
            "verifiers", column, round(times * amount), STARTS[(row + place) % 2], "final", first + 6 * place + row
        )
        for place, column in enumerate(COLUMNS)
        for row, amount in enumerate(AMOUNTS)
    ]
    voluntary = [
        _verifier(
            "voluntary_verifiers",
            column,
            amount,
            STARTS[(row + place) % 2],
            "voluntary",
            VOLUNTARY_SEED + 4 * place + row,
        )
        for place, column in enumerate(VOLUNTARY_COLUMNS)
        for row, amount in enumerate(VOLUNTARY_AMOUNTS)
    ]
    return [*sorted(final, key=_amount, reverse=True), *sorted(voluntary, key=_amount, reverse=True)]


def _amount(cell: Cell) -> int:
    return int(cell["amount"])


TURNS = (0, 3, 1, 4, 2, 5)
"""Rounds in which the 24 pay: one of each column a round, of four amounts, two of either start."""


def in_turn(trained: list[Cell]) -> list[Cell]:
    """The 24 in the order in which they pay."""
    of = {
        column: sorted((c for c in trained if (c["block"], c["column"]) == ("verifiers", column)), key=_amount)
        for column in COLUMNS
    }
    ahead = dict(zip(COLUMNS, (0, 2, 1, 3), strict=True))
    return [of[column][(turn + ahead[column]) % len(AMOUNTS)] for turn in TURNS for column in COLUMNS]


def second_seeds(trained: list[Cell]) -> list[Cell]:
    """Those of the 24 that pay a policy of a second seed too: one of each column and start, the k-th smallest amount in turn."""
    own = [cell for cell in trained if cell["block"] == "verifiers"]
    strata = [(column, start) for column in COLUMNS for start in STARTS]
    of = {s: sorted((c for c in own if (c["column"], c["start"]) == s), key=_amount) for s in strata}
    return [of[stratum][place % len(of[stratum])] for place, stratum in enumerate(strata)]


def runs(trained: list[Cell], slopes: Sequence[float] = SLOPES) -> list[Cell]:
    """Every run of RL."""
    final = in_turn(trained)
    voluntary = [cell for cell in trained if cell["evidence"] == "voluntary"]
    sloped = _overconfident(trained, slopes)
    return [
        *(_paid("execution_free", "execution_free", cell, 0, sloped[cell["name"]]) for cell in final),
        *(_paid("second_seed", "execution_free", cell, 1, sloped[cell["name"]]) for cell in second_seeds(trained)),
        *(_paid("hybrid", "hybrid", cell, 0, sloped[cell["name"]]) for cell in final),
        *(_run("execution", "execution", start, "", seed) for start in STARTS for seed in (0, 1)),
        *(_paid("voluntary", "execution_free", cell, 0, ["environment.evidence=voluntary"]) for cell in voluntary),
        *(_distorted(name, seed) for name in DISTORTIONS for seed in DISTORTION_SEEDS),
        *(_distorted(name, seed, "unnormalised", ["algorithm.scale=none"]) for name in ENDS for seed in CAUSAL_SEEDS),
        *(_distorted("recalibrated", seed, "affine", AFFINE) for seed in CAUSAL_SEEDS),
        *(
            _difficulty(part, term, seed)
            for part in ("good", "poor")
            for term in ("without", "with")
            for seed in CAUSAL_SEEDS
        ),
    ]


AFFINE = ["reward.offset=-1", "reward.factor=4", "algorithm.std_floor=1"]
"""-1 + 4 r, and the floor of the standard deviation times 4: every advantage is that of r with the default floor of 0.25."""


def _verifier(block: str, column: str, amount: int, start: str, evidence: str, seed: int) -> Cell:
    name = f"{'voluntary-' if evidence == 'voluntary' else ''}{column}-{amount}"
    return {
        "name": name,
        "kind": "verifier",
        "block": block,
        "start": start,
        "verifier": name,
        "column": column,
        "amount": amount,
        "evidence": evidence,
        "reward": "",
        "condition": "",
        "seed": seed,
        "overrides": f"data.scale={amount} data.label_ratio={COLUMNS[column]} prompt.evidence={evidence} seed={seed}",
    }


def _run(
    block: str, reward: str, start: str, verifier: str, seed: int, more: list[str] | None = None, **about: Any
) -> Cell:
    name = " ".join(filter(None, [block, verifier, about.get("condition", ""), start, f"s{seed}"]))
    return {
        "name": name.replace(" ", "_"),
        "kind": "rl",
        "block": block,
        "start": start,
        "verifier": verifier,
        "column": "",
        "amount": "",
        "evidence": "final",
        "reward": reward,
        "condition": "",
        "seed": seed,
        **about,
        "overrides": " ".join([f"reward={reward}", *(more or []), f"seed={seed}"]),
    }


def _overconfident(trained: list[Cell], slopes: Sequence[float]) -> dict[str, list[str]]:
    """What the runs that each verifier pays have beside its name: the slope of those whose logits are multiplied."""
    own = [cell["name"] for cell in sorted(trained, key=_amount) if cell["column"] == "overconfident"]
    sloped = zip(own, slopes, strict=True)
    return {cell["name"]: [] for cell in trained} | {n: [f"reward.transform.slope={s:g}"] for n, s in sloped}


def _paid(block: str, reward: str, trained: Cell, seed: int, more: list[str]) -> Cell:
    about = {key: trained[key] for key in ("column", "amount", "evidence")}
    return _run(block, reward, trained["start"], trained["name"], seed, more, **about)


def _distorted(name: str, seed: int, block: str = "distortion", more: list[str] | None = None) -> Cell:
    fitted = [f"reward.transform.slope=SLOPE_{name}", f"reward.transform.shift=SHIFT_{name}"]
    return _run(block, "execution_free", "a", "good", seed, [*fitted, *(more or [])], condition=name)


def _difficulty(part: str, term: str, seed: int) -> Cell:
    within = [
        f"reward.transform.slope=SLOPE_within_{part}",
        "reward.transform.between=0",
        "reward.transform.difficulty=1",
    ]
    within += ["reward.transform.same_difficulty=true"] if term == "without" else []
    return _run("difficulty", "execution_free", "a", part, seed, within, condition=term)


def cells(times: float = TIMES, slopes: Sequence[float] = SLOPES) -> list[Cell]:
    """All of them, verifiers first."""
    trained = verifiers(times)
    return [*trained, *runs(trained, slopes)]


def rehearsal(planned: list[Cell]) -> list[Cell]:
    """Few of the cells, some of every block: the verifiers of the two smallest amounts, and the first seed of what these pay."""
    trained = [c for c in planned if c["kind"] == "verifier" and c["amount"] in (*AMOUNTS[:2], VOLUNTARY_AMOUNTS[0])]
    payers = {"", "good", "poor", *(cell["name"] for cell in trained)}
    paid = [c for c in planned if c["kind"] == "rl" and c["verifier"] in payers]
    return [*trained, *(c for c in paid if c["seed"] == 0 or c["block"] == "second_seed")]


def at_least(least: float, kind: type = float) -> Callable[[str], Any]:
    """What a command line takes as a number of a kind: a finite one from `least` up."""

    def number(text: str) -> Any:
        value = kind(text)
        if not least <= value < math.inf:  # NaN is neither
            raise argparse.ArgumentTypeError(f"{text} is no number from {least:g} up")
        return value

    number.__name__ = kind.__name__  # how argparse names what is no number at all
    return number


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=at_least(0.1), default=TIMES, help="the amounts of the 24 verifiers")
    parser.add_argument(
        "--slopes",
        type=at_least(0.1),
        nargs=len(AMOUNTS),
        default=SLOPES,
        help="what the logits of the column overconfident are multiplied by, for each amount",
    )
    parser.add_argument(
        "--rehearsal", action="store_true", help="few cells, some of every block: with tiny models, on a CPU"
    )
    asked = parser.parse_args()
    planned = cells(asked.times, asked.slopes)
    write_text(plan_folder() / "cells.csv", csv_text(rehearsal(planned) if asked.rehearsal else planned))
