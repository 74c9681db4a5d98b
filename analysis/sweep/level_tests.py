"""Which levels of a sweep differ from its baseline, in words and columns: never more than the tests say."""

from collections.abc import Iterable
from typing import Any

from analysis.presentation.metric_names import SCALARS
from analysis.sweep.tracked import SweepRuns
from rmlab.metrics.sweep_levels import FAMILY, LEAST_SEEDS, LevelTest, distinct
from rmlab.wording import counted, estimate, number

NONE = "None: not even the largest possible difference would have been shown."


def largest_k(group: SweepRuns) -> str:
    """The most attempts of which a verifier picks one, as RM@k is keyed."""
    return str(max(group.cells[0].report[group.reported("rm_at_k")], key=int))


def metric_words(group: SweepRuns, metric: str) -> str:
    """A metric of the family as tables name it."""
    words = f"RM@{largest_k(group)}" if metric == "rm_at_k" else SCALARS[metric]
    return words if group.reported(metric) == metric else f"{words} across policies"


def is_shown(group: SweepRuns, arm: str, level: str, metric: str) -> bool:
    """Whether the level is shown to differ from the baseline."""
    test = group.tests.get((arm, level, metric))
    return test is not None and test.shown


def verdict(test: LevelTest) -> str:
    """All that may be said of a level and a metric."""
    if test.p is None:
        return test.reason
    return ("higher" if (test.difference or 0) > 0 else "lower") if test.shown else "no difference shown"


def possible(detectable: float) -> bool:
    """Whether there can be such a difference: all metrics of the family lie between 0 and 1. A test with so little power that it
    would need a larger one could have shown none."""
    return detectable <= 1


def detectable(value: float | None) -> str:
    """A difference that a test shows with a power of 80 %, as tables have it; `none` where there can be no such difference."""
    return "none" if value is not None and not possible(value) else number(value)


def power(test: LevelTest) -> str:
    """The differences that such a test shows with a power of 80 %, alone and after Holm's correction; empty without a test."""
    if test.detectable is None:
        return ""
    return f"{detectable(test.detectable)} / {detectable(test.detectable_holm)}"


def power_note(group: SweepRuns) -> str:
    """How large a difference would have been shown where none is: the range over those tests, for each metric. Empty if none is."""
    said = []
    for metric in FAMILY:
        tests = [test for test in group.tests.values() if test.metric == metric and test.detectable and not test.shown]
        if tests:
            alone = _range(test.detectable for test in tests)
            said.append(f"{metric_words(group, metric)} {alone} ({_range(test.detectable_holm for test in tests)})")
    if not said:
        return ""
    none = f" {NONE}" if any("none" in words for words in said) else ""
    return f"No difference shown: 80 % power from a difference of {', '.join(said)}, alone (after Holm's correction).{none}"


def _range(values: Iterable[float | None]) -> str:
    low_high = [detectable(value) for value in sorted(value for value in values if value is not None)]
    return " to ".join(dict.fromkeys([low_high[0], low_high[-1]])) if low_high else "-"


def columns(group: SweepRuns, arm: str, level: str) -> dict[str, Any]:
    """Difference, p after Holm and verdict of each metric, for the table's CSV; None at the baseline itself."""
    found: dict[str, Any] = {}
    for metric in FAMILY if group.tests else ():
        test = group.tests.get((arm, level, metric))
        name = f"rm_at_{largest_k(group)}" if metric == "rm_at_k" else metric
        found |= {
            f"{name}_difference": test and test.difference,
            f"{name}_p_holm": test and test.p_holm,
            f"{name}_verdict": test and verdict(test),
            f"{name}_detectable": test and test.detectable,
            f"{name}_detectable_holm": test and test.detectable_holm,
        }
    return found


def p_words(p: float | None) -> str:
    """A p value as tables show it; "" where there is no test."""
    return "" if p is None else f"{p:.3f}" if p >= 0.001 else "< 0.001"


def as_markdown(group: SweepRuns) -> str:
    """Every level beside the baseline, metric by metric, with a verdict; a sentence where there is nothing to compare."""
    if not group.tests:
        return f"{note(group)}\n"
    arms = len(group.arms) > 1
    head = [
        *(["arm"] if arms else []),
        group.factor,
        "metric",
        f"difference from {group.baseline}",
        "p",
        "p (Holm)",
        "80 % power from (alone / Holm)",
        "verdict",
    ]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for (arm, level, metric), test in group.tests.items():
        value = estimate(test.difference, test.ci95, signed=True, absent="")
        p_values = [p_words(p) for p in (test.p, test.p_holm)]
        row = [
            *([arm] if arms else []),
            level,
            metric_words(group, metric),
            value,
            *p_values,
            power(test),
            verdict(test),
        ]
        lines.append(f"| {' | '.join(row)} |")
    none = f"{NONE} " if any("none |" in line for line in lines) else ""
    return "\n".join(lines) + f"\n\n{none}{note(group)}\n"


def note(group: SweepRuns) -> str:
    """How levels were compared, or why they were not, for the foot of a figure or table."""
    if not group.tests:
        missing = (
            f"the baseline {group.baseline} has no finished run"
            if group.baseline
            else "the runs do not name a baseline"
        )
        return f"Levels are not compared: {'there is one' if len(group.levels) < 2 else missing}."
    family = distinct(list(group.tests.values()))
    tested = len(family)
    if not tested:
        seeds = max(test.seeds for test in group.tests.values())
        reasons = dict.fromkeys(test.reason.removeprefix("no test: ") for test in group.tests.values())
        reason = (
            f"{counted(seeds, 'seed')}, at least {LEAST_SEEDS} are needed"
            if seeds < LEAST_SEEDS
            else "; ".join(reasons)
        )
        return f"Levels beside the baseline {group.baseline}: no test ({reason})."
    shown = sum(test.shown for test in family)
    again = sum(test.p is not None for test in group.tests.values()) - tested
    once = f" {again} that compare the same runs again are counted once." if again else ""
    return (
        f"Levels beside the baseline {group.baseline}: differences paired by seed, their variance from seeds (pooled over levels, or "
        f"the level's own where that is larger) and from tasks, t tests; {shown} of {tested} differences are shown at 5 % after "
        f"Holm's correction over all of them.{once}"
    )
