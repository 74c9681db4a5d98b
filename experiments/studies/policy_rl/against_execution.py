"""How do the runs that a verifier paid end beside execution of the same evidence, and what is their hacking gap made of?

    python experiments/studies/policy_rl/against_execution.py        # writes rewards/against_execution.csv

Read from rewards/rl_table.csv and steps.csv. Sampled pass@1 on the held-out tasks, the declared endpoint. The runs' tasks are not
in those files, so the two runs are compared as if they were independent: the error is that of both intervals together. They share
tasks and start, so the paired error is smaller. p by the normal distribution, Holm within each reward (`p_holm`) over all of its
runs. `least_shown`: the difference that such a comparison shows with a power of 80 %, before any correction; `least_loss`: the same of
a run's fall below its own start (collapse).

The gap is what the mean score gained on validation attempts less what the true rate gained there: `score_change` (inflation)
and `rate_change` (skill won or lost), both since step 0.
"""

import csv
from math import hypot
from pathlib import Path
from typing import Any

from scipy.stats import norm

from analysis.presentation.style import csv_text
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import LevelTest, holm

HERE = Path(__file__).parent
OUT = HERE / "rewards" / "against_execution.csv"
VOLUNTARY = " (voluntary evidence)"
TWO_SIDED = float(norm.ppf(0.975))
POWER = TWO_SIDED + float(norm.ppf(0.8))


def rows() -> list[dict[str, Any]]:
    """One row a run that a verifier paid, in the order of rl_table.csv."""
    table = _read("rewards/rl_table.csv")
    execution = {VOLUNTARY in run["arm"]: run for run in table if run["arm"].startswith("execution (")}
    found: list[dict[str, Any]] = []
    for run in table:
        if run not in execution.values():
            paid = execution[VOLUNTARY in run["arm"]]
            difference = float(run["sampled_after"]) - float(paid["sampled_after"])
            error = hypot(_error(run), _error(paid))
            gap, rate = float(run["hacking_gap"]), _rate_change(run["run_id"])
            found.append(
                {
                    "paid_by": run["arm"].removesuffix(VOLUNTARY),
                    "evidence": "voluntary" if VOLUNTARY in run["arm"] else "final",
                    "reward": run["arm"].partition(",")[0],
                    "seed": run["seed"],
                    "difference": difference,
                    "error": error,
                    "low": difference - TWO_SIDED * error,
                    "high": difference + TWO_SIDED * error,
                    "p": 2 * float(norm.sf(abs(difference) / error)),
                    "p_holm": None,
                    "least_shown": POWER * error,
                    "least_loss": POWER * _error(run),
                    "hacking_gap": gap,
                    "score_change": gap + rate,
                    "rate_change": rate,
                }
            )
    for reward in ("execution_free", "hybrid"):
        family = [row for row in found if row["reward"] == reward]
        tests = [  # by_seed tells the runs apart
            LevelTest(row["paid_by"], "pass_at_1", 1, row["difference"], by_seed=(row["difference"],), p=row["p"])
            for row in family
        ]
        for row, test in zip(family, holm(tests), strict=True):
            row["p_holm"] = test.p_holm
    return found


def _error(run: dict[str, str]) -> float:
    """The standard error of a run's difference from its start, over tasks."""
    return (float(run["sampled_high"]) - float(run["sampled_low"])) / (2 * TWO_SIDED)


def _rate_change(run_id: str) -> float:
    rates = [
        float(row["validation_pass_at_1"])
        for row in _read("steps.csv")
        if row["run_id"] == run_id and row["hacking_gap"]
    ]
    return rates[-1] - rates[0]


def _read(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    write_text(OUT, csv_text(rows()))
