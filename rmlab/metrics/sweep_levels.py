"""Do two levels of a sweep differ, or only their seeds, or only these tasks?

Each level was trained with S seeds and scored on the same trajectories; seeds are paired with those of the baseline. The
mean difference varies for three reasons: the seeds, the tasks, and their interaction, since seeds do well on
different tasks (counted once, not twice). Fewer than 3 seeds: no test. Every test states how large a difference it could detect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq
from scipy.special import nctdtr, stdtr, stdtrit

from rmlab.errors import DataError
from rmlab.metrics.compare import aligned
from rmlab.metrics.table import Floats, table
from rmlab.metrics.uncertainty import bootstrap
from rmlab.metrics.weighted import BestOfK, Combined, Values, WidthBins, WithinTasks
from rmlab.scores.scores import Scores
from rmlab.wording import counted

FAMILY = ("rm_at_k", "auc_within_task", "ece_width_10")  # RM@k at the most attempts
LEAST_SEEDS = 3
LEVEL = 0.05  # of all tests here
NOISIER = 1.5  # times the pooled variance of seeds, above which a level's own degrees of freedom count
POWER = 0.8  # of the difference that a test states
REPLICATES = 2000


@dataclass(frozen=True)
class LevelTest:
    """One metric at one level against the baseline.

    difference: level - baseline, mean over seeds. error: its standard error, of degrees degrees of freedom. ci95: by t.
    p: two-sided; p_holm: the same after Holm's correction over the sweep's family, levels × metrics.
    by_seed, by_tasks: the differences of the seeds, and the variance of their mean from tasks alone.
    detectable: the difference that such a test shows with a power of 80 %, alone and (detectable_holm) at the first step of Holm's
    correction.
    All but the differences are None where there is no test (fewer than 3 seeds or 2 clusters that contribute, or nothing varies),
    which `reason` says.
    """

    level: str
    metric: str
    seeds: int
    difference: float | None
    error: float | None = None
    degrees: float | None = None
    ci95: tuple[float, float] | None = None
    p: float | None = None
    p_holm: float | None = None
    reason: str = ""
    by_seed: tuple[float, ...] = ()
    by_tasks: float | None = None
    detectable: float | None = None
    detectable_holm: float | None = None

    @property
    def data(self) -> tuple[object, ...]:
        """What was compared: tests that are equal in it are one test of one set of runs that stands in two places."""
        return self.metric, self.by_seed, self.by_tasks

    @property
    def shown(self) -> bool:
        """Whether a difference is shown; if not, "no difference shown" is all that may be said."""
        return self.p_holm is not None and self.p_holm <= LEVEL


@dataclass(frozen=True)
class Spread:
    """Where the variance of a mean difference over S seeds comes from.

    seed_S: differences by seed. by_clusters: bootstrap variance of their mean. interaction: the part of it that other
    seeds would show too. clusters: how many were resampled.
    """

    seed_S: Floats
    by_clusters: float
    interaction: float
    clusters: int

    @property
    def by_tasks(self) -> float:
        """The variance that other tasks bring and other seeds do not."""
        return max(self.by_clusters - self.interaction, 0.0)


def compare_levels(
    baseline: Sequence[Scores | None],
    levels: Mapping[str, Sequence[Scores | None]],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> list[LevelTest]:
    """Tests every level but the baseline on RM@k (k = most attempts), within-task AUC and ECE (10 bins).

    baseline, levels: one score table a seed, the same seeds in the same order, all on the same trajectories; None where a seed
    has no run: a level is compared on the seeds that it shares with the baseline.
    replicates, seed: of the cluster bootstrap, which draws the same clusters for all tables.

    Raises DataError where the numbers of seeds or the trajectories differ.
    """
    for name, tables in levels.items():
        if len(tables) != len(baseline):
            raise DataError(
                f"level {name} has {len(tables)} seeds and the baseline {len(baseline)}: seeds are compared in pairs"
            )
    first = next((scores for scores in baseline if scores is not None), None)
    if first is None or not levels:
        return []
    pairs = {
        level: [(a, b) for a, b in zip(tables, baseline, strict=True) if a is not None and b is not None]
        for level, tables in levels.items()
    }
    enough = any(len(paired) >= LEAST_SEEDS for paired in pairs.values())
    measured: dict[int, _Seed] = {}

    def values(scores: Scores) -> _Seed:
        if id(scores) not in measured:
            measured[id(scores)] = _Seed.of(aligned(first, scores), replicates if enough else 0, seed)
        return measured[id(scores)]

    return _family({level: [(values(a), values(b)) for a, b in paired] for level, paired in pairs.items()})


def compare_halves(
    tables: Sequence[Scores],
    halves: Sequence[tuple[Sequence[int], Sequence[int]]],
    name: str,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> list[list[LevelTest]]:
    """The same tests between two groups of seeds of one level, for each of `halves`: (first, second) as indices of `tables`.

    name: of the second half in the tests, whose difference is second - first.
    """
    measured = [_Seed.of(aligned(tables[0], scores), replicates, seed) for scores in tables]
    return [_family({name: [(measured[j], measured[i]) for i, j in zip(*half, strict=True)]}) for half in halves]


def _family(pairs: "Mapping[str, Sequence[tuple[_Seed, _Seed]]]") -> list[LevelTest]:
    """The tests of all levels. pairs: (level, baseline) of each seed that both have."""
    tests: list[LevelTest] = []
    spreads: dict[str, dict[str, Spread]] = {metric: {} for metric in FAMILY}
    for level, paired in pairs.items():
        for metric in FAMILY:
            seed_S = np.array([a.estimate[metric] - b.estimate[metric] for a, b in paired])
            mean = float(seed_S.mean()) if len(seed_S) else np.nan
            reason = ""
            if len(seed_S) < LEAST_SEEDS:
                reason = f"no test: {len(seed_S)} of at least {LEAST_SEEDS} seeds"
            elif np.isnan(mean):
                reason = "undefined"
            elif (
                contributing := min(one.contributing.get(metric, one.clusters) for pair in paired for one in pair)
            ) < 2:
                mixed = " with a mixed task" if metric in paired[0][0].contributing else ""
                reason = f"no test: {counted(contributing, 'cluster')}{mixed}, at least 2 are needed"
            else:
                drawn_SR = np.stack([a.drawn[metric] - b.drawn[metric] for a, b in paired])
                spreads[metric][level] = spread(seed_S, drawn_SR, paired[0][0].clusters)
            difference = None if np.isnan(mean) else mean
            tests.append(
                LevelTest(level, metric, len(seed_S), difference, reason=reason, by_seed=tuple(seed_S.tolist()))
            )
    return holm([_tested(test, spreads[test.metric]) if test.level in spreads[test.metric] else test for test in tests])


@dataclass(frozen=True)
class _Seed:
    """Estimate and bootstrap values of the family's metrics of one table."""

    estimate: dict[str, float]
    drawn: Values
    clusters: int
    contributing: dict[str, int]

    @classmethod
    def of(cls, scores: Scores, replicates: int, seed: int) -> "_Seed":
        rows = table(scores)
        statistic = Combined(rows, (BestOfK, WithinTasks, WidthBins))
        point = statistic.values(np.ones((1, rows.clusters)))
        drawn = bootstrap(statistic, rows.clusters, replicates, seed) if replicates else {}
        return cls(
            {name: float(_at_most_attempts(point[name])[0]) for name in FAMILY},
            {name: _at_most_attempts(drawn[name]) for name in FAMILY if drawn},
            rows.clusters,
            statistic.contributing,
        )


