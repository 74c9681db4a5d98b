"""Comparisons: the answer follows from the two values that are shown, and from nothing else."""

import ast
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from rmlab.microswe.sandbox.values import encode
from rmlab.paths import REPOSITORY
from rmlab.pretraining.comparisons import OTHER, QUESTIONS, SAME, Comparison, _parts, comparisons, differ
from rmlab.trajectories.record import Message
from rmlab.verifiers.prompt import render
from tests.verifiers.examples import episode

ASK = "Is the issue solved? Answer YES or NO."
EPISODES = [render(episode(i, bool(i % 2))) for i in range(20)]
MADE = list(comparisons(EPISODES, 2000, 0))
SHOWN = re.compile(r"Asked: (.*) should return (?P<expected>.*) but got .*\nLast: (?:final )?got (?P<seen>.*)\nPatch:")


def values(comparison: Comparison) -> tuple[str, str]:
    """The expected value and the one that was seen last, as the question shows them."""
    found = SHOWN.search(comparison.prompt)
    assert found is not None
    return found["expected"], found["seen"]


def test_the_answer_is_whether_the_two_values_shown_are_equal() -> None:
    unread = 0
    for comparison in MADE:
        expected, seen = values(comparison)
        assert (comparison.answer == SAME) == (expected == seen)
        try:
            one, two = (encode(ast.literal_eval(text)) for text in (expected, seen))
        except (ValueError, SyntaxError):
            unread += 1  # raised ValueError, a value with one character changed
            continue
        assert (comparison.answer == SAME) == (one == two)
    assert unread < 400


def test_half_are_the_same_and_both_answers_are_asked_of_whole_episodes_and_of_questions_alone() -> None:
    whole = [c for c in MADE if not c.prompt.startswith("<|im_start|>user\nAsked: ")]
    for part in (MADE, whole):
        same = sum(c.answer == SAME for c in part)
        assert abs(same - len(part) / 2) < 4 * (len(part) / 4) ** 0.5
    assert {c.answer for c in MADE} == {SAME, OTHER}
    assert 0.25 < len(whole) / len(MADE) < 0.35


def test_a_whole_comparison_is_a_verifiers_prompt_with_another_question_and_last_value() -> None:
    parts = _parts(render(episode(4, True)))
    assert parts is not None
    assert (parts.call, parts.expected, parts.before) == ("f(4)", "11", "4")
    assert parts.patch == "-2     return x\n+    return 2 * x + 3"
    for comparison in comparisons([render(episode(4, True))], 50, 0):
        if comparison.prompt.startswith("<|im_start|>user\nAsked: "):
            continue
        expected, seen = values(comparison)
        turns = episode(4, True).messages
        shown = replace(episode(4, True), messages=(*turns[:-1], Message("user", f"final got {seen}")))
        (question,) = (q for q in QUESTIONS if q in comparison.prompt)
        assert comparison.prompt.replace(question, ASK) == render(shown)
        assert expected == "11"


def test_no_label_goes_in_and_what_shows_no_final_value_is_passed_over() -> None:
    other = [render(replace(episode(i, bool(i % 2)), resolved=i % 3 == 0, exit_status="unfinished")) for i in range(20)]
    assert list(comparisons(other, 200, 0)) == MADE[:200]
    endless = replace(episode(1, True), messages=episode(1, True).messages[:-1])
    assert list(comparisons([render(endless), "def f(): pass"], 10, 0)) == []
    assert list(comparisons([*EPISODES, render(endless)], 200, 0)) == MADE[:200]


@pytest.mark.parametrize(
    ("one", "two", "apart"),
    [
        ("1", "1.0", True),
        ("1", "True", True),
        ("'a b'", "'ab'", True),
        ("[1, 2]", "(1, 2)", True),
        ("[1, 2]", "[1,2]", False),
        ("deque([1, 2])", "deque([1,  2])", False),
        ("deque([1, 2])", "deque([1, 3])", True),
        ("raised TypeError", "raised KeyError", True),
        ("{'a': 1}", "{'a': 1}", False),
    ],
)
def test_values_differ_where_the_environment_tells_them_apart(one: str, two: str, apart: bool) -> None:
    assert differ(one, two) is apart


PROGRAM = """
from tests.pretraining.test_comparisons import EPISODES, comparisons
from rmlab.fingerprint import fingerprint_lines
print(fingerprint_lines(c.prompt + c.answer for c in comparisons(EPISODES, 2000, 0)))
"""


def test_any_process_draws_the_same() -> None:
    drawn = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=REPOSITORY,
            text=True,
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(drawn) == 1
    assert list(comparisons(EPISODES, 50, 0)) == MADE[:50] != list(comparisons(EPISODES, 50, 1))
