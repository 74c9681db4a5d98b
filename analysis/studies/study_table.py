"""One table of all sweeps of a study that a person can read: what was asked, what the paper reports, what was seen, with which power."""

from pathlib import Path

from analysis.pages.marked_text import MarkedText
from analysis.pages.sources import plain
from analysis.presentation import style
from analysis.presentation.metric_names import SCALARS
from analysis.registry import Needs, figure
from analysis.studies.effects import (
    BESIDE,
    CITATION,
    OWN,
    Effect,
    Place,
    effects,
    largest_k,
    on_pool,
    pools,
    rows,
    untested,
)
from analysis.studies.planned_study import PlannedStudy
from analysis.sweep import level_tests, level_words
from analysis.sweep.scored import scored_share, scores_all
from analysis.sweep.tracked import SweepRuns
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import FAMILY
from rmlab.wording import number

NAME = "study_table"
MEAN = "the mean difference from the baseline and, in parentheses, the baseline's value."
SOURCE = "SWE-RM, arXiv 2512.21919, values by public notes"


@figure(
    "What did each sweep of a study find? Its question, what the paper reports, the largest difference from the "
    "baseline in each metric, what is shown, and which difference would have been (`study_table.csv`, "
    "`study_table.md`). Written by `rmlab study`.",
    Needs.study,
)
def draw(study: PlannedStudy, out: Path) -> list[Path]:
    """Writes study_table.{csv,md}."""
    paths = [out / f"{NAME}.csv", out / f"{NAME}.md"]
    write_text(paths[0], style.csv_text(rows(study)))
    write_text(paths[1], as_marked(study).text)
    return paths


def as_marked(study: PlannedStudy) -> MarkedText:
    """All tables of the page, each under a heading, with the source of each number: what was found, in words; what the levels mean; the
    largest differences; the power; what is reported beside, and on further pools."""
    text = MarkedText(f"{NAME}.csv")
    text.say("## What was found\n\n").add(_words(study)).say("\n")
    if study.meanings:
        text.say("## What the levels mean\n\n")
        for name, meaning in study.meanings.items():
            text.say(f"- **{name}**: {meaning}\n")
        text.say("\n")
    text.say(
        "## The largest differences\n\n"
        "The largest difference from the baseline in each metric, with its 95 % interval over trainings and clusters of tasks; p after "
        "Holm's correction over all levels and the three metrics of a sweep; the baseline's value in parentheses; bold where a difference "
        "is shown. The largest of several differences is on average larger than the true one at that level.\n\n"
    ).add(_differences(study)).say("\n")
    if study.groups:
        text.say(
            "## What the tests could show\n\n"
            "Spread: standard deviation between trainings of a paired difference, in this study. Alone / Holm: the true difference that "
            "each test which shows none would have shown with a power of 80 %, by itself and at the first step of the correction; empty "
            "where every test shows one. The plan has what was expected.\n\n"
        ).add(_power(study)).say("\n")
        text.say(
            "## Reported beside\n\n"
            "Without a test, at the level of the largest difference of the metric that each belongs to: "
            f"{MEAN} By sum of scores: of the attempts at a task, the patch is picked whose attempts have the largest sum of scores. "
            "By patch: attempts with one patch count once. Less floor: the ECE that perfectly calibrated scores would have by chance is "
            "taken off. Prior corrected: for the ratio of labels, which training and evaluation have not in common. After Platt scaling: "
            "of scores whose level and spread were fitted on the validation part.\n\n"
        ).add(_beside(study)).say("\n")
    if any(pools(group) for group in study.groups.values()):
        text.say(
            "## On the other pools\n\n"
            f"Without a test, at the level of the largest difference on the verifiers' own kind: {MEAN}\n\n"
        ).add(_pools(study)).say("\n")
    return text


