"""What is asked at a decision: the episode so far, what was seen last, the patch so far; what follows is what the agent did."""

from dataclasses import replace

from rmlab.models.tokenizer import IM_END
from rmlab.pretraining.decisions import ASK, decisions
from rmlab.trajectories.record import Message, Trajectory
from rmlab.verifiers.prompt import OPEN_ANSWER, SOLVED, render

CODE = "def f(x):\n    y = x + 1\n    return y"
TURNS = [
    ("user", "f(1) should return 3 but got 2\n1 def f(x):\n2     y = x + 1\n3     return y"),
    ("assistant", "edit 2: y = x - 1"), ("user", "ok"), ("assistant", "run"), ("user", "got 0"),
    ("assistant", "edit 9: return"), ("user", "error: there is no line 9: lines are 1 to 3"),
    ("assistant", "edit 2: y = x + 2"), ("user", "ok"), ("assistant", "run"), ("user", "got 3"),
    ("assistant", "submit"), ("user", "final got 3"),
]


def attempt(resolved=True, **changes):
    messages = tuple(Message(role, content) for role, content in TURNS)
    whole = Trajectory(task_id="t", cluster="c", source="s", policy="p", attempt=0, messages=messages, exit_status="submitted",
                       patch="2- y = x + 1\n2+ y = x + 2", resolved=resolved, split="supervised")
    return replace(whole, **changes)


def test_each_action_behind_a_value_is_asked_for_with_the_patch_as_it_stood():
    first, second = decisions(attempt(), CODE)
    assert first.endswith(f"Last: got 0\nPatch:\n2- y = x + 1\n2+ y = x - 1\n{ASK}{IM_END}\n{OPEN_ANSWER}edit 9: return{IM_END}\n")
    assert second.endswith(f"Last: got 3\nPatch:\n2- y = x + 1\n2+ y = x + 2\n{ASK}{IM_END}\n{OPEN_ANSWER}submit{IM_END}\n")
    assert "final got" not in second  # nothing that came after


def test_it_is_the_verifiers_prompt_of_the_same_turns_but_for_the_question():
    *_, text = decisions(attempt(), CODE)
    before = replace(attempt(), messages=attempt().messages[:11])
    assert text.removesuffix(f"submit{IM_END}\n") == render(before).replace(SOLVED, ASK)


def test_labels_change_nothing():
    assert list(decisions(attempt(resolved=False), CODE)) == list(decisions(attempt(), CODE))


def test_an_episode_without_a_run_has_none():
    hasty = attempt(messages=tuple(Message(r, c) for r, c in (*TURNS[:3], *TURNS[11:])))
    assert list(decisions(hasty, CODE)) == []
