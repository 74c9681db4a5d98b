"""What came of each sweep of a study: per metric the largest difference from the baseline, what is shown, what would have been."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from analysis.studies.planned_study import PlannedStudy
from analysis.sweep import level_tests
from analysis.sweep.tracked import FinishedCell, SweepRuns
from rmlab.metrics.sweep_levels import FAMILY, LEAST_SEEDS, LevelTest

OWN = "own"
"""The pool of a verifier's own kind, which tests are made on."""
BESIDE = {
    "rm_at_k": {"rm_at_k_weighted": "RM@{k} by sum of scores"},
    "auc_within_task": {"auc_within_task_patches": "AUC by patch"},
    "ece_width_10": {
        "ece_less_floor": "ECE less floor",
        "ece_prior_corrected": "ECE, prior corrected",
        "ece_platt": "ECE after Platt scaling",
    },
}
"""What is reported beside a metric of the family, without a test: names in reports, and in tables."""
WITHIN = {"ece_platt": ("post_hoc", "platt", "ece_width_10")}
"""Where a report has what it does not hold by its own name."""
CITATION = re.compile(r"\s*\(SWE-RM[^()]*\)\.?$")
Place = tuple[str, str]
"""arm, level"""


@dataclass(frozen=True)
class Effect:
    """One metric of the family over one sweep. tests: by arm and level, of every level but the baseline."""

    group: SweepRuns
    metric: str
    tests: dict[Place, LevelTest]

    @property
    def words(self) -> str:
        """The metric as tables name it."""
        return level_tests.metric_words(self.group, self.metric)

    @cached_property
    def tested(self) -> dict[Place, LevelTest]:
        """Those with a p value."""
        return {place: test for place, test in self.tests.items() if test.p is not None}

    @cached_property
    def shown(self) -> list[Place]:
        """Where a difference is shown, the largest first."""
        found = [place for place, test in self.tests.items() if test.shown]
        return sorted(found, key=lambda place: -abs(self.tests[place].difference or 0.0))

    @cached_property
    def largest(self) -> Place | None:
        """Where the largest difference is: among those that are shown, else among all. None where there is none."""
        there = self.shown or [place for place, test in self.tests.items() if test.difference is not None]
        return max(there, key=lambda place: abs(self.tests[place].difference or 0.0), default=None)

    @property
    def detectable(self) -> tuple[float, float] | None:
        """The differences that every test here which shows none would have shown with a power of 80 %: alone, and at the first step of
        Holm's correction. None where no test is, or all of them show one."""
        hidden = [test for place, test in self.tested.items() if place not in self.shown]
        alone = [test.detectable for test in hidden if test.detectable is not None]
        holm = [test.detectable_holm for test in hidden if test.detectable_holm is not None]
        return (max(alone), max(holm)) if alone and holm else None

    @property
    def spread(self) -> float | None:
        """Standard deviation between trainings of a paired difference, pooled over the levels (by degrees of freedom)."""
        several = [np.asarray(test.by_seed) for test in self.tests.values() if len(test.by_seed) > 1]
        degrees = sum(len(seed_S) - 1 for seed_S in several)
        squares = sum(float(((seed_S - seed_S.mean()) ** 2).sum()) for seed_S in several)
        return float((squares / degrees) ** 0.5) if degrees and np.isfinite(squares) else None


def effects(group: SweepRuns) -> list[Effect]:
    """One for each metric of the family; without tests where the baseline is missing."""
    return [
        Effect(group, metric, {(arm, level): test for (arm, level, m), test in group.tests.items() if m == metric})
        for metric in FAMILY
    ]


def pools(group: SweepRuns) -> list[str]:
    """The further pools that a verifier was judged on, by their names."""
    found = {
        name.split("/")[0] for cell in group.cells for name in cell.run.metrics if name.endswith("/auc_within_task")
    }
    return sorted(name.removeprefix("eval_") for name in found if name.startswith("eval_"))


def largest_k(group: SweepRuns, pool: str) -> int:
    """The most attempts on a pool of which a verifier picks one."""
    return (
        int(level_tests.largest_k(group)) if pool == OWN else max(map(int, group.cells[0].report_on(pool)["rm_at_k"]))
    )


