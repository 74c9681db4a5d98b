"""What rules are worth at each level of a sweep, and which levels are said to be above them."""

from types import SimpleNamespace
from typing import Any

import pytest

from analysis.studies import references
from analysis.sweep import rules
from analysis.sweep.tracked import SweepRuns
from analysis.verifiers import sweep_table


def sweep(levels: dict[str, tuple[float, dict[str, float]]], arms: tuple[str, ...] = ("",)) -> SweepRuns:
    """levels: the lower end of the interval of the within-task AUC, and what each rule has on the attempts as the level shows them."""
    cells = [
        SimpleNamespace(
            **{"level": level, "arm": arm, "seed": seed, "across": False},
            report={"auc_within_task": low + 0.05, "ci95": {"auc_within_task": [low, low + 0.1]}},
            baselines={name: {"auc_within_task": value} for name, value in worth.items()}
            | {"none": {"reason": "lost"}},
            run=SimpleNamespace(tags={"place": str(place)}),
        )
        for place, (level, (low, worth)) in enumerate(levels.items())
        for arm in arms
        for seed in (0, 1)
    ]
    return SweepRuns("evidence", "demo", "c0", "evidence", tuple(cells), "final")  # type: ignore[arg-type]


SHOWN = {"oracle": 1.0, "last_value": 0.85, "public_execution": 0.85, "shape": 0.6}
HIDDEN = SHOWN | {"last_value": 0.66}
AUC = "auc_within_task"


@pytest.mark.parametrize("order", [("final", "voluntary"), ("voluntary", "final")])
def test_a_level_is_compared_with_rules_on_its_own_attempts(order: tuple[str, ...]) -> None:
    """0.75 lies above a rule that has 0.66 without the final values, and not above the 0.85 that it has with them."""
    of_level = {"final": (0.8, SHOWN), "voluntary": (0.75, HIDDEN)}
    group = sweep({level: of_level[level] for level in order})
    assert rules.not_above(group, "", "final", AUC) == {"last_value": 0.85, "public_execution": 0.85}
    assert rules.not_above(group, "", "voluntary", AUC) == {"public_execution": 0.85}
    assert rules.not_above(group, "", "lost", AUC) == {}


def test_each_level_is_spoken_of_and_never_the_last_alone() -> None:
    group = sweep({"final": (0.8, SHOWN), "other": (0.9, SHOWN), "voluntary": (0.55, HIDDEN)})
    assert rules.sentences(group, "AUC", AUC) == [
        "AUC: not shown to lie above last value (0.850) at final; public execution (0.850) at final and voluntary; "
        "last value (0.660) and shape (0.600) at voluntary (intervals, unpaired)."
    ]
    low = sweep({"final": (0.5, SHOWN), "voluntary": (0.5, SHOWN)})
    assert rules.not_beaten(low, "", AUC) == "last value and public execution (0.850) and shape (0.600) at every level"


def test_arms_are_told_apart_and_what_is_beaten_everywhere_is_said() -> None:
    group = sweep({"final": (0.9, SHOWN)}, arms=("epochs", "steps"))
    assert rules.sentences(group, "AUC", AUC) == [
        f"AUC ({arm}): above every rule at every level (intervals, unpaired)." for arm in ("epochs", "steps")
    ]
    assert rules.sentences(group, "lost", "lost") == []


def test_levels_share_a_value_unless_they_differ_by_more_than_machines_do() -> None:
    def shared(**of_level: Any) -> list[tuple[Any, str]]:
        return [(one.value, one.where) for one in rules.shared(of_level)]

    assert shared(a=0.1 + 0.2, b=0.3) == [(0.1 + 0.2, "")]
    assert shared(a={"1": 0.3}, b={"1": 0.4}, c={"1": 0.3}) == [({"1": 0.3}, " at a and c"), ({"1": 0.4}, " at b")]
    assert shared(a=0.3, b=None) == [(0.3, " at a")]
    assert shared(a=None, b=None) == []


def test_the_rules_of_a_study_are_those_of_the_baselines_own_attempts() -> None:
    group = sweep({"voluntary": (0.75, HIDDEN), "final": (0.8, SHOWN)})
    assert {cell.level for cell in references._cells(group)} == {"final"}


def test_what_has_no_interval_lies_above_no_rule_and_says_on_how_little_it_rests() -> None:
    group = sweep({"final": (0.9, SHOWN)})
    for cell in group.cells:
        cell.report["ci95"][AUC], cell.report["mixed_tasks"] = None, 1
    assert set(rules.not_above(group, "", "final", AUC)) == {"last_value", "public_execution", "shape"}
    cells = group.at("final", "")
    assert sweep_table.on_few(cells, AUC) == " (1 mixed task)"
    assert sweep_table.on_few(cells, "auc_pooled") == ""
    cells[0].report["mixed_tasks"] = cells[1].report["mixed_tasks"] = 40
    assert sweep_table.on_few(cells, AUC) == ""
