from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, UsageError
from rmlab.metrics.discrimination import pairs_in_groups
from rmlab.microswe.task import Task
from rmlab.rl.advantages import check_order, log_odds, transform
from rmlab.rl.config import RewardConfig, TransformConfig
from rmlab.rl.evaluation import levelled
from rmlab.rl.rewards import REWARDS, RewardInputs, check_reward, patch_similarity, reference_patch, reward, rewards
from rmlab.trajectories.record import Message, Trajectory

TASK = Task(
    task_id="t",
    function_id="m.f",
    package="m",
    source="stdlib",
    cluster="c",
    part="rl",
    entry="f",
    context="",
    original="def f(x):\n    return x + 1",
    code="def f(x):\n    return x - 1",
    lines=(2,),
    operators=("arithmetic",),
    inputs=("(1,)",),
    outputs=("2",),
    public=0,
    public_share=0.5,
)


def attempt(
    resolved: bool | None, exit_status: Any = "submitted", patch: str = "", public_passed: bool = False
) -> Trajectory:
    return Trajectory(
        task_id="t",
        cluster="c",
        source="stdlib",
        policy="p",
        attempt=0,
        messages=(Message("user", "x"),),
        patch=patch,
        exit_status=exit_status,
        resolved=resolved,
        extra={"public_passed": public_passed},
    )


FOUR = [attempt(True), attempt(False), attempt(False, "unfinished"), attempt(True, "unfinished")]
SCORES = np.array([0.9, 0.4, 0.3, 0.8])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (RewardConfig("execution"), [1, 0, -0.5, 1]),
        (RewardConfig("execution_free"), [0.9, 0.4, -0.2, 0.3]),
        (RewardConfig("hybrid"), [1.9, 0.4, -0.2, 1.8]),
        (RewardConfig("hybrid", weight=0.5), [1.45, 0.2, -0.35, 1.4]),
        (RewardConfig("execution", unfinished=-1), [1, 0, -1, 1]),
    ],
)
def test_the_definitions(config: RewardConfig, expected: list[float]) -> None:
    found = rewards(FOUR, config, {"t": TASK}, SCORES)
    np.testing.assert_allclose(found.total_N, expected, atol=1e-12)
    np.testing.assert_allclose(sum(found.parts.values()), found.total_N)


