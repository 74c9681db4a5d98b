"""Cells of a study that were trained more than once: does the later training fall where one new training of that level should fall?

The interval is of one new training: mean of the first trainings of the level's seeds ± t(n - 1) x their standard deviation x sqrt(1 + 1/n).
Of intervals that are right, 5 in 100 miss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.pages.marked_text import MarkedText
from analysis.pages.sources import plain
from analysis.presentation.style import cell as in_cell
from analysis.studies.effects import OWN, pool_value
from analysis.studies.planned_study import PlannedStudy
from analysis.sweep.level_tests import metric_words
from analysis.sweep.tracked import FinishedCell
from rmlab.metrics.sweep_levels import FAMILY
from rmlab.metrics.uncertainty import prediction_interval

NAME = "study_repeats"


@dataclass(frozen=True)
class Repeat:
    """One metric of a cell that was trained again. first, again: of the first and of the latest training. low, high: of one new
    training of the level, from the first trainings of its seeds (their number: seeds, two or more)."""

    cell: FinishedCell
    sweep: str
    metric: str
    words: str
    first: float
    again: float
    low: float
    high: float
    seeds: int

    @property
    def inside(self) -> bool:
        """Whether the latest training lies in the interval."""
        return self.low <= self.again <= self.high

    @property
    def row(self) -> dict[str, Any]:
        """As a line of study_repeats.csv."""
        return {
            "sweep": self.sweep,
            "level": self.cell.level,
            "arm": self.cell.arm,
            "seed": self.cell.seed,
            "metric": self.metric,
            "first": self.first,
            "again": self.again,
            "low": self.low,
            "high": self.high,
            "inside": int(self.inside),
            "seeds": self.seeds,
        }


def repeats(study: PlannedStudy) -> list[Repeat]:
    """Every metric of the family, of every planned cell that has more than one finished run of its own sweep. Without those of a level
    with one seed, of which nothing says where a new training should fall."""
    return [one for name in study.groups for one in _of_sweep(study, name)]


def _of_sweep(study: PlannedStudy, name: str) -> Iterator[Repeat]:
    trained = {
        cell: [FinishedCell(run, cell.level, cell.arm, cell.seed) for run in runs if not run.is_reuse]
        for cell, runs in study.finished_runs(name).items()
    }
    for cell, several in trained.items():
        if len(several) < 2:
            continue
        alike = [runs[0] for one, runs in trained.items() if runs and (one.level, one.arm) == (cell.level, cell.arm)]
        for metric in FAMILY:
            first_S = [value for one in alike if (value := pool_value(one, metric, OWN)) is not None]
            first, again = (pool_value(one, metric, OWN) for one in (several[0], several[-1]))
            if first is not None and again is not None and len(first_S) > 1:
                words = metric_words(study.groups[name], metric)
                yield Repeat(several[0], name, metric, words, first, again, *_new(first_S), len(first_S))


def _new(value_S: Sequence[float]) -> tuple[float, float]:
    """The 95 % t interval of one new training."""
    deviation, number = float(np.std(value_S, ddof=1)), len(value_S)
    return prediction_interval(float(np.mean(value_S)), deviation, number - 1, number)


def as_marked(found: Sequence[Repeat], counts: str) -> MarkedText:
    """The section of the page; nothing where no cell was trained again. counts: the file that has `inside` and `repeated`."""
    text = MarkedText(f"{NAME}.csv")
    if not found:
        return text
    text.say("## Cells that were trained again\n\n")
    text.say("Each of these was trained again by the same command; the tables above use the latest training. ")
    text.number(str(sum(one.inside for one in found)), "", "inside", counts).say(" of ")
    text.number(str(len(found)), "", "repeated", counts)
    text.say(
        " values of the latest training lie inside the interval that the first trainings of the level give for one new training "
        "(95 % by t, over seeds). The seed is the same in both, so this shows how much one training varies on a GPU, not how much seeds "
        "do; and the first training is one of those that the interval is made from, so they should agree: it is no test of the results.\n\n"
    )
    words = list(dict.fromkeys(one.words for one in found))
    text.say(
        f"| cell | {' | '.join(f'{word}: first, again, interval' for word in words)} |\n|{'---|' * (1 + len(words))}\n"
    )
    by_cell = {(one.cell.run.name, one.words): one for one in found}
    for name in dict.fromkeys(name for name, _ in by_cell):
        text.say(f"| {in_cell(name)} |")
        for word in words:
            if (one := by_cell.get((name, word))) is not None:
                where = (
                    f"sweep={plain(one.sweep)} level={plain(one.cell.level)} seed={one.cell.seed} metric={one.metric}"
                )
                where += f" arm={plain(one.cell.arm)}" if one.cell.arm else ""
                text.say(" ").number(f"{one.first:.3f}", where, "first")
                text.say(", ").number(f"{one.again:.3f}", where, "again")
                text.say(" [").number(f"{one.low:.3f}", where, "low")
                text.say(", ").number(f"{one.high:.3f}", where, "high").say("]")
            text.say(" |")
        text.say("\n")
    return text.say("\n")
