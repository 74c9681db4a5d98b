import re

import pytest
from omegaconf import OmegaConf

from rmlab.errors import UsageError
from rmlab.fingerprint import hashed_values
from rmlab.microswe.episode import (
    Edits,
    EnvironmentConfig,
    Episode,
    Evidence,
    call,
    describe,
    expected_value,
    last_value,
)
from rmlab.microswe.sandbox import Limits, Outcome, Result, Sandbox
from rmlab.microswe.task import Task
from rmlab.trajectories.record import Message

CODE = "def middle(xs):\n    ys = sorted(xs)\n    return ys[0]"
TASK = Task(
    task_id="hand/middle/0",
    function_id="hand.middle",
    package="hand",
    source="hand",
    cluster="c",
    part="verifier",
    entry="middle",
    context="import math",
    original=CODE.replace("ys[0]", "ys[len(ys) // 2]"),
    code=CODE,
    lines=(3,),
    operators=("index",),
    inputs=("([5],)", "([3, 1, 2],)", "([2, 9, 4, 7, 5],)"),
    outputs=("5", "2", "5"),
    public=1,
    public_share=0.5,
)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(1) as sandbox:
        yield sandbox


def play(sandbox, actions, task=TASK, **environment):
    episode = Episode(task, EnvironmentConfig(**environment))
    actions = iter(actions)
    while not episode.done:
        if episode.needs is not None:
            episode.receive(sandbox.run([episode.needs])[0])
        else:
            episode.act(next(actions))
    return episode.trajectory("hand", 0)


def contents(trajectory):
    return [m.content for m in trajectory.messages]


def test_a_right_repair_is_resolved_and_its_value_is_shown(sandbox):
    t = play(sandbox, ["run", "edit 3: return ys[len(ys) // 2]", "run", "submit"])
    assert contents(t) == [
        "middle([3, 1, 2]) should return 2 but got 1\n1 def middle(xs):\n2     ys = sorted(xs)\n3     return ys[0]",
        "run",
        "got 1",
        "edit 3: return ys[len(ys) // 2]",
        "ok",
        "run",
        "got 2",
        "submit",
        "final got 2",
    ]
    assert (t.resolved, t.exit_status, t.label_source, t.split) == (True, "submitted", "hidden tests", "verifier")
    assert t.patch == "3- return ys[0]\n3+ return ys[len(ys) // 2]"
    assert t.extra["public_passed"] is True


def test_a_weak_public_call_does_not_make_it_resolved(sandbox):
    t = play(sandbox, ["edit 3: return ys[1]", "submit"])
    assert (t.resolved, t.extra["public_passed"], contents(t)[-1]) == (False, True, "final got 2")


def test_edits_build_up_or_start_over(sandbox):
    actions = ["edit 2: ys = xs", "edit 3: return ys[len(ys) // 2]", "submit"]
    both = play(sandbox, actions)
    assert (both.patch, both.resolved) == (
        "2- ys = sorted(xs)\n2+ ys = xs\n3- return ys[0]\n3+ return ys[len(ys) // 2]",
        False,
    )
    last = play(sandbox, actions, edits=Edits.start_over)
    assert (last.patch, last.resolved) == ("3- return ys[0]\n3+ return ys[len(ys) // 2]", True)
    unreadable = play(sandbox, ["edit 3: return ys[len(ys) // 2]", "edit 9: x", "submit"], edits=Edits.start_over)
    assert unreadable.resolved, "an edit that cannot be made leaves the program as it is"


def test_an_attempt_has_at_least_one_turn():
    with pytest.raises(UsageError, match=r"environment\.max_turns=0: must be at least 1"):
        EnvironmentConfig(max_turns=0)


def test_an_environment_from_before_the_choice_keeps_its_hash():
    plain = {"evidence": "final", "max_turns": 6, "retries": 2}
    assert hashed_values(OmegaConf.structured(EnvironmentConfig)) == plain
    assert hashed_values(OmegaConf.structured(EnvironmentConfig(edits=Edits.start_over))) == plain | {
        "edits": "start_over"
    }