def test_a_new_reward_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a choice of the group `reward`, its value is what it returns, and a verifier is asked for where it needs one."""
    from hydra.core.config_store import ConfigStore

    monkeypatch.setattr("rmlab.rl.rewards.REWARDS", dict(REWARDS))
    monkeypatch.setitem(ConfigStore.instance().repo["reward"], "half.yaml", None)  # taken out again after the test

    @reward("half", needs_score=True)
    def half(given: RewardInputs) -> dict[str, Any]:
        return {"half": given.scores_N() / 2}

    load_program("rl")
    config = compose("rl", ["start=somewhere", "reward=half"])
    assert (config.reward.mode, config.reward.unfinished) == ("half", -0.5)
    assert rewards(FOUR, RewardConfig("half"), {"t": TASK}, SCORES).total_N.tolist() == (SCORES / 2).tolist()
    with pytest.raises(UsageError, match="reward=half needs a verifier"):
        check_reward(RewardConfig("half"), "")


def test_a_reward_that_is_not_there_is_one_line() -> None:
    with pytest.raises(UsageError, match=r"reward\.mode=hybird: .* \(did you mean hybrid\?\); there are: execution, "):
        check_reward(RewardConfig("hybird"), "v")
    load_program("rl")
    with pytest.raises(UsageError, match=r"reward=hybird: .* \(did you mean hybrid\?\).* calibrated.* weak_tests"):
        compose("rl", ["start=somewhere", "reward=hybird"])


def test_weak_tests_pay_for_the_public_call_alone() -> None:
    shown = [
        attempt(False, status, public_passed=passed)
        for status, passed in (("submitted", True), ("submitted", False), ("unfinished", False), ("unfinished", True))
    ]
    assert rewards(shown, RewardConfig("weak_tests"), {"t": TASK}).total_N.tolist() == [1, 0, -0.5, 1]
    with pytest.raises(DataError, match="does not say whether the public call passed"):
        rewards([replace(shown[0], extra={})], RewardConfig("weak_tests"), {"t": TASK})


def test_similarity_to_the_reference_patch() -> None:
    """The reference is two lines of 17 characters with a break between: "2- return x - 1", "2+ return x + 1"."""
    reference = reference_patch(TASK)
    assert reference == "2- return x - 1\n2+ return x + 1"
    assert patch_similarity(reference, reference) == 1
    assert patch_similarity("", reference) == 0
    near = "2- return x - 1\n2+ return x + 2"  # 30 of 31 characters match in both
    assert patch_similarity(near, reference) == pytest.approx(30 / 31)
    found = rewards(
        [attempt(True, patch=reference), attempt(False, "unfinished")], RewardConfig("similarity"), {"t": TASK}
    )
    assert found.total_N.tolist() == [1, -0.5]


def test_what_has_no_label_or_score_is_an_error() -> None:
    with pytest.raises(DataError, match="environment failure is never rewarded"):
        rewards([attempt(None, "error")], RewardConfig(), {"t": TASK})
    with pytest.raises(DataError, match="4 attempts, but 0 scores"):
        rewards(FOUR, RewardConfig("hybrid"), {"t": TASK})
    with pytest.raises(
        DataError, match="1 of 4 attempts have no score, the first at t: a missing score is not a reward"
    ):
        rewards(FOUR, RewardConfig("execution_free"), {"t": TASK}, np.array([0.1, np.nan, 0.2, 0.3]))


GROUP = np.array([0, 0, 1, 1])


def test_no_transform_is_no_change() -> None:
    assert transform(SCORES, GROUP, TransformConfig()) is SCORES


def test_slope_and_shift_by_hand() -> None:
    """logit 0.8 = log 4; twice that is log 16: 16/17. A shift of -log 4 makes 0.8 to a half."""
    score = np.array([0.8, 0.5])
    np.testing.assert_allclose(transform(score, GROUP[:2], TransformConfig(slope=2)), [16 / 17, 0.5], atol=1e-9)
    np.testing.assert_allclose(transform(score, GROUP[:2], TransformConfig(shift=-np.log(4))), [0.5, 0.2], atol=1e-9)


def test_spread_by_hand() -> None:
    """Logits log 4 and 0, mean log 2: at spread 0 both become 2/3; at 2, log 8 and -log 2."""
    score, group = np.array([0.8, 0.5]), np.array([0, 0])
    np.testing.assert_allclose(transform(score, group, TransformConfig(spread=0)), [2 / 3, 2 / 3], atol=1e-9)
    np.testing.assert_allclose(transform(score, group, TransformConfig(spread=2)), [8 / 9, 1 / 3], atol=1e-9)


def test_the_mean_difficulty_is_that_of_the_tasks_that_rl_draws() -> None:
    """Validation tasks get it too, and do not enter it: the mean of 3 and -1, not of 3, -1 and 10."""
    drawn = [replace(TASK, task_id=name) for name in ("x", "y")]
    assert levelled({"x": 3.0, "y": -1.0, "validation": 10.0}, drawn) == {"x": 1.0, "y": 1.0, "validation": 1.0}


def test_transforms_keep_the_order_within_groups_and_difficulty_raises_the_pooled_auc() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 8)
    difficulty = np.repeat(rng.normal(0, 2, 40), 8)
    label = (rng.random(320) < 1 / (1 + np.exp(-difficulty))).astype(float)
    score = 1 / (1 + np.exp(-(0.5 * label + rng.normal(0, 1, 320))))
    one = np.zeros(320, dtype=int)

    def aucs(given: np.ndarray[Any, Any]) -> tuple[float, float]:
        return pairs_in_groups(given, label, group, 40).auc, pairs_in_groups(given, label, one, 1).auc

    within, pooled = aucs(score)
    for config in (TransformConfig(slope=3, shift=-1), TransformConfig(spread=0.2), TransformConfig(difficulty=2.0)):
        bent = transform(score, group, config, difficulty)
        assert ((bent >= 0) & (bent <= 1)).all()
        assert aucs(bent)[0] == pytest.approx(within)
    assert aucs(transform(score, group, TransformConfig(difficulty=2.0), difficulty))[1] > pooled + 0.15
    assert aucs(transform(score, group, TransformConfig(slope=3, shift=-1)))[1] == pytest.approx(pooled)
    with pytest.raises(DataError, match="difficulty of the tasks is unknown"):
        transform(score, group, TransformConfig(difficulty=2.0))


def test_log_odds_by_hand() -> None:
    np.testing.assert_allclose(log_odds(np.array([1.0, 1.0, 0.0, 0.0]), GROUP), [np.log(2.5 / 0.5), np.log(0.5 / 2.5)])


def test_between_by_hand() -> None:
    """Logits log 4 and 0, mean log 2, distances ± log 2: without the mean, and log 3 in its place, 3 · 2 / 7 and 3 / 2 / 2.5."""
    score, group = np.array([0.8, 0.5]), np.array([0, 0])
    alone = TransformConfig(between=0)
    np.testing.assert_allclose(transform(score, group, alone), [2 / 3, 1 / 3], atol=1e-9)
    moved = TransformConfig(between=0, shift=float(np.log(3)))
    np.testing.assert_allclose(transform(score, group, moved), [6 / 7, 3 / 5], atol=1e-9)
    by_task = transform(score, group, replace(alone, difficulty=1.0), np.full(2, np.log(3)))
    np.testing.assert_allclose(by_task, [6 / 7, 3 / 5], atol=1e-9)


def test_no_two_scores_of_float32_become_one() -> None:
    """The last float32 below 1 and the one below it, the first ones above 0: what a cut at 1e-6 would have made equal."""
    one, none = np.float32(1), np.float32(0)
    last = np.nextafter(one, none)
    score = np.array(
        [0, np.nextafter(none, one), 1e-30, 1e-7, 0.5, np.nextafter(last, none), last, 1], dtype=np.float32
    )
    group = np.zeros(len(score), dtype=np.intp)
    for config in (
        TransformConfig(shift=3.0),
        TransformConfig(shift=-5.0),
        TransformConfig(slope=0.25),
        TransformConfig(slope=1.2),
        TransformConfig(spread=0.25, between=0.5),
    ):
        bent = transform(score.astype(float), group, config)
        assert (np.diff(bent) > 0).all(), config


def test_a_changed_order_is_an_error() -> None:
    before, group = np.array([0.1, 0.2, 0.9, 0.9]), np.array([0, 0, 1, 1])
    check_order(before, np.array([0.5, 0.6, 0.3, 0.3]), group)  # another group may pass
    check_order(np.array([0.9, 0.99]), np.array([1.0, 1.0]), group[:2])  # both saturated
    for after in ([0.6, 0.5, 0.3, 0.3], [0.5, 0.5, 0.3, 0.3], [0.5, 0.6, 0.3, 0.4]):
        with pytest.raises(
            DataError, match=r"changed the order within 1 of 2 groups: scores 0\.[129] and 0\.[29] became"
        ):
            check_order(before, np.array(after), group)


def test_another_zero_and_multiple_of_a_reward() -> None:
    config = RewardConfig("execution_free", offset=-1.0, factor=4.0)
    found = rewards(FOUR, config, {"t": TASK}, SCORES)
    assert found.plain_N.tolist() == rewards(FOUR, RewardConfig("execution_free"), {"t": TASK}, SCORES).total_N.tolist()
    np.testing.assert_allclose(found.total_N, [2.6, 0.6, -1.8, 0.2], atol=1e-12)
    np.testing.assert_allclose(sum(found.parts.values()), found.total_N)
    with pytest.raises(UsageError, match=r"reward\.factor=0\.0: must be above 0"):
        check_reward(RewardConfig("execution_free", factor=0.0), "v")


def test_what_a_reward_does_not_have_is_not_in_its_variant() -> None:
    """Runs from before a field was there keep their names."""
    assert RewardConfig("hybrid", weight=0.5).variant == ""
    assert RewardConfig("execution_free", transform=TransformConfig(slope=3.0)).variant == "526c8d"
    assert RewardConfig("execution_free", offset=1.0).variant not in ("", RewardConfig("execution_free").variant)
