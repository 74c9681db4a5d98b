"""What is a rule that needs no verifier worth at each level of a sweep, and which levels are not shown to be above it?

Levels that judge the same attempts share one value of a rule. Levels that judge others, or other evidence of them, have their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.presentation import style
from analysis.sweep.tracked import SweepRuns, dig, mean_over_seeds
from rmlab.wording import listed, number

SAME = 9
"""Decimals in which two levels must agree to share a value: the last ones differ between machines."""
BOUND = "oracle"
"""It picks a resolved attempt wherever there is one, so it is no rule that could be beaten."""


@dataclass(frozen=True)
class Shared:
    """A value and the levels that it holds for. where: "" if it is that of all levels, else ` at voluntary`."""

    value: Any
    levels: list[str]
    where: str


def shared(of_level: Mapping[str, Any]) -> list[Shared]:
    """Each value once, in the order of the levels, without None. of_level: numbers, or dicts of numbers."""
    levels_of: dict[str, list[str]] = {}
    for level, value in of_level.items():
        levels_of.setdefault(repr(_rounded(value)), []).append(level)
    return [
        Shared(of_level[levels[0]], levels, f" at {listed(levels)}" if len(levels_of) > 1 else "")
        for levels in levels_of.values()
        if of_level[levels[0]] is not None
    ]


def of_levels(group: SweepRuns, rule: str, *path: str, arm: str | None = None) -> dict[str, Any]:
    """What a rule reports at each level, None where it has no such value; of one arm, or of the first that has the level.

    rule: as `baselines.json` names it; "" is the verifiers' own report, for what is the same for all verifiers. path: into a report.
    """
    found = {}
    for level in group.levels:
        if cells := [cell for one in (group.arms if arm is None else [arm]) for cell in group.at(level, one)]:
            found[level] = dig(cells[0].baselines.get(rule) if rule else cells[0].report, path)
    return found


def draw_over_levels(
    axis: Any, group: SweepRuns, rule: str, path: tuple[str, ...], place: dict[str, float], **look: Any
) -> list[Shared]:
    """Draws a rule into a panel over the levels: a line across where it is worth the same at all of them, else what it is worth at each.
    place: level to x. look: as matplotlib takes it. Returns what was drawn."""
    of_level = of_levels(group, rule, *path)
    found = shared(of_level)
    if [one.where for one in found] == [""]:
        axis.axhline(found[0].value, **look)
    elif points := [(place[level], value) for level, value in of_level.items() if value is not None]:
        label = f"{look.pop('label')}, at each level" if "label" in look else None
        for i, piece in enumerate(style.pieces(points, joined=bool(group.numbers) and not group.across)):
            axis.plot(*zip(*piece, strict=True), label=None if i else label, **look)
    return found


def not_above(group: SweepRuns, arm: str, level: str, *path: str) -> dict[str, float]:
    """The rules that a level's interval does not lie above, each with its value on the attempts as that level shows them."""
    cells = group.at(level, arm)
    measured = mean_over_seeds(cells, *path)
    found = {}
    for name, report in cells[0].baselines.items() if measured else ():
        value = dig(report, path)
        if measured and name != BOUND and value is not None and not value < measured[1]:  # the interval's lower end
            found[name] = value
    return found


def not_beaten(group: SweepRuns, arm: str, *path: str) -> str:
    """`last value and public execution (0.849) at 250 and 500; shape (0.653) at 250`; "" where every level lies above every rule."""
    levels_of: dict[tuple[str, str], list[str]] = {}
    for level in group.levels:
        for name, value in not_above(group, arm, level, *path).items():
            levels_of.setdefault((name.replace("_", " "), number(value)), []).append(level)
    names_of: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for (name, shown), levels in levels_of.items():
        names_of.setdefault(tuple(levels), {}).setdefault(shown, []).append(name)
    every = tuple(level for level in group.levels if group.at(level, arm))
    return "; ".join(
        f"{listed([f'{listed(names)} ({value})' for value, names in of_value.items()])} at "
        f"{'every level' if levels == every and len(every) > 1 else listed(levels)}"
        for levels, of_value in names_of.items()
    )


def sentences(group: SweepRuns, words: str, *path: str) -> list[str]:
    """Of each arm: which rules its levels' intervals do not lie above. words: the metric. Empty where it is undefined."""
    found = []
    for arm in group.arms:
        if any(mean_over_seeds(group.at(level, arm), *path) for level in group.levels):
            of_arm = f" ({arm})" if len(group.arms) > 1 else ""
            least = not_beaten(group, arm, *path)
            said = f"not shown to lie above {least}" if least else "above every rule at every level"
            found.append(f"{words}{of_arm}: {said} (intervals, unpaired).")
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return round(value, SAME) if isinstance(value, float) else value
