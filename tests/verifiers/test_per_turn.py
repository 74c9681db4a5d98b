from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmlab.errors import DataError
from rmlab.models.config import ModelConfig, TokenizerConfig
from rmlab.models.load import scratch_model
from rmlab.trajectories.record import Message
from rmlab.verifiers.answer import prove_answers, verifier_tokenizer
from rmlab.verifiers.config import OverLength, PromptConfig
from rmlab.verifiers.per_turn import prefixes, read_turn_scores, score_turns, turns_path, write_turn_scores
from rmlab.verifiers.prompt import render
from rmlab.verifiers.verifier import Verifier
from tests.verifiers.examples import episode, episodes


@pytest.fixture(scope="module")
def verifier():
    tokenizer = verifier_tokenizer(episodes(40, "supervised"), TokenizerConfig(400))
    shape = ModelConfig(hidden_size=32, layers=1, heads=2, kv_heads=1, head_dim=16, intermediate_size=48)
    answer = prove_answers(tokenizer, [render(t) for t in episodes(3)])
    return Verifier(scratch_model(shape, tokenizer.size, 0), tokenizer, PromptConfig(max_tokens=300), answer)


def test_a_turn_is_what_is_said_and_what_is_answered():
    attempt = episode(3, True)  # user, assistant, user, assistant, user
    assert [end for end, _ in prefixes(attempt)] == [3, 5]
    first, last = (t for _, t in prefixes(attempt))
    assert (len(first.messages), first.patch) == (3, None)
    assert last is attempt
    assert "Patch:\nnone" in render(first)
    assert [end for end, _ in prefixes(replace(attempt, messages=attempt.messages[:1]))] == [1], (
        "an attempt without a turn is itself"
    )
    two = replace(attempt, messages=(*attempt.messages[:2], Message("assistant", "run"), *attempt.messages[2:]))
    assert [end for end, _ in prefixes(two)] == [2, 4, 6]


def test_the_last_score_is_the_table_s_and_the_others_are_their_prefixes(verifier, tmp_path):
    pool = [episode(i, bool(i % 2)) for i in range(5)]
    table = verifier.score(verifier.encode(pool))
    turns = score_turns(verifier, pool)
    assert list(turns) == [t.trajectory_id for t in pool]
    assert [turns[t.trajectory_id][-1][1] for t in pool] == pytest.approx(table.score.tolist(), abs=1e-6)
    first = prefixes(pool[2])[0][1]
    assert turns[pool[2].trajectory_id][0] == (
        3,
        pytest.approx(verifier.score(verifier.encode([first])).score[0], abs=1e-6),
    )
    path = turns_path(tmp_path / "scores.csv")
    assert path.name == "scores.turns.parquet"
    write_turn_scores(path, turns)
    assert read_turn_scores(path) == turns


@pytest.mark.parametrize("policy", [OverLength.rank_last, OverLength.drop])
def test_what_does_not_fit_has_no_score(verifier, policy):
    length = verifier.encode([episode(3, True)])[0].n_tokens
    small = Verifier(verifier.model, verifier.tokenizer, PromptConfig(length, policy), verifier.answer)
    (_, short), (_, whole) = score_turns(small, [episode(3, True)])[episode(3, True).trajectory_id]
    assert short is not None
    assert whole is None


def test_other_files_are_one_line(tmp_path):
    path = tmp_path / "x.turns.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="has no scores after every turn"):
        read_turn_scores(path)
    pq.write_table(pa.table({"trajectory_id": ["a"], "score": [0.5]}), path)
    with pytest.raises(DataError, match="has no scores after every turn"):
        read_turn_scores(path)
    for score in (1.5, np.nan):
        pq.write_table(pa.table({"trajectory_id": ["a"], "messages": [1], "score": [score]}), path)
        with pytest.raises(DataError, match="is not a valid score"):
            read_turn_scores(path)