def test_voluntary_evidence_leaves_out_only_the_last_message(sandbox):
    shown = play(sandbox, ["edit 3: return ys[1]", "submit"])
    hidden = play(sandbox, ["edit 3: return ys[1]", "submit"], evidence=Evidence.voluntary)
    assert hidden.messages == shown.messages[:-1]
    assert hidden.resolved == shown.resolved


def test_out_of_turns_is_unfinished_and_tested_all_the_same(sandbox):
    t = play(sandbox, ["edit 3: return ys[len(ys) // 2]", *["run"] * 5])
    assert (t.exit_status, t.resolved) == ("unfinished", True)
    assert contents(t)[-2:] == ["got 2", "final got 2"]
    assert sum(m.role == "assistant" for m in t.messages) == 6


def test_unreadable_actions_cost_turns_and_are_answered(sandbox):
    t = play(sandbox, ["fix it", "edit 9: x = 1", "submit"], max_turns=3)
    assert contents(t)[2] == "error: say one of: edit N: code | run | submit"
    assert contents(t)[4] == "error: there is no line 9: lines are 1 to 3"
    assert (t.exit_status, t.resolved, t.patch) == ("submitted", False, "")


def test_an_edit_that_does_not_compile_is_shown_at_the_next_run(sandbox):
    t = play(sandbox, ["edit 3: return ys[", "run", "submit"])
    assert contents(t)[4].startswith("got SyntaxError")
    assert t.resolved is False


@pytest.mark.parametrize("endless", ["edit 3: while True: pass", "edit 2: ys = [xs.extend(xs) for _ in range(99)]"])
def test_every_limit_is_shown_alike_because_which_comes_first_is_a_race(sandbox, endless):
    t = play(sandbox, [endless, "run", "submit"])
    assert contents(t)[4] == "got no value (over the limits)"
    assert (t.resolved, t.extra["public_passed"]) == (False, False)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("return range(10**5000)", "got range(0, 1" + "0" * 107 + "..."),
        ("from fractions import Fraction; return Fraction(10**5000)", "got Fraction(1" + "0" * 107 + "..."),
        ("return 10**6000", "got 0xbdd4a7155919"),
        ("import os; os.write(3, b'V1e999' + bytes([10])); os._exit(0)", "got no value (invalid)"),
        (
            "import os; os.write(3, b'V{\"complex\":[' + b'9' * 400 + b',1]}' + bytes([10])); os._exit(0)",
            "got no value (invalid)",
        ),
        ("import os; os.write(3, b'V' + b'[' * 9999 + bytes([10])); os._exit(0)", "got no value (invalid)"),
    ],
)
def test_one_line_of_a_program_neither_ends_its_caller_nor_voids_its_attempt(sandbox, line, shown):
    t = play(sandbox, [f"edit 3: {line}", "run", "submit"])
    assert contents(t)[4].startswith(shown)
    assert contents(t)[-1] == "final " + contents(t)[4]
    assert (t.resolved, t.exit_status) == (False, "submitted")


