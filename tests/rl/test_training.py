"""Whole trainings of a tiny policy on an easy family: it learns, it goes on after a pause, a verifier pays."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.rl.policies import PolicyRun
from rmlab.commands.compare import compare
from rmlab.errors import UsageError
from rmlab.metrics.report import report
from rmlab.rl.config import AlgorithmConfig, RewardConfig
from rmlab.rl.paid_cosine import paid_cosine
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.scores.writing import write_score_table
from rmlab.stopping import Stopped
from rmlab.tracking.query import TrackedRun
from tests.rl.small_training import trained

FEW = ("rl.groups=3", "watch.tasks=4")
"""Enough where two trainings have to be the same, and nothing has to be learned."""


def outcome(run: TrackedRun) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run.artifact("outcome.json").read_text())
    return found


@pytest.mark.slow
def test_the_reward_rises_by_more_than_noise_over_three_seeds(
    easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [trained(easy, tmp_path, monkeypatch, f"seed={seed}", "rl.steps=8", "watch.every=0") for seed in range(3)]
    held_out = [outcome(run)["held_out"]["all"] for run in runs]
    gains = np.array([found["sampled"]["difference"] for found in held_out])
    assert gains.mean() - 4.30 * gains.std(ddof=1) / np.sqrt(3) > 0, gains  # t with 2 degrees of freedom, 97.5 %
    assert all(found["sampled"]["low"] > 0 and found["sampled"]["before"] < 0.2 for found in held_out), held_out
    rewards = np.array([[value for _, value in run.series("rl/reward")] for run in runs])
    assert (rewards[:, -2:].mean(1) > rewards[:, :2].mean(1)).all(), rewards
    assert [outcome(run)["collapse"] for run in runs] == [False] * 3
    names = {
        "true_rate",
        "unfinished_rate",
        "ran_share",
        "turns",
        "tokens",
        "entropy",
        "ratio",
        "clip_share",
        "gradient_norm",
        "groups_without_signal",
        "reward_execution",
        "reward_unfinished",
        "seconds_rollout",
        "seconds_update",
        "rollout_gap",
        "pass_at_1",
        "pass_at_1_greedy",
        "kl_to_start",
    }
    assert {f"rl/{name}" for name in names} <= runs[0].metrics.keys()
    assert runs[0].metrics["rl/rollout_gap_max"] < 1e-4  # the engine's log-probabilities are those of training
    assert runs[0].metrics["rl/kl_to_start"] > 0
    compared = compare(runs[0].run_id, runs[1].run_id[:10])
    for way in ("sampled", "greedy"):
        row = compared["benchmarks"]["all"][way]
        assert (row["after"], row["before"]) == tuple(outcome(run)["held_out"]["all"][way]["after"] for run in runs[:2])
        assert row["difference"] == pytest.approx(row["after"] - row["before"])
        assert row["low"] <= row["difference"] <= row["high"]
    fewer = trained(easy, tmp_path, monkeypatch, "rl.steps=0", "watch.every=0", "watch.held_out_tasks=4")
    assert compare(runs[0].run_id, fewer.run_id)["unpaired"] == 18 - 2 * 4
    with pytest.raises(UsageError, match="is an RL run and the other is not"):
        compare(runs[0].run_id, str(easy / "tasks.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 2])
def test_slices_of_one_step_end_where_an_unbroken_run_ends(
    rank: int, easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All weights, and adapters alone (whose state is what travels between machines)."""
    more = [
        *FEW,
        "rl.steps=3",
        "watch.every=1",
        "watch.choose=true",
        "rl.resample=1",
        "algorithm.kl_weight=0.01",
        "algorithm.entropy_weight=0.001",
        f"lora.rank={rank}",
        "watch.held_out_tasks=3",
        f"keep_model={'true' if rank else 'false'}",
    ]
    whole = trained(easy, tmp_path / "whole", monkeypatch, *more)
    with monkeypatch.context() as asked:
        asked.setattr("rmlab.rl.loop.stop_asked", lambda: Stopped("the lease could not be renewed"))
        with pytest.raises(
            Stopped, match="the lease could not be renewed"
        ):  # at its first safe point; the slices go on from it
            trained(easy, tmp_path / "sliced", monkeypatch, *more)
    slices = [trained(easy, tmp_path / "sliced", monkeypatch, *more, "rl.max_minutes=0") for _ in range(4)]
    assert [run.status for run in slices] == ["stopped", "stopped", "stopped", "finished"]
    assert slices[-1].tags["config_hash"] == whole.tags["config_hash"]
    for name in (
        "rl/reward",
        "rl/loss",
        "rl/gradient_norm",
        "rl/kl_estimate",
        "rl/pass_at_1",
        "held_out/new/pass_at_1",
    ):
        assert slices[-1].series(name) == whole.series(name), name
    both = [{key: value for key, value in outcome(run).items() if key != "seconds"} for run in (whole, slices[-1])]
    for found in both:
        found["curve"] = [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in found["curve"]]
    assert both[0] == both[1]
    values = [row["pass_at_1"] for row in both[0]["curve"]]
    assert both[0]["chosen"]["step"] == values.index(max(values))
    before, after = both[0]["held_out"]["all"]["sampled"], both[0]["chosen"]["held_out"]["all"]["sampled"]
    assert after["before"] == before["before"]
    assert whole.metrics["rl/kl_to_start"] != 0, "the start is still there to be measured from"
    for name in [f"episodes/step_{step:05d}.html" for step in (1, 2, 3)]:
        assert slices[-1].artifact(name).read_bytes() == whole.artifact(name).read_bytes(), "pages of all slices"
    assert not (tmp_path / "sliced" / "cells" / whole.tags["config_hash"]).exists()
    if rank:
        saved = [run.artifact("model") for run in (whole, slices[-1])]
        names = ("model.safetensors", "adapters/adapter_model.safetensors")
        weights = [{name: (folder / name).read_bytes() for name in names} for folder in saved]
        assert weights[0] == weights[1]


