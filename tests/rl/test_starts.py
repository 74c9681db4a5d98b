from dataclasses import replace

import pytest

from rmlab.errors import DataError
from rmlab.microswe.episode import Edits, EnvironmentConfig
from rmlab.rl.assemble import other_rules, select_tasks
from tests.hand_task import NEGATED

TWO = replace(NEGATED, task_id="hand/g/0", cluster="b", lines=(1, 2))
JUDGED = replace(NEGATED, task_id="hand/h/0", cluster="c", part="evaluation")
OVER = EnvironmentConfig(edits=Edits.start_over, max_turns=14)


def test_two_changed_lines_are_trained_on_where_edits_build_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert select_tasks({}, [NEGATED, TWO, JUDGED], "s", EnvironmentConfig()) == [NEGATED, TWO]
    assert capsys.readouterr().out == ""
    assert select_tasks({}, [NEGATED, TWO, JUDGED], "s", OVER) == [NEGATED]
    assert "1 of 2 tasks have two changed lines" in capsys.readouterr().out


def test_what_a_start_was_shown_is_neither_trained_on_nor_judged() -> None:
    for cluster in ("a", "c"):
        with pytest.raises(DataError, match="the parts never mix"):
            select_tasks({"shown_clusters": [cluster]}, [NEGATED, JUDGED], "s", OVER)
    assert select_tasks({"shown_clusters": ["d"]}, [NEGATED, JUDGED], "s", OVER)
    assert select_tasks({"shown_clusters": ["a"]}, [replace(NEGATED, part="supervised")], "s", OVER) == []


def test_rules_that_the_start_was_not_taught_are_said() -> None:
    assert other_rules({}, OVER) == []
    assert other_rules({"environment": {"edits": "start_over", "max_turns": 14}}, OVER) == []
    assert other_rules({"environment": {"max_turns": 6}}, OVER) == [
        "environment.edits=start_over, but the start was trained with build_up",
        "environment.max_turns=14, but the start was trained with 6",
    ]
