"""What the tests say of a sweep's levels, in sentences: which are shown to differ, and which differences would have been shown."""

from collections.abc import Sequence

from analysis.pages.marked_text import MarkedText
from analysis.pages.sources import plain
from analysis.presentation import style
from analysis.sweep import level_tests
from analysis.sweep.tracked import SweepRuns
from rmlab.metrics.sweep_levels import FAMILY, LevelTest
from rmlab.wording import number

TABLE, OVERVIEW = "study_table.csv", "study_overview.csv"
"""Of a study: what each sweep found, by metric; every level's difference."""


def place(group: SweepRuns, arm: str, level: str) -> str:
    """`250`, or `250 (epochs)` where the sweep has several arms."""
    return f"{level} ({arm})" if arm and len(group.arms) > 1 else level


def answer(group: SweepRuns) -> str:
    """What the tests say, in a sentence: for each metric the levels that are shown to differ, or that none is."""
    if shown := [text for metric in FAMILY if (text := shown_levels(group, metric).text)]:
        power = level_tests.power_note(group)
        return f"Compared with {group.baseline}: {'; '.join(shown)}{f'; no other difference is shown. {power}' if power else '.'}"
    if any(test.p is not None for test in group.tests.values()):
        return f"No difference from {group.baseline} is shown. {level_tests.power_note(group)}"
    return level_tests.note(group)


def shown_levels(group: SweepRuns, metric: str) -> MarkedText:
    """`RM@16 is lower at 256 (by 0.087) and 320 under rank_last, and higher at refilter (by 0.030) under rank_last`.

    The direction of the largest difference comes first; the largest of each direction has its amount. Empty where none is shown.
    """
    tests = {(arm, level): test for (arm, level, of), test in group.tests.items() if of == metric and test.shown}
    ways: dict[str, dict[tuple[str, str], LevelTest]] = {}
    for at in sorted(tests, key=lambda at: -abs(tests[at].difference or 0.0)):
        ways.setdefault(level_tests.verdict(tests[at]), {})[at] = tests[at]
    text = MarkedText(OVERVIEW)
    for way, found in ways.items():
        text.say(", and " if text.text else f"{level_tests.metric_words(group, metric)} is ").say(f"{way} at ")
        largest, arms = next(iter(found)), [arm for arm in group.arms if any(arm == one for one, _ in found)]
        for arm in arms:
            levels = [level for level in group.levels if (arm, level) in found]
            text.say("" if arm == arms[0] else " and at ")
            text.listed([_level(group, metric, arm, level, (arm, level) == largest) for level in levels])
            text.say(f" under {arm}" if arm and len(group.arms) > 1 else "")
    return text


def _level(group: SweepRuns, metric: str, arm: str, level: str, with_amount: bool) -> MarkedText:
    text = MarkedText(OVERVIEW).say(style.cell(level))
    if with_amount:
        difference = group.tests[arm, level, metric].difference or 0.0
        where = f"sweep={plain(group.sweep)} level={plain(level)} metric={metric}"
        where += f" arm={plain(arm)}" if arm else ""
        text.say(" (by ").number(number(abs(difference)), where, "difference" if difference > 0 else "-difference")
        text.say(")")
    return text


def power(group: SweepRuns, hidden: Sequence[LevelTest]) -> MarkedText:
    """`Each test that shows none had a power of at least 80 % for a difference of 0.119 in RM@16 and 0.083 in ECE, after Holm's
    correction; smaller ones may be there.` Empty where nothing is known of it. hidden: the tests that show no difference."""
    least: dict[str, float] = {}
    for test in hidden:
        if test.detectable_holm is not None:
            least[test.metric] = max(test.detectable_holm, least.get(test.metric, 0.0))
    parts, never = [], []
    for metric in filter(least.__contains__, FAMILY):
        words = level_tests.metric_words(group, metric)
        if level_tests.possible(least[metric]):
            where = f"sweep={plain(group.sweep)} pool=own metric={metric}"
            part = MarkedText(TABLE).number(number(least[metric]), where, "detectable_holm").say(f" in {words}")
            parts.append(part)
        else:
            never.append(MarkedText(TABLE).say(words))
    text = MarkedText(TABLE)
    if parts:
        text.say("Each test that shows none had a power of at least 80 % for a difference of ").listed(parts)
        text.say(", after Holm's correction; smaller ones may be there.")
    if never:
        text.say(" " if parts else "").say("In ").listed(never).say(" at least one test could have shown none at all.")
    return text
