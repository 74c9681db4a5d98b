"""What the power of this study rests on, from runs that have landed: tables of the studies, and the page of policy_rl."""

import re
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from rmlab.errors import DataError
from rmlab.paths import REPOSITORY

STUDIES = REPOSITORY / "experiments" / "studies"
TASKS = 1548
"""Evaluation tasks without those of two bugs."""


def landed() -> dict[str, float]:
    """Numbers of the landed runs that the simulation rests on."""
    paid: Any = pd.read_csv(STUDIES / "policy_rl" / "rewards" / "against_execution.csv")
    single = paid[paid.seed == 0].set_index(["reward", "evidence"])
    auc = {name: page_rows(rf"{name}: [^|]*\| final ")[0][2][0] for name in ("good", "skewed", "small")}
    alone = [page_rows(f"{words}alone: sampled pass@1")[0] for words in ("good verifier, final; ", "")]
    slope = {}
    for reward in ("execution_free", "hybrid"):
        rows = single.loc[(reward, "final")]
        x = [auc[name.split(", ")[1]] for name in rows.paid_by]
        slope[reward] = float(np.polyfit(x, rows.difference, 1)[0])
    return {
        "slope_execution_free": slope["execution_free"],
        "slope_hybrid": slope["hybrid"],
        # two trainings, starts and RL seeds of the good verifier alone: final evidence, voluntary evidence
        "spread_execution_free": float(
            np.sqrt(np.mean([np.var([here[0], repetition[0]], ddof=1) for _, here, repetition in alone]))
        ),
        # three seeds of execution, from one start, less what attempts at their 834 tasks add
        "spread_seed": float(
            np.sqrt(np.var([row[2][1] for row in page_rows(r"\d \| \d+ ")], ddof=1) - own_error(834) ** 2)
        ),
        "error_own": own_error(TASKS),
    }


def page_rows(begins: str) -> list[list[list[float]]]:
    """Of the rows of tables on policy_rl's page that begin so (a regular expression), of each cell the numbers with decimals."""
    page = STUDIES / "policy_rl" / "README.md"
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if re.match(rf"\| {begins}", line)]
    if not lines:
        raise DataError(f"{page}: no row of a table begins with {begins!r}, from which the power is reckoned")
    return [
        [[float(found) for found in re.findall(r"[-+]?\d+\.\d+", cell)] for cell in line.strip("| ").split("|")]
        for line in lines
    ]


def own_error(tasks: int) -> float:
    """What the attempts at so many tasks add to one run's pass@1, and what tasks that answer otherwise add to a difference: of the
    landed differences from the start, which are paired by task, half the variance is given to either."""
    table: Any = pd.read_csv(STUDIES / "policy_rl" / "rewards" / "rl_table.csv")
    error = float(((table.sampled_high - table.sampled_low) / (2 * stats.norm.ppf(0.975))).median())
    return error * float(np.sqrt(512 / tasks)) / 2
