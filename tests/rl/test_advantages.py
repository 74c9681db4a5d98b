import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmlab.errors import DataError, UsageError
from rmlab.rl.advantages import advantages, check_affine
from rmlab.rl.config import AlgorithmConfig, Scale

NONE = AlgorithmConfig(scale=Scale.none)


def test_by_hand() -> None:
    """Group 0: mean 0.5, standard deviation 0.5. Group 1: deviation 0.05, under the floor 0.25. Group 2: no signal."""
    reward = np.array([1, 0, 0, 1, 0.1, 0.0, 0.3, 0.3, 0.3])
    group = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2])
    found = advantages(reward, group, AlgorithmConfig(std_floor=0.25))
    np.testing.assert_allclose(found.advantage_N, [1, -1, -1, 1, 0.2, -0.2, 0, 0, 0], atol=1e-12)
    assert found.signal_N.tolist() == [True] * 6 + [False] * 3
    assert (found.groups, found.without_signal) == (3, 1)
    np.testing.assert_allclose(
        advantages(reward, group, NONE).advantage_N, [0.5, -0.5, -0.5, 0.5, 0.05, -0.05, 0, 0, 0], atol=1e-12
    )


def test_without_a_floor_worth_the_name_noise_is_blown_up() -> None:
    """What the floor is there for: 0.001 of spread counts as much as a solved task."""
    reward, group = np.array([0.501, 0.5]), np.array([0, 0])
    assert advantages(reward, group, AlgorithmConfig(std_floor=1e-9)).advantage_N[0] == pytest.approx(1)
    assert advantages(reward, group, AlgorithmConfig(std_floor=0.25)).advantage_N[0] == pytest.approx(0.002)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(-2, 2)), min_size=1, max_size=30))
def test_every_group_is_centred_and_a_constant_added_to_a_group_changes_nothing(rows: list[tuple[int, float]]) -> None:
    _, group = np.unique([g for g, _ in rows], return_inverse=True)
    reward = np.array([r for _, r in rows])
    found = advantages(reward, group, NONE)
    np.testing.assert_allclose(np.bincount(group, found.advantage_N), 0, atol=1e-9)
    shifted = advantages(reward + 4.0 * group, group, NONE)
    np.testing.assert_allclose(shifted.advantage_N, found.advantage_N, atol=1e-9)


def test_equal_rewards_that_do_not_add_up_exactly_have_no_signal() -> None:
    found = advantages(np.full(3, 0.1), np.zeros(3, dtype=int), AlgorithmConfig(std_floor=1e-12))
    assert found.advantage_N.tolist() == [0, 0, 0]
    assert found.without_signal == 1


def test_what_is_refused() -> None:
    with pytest.raises(DataError, match="attempt 2 of 2 has the reward nan"):
        advantages(np.array([1.0, np.nan]), np.array([0, 0]), NONE)
    with pytest.raises(UsageError, match=r"std_floor=0\.0: must be above 0"):
        advantages(np.array([1.0]), np.array([0]), AlgorithmConfig(std_floor=0.0))


def test_another_zero_and_multiple_change_what_theory_says() -> None:
    """-1 + 4 r at a floor of 1 has the advantages of r at a floor of 0.25; without division they are 4 times those of r."""
    rng = np.random.default_rng(0)
    reward, group = rng.random(200) ** 3, rng.integers(0, 20, 200)
    group = np.unique(group, return_inverse=True)[1]
    for config, plain, times in (
        (AlgorithmConfig(std_floor=1.0), AlgorithmConfig(std_floor=0.25), 1.0),
        (NONE, NONE, 4.0),
    ):
        found = advantages(-1 + 4 * reward, group, config)
        np.testing.assert_allclose(found.advantage_N, times * advantages(reward, group, plain).advantage_N, atol=1e-12)
        check_affine(found, reward, group, config, 4.0)
    other = advantages(-1 + 4 * reward, group, AlgorithmConfig(std_floor=0.25))
    with pytest.raises(DataError, match=r"off by .* from that of r"):
        check_affine(other, reward, group, AlgorithmConfig(std_floor=1.0), 4.0)
