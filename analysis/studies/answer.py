"""What a study found, in a few lines: of each metric the largest difference that a sweep shows, and the sweeps that show none."""

from analysis.pages.marked_text import MarkedText
from analysis.studies import study_table
from analysis.studies.effects import Effect, effects
from analysis.studies.planned_study import PlannedStudy
from rmlab.metrics.sweep_levels import FAMILY
from rmlab.wording import listed


def as_marked(study: PlannedStudy) -> MarkedText:
    """A list, an item a metric; empty where nothing has been tested."""
    text = MarkedText(f"{study_table.NAME}.csv")
    groups = [group for group in study.groups.values() if any(test.p is not None for test in group.tests.values())]
    if not groups:
        return text
    of_sweep = {group.sweep: effects(group) for group in groups}
    text.say("**Answer.** Differences from the baseline that are shown, of each sweep the largest in a metric:\n\n")
    for metric in FAMILY:
        shown = [effect for own in of_sweep.values() for effect in own if effect.metric == metric and effect.shown]
        if shown:
            shown.sort(key=lambda effect: -abs(_difference(effect)))
            text.say(f"- **{shown[0].words}**: ").listed([_shown(effect) for effect in shown]).say(".\n")
    if silent := [name for name, own in of_sweep.items() if not any(effect.shown for effect in own)]:
        text.say(f"- No difference is shown in {listed(silent)}.\n")
    return text.say("\n")


def _difference(effect: Effect) -> float:
    return effect.tests[effect.shown[0]].difference or 0.0


def _shown(effect: Effect) -> MarkedText:
    """`-0.118 in turn_visibility at patch_only`."""
    text = MarkedText(f"{study_table.NAME}.csv")
    text.number(f"{_difference(effect):+.3f}", study_table.row_of(effect), "difference")
    return text.say(f" in {effect.group.sweep} at {study_table.at(effect, effect.shown[0])}")
