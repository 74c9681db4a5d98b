"""Scores do not depend on company; a saved verifier is the same verifier or is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.models.heads import ScalarModel
from rmlab.training.batching import batches_by_tokens
from rmlab.training.config import Dtype
from rmlab.verifiers import scoring
from rmlab.verifiers.config import OverLength, PromptConfig
from rmlab.verifiers.scoring import score_ids
from rmlab.verifiers.verifier import Verifier, load_verifier, save_verifier
from tests.verifiers.examples import episode, episodes


def test_scores_do_not_depend_on_batch_padding_or_order(verifier: Verifier) -> None:
    pool = [episode(i, bool(i % 2), longer=i % 7 * 3) for i in range(30)]
    encoded = verifier.encode(pool)
    together = verifier.score(encoded)
    alone = verifier.score(encoded, batch_tokens=1)
    backwards = verifier.score(encoded[::-1])
    assert np.ptp(together.score) > 1e-3
    assert np.abs(together.score - alone.score).max() < 1e-6
    assert np.abs(together.score - backwards.score[::-1]).max() < 1e-6
    assert together.trajectory_id.tolist() == [t.trajectory_id for t in pool]


def test_attempts_with_one_prompt_are_read_once_and_have_one_score(verifier: Verifier, monkeypatch) -> None:
    """Whichever batches they would have been in, and whatever stands between them."""
    prompts = [e.ids for e in verifier.encode([episode(i, True, longer=i % 3 * 4) for i in range(12)])]
    fixed = (verifier.answer, verifier.tokenizer.pad_id)
    apart = scoring.score_ids(verifier.model, prompts, *fixed, batch_tokens=600, shared=False)
    read, margins = [], scoring.margins
    monkeypatch.setattr(scoring, "margins", lambda *given: read.append(len(given[2])) or margins(*given))
    twice = scoring.score_ids(verifier.model, [*prompts, *prompts[::-1]], *fixed, batch_tokens=600, shared=False)
    assert sum(read) == 12
    assert len(read) > 1
    assert twice[:12].tolist() == apart.tolist()
    assert twice[12:].tolist() == apart[::-1].tolist()
    assert len(set(twice.tolist())) == 12
    assert scoring.score_ids(verifier.model, [], *fixed, batch_tokens=600).tolist() == []


def test_scores_do_not_depend_on_what_is_shared(verifier: Verifier) -> None:
    """What prompts have in common is read once, on a CPU without being asked for; the scores are those of padded batches."""
    pool = [episode(i // 6, bool(i % 2), longer=i % 7 * 3) for i in range(30)]
    prompts = [e.ids for e in verifier.encode(pool) if e.ids is not None]
    scalar = ScalarModel(verifier.model, 0)
    for model in (verifier.model, scalar):

        def scores(of: list[Any], tokens: int, shared: bool | None, model: Any = model) -> NDArray[np.float64]:
            return score_ids(model, of, verifier.answer, verifier.tokenizer.pad_id, batch_tokens=tokens, shared=shared)

        padded = scores(prompts, 16384, False)
        assert np.ptp(padded) > 1e-3
        assert np.array_equal(scores(prompts, 16384, None), scores(prompts, 16384, True))
        assert not np.array_equal(scores(prompts, 16384, None), padded), (
            "the order of sums is another one: it was taken"
        )
        for tokens in (1, 500, 16384):
            assert np.abs(scores(prompts, tokens, True) - padded).max() < 1e-5
        assert np.abs(scores(prompts[::-1], 500, True)[::-1] - padded).max() < 1e-5


def test_score_is_the_softmax_of_the_two_answers(verifier: Verifier) -> None:
    encoded = verifier.encode([episode(3, True)])
    assert encoded[0].ids is not None
    logits = verifier.model(input_ids=torch.tensor([encoded[0].ids.tolist()])).logits[0, -1]
    two = torch.softmax(logits[[verifier.answer.yes, verifier.answer.no]], -1)[0]
    assert verifier.score(encoded).score[0] == pytest.approx(two.item(), abs=1e-6)


def test_table_keeps_labels_lengths_and_what_does_not_fit(verifier: Verifier) -> None:
    pool = [episode(1, True), episode(2, False, longer=400), episode(3, False)]
    table = verifier.score(verifier.encode(pool))
    assert np.isnan(table.score).tolist() == [False, True, False]
    assert table.resolved.tolist() == [1.0, 0.0, 0.0]
    assert table.n_tokens[1] > 400
    assert table.cluster.tolist() == ["c1", "c2", "c3"]
    dropping = Verifier(verifier.model, verifier.tokenizer, PromptConfig(300, OverLength.drop), verifier.answer)
    assert dropping.score(dropping.encode(pool)).task_id.tolist() == ["hand/f1", "hand/f3"]
    cutting = Verifier(
        verifier.model, verifier.tokenizer, PromptConfig(300, OverLength.truncate_middle), verifier.answer
    )
    assert not np.isnan(cutting.score(cutting.encode(pool)).score).any()


def test_batches_hold_their_budget_and_everything_once() -> None:
    lengths = [5, 90, 7, 30, 200, 31, 6]
    batches = batches_by_tokens(lengths, 95)
    assert sorted(i for b in batches for i in b) == list(range(7))
    assert all(max(lengths[i] for i in b) * len(b) <= 95 or len(b) == 1 for b in batches)
    assert batches[0] == [4]
    assert batches_by_tokens([], 95) == []


def test_saved_and_loaded_scores_bit_for_bit(verifier: Verifier, tmp_path: Path) -> None:
    save_verifier(tmp_path / "model", verifier)
    loaded = load_verifier(tmp_path / "model")
    pool = episodes(5)
    assert np.array_equal(loaded.score(loaded.encode(pool)).score, verifier.score(verifier.encode(pool)).score)
    assert (loaded.prompt, loaded.answer) == (verifier.prompt, verifier.answer)
    assert not list((tmp_path / "model").glob("*.bin")), "nothing that has to be unpickled"


def test_a_verifier_of_bfloat16_lies_in_half_the_memory_and_scores_bit_for_bit(
    verifier: Verifier, tmp_path: Path
) -> None:
    half = replace(verifier, dtype=Dtype.bfloat16)
    save_verifier(tmp_path / "model", half)
    loaded = load_verifier(tmp_path / "model")
    layer = loaded.model.model.layers[0]
    assert layer.mlp.gate_proj.weight.dtype is torch.bfloat16
    assert {layer.input_layernorm.weight.dtype, loaded.model.lm_head.weight.dtype} == {torch.float32}
    pool = episodes(5)
    assert np.array_equal(loaded.score(loaded.encode(pool)).score, half.score(half.encode(pool)).score)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["semantics"].update(render=0), "would prompt it differently from its training"),
        (lambda r: r["answer"].update(yes=r["answer"]["no"], no=r["answer"]["yes"]), "do not have the ids"),
        (lambda r: r.update(tokenizer="0" * 16), "is not the one that it was trained with"),
        (lambda r: r.pop("prompt"), "is not a verifier's record"),
    ],
)
def test_a_folder_whose_parts_do_not_belong_together_is_refused(verifier, tmp_path, change, message) -> None:
    folder = tmp_path / "model"
    save_verifier(folder, verifier)
    record = json.loads((folder / "verifier.json").read_text())
    change(record)
    (folder / "verifier.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=message):
        load_verifier(folder)


def test_a_verifier_from_before_observations_could_be_cut_is_asked_as_it_was(
    verifier: Verifier, tmp_path: Path
) -> None:
    save_verifier(tmp_path / "model", verifier)
    path = tmp_path / "model" / "verifier.json"
    record = json.loads(path.read_text())
    record["semantics"] = {"render": 1, "score": 1}
    path.write_text(json.dumps(record))
    assert load_verifier(tmp_path / "model").prompt == verifier.prompt


def test_a_folder_without_verifier_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"verifier\.json is missing"):
        load_verifier(tmp_path)
