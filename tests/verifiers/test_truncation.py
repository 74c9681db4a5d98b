"""Long trajectories are cut in the middle of their observations; the issue, the last turns and the patch stay."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmlab.models.config import TokenizerConfig
from rmlab.models.tokenizer import Tokenizer, train_tokenizer
from rmlab.trajectories.record import Message, Trajectory
from rmlab.verifiers.prompt import render
from rmlab.verifiers.truncation import KEEP_LAST, truncate_observations


def words(text: str) -> int:
    return len(text.split())


def long(observations: list[int], patch: str = "+x") -> Trajectory:
    messages = [Message("system", "You fix."), Message("user", "Issue: " + "why " * 20)]
    for number, size in enumerate(observations):
        messages += [
            Message("assistant", f"[call bash]\nls {number}\n[/call]"),
            Message("tool", f"first{number} " + "line " * size + f"last{number}"),
        ]
    return Trajectory("t", "c", "s", "p", 0, tuple(messages), patch, "submitted", True)


def test_what_fits_is_left_alone() -> None:
    whole = long([5, 5])
    held = truncate_observations(whole, 2000, words)
    assert (held.trajectory, held.fits, held.cut, held.left_out, held.characters) == (whole, True, 0, 0, 0)


def test_the_longest_observations_are_cut_first_and_in_their_middle() -> None:
    held = truncate_observations(long([10, 900, 30, 400, 5, 5, 5, 5]), 700, words)
    assert held.fits
    assert (held.cut, held.left_out) == (2, 0)
    texts = [m.content for m in held.trajectory.messages]
    assert texts[3] == long([10]).messages[3].content
    for number in (1, 3):
        cut = texts[3 + 2 * number]
        assert cut.startswith(f"first{number} ")
        assert cut.endswith(f"last{number}")
        assert "characters left out" in cut
    sizes = [words(texts[3 + 2 * number]) for number in (1, 3)]
    assert abs(sizes[0] - sizes[1]) < 20  # one length for all


def test_what_was_cut_is_counted() -> None:
    whole = long([10, 900, 30, 400])
    held = truncate_observations(whole, 500, words)
    assert held.characters == sum(len(m.content) for m in whole.messages) - sum(
        len(m.content) for m in held.trajectory.messages
    )
    assert held.characters > 0


@pytest.mark.parametrize("budget", [360, 420, 700, 2000, 10_000])
def test_issue_last_turns_and_patch_are_always_there(budget: int) -> None:
    whole = long([60] * 40)
    held = truncate_observations(whole, budget, words)
    assert held.fits
    assert held.trajectory.messages[:2] == whole.messages[:2]
    assert (
        held.trajectory.messages[-KEEP_LAST:] == whole.messages[-KEEP_LAST:] or budget == 360
    )  # there the last are cut, too, none left out
    assert [m.role for m in held.trajectory.messages[-KEEP_LAST:]] == [m.role for m in whole.messages[-KEEP_LAST:]]
    assert held.trajectory.patch == whole.patch
    if held.left_out:
        assert held.trajectory.messages[2].content == f"[... {held.left_out} turns left out ...]"
        assert len(held.trajectory.messages) == len(whole.messages) - held.left_out + 1


def test_a_patch_that_does_not_fit_is_not_cut() -> None:
    held = truncate_observations(long([5], patch="+ y " * 900), 500, words)
    assert not held.fits
    assert held.trajectory.patch == "+ y " * 900


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(150, 4000))
def test_what_fits_has_at_most_the_budget_and_more_room_never_shows_less(observations: list[int], budget: int) -> None:
    whole = long(observations)
    held, more = truncate_observations(whole, budget, words), truncate_observations(whole, budget + 500, words)
    assert held.fits <= more.fits
    if held.fits:
        assert held.tokens <= budget
        assert more.left_out <= held.left_out


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(
        [render(long([40, 3]))] * 3 + ["def f(x):\n    return x + 1\n"] * 3, TokenizerConfig(vocab_size=400)
    )


@pytest.mark.parametrize("budget", [600, 1500, 4000])
def test_the_rendered_prompt_holds_to_the_budget(tokenizer: Tokenizer, budget: int) -> None:
    def count(text: str) -> int:
        return len(tokenizer.encode([text])[0])

    whole = long([300, 20, 900, 40, 700, 10, 10, 10, 10])
    dense = replace(whole, messages=(*whole.messages[:3], Message("tool", "€ß漢字" * 900), *whole.messages[4:]))
    for trajectory in (whole, dense):
        held = truncate_observations(trajectory, budget, count)
        assert held.fits
        assert count(render(held.trajectory, tokenizer.reserved)) <= budget
        assert trajectory.messages[1].content in render(held.trajectory)
