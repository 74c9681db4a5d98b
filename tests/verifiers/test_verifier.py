"""Scores do not depend on company; a saved verifier is the same verifier or is refused."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.metrics.report import report
from rmlab.models.config import ModelConfig, TokenizerConfig
from rmlab.models.heads import ScalarModel
from rmlab.models.load import scratch_model
from rmlab.scores.scores import Scores
from rmlab.training.batching import batches_by_tokens
from rmlab.training.config import Dtype
from rmlab.training.loop import Trained
from rmlab.verifiers import precision, scoring
from rmlab.verifiers.answer import prove_answers, verifier_tokenizer
from rmlab.verifiers.config import OverLength, PromptConfig
from rmlab.verifiers.encoding import cut_counts
from rmlab.verifiers.evaluation import Results, summary
from rmlab.verifiers.prompt import render
from rmlab.verifiers.scoring import score_ids
from rmlab.verifiers.verifier import Verifier, _halve_matrices, load_verifier, save_verifier
from tests.verifiers.examples import episode, episodes


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    tokenizer = verifier_tokenizer(episodes(40, "supervised"), TokenizerConfig(400))
    shape = ModelConfig(hidden_size=32, layers=2, heads=4, kv_heads=2, head_dim=8, intermediate_size=48)
    answer = prove_answers(tokenizer, [render(t) for t in episodes(3)])
    return Verifier(scratch_model(shape, tokenizer.size, 0), tokenizer, PromptConfig(max_tokens=300), answer)


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


@pytest.mark.gpu
def test_scores_on_a_gpu_in_bfloat16_are_near_those_in_float32(verifier: Verifier) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    pool = [episode(i // 6, bool(i % 2), longer=i % 7 * 3) for i in range(60)]
    on_gpu = replace(verifier, model=copy.deepcopy(verifier.model).to("cuda"))
    encoded = verifier.encode(pool)
    exact = verifier.score(encoded).score
    assert np.abs(on_gpu.score(encoded).score - exact).max() < 1e-5
    prompts = [e.ids for e in encoded if e.ids is not None]
    shared = score_ids(on_gpu.model, prompts, verifier.answer, 0, batch_tokens=2000, shared=True)
    assert np.abs(shared - exact).max() < 1e-5
    half = replace(on_gpu, dtype=Dtype.bfloat16).score(encoded).score
    assert np.abs(half - exact).max() < 0.02
    assert np.abs(half - exact).mean() < 0.002
    for way in (True, False):
        finer = score_ids(on_gpu.model, prompts, verifier.answer, 0, batch_tokens=2000, dtype=torch.float16, shared=way)
        assert np.abs(finer - half).max() < 1e-3


def test_a_gpu_scores_in_float16_what_was_trained_in_bfloat16_but_no_experts(verifier: Verifier) -> None:
    assert precision.half_precision(verifier.model, "cuda:1") is torch.float16
    assert precision.half_precision(verifier.model, "cpu") is torch.bfloat16
    for name in ("num_experts", "num_local_experts", "n_routed_experts"):
        experts = SimpleNamespace(config=SimpleNamespace(**{name: 2}))
        assert precision.half_precision(experts, "cuda") is torch.bfloat16


def test_a_verifier_scores_in_the_half_precision_of_its_device(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: float16 in place of the bfloat16 of training, whatever reads the prompts; float32 stays."""
    encoded = verifier.encode([episode(i, bool(i % 2), longer=i % 4 * 3) for i in range(8)])
    prompts = [e.ids for e in encoded]
    exact, half, brain = (
        score_ids(verifier.model, prompts, verifier.answer, 0, batch_tokens=16384, dtype=dtype)
        for dtype in (torch.float32, torch.float16, torch.bfloat16)
    )
    trained = replace(verifier, dtype=Dtype.bfloat16)
    assert np.array_equal(trained.score(encoded).score, brain), "a CPU has no finer one"
    monkeypatch.setattr(precision, "half_precision", lambda model, device: torch.float16)
    assert np.array_equal(trained.score(encoded).score, half)
    assert np.array_equal(verifier.score(encoded).score, exact)