def pool_value(cell: FinishedCell, metric: str, pool: str) -> float | None:
    """A metric on a pool, None where it is undefined or was not measured; a curve over k at the most attempts there."""
    across = pool == OWN and cell.across and metric in ("rm_at_k", "auc_within_task")
    value: Any = cell.report if pool == OWN else cell.report_on(pool)
    for part in WITHIN.get(metric, (f"{metric}_across" if across else metric,)):
        value = (value or {}).get(part)
    if isinstance(value, dict):
        value = value[max(value, key=int)] if value else None
    return None if value is None else float(value)


def on_pool(group: SweepRuns, place: Place, metric: str, pool: str) -> tuple[float | None, float | None, float | None]:
    """Mean of the baseline, of a level, and of their difference over the seeds that both have, on a pool."""
    arm, level = place
    of_level = {cell.seed: pool_value(cell, metric, pool) for cell in group.at(level, arm)}
    of_baseline = {cell.seed: pool_value(cell, metric, pool) for cell in group.at(group.baseline, arm)}
    both = [(a, b) for seed, b in of_level.items() if (a := of_baseline.get(seed)) is not None and b is not None]
    if not both:
        return None, None, None
    baseline, at_level = (float(np.mean(values)) for values in zip(*both, strict=True))
    return baseline, at_level, at_level - baseline


def rows(study: PlannedStudy) -> list[dict[str, Any]]:
    """The table as data: a row a sweep, pool and metric; one with counts alone where a sweep has no finished cell.

    The level of every pool's row is that of the largest difference on its own kind; only there are tests.
    """
    found: list[dict[str, Any]] = []
    for name in study.sweeps:
        spec, cells = study.specs[name], study.of(name)
        about = {
            "sweep": name,
            "trainings": sum(one.run is not None for one in cells),
            "planned": len(cells),
            "failed": sum(one.failures for one in cells),
        }
        said = {"question": spec.question, "reported": CITATION.sub("", spec.reported)}
        group = study.groups.get(name)
        if group is None:
            found.append(about | {"pool": OWN, "metric": ""} | said)
            continue
        for pool in (OWN, *pools(group)):
            for effect in effects(group):
                found.append(about | {"pool": pool, "metric": effect.metric} | _row(effect, pool) | said)
                for beside in BESIDE[effect.metric]:
                    found.append(about | {"pool": pool, "metric": beside} | _reported(effect, beside, pool) | said)
    return found


def _reported(effect: Effect, metric: str, pool: str) -> dict[str, Any]:
    """A metric at the level of the largest difference, without a test. metric: the effect's own, or what is reported beside it."""
    group, place = effect.group, effect.largest
    row: dict[str, Any] = {"baseline": group.baseline, "k": largest_k(group, pool)}
    if place is None:
        return row
    before, after, difference = on_pool(group, place, metric, pool)
    return row | {
        "arm": place[0],
        "level": place[1],
        "at_baseline": before,
        "at_level": after,
        "difference": difference,
    }


def _row(effect: Effect, pool: str) -> dict[str, Any]:
    row = _reported(effect, effect.metric, pool)
    if effect.largest is not None and pool == OWN:
        test = effect.tests[effect.largest]
        row |= {
            "difference": test.difference,
            "low": test.ci95 and test.ci95[0],
            "high": test.ci95 and test.ci95[1],
            "p": test.p,
            "p_holm": test.p_holm,
            "verdict": level_tests.verdict(test),
            "seeds": test.seeds,
            "tests": len(effect.tested),
            "shown": len(effect.shown),
            "detectable": effect.detectable and effect.detectable[0],
            "detectable_holm": effect.detectable and effect.detectable[1],
            "spread": effect.spread,
        }
    return row


def untested(group: SweepRuns) -> str:
    """Why a sweep has no test; "" where it has one."""
    if any(test.p is not None for test in group.tests.values()):
        return ""
    if not group.tests:
        return f"no finished training of the baseline {group.baseline} yet" if len(group.levels) else "nothing yet"
    return f"fewer than {LEAST_SEEDS} seeds that a level and the baseline share"
