"""Continuations of one beginning that stands once in a row."""

import pytest
import torch

from rmlab.models.branches import pack_branches
from rmlab.models.packed import packed_rows
from tests.models.test_packed import MODELS

BEGINNINGS = ([5, 9, 2, 7], [8])
CONTINUATIONS = ([[4, 4, 1], [6], [3, 11, 12, 13, 14]], [[20, 21]])


def test_a_row_of_continuations_holds_each_beginning_once() -> None:
    ids_1T, branched, places = pack_branches([([5, 6], [[7], [8, 9]]), ([3], [[4]])], 0, width=4)
    assert ids_1T.tolist() == [[5, 6, 7, 8, 9, 3, 4, 0]]
    assert branched.spans.starts_S1.tolist() == [0, 2, 3, 5, 6, 7, 8]
    assert branched.spans.position_1T.tolist() == [[0, 1, 2, 2, 3, 0, 1, 0]]
    assert branched.key_U.tolist() == [0, 1, 0, 1, 2, 0, 1, 3, 4, 5, 5, 6, 7]
    assert branched.starts_S1.tolist() == [0, 2, 5, 9, 10, 12, 13]
    assert branched.starts_S1.dtype == torch.int32
    assert (branched.spans.longest, branched.longest) == (2, 4)
    assert [[p.tolist() for p in of] for of in places] == [[[0, 1, 2], [0, 1, 3, 4]], [[5, 6]]]


@pytest.mark.parametrize("name", MODELS)
def test_continuations_read_and_teach_what_whole_conversations_do(name: str) -> None:
    found = []
    for branched in (True, False):
        model = MODELS[name]()
        decoder = model.get_decoder()
        with packed_rows(model, branched):
            if branched:
                ids_1T, rows, places = pack_branches(list(zip(BEGINNINGS, CONTINUATIONS, strict=True)), 0)
                hidden_TH = decoder(input_ids=ids_1T, use_cache=False, **rows.told).last_hidden_state[0]
                hidden = [hidden_TH[torch.from_numpy(of)] for group in places for of in group]
            else:
                whole = [[*b, *c] for b, of in zip(BEGINNINGS, CONTINUATIONS, strict=True) for c in of]
                hidden = [decoder(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state[0] for ids in whole]
        wave_H = torch.arange(16).sin()
        total = sum(torch.linspace(-1, 1, len(states)) @ (states @ wave_H) for states in hidden)
        total.backward()
        found.append(
            [*[states.detach() for states in hidden], *(p.grad for p in model.parameters() if p.grad is not None)]
        )
    assert len(found[0]) == len(found[1]) > 8
    for ours, theirs in zip(*found, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5 * max(float(theirs.abs().max()), 1.0))