def test_weights_of_two_precisions_are_scored(verifier: Verifier) -> None:
    """Of a model in bfloat16 whose scalar head is in float32, prompts padded or with their starts shared."""
    prompts = [e.ids for e in verifier.encode([episode(i, True, longer=i % 3 * 4) for i in range(4)])]
    model = ScalarModel(copy.deepcopy(verifier.model).to(torch.bfloat16))
    padded, shared = (
        score_ids(model, prompts, verifier.answer, 0, batch_tokens=600, dtype=torch.bfloat16, shared=way)
        for way in (False, True)
    )
    assert np.abs(padded - shared).max() < 0.02


def test_float16_rounds_more_finely_than_bfloat16(verifier: Verifier) -> None:
    prompts = [e.ids for e in verifier.encode([episode(i, bool(i % 2), longer=i % 7 * 3) for i in range(20)])]
    for shared in (True, False):
        exact, half, brain = (
            score_ids(verifier.model, prompts, verifier.answer, 0, batch_tokens=600, dtype=dtype, shared=shared)
            for dtype in (torch.float32, torch.float16, torch.bfloat16)
        )
        assert np.abs(half - exact).mean() < np.abs(brain - exact).mean() / 2


def test_what_is_beyond_the_range_of_float16_is_scored_in_bfloat16_and_said_once(
    verifier: Verifier, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one layer the feed-forward block's inner numbers are a million times as large, and what reads them a millionth."""
    scoring._say_beyond_range.cache_clear()
    large = copy.deepcopy(verifier.model)
    block = large.model.layers[0].mlp
    with torch.no_grad():
        block.up_proj.weight *= 2.0**24
        block.down_proj.weight *= 2.0**-24
    prompts = [e.ids for e in verifier.encode([episode(i, True, longer=i % 3 * 4) for i in range(9)])]
    for shared in (True, False):
        half, brain, exact = (
            score_ids(large, prompts, verifier.answer, 0, batch_tokens=600, dtype=dtype, shared=shared)
            for dtype in (torch.float16, torch.bfloat16, torch.float32)
        )
        assert np.array_equal(half, brain)
        assert np.abs(brain - exact).max() < 0.02
    assert capsys.readouterr().err.count("beyond the range of float16") == 1


def test_matrices_are_halved_for_the_device_unless_they_are_beyond_the_range(verifier: Verifier) -> None:
    model = copy.deepcopy(verifier.model)
    layer = model.model.layers[0]
    with torch.no_grad():
        layer.mlp.up_proj.weight[0, 0] = 1e5
    _halve_matrices(model, "cuda")
    assert layer.mlp.up_proj.weight.dtype is torch.float32
    assert {layer.mlp.gate_proj.weight.dtype, layer.self_attn.q_proj.weight.dtype} == {torch.float16}
    assert {layer.input_layernorm.weight.dtype, model.lm_head.weight.dtype} == {torch.float32}


def test_what_is_too_small_for_float16_keeps_bfloat16_and_is_said_once(
    verifier: Verifier, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one layer what reads the feed-forward block's inner numbers is a ten-millionth, and these are as much larger."""
    small = copy.deepcopy(verifier.model)
    block = small.model.layers[1].mlp
    with torch.no_grad():
        block.up_proj.weight *= 2.0**24
        block.down_proj.weight *= 2.0**-24
    assert precision.half_precision(small, "cpu") is torch.bfloat16
    assert capsys.readouterr().err == "", "a CPU has no finer one to lose"
    for _ in range(2):
        assert precision.half_precision(small, "cuda") is torch.bfloat16
    assert precision.half_precision(verifier.model, "cuda") is torch.float16
    said = capsys.readouterr().err
    assert said.count("this verifier is scored in bfloat16, which rounds more.") == 1
    assert "layers.1.mlp.down_proj.weight" in said
    _halve_matrices(small, "cuda")
    assert {block.down_proj.weight.dtype, small.model.layers[0].mlp.up_proj.weight.dtype} == {torch.bfloat16}
    assert precision.half_precision(small, "cuda") is torch.bfloat16, "as it was loaded, so it scores"


def test_the_error_of_float16_is_worked_out_where_it_matters() -> None:
    rng = torch.Generator().manual_seed(0)
    found = {}
    for power in range(-150, 8):
        weight = torch.randn(40, 30, generator=rng, dtype=torch.float64).exp().mul(2.0**power).float()
        exact = weight.double()
        error = float(((exact - weight.half().double()).norm() / exact.norm()).nan_to_num(0.0))
        found[power] = precision.float16_error(weight)
        assert found[power] == pytest.approx(error if error > precision.BFLOAT16_ERROR else 0.0), power
        assert precision.float16_error(weight.half()) == 0, "nothing is lost any more"
    assert found[-60] == 1
    assert found[-15] == 0
    sparse = torch.zeros(300, 300)  # small numbers beside large ones are no loss
    sparse[:, 1:], sparse[:, 0] = 1e-9, 1.0
    assert precision.float16_error(sparse) == 0
    assert precision.float16_error(torch.zeros(3, 3)) == 0
    assert precision.float16_error(torch.full((2, 2), 1e38)) == 0, "too large is another matter"


def test_bfloat16_changes_a_matrix_by_about_as_much_as_is_said() -> None:
    weight = torch.randn(500, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    error = float((weight - weight.bfloat16().double()).norm() / weight.norm())
    assert precision.BFLOAT16_ERROR / 1.5 < error < 1.5 * precision.BFLOAT16_ERROR


@pytest.mark.parametrize("spread", range(9))
def test_no_matrix_of_the_sure_size_is_changed_by_more_than_bfloat16_would(spread: int) -> None:
    """Whether its numbers are all as large, or by far most of them too small for float16."""
    weight = torch.randn(500, 100, generator=torch.Generator().manual_seed(spread), dtype=torch.float64)
    weight = (spread * weight).exp()
    weight *= precision.SURE / weight.square().mean().sqrt()
    assert float((weight - weight.half().double()).norm() / weight.norm()) < precision.BFLOAT16_ERROR


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


def test_the_summary_of_one_attempt_a_policy_has_the_auc_across_policies() -> None:
    table = Scores.of(["t1", "t1", "t2", "t2"], [0.9, 0.1, 0.2, 0.8], [1, 0, 1, 0], policy=["a", "b", "a", "b"])
    results = Results(table, report(table, replicates=50) | cut_counts([]), None, None, {})
    said = summary("name", "run", Trained(1, 2, 2, 0.1, 0.1, 20.0, 0, ()), results, "4 attempts at 2 tasks")
    assert "across policies: AUC within task 0.500 [" in said


def test_the_summary_of_few_mixed_tasks_says_how_few_and_has_the_values_across_policies() -> None:
    tasks, policies = [*np.repeat([f"t{t}" for t in range(20)], 2), "t0"], [*["a", "b"] * 20, "a"]
    table = Scores.of(tasks, np.linspace(0, 1, 41), [*[1, 0] * 20, 0], policy=policies)
    measured = report(table, replicates=50)
    results = Results(table, measured | cut_counts([]), None, None, {"random": measured})
    said = summary("name", "run", Trained(1, 2, 2, 0.1, 0.1, 20.0, 0, ()), results, "41 attempts at 20 tasks")
    across = f"{measured['auc_within_task_across']:.3f}"
    assert "AUC within task 0.000 (1 mixed task), pooled" in said
    assert f"\n  across policies: AUC within task {across} [" in said
    assert f"; across policies: AUC within task {across}, RM@3 {measured['rm_at_k_across']['3']:.3f}\n" in said
    assert "RM@2: 1 of 40 (task, policy) groups has 2 attempts; the others use all they have." in said
