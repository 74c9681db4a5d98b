"""Attention of packed sequences is the attention of each sequence alone, whether or not its start was read before."""

import pytest
import torch

from rmlab.models import attention
from rmlab.models.attention import Segments, attend

QUERY_HEADS, KEY_HEADS, SIZE = 4, 2, 64
LENGTHS = [(5, 5), (1, 7), (3, 9), (0, 4), (6, 6)]
"""(queries, keys) of each sequence: whole ones, a last token, the end of one, and one that was read already."""


def by_definition(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    key, value = (x.repeat_interleave(QUERY_HEADS // KEY_HEADS, dim=1) for x in (key, value))
    logits = torch.einsum("tqd,kqd->qtk", query, key) * scale
    unseen = torch.arange(len(key))[None] > torch.arange(len(query))[:, None] + len(key) - len(query)
    share = logits.masked_fill(unseen.to(logits.device), float("-inf")).softmax(-1)
    return torch.einsum("qtk,kqd->tqd", share, value)


def drawn(device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Segments]:
    stream = torch.Generator().manual_seed(0)
    queries, keys = [q for q, _ in LENGTHS], [k for _, k in LENGTHS]
    query = torch.randn(sum(queries), QUERY_HEADS, SIZE, generator=stream)
    key, value = (torch.randn(sum(keys), KEY_HEADS, SIZE, generator=stream) for _ in range(2))
    return query.to(device), key.to(device), value.to(device), Segments.of(queries, keys, device)


def apart(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
    queries, keys = [q for q, _ in LENGTHS], [k for _, k in LENGTHS]
    parts = zip(query.split(queries), key.split(keys), value.split(keys), strict=True)
    return torch.cat([by_definition(q, k, v, scale) for q, k, v in parts if len(q)])


@pytest.mark.parametrize("at_once", [attention.BEHIND_MASK, 2])
def test_each_sequence_sees_itself_alone(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "BEHIND_MASK", at_once)
    query, key, value, segments = drawn()
    expected = apart(query, key, value, 0.3)
    assert torch.allclose(attend(query, key, value, segments, 0.3), expected, atol=1e-5)
    assert torch.allclose(attention._masked(query, key, value, segments, 0.3), expected, atol=1e-5), "as compiled code"


@pytest.mark.gpu
def test_a_gpu_in_bfloat16_sees_the_same() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    query, key, value, segments = drawn("cuda")
    lower = [x.to(torch.bfloat16) for x in (query, key, value)]
    found = attend(*lower, segments, 0.3).float()
    assert torch.allclose(found, apart(query, key, value, 0.3), atol=0.03)
