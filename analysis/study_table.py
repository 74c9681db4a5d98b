"""One table of all sweeps of a study that a person can read: what was asked, what the paper reports, what was seen, with which power."""

from pathlib import Path

from analysis import level_tests, study_effects, style
from analysis.marked_text import MarkedText
from analysis.page_numbers import plain
from analysis.planned_study import PlannedStudy
from analysis.registry import Needs, figure
from analysis.study_effects import BESIDE, OWN, Effect, Place, amount, effects, largest_k, on_pool, pools, untested
from rmlab.files import write_text
from rmlab.metrics.sweep_levels import FAMILY
from rmlab.wording import listed, number

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
    write_text(paths[0], style.csv_text(study_effects.rows(study)))
    write_text(paths[1], as_marked(study).text)
    return paths


def as_marked(study: PlannedStudy) -> MarkedText:
    """The table of sweeps, the table of power, and that of the further pools, with the source of each number."""
    text = MarkedText(f"{NAME}.csv")
    text.add(_sweeps(study)).say("\n")
    if study.groups:
        text.say("What the tests could show:\n\n").add(_power(study)).say("\n")
        text.say(
            "Reported beside, without a test, at the level of the largest difference of the metric that each belongs to:"
        )
        text.say(f" {MEAN}\n\n").add(_beside(study)).say("\n")
    if any(pools(group) for group in study.groups.values()):
        text.say(
            f"On the other pools, without a test, at the level of the largest difference on the verifiers' own kind: {MEAN}\n\n"
        ).add(_pools(study)).say("\n")
    return text


def _sweeps(study: PlannedStudy) -> MarkedText:
    names = ["RM@k", "AUC within task", "ECE"]
    if study.groups:
        names = [effect.words for effect in effects(next(iter(study.groups.values())))]
    head = [
        "sweep",
        "question",
        f"the paper reports ({SOURCE})",
        "trainings",
        *(f"{name}: largest difference" for name in names),
    ]
    text = MarkedText(f"{NAME}.csv").say(f"| {' | '.join([*head, 'in words'])} |\n|{'---|' * (len(head) + 1)}\n")
    for name in study.sweeps:
        spec, cells, group = study.specs[name], study.of(name), study.groups.get(name)
        where = f"sweep={name} pool={OWN}" + (" metric=ece_width_10" if group else "")
        text.say(f"| {name} | {style.cell(spec.question)} | ")
        text.say(f"{style.cell(study_effects.SOURCE.sub('', spec.reported))} | ", "cited")
        done = sum(one.run is not None for one in cells)
        text.number(str(done), where, "trainings")
        if done < len(cells):
            text.say(" of ").number(str(len(cells)), where, "planned")
        if failures := sum(one.failures for one in cells):
            text.say("; ").number(str(failures), where, "failed").say(" failed")
        text.say(" | ")
        for effect in effects(group) if group else []:
            text.add(_largest(effect)).say(" | ")
        if group is None:
            text.say(" |  |  | none of its own yet |\n")
        else:
            text.add(in_words(study, name)).say(" |\n")
    return text


def at(effect: Effect, place: Place) -> str:
    """A level, with its arm where the sweep has several."""
    return " ".join(filter(None, (place[1], place[0] if len(effect.group.arms) > 1 else "")))


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
    text.say(f"{style.cell(at(effect, effect.largest))}: {bold}").number(f"{test.difference:+.3f}", where, "difference")
    text.say(bold)
    if test.ci95 is not None:
        text.say(" [").number(f"{test.ci95[0]:+.3f}", where, "low").say(", ")
        text.number(f"{test.ci95[1]:+.3f}", where, "high").say("], p ")
        words = level_tests.p_words(test.p_holm)
        text.say("< " if words.startswith("<") else "").number(words.removeprefix("< "), where, "p_holm")
    return text


def in_words(study: PlannedStudy, name: str) -> MarkedText:
    """What may be said of a sweep: what is shown, and how large a difference would have been shown where none is."""
    group, cells = study.groups[name], study.of(name)
    text = MarkedText(f"{NAME}.csv")
    if any(one.run is None for one in cells):
        text.say("So far, and only for orientation (the test that counts is of the whole sweep): ")
    if reason := untested(group):
        return text.say(f"no test, {reason}.")
    parts = []
    for effect in effects(group):
        if effect.shown:
            parts.append(_shown(effect))
    hidden = [effect for effect in effects(group) if effect.detectable is not None]
    if hidden:
        parts.append(_hidden(hidden))
    for i, part in enumerate(parts):
        text.say("; " if i else "").add(part)
    return text.say(".")


def _shown(effect: Effect) -> MarkedText:
    """`shown to raise ECE by 0.128 at 1:4 (shown to be higher at 2:1 too, and lower at 1:2)`: the level of the largest difference first."""
    place = effect.shown[0]
    test, where = effect.tests[place], row_of(effect)
    verb, sign = ("raise", "") if (test.difference or 0.0) > 0 else ("lower", "-")
    text = MarkedText(f"{NAME}.csv").say(f"shown to {verb} {effect.words} by ")
    text.number(amount(test.difference), where, f"{sign}difference").say(
        f" at {effect.group.factor}={style.cell(at(effect, place))}"
    )
    alike, unlike = [], []
    for other in effect.shown[1:]:
        same = ((effect.tests[other].difference or 0.0) > 0) == ((test.difference or 0.0) > 0)
        (alike if same else unlike).append(style.cell(at(effect, other)))
    here, there = ("higher", "lower") if verb == "raise" else ("lower", "higher")
    parts = [f"{here} at {listed(alike)} too"] if alike else []
    parts += [f"{there} at {listed(unlike)}"] if unlike else []
    return text.say(f" (shown to be {', and '.join(parts)})" if parts else "")


def _hidden(hidden: "list[Effect]") -> MarkedText:
    """`no difference shown in RM@16 and ECE; one of 0.119 and 0.083 would have been seen with 80 % power (after correction ...)`."""
    other = " other" if any(effect.shown for effect in hidden) else ""
    text = MarkedText(f"{NAME}.csv").say(
        f"no{other} difference shown in {listed([effect.words for effect in hidden])}; with 80 % power "
    )
    text.say("tests would have shown one of ")
    for column in ("detectable", "detectable_holm"):
        for i, effect in enumerate(hidden):
            text.say("" if not i else " and " if i == len(hidden) - 1 else ", ")
            _detectable(text, effect, column)
        text.say(" alone, of " if column == "detectable" else " after Holm's correction")
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
    head = ["sweep", "pool", *(best if metric == "rm_at_k" else level_tests.WORDS[metric] for metric in FAMILY)]
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
    head = ["sweep", *(BESIDE[metric][1].format(k=k) for metric in FAMILY)]
    text = MarkedText(f"{NAME}.csv").say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    for name, group in study.groups.items():
        text.say(f"| {name}")
        for effect in effects(group):
            text.say(" | ").add(_reported(effect, BESIDE[effect.metric][0], OWN))
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
        text.say(f"{style.cell(at(effect, effect.largest))}: ").number(f"{difference:+.3f}", where, "difference").say(
            " ("
        )
        text.number(number(before), where, "at_baseline").say(")")
    return text