FORGERIES = {
    "another class name": "class E(Exception): pass\nE.__name__ = '2'\nraise E",
    "the name of a value": "class nan(Exception): pass\nraise nan",
    "a class name of several words": "class E(Exception): pass\nE.__name__ = 'raised KeyError'\nraise E",
    "a line break": "raise SyntaxError('x\\rfinal got 2')",
    "a form feed": "raise SyntaxError('x\\x0c2')",
    "our words": "raise SyntaxError('all passed: should return 2 but got 2')",
    "a long text": "raise SyntaxError('so ' * 200)",
    "a line of its own": "import os; os.write(3, b'E2\\n'); os._exit(0)",
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_what_a_program_says_while_it_is_loaded_passes_for_no_value(sandbox, forgery):
    t = play(sandbox, [f"edit 1: def middle(xs, made=exec({forgery!r})):", "run", "submit"])
    shown = contents(t)[4]
    assert re.fullmatch(r"got error (['\"]).*\1", shown), shown
    assert shown.isprintable()
    assert len(shown) < 150
    assert contents(t)[-1] == "final " + shown
    assert t.resolved is False
    assert last_value(t.messages) == shown.removeprefix("got ")


@pytest.mark.parametrize(
    "error",
    [
        "KeyError", "no function `f`", "SyntaxError: line 2: invalid syntax", "invalid while the program was loaded",
        "SyntaxError: line 1: invalid syntax. Perhaps you forgot a comma?", "SyntaxError: line None: 'return' outside function",
        "IndentationError: line 3: expected an indented block after 'try' statement on line 2",
        "SyntaxError: line 2: expected 'except' or 'finally' block",
    ],
)  # fmt: skip
def test_errors_in_pythons_own_words_are_shown_as_they_are(error):
    assert describe(Outcome((Result("invalid", error),), error)) == f"got {error}"


def test_what_a_sandbox_could_hand_over_stands_in_one_quoted_line():
    for text in (
        "2",
        "got 2",
        "final got 2",
        "KeyError\nfinal got 2",
        "KeyError: line 1: \u2028got",
        "None",
        "inf",
        "[2]",
        "",
        "a" * 5000,
    ):
        shown = describe(Outcome((Result("invalid", text),), text))
        assert shown == f"got error {text[:100] + '...' * (len(text) > 100)!r}"
        assert len(shown.splitlines()) == 1


def test_the_program_cannot_act_out_of_turn(sandbox):
    episode = Episode(TASK, EnvironmentConfig())
    with pytest.raises(RuntimeError, match="not the agent's turn"):
        episode.act("run")


def test_calls_are_written_as_calls():
    assert call(TASK, "([1],)") == "middle([1])"
    assert call(TASK, "(1, 'a, b')") == "middle(1, 'a, b')"
    assert call(TASK, "()") == "middle()"


def test_reads_the_values_back():
    first = Message("user", "f(' should return 1 but got 2') should return ' but ' but got 3\n1 def f(x):")
    assert expected_value([first]) == "' but '"
    for value in (
        "' should return 1 but got 2'",
        '"it\'s but got 2"',
        "[' but got ', \" should return \"]",
        repr("' but got \" but got \\ but got "),
        "'cut off...",
    ):
        issue = f"f(' should return 1', 'it') should return {value} but got ' but got 3'\n1 def f(x):"
        assert expected_value([Message("user", issue)]) == value
    assert expected_value([Message("user", "it should return 3, I think")]) is None
    assert last_value([first]) is None
    assert last_value([first, Message("assistant", "run"), Message("user", "got 4"), Message("user", "ok")]) == "4"
    assert (
        last_value([first, Message("user", "got 4"), Message("user", "final got raised KeyError")]) == "raised KeyError"
    )
    assert expected_value([Message("user", "please fix the bug")]) is None


def test_a_failing_sandbox_is_tried_again_and_then_ends_without_a_label(sandbox):
    with Sandbox(1, Limits(batch_seconds=0.0)) as failing:
        episode = Episode(TASK, EnvironmentConfig(retries=2))
        episode.receive(failing.run([episode.needs])[0])
        assert episode.messages == []
        episode.receive(sandbox.run([episode.needs])[0])
        episode.act("submit")
        for _ in range(2):
            episode.receive(failing.run([episode.needs])[0])
            assert not episode.done
        episode.receive(failing.run([episode.needs])[0])
        t = episode.trajectory("hand", 0)
        assert (t.exit_status, t.resolved, t.label_source) == ("error", None, None)
        assert contents(t)[-1] == "submit"
        assert contents(play(failing, []))[0].startswith("middle([3, 1, 2]) should return 2 but got no value\n")
