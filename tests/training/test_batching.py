"""The plan: every example once an epoch, like lengths together, the same for the same seed."""

import math
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.errors import UsageError
from rmlab.training.batching import even_parts, plan_batches, total_steps
from rmlab.training.config import Match, OptimizerConfig, RuntimeConfig, TrainingConfig
from rmlab.training.optimizer import learning_rate


@given(
    lengths=st.lists(st.integers(1, 500), min_size=1, max_size=200),
    batch=st.integers(1, 40),
    epochs=st.integers(1, 3),
    seed=st.integers(0, 5),
)
def test_every_example_once_an_epoch(lengths: list[int], batch: int, epochs: int, seed: int) -> None:
    config = TrainingConfig(epochs=epochs, batch_size=batch)
    plan = plan_batches(lengths, config, seed)
    assert Counter(i for step in plan for i in step) == dict.fromkeys(range(len(lengths)), epochs)
    assert max(map(len, plan)) <= batch
    assert len(plan) == total_steps(len(lengths), config) == epochs * math.ceil(len(lengths) / batch)
    assert plan == plan_batches(lengths, config, seed)


@given(lengths=st.lists(st.integers(1, 500), min_size=1, max_size=60), most=st.integers(1, 2000))
def test_parts_hold_every_example_once_and_are_nearly_even(lengths: list[int], most: int) -> None:
    parts = even_parts(lengths, most)
    assert sorted(i for part in parts for i in part) == list(range(len(lengths)))
    sums = [sum(lengths[i] for i in part) for part in parts]
    assert all(total <= most or len(part) == 1 for part, total in zip(parts, sums, strict=True))
    assert len(parts) >= math.ceil(sum(lengths) / max(most, max(lengths)))
    assert max(sums) - min(sums) <= max(lengths)


def test_parts_by_hand() -> None:
    assert even_parts([8, 1, 5, 2, 4, 4], 12) == [[0, 5], [2, 4, 3, 1]]
    assert even_parts([3, 3, 3], 100) == [[0, 1, 2]]
    assert even_parts([9, 1], 4) == [[0], [1]], "a longer one stands alone"


def test_half_an_epoch_and_a_half_more() -> None:
    plan = plan_batches([5] * 20, TrainingConfig(epochs=1.5, batch_size=4), seed=0)
    counts = Counter(i for step in plan for i in step)
    assert len(plan) == 5 + 3
    assert sum(counts.values()) == 30
    assert set(counts.values()) == {1, 2}


def test_match_steps_takes_as_many_steps_whatever_the_scale() -> None:
    config = TrainingConfig(epochs=2, batch_size=8, match=Match.steps, reference_scale=100)
    assert total_steps(16, config) == total_steps(100, config) == total_steps(1000, config) == 26
    plan = plan_batches([5] * 16, config, seed=0)
    assert len(plan) == 26
    assert Counter(i for step in plan for i in step) == dict.fromkeys(range(16), 13)
    assert len(plan_batches([5] * 1000, config, seed=0)) == 26


def test_batches_hold_like_lengths_and_come_in_no_order_of_length() -> None:
    lengths = [(i * 37) % 400 + 1 for i in range(400)]
    plan = plan_batches(lengths, TrainingConfig(epochs=1, batch_size=10), seed=0)
    padded = sum(max(lengths[i] for i in step) * len(step) for step in plan)
    assert padded / sum(lengths) < 1.15
    widest = [max(lengths[i] for i in step) for step in plan]
    assert widest != sorted(widest)
    assert plan != plan_batches(lengths, TrainingConfig(epochs=1, batch_size=10), seed=1)


def test_no_step_is_an_error() -> None:
    with pytest.raises(UsageError, match="no optimiser step"):
        total_steps(3, TrainingConfig(epochs=0.01))


def test_schedule_by_hand() -> None:
    config = OptimizerConfig(learning_rate=1.0, warmup_fraction=0.2, final_fraction=0.1)
    rates = [learning_rate(step, 11, config) for step in range(11)]
    assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert rates[3] == pytest.approx(1.0)
    assert rates[10] == pytest.approx(0.1)
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert learning_rate(0, 1, config) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainingConfig(epochs=0), r"training\.epochs=0: must be above 0"),
        (lambda: TrainingConfig(epochs=-1.5), r"training\.epochs=-1\.5: must be above 0"),
        (lambda: RuntimeConfig(device="mps"), r"runtime\.device=mps: choose one of cpu, cuda, auto"),
    ],
)
def test_what_a_dry_run_can_refuse_it_refuses(make: Callable[[], object], message: str) -> None:
    """A configuration is made for every cell that is planned, before anything is trained."""
    with pytest.raises(UsageError, match=message):
        make()