@pytest.mark.slow
def test_a_verifier_pays_and_is_watched(easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = easy / "run" / "model"
    run = trained(
        easy,
        tmp_path,
        monkeypatch,
        "reward=hybrid",
        f"verifier={verifier}",
        "rl.steps=1",
        "reward.calibration=platt",
        f"reward.ensemble=[{verifier}]",
        "reward.combine=lower_bound",
        "reward.transform.difficulty=0.5",
        "keep_model=true",
    )
    metrics = run.metrics
    parts = metrics["rl/reward_execution"] + metrics["rl/reward_score"] + metrics["rl/reward_unfinished"]
    assert metrics["rl/reward"] == pytest.approx(parts)
    assert metrics["rl/score_beyond_truth"] == pytest.approx(metrics["rl/mean_score"] - metrics["rl/true_rate"])
    first, last = (read_score_table(run.artifact(f"attempts/look_0000{step}.parquet")) for step in (0, 1))
    gap = (last.score.mean() - last.resolved.mean()) - (first.score.mean() - first.resolved.mean())
    assert metrics["rl/hacking_gap"] == pytest.approx(gap)
    assert run.series("rl/hacking_gap")[0] == (0, 0.0)
    assert {
        f"rl/verifier_{name}" for name in ("ece_width_10", "auc_pooled", "advantage_cosine_all", "mixed_tasks")
    } <= metrics.keys()
    assert run.tags["verifier"] == str(verifier)
    assert run.tags["verifier_fingerprint"]
    page = run.artifact("episodes/step_00001.html").read_text()
    assert "verifier 0." in page
    assert "<script>" not in page
    assert json.loads((run.artifact("model") / "policy.json").read_text())["environment"]["edits"] == "build_up", (
        "its own rules of play"
    )
    again = trained(easy, tmp_path, monkeypatch, f"start={run.run_id}", "rl.steps=0", "watch.held_out_tasks=0")
    assert again.tags["start_run"] == run.run_id


@pytest.mark.slow
@pytest.mark.parametrize("same", [False, True])
def test_one_difficulty_for_all_tasks_keeps_its_level_alone(
    easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    """Without the verifier's part a score is the difficulty alone: of each task, or one for all."""
    given = ["reward=execution_free", f"verifier={easy / 'run' / 'model'}", "rl.steps=0", "watch.held_out_tasks=0"]
    bent = ["reward.transform.slope=0", "reward.transform.difficulty=1", f"reward.transform.same_difficulty={same}"]
    run = trained(easy, tmp_path, monkeypatch, *given, *bent)
    scores = read_score_table(run.artifact("attempts/look_00000.parquet")).score
    assert (len(set(scores)) == 1) is same


@pytest.mark.slow
def test_scores_bent_on_purpose_are_paid_and_reported_as_they_are_paid(
    easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal ranks, another ECE: the report of what is paid says so; another zero and multiple of the reward train the same policy."""
    run_folder = tmp_path / "verifier"
    shutil.copytree(easy / "run", run_folder)
    rng = np.random.default_rng(0)
    table = Scores.of([f"t{i % 10}" for i in range(80)], rng.random(80), (rng.random(80) < 0.3).tolist())
    write_score_table(run_folder / "scores.parquet", table)
    (run_folder / "report.json").write_text(json.dumps(report(table, replicates=0)))
    given = [*FEW, "reward=execution_free", f"verifier={run_folder / 'model'}", "rl.steps=2", "watch.every=0"]
    plain = trained(easy, tmp_path / "a", monkeypatch, *given)
    bent = trained(
        easy, tmp_path / "a", monkeypatch, *given, "reward.transform.shift=2", "reward.transform.between=0.5"
    )
    affine = trained(
        easy, tmp_path / "a", monkeypatch, *given, "reward.offset=-1", "reward.factor=4", "algorithm.std_floor=1"
    )
    reports = [PolicyRun(run).verifier_report for run in (plain, bent)]
    assert reports[0]["auc_within_task"] == reports[1]["auc_within_task"]
    assert reports[1]["ece_width_10"] > reports[0]["ece_width_10"] + 0.1
    assert (reports[1]["rm_at_k"], reports[1]["trajectories"]) == (reports[0]["rm_at_k"], 80)
    assert outcome(affine)["held_out"] == outcome(plain)["held_out"]
    assert affine.metrics["rl/reward"] == pytest.approx(-1 + 4 * plain.metrics["rl/reward"], abs=0.02)
    assert affine.metrics["rl/reward_offset"] == -1
    near = [run.metrics["paid/advantage_cosine"] for run in (plain, bent, affine)]
    assert near[0] == pytest.approx(paid_cosine(table, RewardConfig("execution_free"), AlgorithmConfig()))
    assert (near[1] != pytest.approx(near[0]), near[2]) == (True, pytest.approx(near[0]))
    assert len({run.tags["config_hash"] for run in (plain, bent, affine)}) == 3
