"""How near the advantages of a reward come to those of the labels, before any RL."""

from typing import Any

import numpy as np
import pytest

from rmlab.rl.config import AlgorithmConfig, RewardConfig, Scale
from rmlab.rl.paid_cosine import paid_cosine
from rmlab.rl.rewards import REWARDS, Parts, Reward, RewardInputs
from rmlab.scores.scores import Scores

LABELS = [1, 0, 0, 1, 1, 0, 0, 0]
TASKS = ["a"] * 4 + ["b"] * 4


def scores_of(*score: float) -> Scores:
    return Scores.of(TASKS, score, LABELS)


def sided(scores: Scores, reward_N: Any, floor: float) -> float:
    """By the definition, task by task."""
    sides: list[list[float]] = [[], []]
    for task in "ab":
        own_N = scores.task_id == task
        for side, value_N in zip(sides, (reward_N[own_N], scores.resolved[own_N]), strict=True):
            side += list((value_N - value_N.mean()) / max(value_N.std(), floor))
    return float(np.dot(*sides) / np.linalg.norm(sides[0]) / np.linalg.norm(sides[1]))


@pytest.mark.parametrize("mode", ["execution_free", "hybrid"])
def test_it_is_the_cosine_of_what_is_paid_and_the_labels(mode: str) -> None:
    scores = scores_of(0.9, 0.6, 0.1, 0.3, 0.52, 0.51, 0.5, 0.49)
    reward = RewardConfig(mode, weight=0.5)
    right_N = scores.score if mode == "execution_free" else scores.resolved + 0.5 * scores.score
    expected = pytest.approx(sided(scores, right_N, 0.25))
    assert paid_cosine(scores, reward, AlgorithmConfig()) == expected
    affine = RewardConfig(mode, weight=0.5, offset=-1.0, factor=4.0)
    assert paid_cosine(scores, affine, AlgorithmConfig(std_floor=1.0)) == expected, "the floor is multiplied likewise"


def test_scores_that_hardly_differ_leave_what_execution_pays_as_it_is() -> None:
    """A verifier that ranks all attempts the wrong way around: alone it is the opposite of the labels, beside execution it depends on how
    far its scores are apart."""
    wrong = np.array([0.0 if label else 1.0 for label in LABELS])
    near, far = (scores_of(*(0.5 + wide * (wrong - 0.5)).tolist()) for wide in (0.02, 0.98))
    algorithm = AlgorithmConfig()
    assert paid_cosine(far, RewardConfig("execution_free"), algorithm) == pytest.approx(-1.0)
    assert paid_cosine(near, RewardConfig("hybrid"), algorithm) == pytest.approx(1.0)
    assert paid_cosine(far, RewardConfig("hybrid", weight=2.0), algorithm) < 0


def test_what_has_no_score_or_label_is_left_out() -> None:
    scores = Scores.of([*TASKS, "a", "b"], [0.9, 0.6, 0.1, 0.3, 0.8, 0.2, 0.4, 0.1, np.nan, 0.7], [*LABELS, 1, np.nan])
    whole = scores.select(np.arange(8))
    for algorithm in (AlgorithmConfig(), AlgorithmConfig(scale=Scale.none)):
        reward = RewardConfig("execution_free")
        assert paid_cosine(scores, reward, algorithm) == paid_cosine(whole, reward, algorithm)


def test_it_is_undefined_without_a_verifier_and_where_nothing_differs() -> None:
    scores = scores_of(*[0.5] * 8)
    assert np.isnan(paid_cosine(scores, RewardConfig("execution"), AlgorithmConfig()))
    assert np.isnan(paid_cosine(scores, RewardConfig("execution_free"), AlgorithmConfig()))
    assert np.isnan(paid_cosine(scores.select(np.arange(0)), RewardConfig("hybrid"), AlgorithmConfig()))


def test_it_is_undefined_for_a_reward_of_more_than_scores_and_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    def turns(given: RewardInputs) -> Parts:
        return {"score": given.scores_N(), "turns": -np.array([float(len(t.turns)) for t in given.trajectories])}

    monkeypatch.setitem(REWARDS, "turns", Reward("turns", turns, needs_score=True))
    assert np.isnan(paid_cosine(scores_of(*np.linspace(0.1, 0.8, 8)), RewardConfig("turns"), AlgorithmConfig()))
