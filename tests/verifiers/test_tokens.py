"""The tokenizer of verifiers that start from nothing reads what they learn from, and can answer however long that is."""

from dataclasses import replace

import pytest

from rmlab.errors import DataError
from rmlab.models.config import TokenizerConfig
from rmlab.trajectories.record import Message
from rmlab.verifiers import answer as tokens
from rmlab.verifiers.answer import lesson_part, prove_answers, verifier_tokenizer
from rmlab.verifiers.prompt import render
from tests.verifiers.examples import episode, episodes


def test_a_pool_without_a_supervised_part_is_read_in_its_verifier_part() -> None:
    assert lesson_part({"supervised", "verifier", None}) == "supervised"
    assert lesson_part({"verifier", "evaluation"}) == "verifier"
    with pytest.raises(DataError, match="neither a supervised nor a verifier part"):
        verifier_tokenizer([], TokenizerConfig(400))


def test_a_small_vocabulary_has_both_answers_beside_long_prompts() -> None:
    words = " ".join(
        f"{left}{right}{n}" for left in ("to", "be", "or", "not") for right in "abcdefgh" for n in range(60)
    )
    long = [replace(t, messages=(*t.messages, Message("tool", words))) for t in episodes(4)]
    assert len(render(long[0])) > 2 * tokens.LONG
    prove_answers(verifier_tokenizer(long, TokenizerConfig(320)), [render(t) for t in long])


def test_enough_is_read_of_a_large_pool_and_what_is_read_is_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = [episode(i, True) for i in range(30)]
    monkeypatch.setattr(tokens, "ENOUGH", sum(len(render(t)) for t in sorted(pool, key=lambda t: t.trajectory_id)[:10]))
    some, first = verifier_tokenizer(pool, TokenizerConfig(400)), sorted(pool, key=lambda t: t.trajectory_id)[:10]
    for same in (first, pool[::-1]):
        assert verifier_tokenizer(same, TokenizerConfig(400)).fingerprint == some.fingerprint
