"""How many of the attempts does a level score? Those that do not fit its context are ranked last."""

import numpy as np

from analysis.sweep.tracked import SweepRuns


def scored_share(group: SweepRuns, place: tuple[str, str]) -> float:
    """The share of the attempts that a level scores, a mean over its trainings: less than 1 where some do not fit its context and are
    ranked last. AUC and ECE are of the scored ones alone. place: arm, level."""
    return float(np.mean([cell.report["score_rate"] for cell in group.at(place[1], place[0])]))


def scores_all(group: SweepRuns, place: tuple[str, str]) -> bool:
    """Whether a level scores every attempt, as far as two digits tell."""
    return scored_share(group, place) > 0.995