def _at_most_attempts(values: Floats) -> Floats:
    last: Floats = values[:, -1] if values.ndim == 2 else values
    return last


def spread(seed_S: Floats, drawn_SR: Floats, clusters: int) -> Spread:
    """Of differences by seed, and of their values in R resamples of the clusters; resamples where one is undefined are left out."""
    defined_R = ~np.isnan(drawn_SR).any(axis=0)
    drawn_SR = drawn_SR[:, defined_R]
    seeds = len(seed_S)
    mean_R = drawn_SR.mean(axis=0)
    interaction = (drawn_SR - mean_R).var(axis=1, ddof=1).sum() / (seeds * (seeds - 1))
    return Spread(seed_S, float(mean_R.var(ddof=1)), float(interaction), clusters)


def _tested(test: LevelTest, spreads: Mapping[str, Spread]) -> LevelTest:
    """t test with Satterthwaite's degrees of freedom; the variance of seeds is pooled over levels where the own is not larger."""
    mine = spreads[test.level]
    if test.difference is None or (found := mean_error(mine, [one.seed_S for one in spreads.values()])) is None:
        return replace(test, reason="no test: nothing varies")
    error, degrees = found
    half = float(stdtrit(degrees, 0.975)) * error
    return replace(
        test,
        error=error,
        degrees=degrees,
        ci95=(test.difference - half, test.difference + half),
        p=float(2 * stdtr(degrees, -abs(test.difference) / error)),
        by_tasks=mine.by_tasks,
        detectable=detectable_difference(error, degrees),
    )


