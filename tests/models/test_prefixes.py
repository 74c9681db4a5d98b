"""Every prompt is whole in its batch, and no token is read twice that could be read once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.models import prefixes
from rmlab.models.prefixes import KEYS_PER_TOKEN, prefix_batches

prompts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=12)


@given(prompts, st.integers(1, 40))
def test_every_prompt_is_found_whole_in_one_batch_within_the_budget(drawn: list[list[int]], tokens: int) -> None:
    found: dict[int, list[int]] = {}
    for batch in prefix_batches(drawn, tokens):
        slots = np.arange(len(batch.ids_T)) if batch.slot_S is None else batch.slot_S
        ends = np.cumsum(batch.length_N)
        for row, part in zip(batch.row_N.tolist(), np.split(slots, ends[:-1]), strict=True):
            assert row not in found
            found[row] = batch.ids_T[part].tolist()
            assert batch.position_T[part].tolist() == list(range(len(part)))
        assert batch.last_N.tolist() == slots[ends - 1].tolist()
        assert batch.read_N.sum() == len(batch.ids_T)
        assert len(batch.row_N) == 1 or len(batch.ids_T) <= tokens
        assert len(batch.row_N) == 1 or batch.length_N.sum() <= KEYS_PER_TOKEN * tokens
    assert found == dict(enumerate(drawn))


@given(prompts)
def test_one_batch_reads_each_prefix_once(drawn: list[list[int]]) -> None:
    (batch,) = prefix_batches(drawn, 1000)
    assert len(batch.ids_T) == len({tuple(p[: end + 1]) for p in drawn for end in range(len(p))})


def test_attempts_that_branch_twice_by_hand() -> None:
    (batch,) = prefix_batches([[7, 1, 2, 5], [7, 1, 2, 4], [7, 1, 3], [7, 1]], 100)
    assert batch.row_N.tolist() == [3, 1, 0, 2]
    assert batch.ids_T.tolist() == [7, 1, 2, 4, 5, 3]
    assert batch.position_T.tolist() == [0, 1, 2, 3, 3, 2]
    assert batch.read_N.tolist() == [2, 2, 1, 1]
    assert batch.slot_S is not None
    assert batch.slot_S.tolist() == [0, 1, 0, 1, 2, 3, 0, 1, 2, 4, 0, 1, 5]


@pytest.mark.parametrize("drawn", [[[1, 2], [3]], [[300], [2]]])
def test_nothing_in_common_needs_no_slots(drawn: list[list[int]]) -> None:
    (batch,) = prefix_batches(drawn, 100)
    assert batch.slot_S is None
    assert batch.last_N.tolist() == (np.cumsum(batch.length_N) - 1).tolist()


@given(prompts, st.integers(1, 3))
def test_order_is_lexicographic_whatever_it_is_sorted_by(drawn: list[list[int]], tokens: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefixes, "SORTED_BY", tokens)
        (batch,) = prefixes.prefix_batches(drawn, 1000)
    assert [drawn[row] for row in batch.row_N] == sorted(drawn)


def test_nothing_makes_no_batch() -> None:
    assert list(prefix_batches([], 10)) == []