def _words(study: PlannedStudy) -> MarkedText:
    """What was asked, what the paper reports, and what was found, in words."""
    head = ["sweep", "question", f"the paper reports ({SOURCE})", "what was found"]
    text = MarkedText(f"{NAME}.csv").say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for name in study.sweeps:
        spec = study.specs[name]
        text.say(f"| {name} | {style.cell(spec.question)} | ")
        text.say(f"{style.cell(CITATION.sub('', spec.reported))} | ", "cited")
        text.add(in_words(study, name)).say(" |\n")
    return text


def _differences(study: PlannedStudy) -> MarkedText:
    """How many trainings a sweep has, and the largest difference in each metric."""
    names = ["RM@k", "AUC within task", "ECE"]
    if study.groups:
        names = [effect.words for effect in effects(next(iter(study.groups.values())))]
    head = ["sweep", "trainings", *names]
    text = MarkedText(f"{NAME}.csv").say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for name in study.sweeps:
        cells, group = study.of(name), study.groups.get(name)
        where = f"sweep={name} pool={OWN}" + (" metric=ece_width_10" if group else "")
        done = sum(one.run is not None for one in cells)
        text.say(f"| {name} | ").number(str(done), where, "trainings")
        if done < len(cells):
            text.say(" of ").number(str(len(cells)), where, "planned")
        if failures := sum(one.failures for one in cells):
            text.say("; ").number(str(failures), where, "failed").say(" failed")
        for effect in effects(group) if group else []:
            text.say(" | ").add(_largest(effect))
        text.say(" |\n" if group else " |  |  |  |\n")
    return text


def at(effect: Effect, place: Place) -> str:
    """A level, with its arm where the sweep has several."""
    return style.cell(level_words.place(effect.group, *place))


def row_of(effect: Effect, pool: str = OWN, metric: str = "") -> str:
    """The row of the CSV that an effect has. metric: another one that is reported beside its own."""
    return f"sweep={plain(effect.group.sweep)} pool={pool} metric={metric or effect.metric}"


def _largest(effect: Effect) -> MarkedText:
    """`1:4: +0.128 [+0.057, +0.198], p 0.013`; in bold where it is shown."""
    text = MarkedText(f"{NAME}.csv")
    if effect.largest is None:
        return text
    test, where = effect.tests[effect.largest], row_of(effect)
    bold = "**" if test.shown else ""
    text.say(f"{at(effect, effect.largest)}: {bold}").number(f"{test.difference:+.3f}", where, "difference")
    text.say(bold)
    if test.ci95 is not None:
        text.say(" [").number(f"{test.ci95[0]:+.3f}", where, "low").say(", ")
        text.number(f"{test.ci95[1]:+.3f}", where, "high").say("], p ")
        words = level_tests.p_words(test.p_holm)
        text.say("< " if words.startswith("<") else "").number(words.removeprefix("< "), where, "p_holm")
    if (before := on_pool(effect.group, effect.largest, effect.metric, OWN)[0]) is not None:
        text.say(" (").number(number(before), where, "at_baseline").say(")")
    return text


def in_words(study: PlannedStudy, name: str) -> MarkedText:
    """What may be said of a sweep: what is shown, and how large a difference would have been shown where none is."""
    group, cells = study.groups.get(name), study.of(name)
    text = MarkedText(f"{NAME}.csv")
    if group is None:
        return text.say("none of its own trainings is finished yet")
    if any(one.run is None for one in cells):
        text.say("So far, and only for orientation (the test that counts is of the whole sweep): ")
    if reason := untested(group):
        return text.say(f"no test, {reason}.")
    text.say(f"Compared with {style.cell(group.baseline)}: ")
    shown = [found for metric in FAMILY if (found := level_words.shown_levels(group, metric)).text]
    for i, found in enumerate(shown):
        text.say("; " if i else "").add(found)
    hidden = [test for test in group.tests.values() if test.p is not None and not test.shown]
    text.say(". " if shown else "")
    if hidden:
        text.say("No other difference is shown. " if shown else "no difference is shown. ")
        text.add(level_words.power(group, hidden))
    return text.add(_unscored(group))