def mean_error(own: Spread, levels_LS: Sequence[Floats]) -> tuple[float, float] | None:
    """Standard error of a mean difference and its degrees of freedom (Satterthwaite); None where nothing varies.

    levels_LS: differences by level and seed, whose variance is pooled.
    """
    variance, degrees_seeds = seed_variance(levels_LS, own.seed_S)
    by_seeds = variance / len(own.seed_S)
    total = by_seeds + own.by_tasks
    if not total > 0:
        return None
    degrees = float(total**2 / (by_seeds**2 / degrees_seeds + own.by_tasks**2 / max(own.clusters - 1, 1)))
    return float(np.sqrt(total)), degrees


def seed_variance(levels_LS: Sequence[Floats], own_S: Floats) -> tuple[float, float]:
    """Variance of the difference between seeds, and its degrees of freedom: the pooled variance, or the own where that is larger.

    levels_LS: differences from the baseline by level and seed; own_S: those of the level that is tested. Pooled by degrees of
    freedom. All levels share the baseline's seeds, so that their differences correlate by 1/2 and their variances by 1/4:
    L levels are worth L / (1 + (L - 1)/4) of one; an own variance that is larger by more than half has its own degrees of freedom.
    So the rate holds for a level whose seeds vary more than the others' (with the smaller, pooled variance up to a ratio of 2 it
    would be 0.09 to 0.12 at three times their standard deviation); a level that varies less than the others loses power.
    """
    degrees_L = np.array([len(level_S) - 1.0 for level_S in levels_LS])
    pooled = float(degrees_L @ [level_S.var(ddof=1) for level_S in levels_LS] / degrees_L.sum())
    own = float(own_S.var(ddof=1))
    if own > NOISIER * pooled:
        return own, len(own_S) - 1.0
    return max(own, pooled), float(degrees_L.sum()) / (1 + (len(levels_LS) - 1) / 4)


def detectable_difference(error: float, degrees: float, level: float = LEVEL) -> float:
    """The true difference that a two-sided t test at `level` shows with a power of 80 %. error: of the difference, > 0."""
    critical = float(stdtrit(degrees, 1 - level / 2))

    def lacks(noncentrality: float) -> float:
        return 1 - float(nctdtr(degrees, noncentrality, critical)) - POWER

    return float(brentq(lacks, 0.0, 10 * critical)) * error


def distinct(tests: Sequence[LevelTest]) -> list[LevelTest]:
    """The tests that have a p value, each set of data once: of several (other levels lend them another variance) the largest p."""
    largest: dict[tuple[object, ...], LevelTest] = {}
    for test in tests:
        if test.p is not None and (test.data not in largest or test.p > (largest[test.data].p or 0.0)):
            largest[test.data] = test
    return list(largest.values())


def holm(tests: Sequence[LevelTest]) -> list[LevelTest]:
    """Holm's correction over the distinct tests, in the order given: runs that stand at two levels or arms are tested once."""
    family = sorted(distinct(tests), key=lambda test: test.p or 0.0)
    corrected: dict[tuple[object, ...], float] = {}
    largest = 0.0
    for rank, test in enumerate(family):
        largest = max(largest, min(1.0, (test.p or 0.0) * (len(family) - rank)))
        corrected[test.data] = largest
    return [
        test
        if test.p is None
        else replace(
            test,
            p_holm=corrected[test.data],
            detectable_holm=test.error
            and test.degrees
            and detectable_difference(test.error, test.degrees, LEVEL / len(family)),
        )
        for test in tests
    ]
