"""What is paid by: models by their names; a judge of several verifiers."""

from pathlib import Path

import numpy as np
import pytest

from experiments.programs import rl
from rmlab.configuration import compose
from rmlab.errors import DataError
from rmlab.policies.language import LanguagePolicyConfig, stated
from rmlab.rl.artifacts import PaidAttempt, episodes_page
from rmlab.rl.config import Calibration, Combine, RewardConfig, Unread
from rmlab.rl.paid_scores import calibrator
from rmlab.rl.reward_model import combine, load_reward_model
from rmlab.tracking.references import Reference
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.trajectories.record import Message, Trajectory
from tests.verifiers.examples import episode


@pytest.fixture
def store(runs_folder: Path) -> Store:
    return Store.open(None)


def test_start_and_verifier_are_named_by_run_cell_or_folder(easy: Path, store: Store) -> None:
    """The same model is the same run of RL, however it is named."""
    names: dict[str, list[str]] = {}
    for kind, folder in (("verifier", easy / "run" / "model"), ("start", easy / "policy")):
        tags = {"sweep": kind, "preset": "demo", "level": "8", "config_hash": f"{kind:0<16}".encode().hex()[:16]}
        with RunLogger.start(store, kind, f"{kind}=8 s0", kind=kind, tags=tags) as run:
            for file in folder.iterdir():
                run.artifact(file, "model")
        names[kind] = [str(folder), run.run_id, run.run_id[:8], tags["config_hash"], f"{kind}/demo/8/s0"]
    hashes = {
        rl.identity(
            compose("rl", [f"start={start}", f"verifier={verifier}", f"tasks={easy / 'tasks.parquet'}"])
        ).config_hash
        for start, verifier in zip(names["start"], names["verifier"], strict=True)
    }
    assert len(hashes) == 1
    weights = {stated(LanguagePolicyConfig(name))["weights"] for name in names["start"]}
    assert len(weights) == 1, "`rmlab collect language.NAME.model=` takes the same names"


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
    fitted = calibrator(reference.beside, Calibration.platt)
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
    with pytest.raises(
        DataError, match=r"calibration=isotonic is fitted on validation scores, but neither .* nor .* exists"
    ):
        calibrator(Reference(tmp_path / "model").beside, Calibration.isotonic)


def test_a_page_of_episodes_shows_text_as_text() -> None:
    messages = (Message("user", "<b>bold</b> & more"), Message("assistant", "</pre><script>alert(1)"))
    hostile = Trajectory("t<script>", "c", "s", "p", 3, messages, "", "submitted", False)
    page = episodes_page("step 1", [PaidAttempt(hostile, {"execution": 0.0, "score": 0.25}, 0.25)])
    assert "<script>" not in page
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; more" in page
    assert "paid execution +0.00, score +0.25" in page
    assert "not resolved" in page