def _unscored(group: SweepRuns) -> MarkedText:
    """Which levels score only a part of the attempts; empty where all score every one."""
    text = MarkedText(level_words.OVERVIEW)
    for arm in group.arms:
        levels = [level for level in group.levels if group.at(level, arm) and not scores_all(group, (arm, level))]
        levels = [level for level in levels if level != group.baseline]
        parts = []
        for level in levels:
            where = f"sweep={plain(group.sweep)} level={plain(level)} metric=rm_at_k" + (
                f" arm={plain(arm)}" if arm else ""
            )
            share = number(scored_share(group, (arm, level)), 2)
            parts.append(
                MarkedText(level_words.OVERVIEW).number(share, where, "scored").say(f" at {style.cell(level)}")
            )
        if parts:
            text.say(" Of the attempts only a share of ").listed(parts).say(
                f" is scored under {arm}" if arm else " is scored"
            )
            text.say(
                "; AUC within task and ECE there are of these alone, so they are not to be held against the baseline's."
            )
    return text


def _detectable(text: MarkedText, effect: Effect, column: str) -> None:
    """The number, or the word that stands for a difference that there cannot be."""
    assert effect.detectable is not None
    value = effect.detectable[column == "detectable_holm"]
    if level_tests.possible(value):
        text.number(number(value), row_of(effect), column)
    else:
        text.say(level_tests.detectable(value))


def _power(study: PlannedStudy) -> MarkedText:
    words = [effect.words for effect in effects(next(iter(study.groups.values())))]
    head = ["sweep", "tests", *(f"{name}: spread, alone / Holm" for name in words)]
    text = MarkedText(f"{NAME}.csv").say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for name, group in study.groups.items():
        own = effects(group)
        text.say(f"| {name} | ").number(str(sum(len(e.tested) for e in own)), f"sweep={name} pool={OWN}", "sum(tests)")
        for effect in own:
            text.say(" | ")
            if effect.spread is not None and effect.tested:
                text.number(number(effect.spread), row_of(effect), "spread")
            if effect.detectable is not None:
                _detectable(text.say(", "), effect, "detectable")
                _detectable(text.say(" / "), effect, "detectable_holm")
        text.say(" |\n")
    return text


def _pools(study: PlannedStudy) -> MarkedText:
    ks = {str(largest_k(group, pool)) for group in study.groups.values() for pool in pools(group)}
    best = f"RM@{ks.pop() if len(ks) == 1 else 'k'}"
    head = ["sweep", "pool", *(best if metric == "rm_at_k" else SCALARS[metric] for metric in FAMILY)]
    text = MarkedText(f"{NAME}.csv").say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for name, group in study.groups.items():
        for pool in pools(group):
            text.say(f"| {name} | {pool}")
            for effect in effects(group):
                text.say(" | ").add(_reported(effect, effect.metric, pool))
            text.say(" |\n")
    return text


def _beside(study: PlannedStudy) -> MarkedText:
    k = largest_k(next(iter(study.groups.values())), OWN)
    head = ["sweep", *(words.format(k=k) for metric in FAMILY for words in BESIDE[metric].values())]
    text = MarkedText(f"{NAME}.csv").say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for name, group in study.groups.items():
        text.say(f"| {name}")
        for effect in effects(group):
            for beside in BESIDE[effect.metric]:
                text.say(" | ").add(_reported(effect, beside, OWN))
        text.say(" |\n")
    return text


def _reported(effect: Effect, metric: str, pool: str) -> MarkedText:
    """`1:4: +0.100 (0.050)`; empty where it was not measured."""
    text = MarkedText(f"{NAME}.csv")
    if effect.largest is None:
        return text
    before, _, difference = on_pool(effect.group, effect.largest, metric, pool)
    if difference is not None:
        where = row_of(effect, pool, metric)
        text.say(f"{at(effect, effect.largest)}: ").number(f"{difference:+.3f}", where, "difference").say(" (")
        text.number(number(before), where, "at_baseline").say(")")
    return text
