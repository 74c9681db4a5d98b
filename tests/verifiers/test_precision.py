"""In which arithmetic a verifier scores: float16 or bfloat16 by device and weights, and how far each is from float32."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rmlab.models.heads import ScalarModel
from rmlab.training.config import Dtype
from rmlab.training.ranks import Ranks
from rmlab.verifiers import precision, scoring
from rmlab.verifiers.scoring import score_ids
from rmlab.verifiers.verifier import Verifier, _halve_matrices
from tests.verifiers.examples import episode


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


@pytest.mark.parametrize("index", [0, 1])
def test_of_several_ranks_the_first_says_what_any_of_them_found_beyond_the_range(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], index: int
) -> None:
    """Whatever its own share of the prompts was."""
    scoring._say_beyond_range.cache_clear()
    prompts = [e.ids for e in verifier.encode([episode(i, True, longer=i % 3 * 4) for i in range(4)])]
    alone = score_ids(verifier.model, prompts, verifier.answer, 0, batch_tokens=600)
    shares = [scoring._own_share(prompts, Ranks(2, other)) for other in (0, 1)]

    class OneOfTwo(Ranks):
        def total(self, value: torch.Tensor) -> torch.Tensor:
            of_other = torch.zeros(len(prompts) + 1, dtype=torch.float64)
            of_other[shares[1 - index]] = torch.from_numpy(alone)[shares[1 - index]]
            of_other[-1] = 1.0
            return value + of_other

    monkeypatch.setattr(scoring, "ranks_of", lambda model: OneOfTwo(2, index))
    assert score_ids(verifier.model, prompts, verifier.answer, 0, batch_tokens=600) == pytest.approx(alone, abs=1e-6)
    assert capsys.readouterr().err.count("beyond the range of float16") == 1 - index


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


def test_of_several_ranks_one_says_that_a_verifier_scores_in_bfloat16(
    verifier: Verifier, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for rank in (None, "0", "1"):
        small = copy.deepcopy(verifier.model)
        with torch.no_grad():
            small.model.layers[1].mlp.down_proj.weight *= 2.0**-24
        monkeypatch.delenv("RANK", raising=False) if rank is None else monkeypatch.setenv("RANK", rank)
        assert precision.half_precision(small, "cuda") is torch.bfloat16
        said.append(capsys.readouterr().err.count("scored in bfloat16"))
    assert said == [1, 1, 0]


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
