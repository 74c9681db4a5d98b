"""Sequence by sequence, each read as if it were longer: the attention of each alone, in value and gradient."""

import pytest
import torch

from rmlab.models import attention, cost, packed
from rmlab.models.attention import Segments, attend, attend_long
from rmlab.models.packed import pack_row


def test_what_is_read_behind_a_sequence_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "GRAIN", 8)
    generator = torch.Generator().manual_seed(0)
    states = [torch.randn(40, 4, 8, generator=generator, requires_grad=True) for _ in range(3)]
    asked = torch.randn(40, 4, 8, generator=generator)
    asked[28:] = 0  # what fills the row is asked for nothing
    cu_seqlens = torch.tensor([0, 9, 12, 28, 40], dtype=torch.int32)
    long, _ = attend_long(*states, cu_seqlens[:-1], 0.3)
    plain = attend(*states, Segments(cu_seqlens, cu_seqlens, 16, 16), 0.3)
    assert torch.allclose(long[:28], plain[:28], atol=1e-6)
    assert not long[28:].any()
    ours, theirs = (torch.autograd.grad((mixed * asked).sum(), states) for mixed in (long, plain))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_row_of_long_sequences_reaches_to_where_the_last_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "LONG_MEAN", 5)
    monkeypatch.setattr(packed, "GRAIN", 8)
    ids_1T, row = pack_row([[1] * 7, [2] * 3], 0, width=4)
    assert row.segments.cu_seqlens_cudnn is not None
    assert row.segments.cu_seqlens_cudnn.tolist() == [0, 7, 10]
    assert ids_1T.shape == (1, 16)
    assert row.segments.cu_seqlens_q.tolist() == [0, 7, 10, 16]
    assert row.segments.last_alone().cu_seqlens_cudnn is None, "one query a sequence"
    assert pack_row([[1] * 7, [2] * 2], 0, width=4)[1].segments.cu_seqlens_cudnn is None, "short in the mean"


def test_a_long_sequence_that_is_scored_alone_goes_to_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "LONG_SEQUENCE", 5)
    segments = Segments.of([7], [7], "cpu")
    assert segments.cu_seqlens_cudnn is not None
    assert segments.cu_seqlens_cudnn.tolist() == [0, 7]
    for queries, keys in (([4], [4]), ([1], [7]), ([7, 7], [7, 7])):
        assert Segments.of(queries, keys, "cpu").cu_seqlens_cudnn is None
