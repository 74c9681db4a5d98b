"""Sequence by sequence, each read as if it were longer: the attention of each alone, in value and gradient."""

import pytest
import torch

from rmlab.models import long_attention, packed
from rmlab.models.long_attention import attend_long
from rmlab.models.packed import attend, pack_row


def test_what_is_read_behind_a_sequence_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_attention, "GRAIN", 8)
    generator = torch.Generator().manual_seed(0)
    states = [torch.randn(40, 4, 8, generator=generator, requires_grad=True) for _ in range(3)]
    asked = torch.randn(40, 4, 8, generator=generator)
    asked[28:] = 0  # what fills the row is asked for nothing
    starts_S1 = torch.tensor([0, 9, 12, 28, 40], dtype=torch.int32)
    long, _ = attend_long(*states, starts_S1[:-1], 0.3)
    plain = attend(*states, starts_S1, 16, 0.3)
    assert torch.allclose(long[:28], plain[:28], atol=1e-6)
    assert not long[28:].any()
    ours, theirs = (torch.autograd.grad((mixed * asked).sum(), states) for mixed in (long, plain))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_row_of_long_sequences_reaches_to_where_the_last_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LONG", 5)
    monkeypatch.setattr(packed, "GRAIN", 8)
    ids_1T, spans = pack_row([[1] * 7, [2] * 3], 0, width=4)
    assert spans.border_B1 is not None
    assert spans.border_B1.tolist() == [0, 7, 10]
    assert ids_1T.shape == (1, 16)
    assert spans.starts_S1.tolist() == [0, 7, 10, 16]
    assert pack_row([[1] * 7, [2] * 2], 0, width=4)[1].border_B1 is None, "short in the mean"
