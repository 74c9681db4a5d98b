"""A model by its folder, its run, its cell; a judge of several."""

from pathlib import Path

import numpy as np
import pytest

from rmlab.errors import DataError, StoreError
from rmlab.rl.artifacts import Shown, episodes_page
from rmlab.rl.config import Calibration, Combine, RewardConfig, Unread
from rmlab.rl.references import Reference, find_model
from rmlab.rl.reward_model import calibrator, combine, load_reward_model
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.trajectories.record import Message, Trajectory
from tests.verifiers.examples import episode


@pytest.fixture
def store(runs_folder: Path) -> Store:
    return Store.open(None)


def test_run_cell_and_folder_are_one_model(easy: Path, store: Store) -> None:
    own, folder = "0123456789abcdef", easy / "run" / "model"
    for name, level, arm in (("data_scale=8 s0", "8", "epochs"), ("data_scale=8 steps s0", "8", "steps")):
        tags = {
            "sweep": "data_scale",
            "preset": "demo",
            "level": level,
            "arm": arm,
            "config_hash": own if arm == "epochs" else "f" * 16,
        }
        with RunLogger.start(store, "data_scale", name, kind="verifier", tags=tags) as run:
            run.artifact(folder)
        if arm == "epochs":
            run_id = run.run_id
    found = [
        find_model(name, "verifier.json")
        for name in (run_id, own, "data_scale/demo/8/s0", str(folder), str(easy / "run"))
    ]
    assert [reference.run_id for reference in found] == [run_id] * 3 + [""] * 2
    assert len({reference.fingerprint() for reference in found}) == 1
    assert found[0].fingerprint() != find_model(str(easy / "policy"), "config.json").fingerprint()
    for name, words in (
        ("data_scale/demo/9/s0", "no finished run of sweep data_scale, preset demo at level 9"),
        ("e" * 16, "no run of this cell"),
        (str(easy), "holds no verifier.json"),
    ):
        with pytest.raises(DataError, match=words):
            find_model(name, "verifier.json")
    with pytest.raises(StoreError, match="there is no run"):
        find_model("a" * 32, "verifier.json")


def test_several_verifiers_by_hand() -> None:
    """Mean 0.5, standard deviation 0.3 (divisor 2); the second pair goes below 0 and is held there."""
    score_VN = np.array([[0.8, 0.0], [0.2, 0.4]])
    assert combine(score_VN, RewardConfig()).tolist() == pytest.approx([0.5, 0.2])
    bound = RewardConfig(combine=Combine.lower_bound, bound_width=2.0)
    assert combine(score_VN, bound).tolist() == pytest.approx([0.0, 0.0])
    assert combine(score_VN, RewardConfig(combine=Combine.lower_bound)).tolist() == pytest.approx([0.2, 0.0])


def test_a_judge_scores_all_or_fails_and_calibrates_by_validation(easy: Path, tmp_path: Path) -> None:
    reference = Reference(easy / "run" / "model")
    attempts = [episode(n, n % 2 == 0, attempt=0) for n in range(4)]
    plain = load_reward_model([reference], RewardConfig(), "cpu", 4096).score(attempts).score_N
    assert load_reward_model([reference, reference], RewardConfig(), "cpu", 4096).score(
        attempts
    ).score_N == pytest.approx(plain)
    fitted = calibrator(reference, Calibration.platt)
    calibrated = (
        load_reward_model([reference], RewardConfig(calibration=Calibration.platt), "cpu", 4096).score(attempts).score_N
    )
    assert calibrated == pytest.approx(fitted(plain))
    assert calibrated != pytest.approx(plain)
    with pytest.raises(DataError, match="1 of 5 attempts do not fit the verifier's context of 1024 tokens"):
        load_reward_model([reference], RewardConfig(), "cpu", 4096).score([*attempts, episode(9, True, longer=900)])
    cut = load_reward_model([reference], RewardConfig(), "cpu", 4096, over_length=Unread.truncate_middle)
    with_a_long_one = cut.score([*attempts, episode(9, True, longer=900)])
    assert with_a_long_one.score_N[:4] == pytest.approx(plain)
    assert with_a_long_one.cut_share == 0.2
    assert (cut.score(attempts).score_N == plain).all()
    assert cut.score(attempts).cut_share == 0
    with pytest.raises(DataError, match=r"calibration=isotonic is fitted on validation scores and .* is not there"):
        calibrator(Reference(tmp_path / "model"), Calibration.isotonic)


def test_a_page_of_episodes_shows_text_as_text() -> None:
    messages = (Message("user", "<b>bold</b> & more"), Message("assistant", "</pre><script>alert(1)"))
    hostile = Trajectory("t<script>", "c", "s", "p", 3, messages, "", "submitted", False)
    page = episodes_page("step 1", [Shown(hostile, {"execution": 0.0, "score": 0.25}, 0.25)])
    assert "<script>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; more" in page
    assert "paid execution +0.00, score +0.25" in page
    assert "not resolved" in page
