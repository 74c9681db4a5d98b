"""Whole programs on a tiny model: train (killed and gone on), its record, and `rmlab score` of the same attempts."""

import json
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rmlab.commands.browse import browse
from rmlab.commands.compare import compare
from rmlab.commands.score import score
from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.paths import CONF
from rmlab.scores.table import read_score_table
from rmlab.tracking.query import TrackedRun, get_run, runs
from rmlab.tracking.store import Store
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories
from tests.forked_command import ForkedCommand
from tests.verifiers.examples import episode, episodes
from tests.waiting import PATIENCE

PARTS = [
    *episodes(30, "supervised", 0, 1),
    *episodes(80, "verifier", 1000),
    *episodes(10, "validation", 2000, 4),
    *episodes(12, "evaluation", 3000, 4),
]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "hand.parquet"
    write_trajectories(path, PARTS, {"command": "by hand"})
    return path


def overrides(pool: Path, *more: str) -> list[str]:
    return ["preset=smoke", f"data.path={pool}", "data.scale=96", "runtime.progress=false", *more]


def trained(pool: Path, where: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> TrackedRun:
    monkeypatch.setenv("RMLAB_RUNS", str(where))
    run_id = load_program("train_verifier").main(overrides(pool, *more))
    return get_run(Store.open(), run_id)


@pytest.mark.parametrize("preset", sorted(p.stem for p in (CONF / "preset").glob("*.yaml")))
def test_every_preset_composes(preset: str) -> None:
    program = load_program("train_verifier")
    config = compose("train_verifier", [f"preset={preset}"])
    assert isinstance(program._settings(config), program.VerifierRun)


@pytest.mark.parametrize(
    "group", ["model", "optimizer", "training", "prompt", "objective", "evaluation", "data", "tracking", "runtime"]
)
def test_every_choice_of_every_group_composes(group: str) -> None:
    program = load_program("train_verifier")
    for path in (CONF / group).glob("*.yaml"):
        assert program._settings(compose("train_verifier", [f"{group}={path.stem}"]))


def test_the_record_of_a_run_and_its_scores_again(pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose("train_verifier", overrides(pool))
    who = load_program("train_verifier").identity(config)
    run = trained(pool, tmp_path, monkeypatch)
    assert len(runs(Store.open())) == 1, "one run, no siblings"
    assert run.status == "finished"
    assert (run.tags["config_hash"], run.tags["control_hash"]) == (who.config_hash, who.control_hash)
    assert run.tags["scored_in"] == "float32"
    assert load_program("train_verifier").identity(config) == who, "the same hash cold and warm"
    assert run.params["seed"] == "0"
    assert int(run.params["model_parameters"]) < 100_000

    report = json.loads(run.artifact("report.json").read_text())
    assert report["trajectories"] == 48
    assert report["fit_rate"] == 1.0
    assert report["ece_prior_corrected"] is not None, "both priors are known"
    assert run.metrics["eval/auc_within_task"] == pytest.approx(report["auc_within_task"])
    assert dict(run.series("eval/rm_at_k")) == pytest.approx({int(k): v for k, v in report["rm_at_k"].items()})
    assert [step for step, _ in run.series("train/loss")] == [1, 2, 3, 4, 5, 6]
    assert run.metrics["auc_task"] == pytest.approx(report["auc_within_task"], abs=5e-4), "for the UI, to three digits"
    assert "<svg" in run.artifact("reliability.svg").read_text()
    selection = json.loads(run.artifact("selection.json").read_text())
    assert (selection["resolved"], selection["unresolved"]) == (48, 48)
    baselines = json.loads(run.artifact("baselines.json").read_text())
    assert baselines["last_value"]["auc_within_task"] == 1.0
    for rule in ("last_value", "length", "shape", "random"):
        values = compare(run.run_id, rule, as_json=True)["metrics"]["auc_within_task"]
        assert values["a"] == pytest.approx(report["auc_within_task"])
        assert values["b"] == pytest.approx(baselines[rule]["auc_within_task"]), "a rule as the run's report has it"
    assert json.loads(run.artifact("validation_report.json").read_text())["trajectories"] == 24
    assert "scale: 96" in run.artifact("config.yaml").read_text()
    assert not (tmp_path / "cells" / who.config_hash).exists(), "no checkpoint is left"

    table = read_score_table(run.artifact("scores.parquet"))
    for model in (run.run_id, str(run.artifact("model"))):
        score(pool, model, tmp_path / "again.csv", force=True)
        again = read_score_table(tmp_path / "again.csv")
        assert again.trajectory_id.tolist() == table.trajectory_id.tolist()
        assert np.abs(again.score - table.score).max() < 1e-6
    assert np.abs(read_score_table(tmp_path / "again.csv").score - table.score).max() < 1e-6

    score(pool, run.run_id, tmp_path / "turns.csv", per_turn=True)
    browse(tmp_path / "turns.csv", pool, tmp_path / "browse.html")  # the last turns are the table's scores
    for page in (tmp_path / "browse.html", run.artifact("browse.html")):
        assert table.task_id[0] in page.read_text()


def test_a_dry_run_prints_configuration_and_cost_and_trains_nothing(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rmlab.commands.experiments import train

    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    train(overrides(pool), dry_run=True)
    said = capsys.readouterr().out
    who = load_program("train_verifier").identity(compose("train_verifier", overrides(pool)))
    assert f"path: {pool}" in said, "the configuration, with its references resolved"
    assert who.config_hash in said
    assert "trained on 96 attempts (48 resolved), 6 steps" in said
    assert (
        "judged on 48 attempts at 12 tasks\n  of validation: 24 attempts at 6 of 10 tasks (evaluation.validation_tasks=6)"
        in said
    )
    assert "time of training: not known" in said
    assert "not trained yet" in said
    assert not (tmp_path / "mlflow.db").exists(), "nothing is tracked"
    assert not list(tmp_path.glob("cells/*")), "nothing is trained"

    run = trained(pool, tmp_path, monkeypatch)
    assert "judged on 48 attempts at 12 tasks in 12 clusters" in capsys.readouterr().out, "in the same words"
    assert f"6 steps, {run.metrics['train/tokens']:,.0f} tokens" in said, "what was foretold is what was done"
    capsys.readouterr()
    train(overrides(pool, "seed=1"), dry_run=True)
    said = capsys.readouterr().out
    assert f"tokens/s, as run {run.run_id}" in said
    train(overrides(pool), dry_run=True)
    assert f"finished already in run {run.run_id}" in capsys.readouterr().out
    with pytest.raises(DataError, match=r"data\.scale=4000 cannot be filled"):
        train(overrides(pool, "data.scale=4000"), dry_run=True)
    with pytest.raises(UsageError, match="leave -m out"):
        train(overrides(pool, "seed=0,1"), multirun=True, dry_run=True)


def test_what_is_not_read_of_long_attempts_is_counted_in_training_and_scoring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def longer(t: Trajectory) -> Trajectory:
        seen = (Message("assistant", "run"), Message("tool", "first\n" + "line of a log\n" * 200 + "last"))
        return replace(t, messages=(t.messages[0], *seen, *t.messages[1:])) if t.attempt == 1 else t

    pool = tmp_path / "long.parquet"
    write_trajectories(pool, [longer(t) for t in PARTS], {})
    run = trained(pool, tmp_path, monkeypatch, "prompt.max_tokens=300", "prompt.over_length=cut_observations")
    report, selection = (json.loads(run.artifact(name).read_text()) for name in ("report.json", "selection.json"))
    assert report["fit_rate"] == 0.75
    assert report["score_rate"] == 1.0
    assert (report["cut_attempts"], report["cut_observations"], report["cut_turns"]) == (12, 12, 0)
    assert report["cut_attempts_tokens"] - 12 * 300 <= report["cut_tokens"] < report["cut_attempts_tokens"]
    assert run.metrics["eval/cut_tokens"] == report["cut_tokens"]
    assert run.metrics["train/cut_attempts"] == selection["training_cut"]["cut_attempts"] == 48
    assert run.tags["over_length"] == "cut_observations"
    assert f"12 are read only in part: {report['cut_tokens']:,} of their" in capsys.readouterr().out
    score(pool, run.run_id, tmp_path / "turns.csv", per_turn=True)
    again = read_score_table(tmp_path / "turns.csv")
    assert np.abs(again.score - read_score_table(run.artifact("scores.parquet")).score).max() < 1e-6
    assert "12 are read only in part" in capsys.readouterr().out
    browse(tmp_path / "turns.csv", pool, tmp_path / "browse.html")  # every prefix has its score


@pytest.mark.slow
def test_killed_and_gone_on_gives_the_scores_of_an_unbroken_run(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_database: Path
) -> None:
    more = ("training.epochs=8",)
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    ended = 0
    while ended != -signal.SIGKILL:  # again, where it was done before this process saw its checkpoint
        shutil.rmtree(broken, ignore_errors=True)
        broken.mkdir()
        shutil.copy(empty_database, broken / "mlflow.db")
        process = ForkedCommand(
            *("train", *overrides(pool, *more, "runtime.checkpoint_seconds=0.2")),
            environment={"RMLAB_RUNS": str(broken)},
        )
        while process.poll() is None and not list(broken.glob("cells/*/checkpoint.safetensors")):
            time.sleep(0.01)
        process.kill()
        ended = process.wait()
    monkeypatch.setenv("RMLAB_RUNS", str(broken))
    first = runs(Store.open())
    assert [run.status for run in first] == ["running"], "no half run counts as finished"
    resumed = trained(pool, broken, monkeypatch, *more)
    unbroken = trained(pool, whole, monkeypatch, *more)
    a, b = (read_score_table(run.artifact("scores.parquet")) for run in (resumed, unbroken))
    assert np.array_equal(a.score, b.score), "bit for bit"
    assert resumed.series("train/loss") == unbroken.series("train/loss"), "the series is whole"
    assert resumed.tags["config_hash"] == unbroken.tags["config_hash"]


@pytest.mark.slow
def test_ctrl_c_keeps_a_checkpoint_says_how_to_go_on_and_looks_like_no_failure(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real process, interrupted as a terminal does it, twice; nothing but Ctrl-C has it write a checkpoint."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    given = overrides(pool, "training.epochs=2000", "runtime.checkpoint_seconds=3600")

    def interrupted() -> tuple[int, str]:
        before = max(losses(), default=0)
        process = ForkedCommand("train", *given)
        while (
            process.poll() is None and max(losses(), default=0) <= before
        ):  # the second takes over what the first has logged
            time.sleep(0.5)  # to look is work, too
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        return process.returncode, said

    def losses() -> list[int]:
        found = runs(Store.open())
        return [step for run in found for step, _ in run.series("train/loss")]

    for _ in range(2):
        code, said = interrupted()
        assert code == 130
        assert f"Stopped. Continue from the last checkpoint with: rmlab train {' '.join(given)}" in said
        assert "Traceback" not in said
        assert len(list(tmp_path.glob("cells/*/checkpoint.safetensors"))) == 1
    second, first = runs(Store.open())
    assert [run.status for run in (first, second)] == ["stopped", "stopped"]
    assert {Store.open().client.get_run(run.run_id).info.status for run in (first, second)} == {"SCHEDULED"}
    assert (first.tags["continued_by"], second.tags.get("continued_by")) == (second.run_id, None)
    earlier, later = first.series("train/loss"), second.series("train/loss")
    assert later[: len(earlier)] == earlier, "it went on from the checkpoint"
    assert len(later) > len(earlier)


def test_prepare_says_what_cannot_run_before_anything_starts(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    program = load_program("train_verifier")
    program.prepare([compose("train_verifier", overrides(pool, f"seed={s}")) for s in (0, 1)])
    assert len(list((tmp_path / "cache" / "tokenizers").iterdir())) == 1
    assert not (tmp_path / "mlflow.db").exists(), "nothing is tracked"
    with pytest.raises(DataError, match=r"data\.scale=4000 cannot be filled"):
        program.prepare([compose("train_verifier", overrides(pool, "data.scale=4000"))])
    with pytest.raises(RmlabError, match=r"runtime\.device=cuda: torch sees no CUDA"):
        program.prepare([compose("train_verifier", overrides(pool, "runtime=cuda"))])


def test_attempts_that_are_far_too_long_are_refused_before_anything_is_tokenised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    many = [Message("tool", f"line {i} " * 900) for i in range(3)]
    long = [replace(t, messages=(*t.messages, *many)) if t.split == "verifier" else t for t in PARTS]
    write_trajectories(tmp_path / "long.parquet", long)
    program = load_program("train_verifier")
    with pytest.raises(DataError, match=r"0 resolved .*160 more do not fit the context.*prompt\.over_length=cut_obs"):
        program.prepare([compose("train_verifier", overrides(tmp_path / "long.parquet", "data.scale=40"))])
    assert not (tmp_path / "runs" / "cache").exists(), "not even a tokenizer was trained"
    cut = overrides(tmp_path / "long.parquet", "data.scale=40", "prompt.over_length=cut_observations")
    program.prepare([compose("train_verifier", cut)])


def test_bad_input_is_one_clear_line(pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    with pytest.raises(UsageError, match=r"no key 'data\.scal'.*data\.scale"):
        compose("train_verifier", ["data.scal=3"])
    with pytest.raises(UsageError, match=r"data\.path must be given: `rmlab import`"):
        load_program("train_verifier").main(["preset=smoke", "data=real"])
    with pytest.raises(RmlabError, match=r"prompt\.max_tokens=2048 is longer than the 1024 positions of model=tiny"):
        load_program("train_verifier").main(overrides(pool, "prompt.max_tokens=2048"))
    whole, mixed, leaking = (tmp_path / f"{name}.parquet" for name in ("whole", "mixed", "leaking"))
    write_trajectories(whole, [replace(t, split=None) for t in PARTS])
    with pytest.raises(DataError, match=r"none of the 278 trajectories of .* has a part .*`rmlab trajectories split"):
        load_program("train_verifier").main(overrides(whole))
    write_trajectories(mixed, [*PARTS, episode(1000, True, part="rl", policy="other")])
    with pytest.raises(DataError, match="lies in the parts rl and verifier"):
        load_program("train_verifier").main(overrides(mixed))
    leak = replace(episode(7000, True), messages=(*episode(7000, True).messages, Message("tool", "PASS_TO_PASS: all")))
    write_trajectories(leaking, [*PARTS, leak])
    with pytest.raises(DataError, match="1 of 279 prompts contain the outcome"):
        load_program("train_verifier").main(overrides(leaking))
    assert {run.status for run in runs(Store.open())} == {"failed"}
    with pytest.raises(DataError, match=r"holds neither a verifier of rmlab"):
        score(pool, str(tmp_path), tmp_path / "out.csv")
    with pytest.raises(DataError, match="no trajectories of part rl: choose another"):
        score(pool, str(tmp_path), tmp_path / "out.csv", part="rl")
    with pytest.raises(UsageError, match="--part train: must be one of supervised"):
        score(pool, str(tmp_path), tmp_path / "out.csv", part="train")


def test_what_is_scored_of_a_part_is_told_with_what_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    judged = [t for t in PARTS if t.split == "evaluation"]
    unlabelled = [replace(t, resolved=None, label_source=None) for t in judged[:3]]
    write_trajectories(tmp_path / "pool.parquet", [t for t in PARTS if t not in judged[:3]] + unlabelled)
    program = load_program("train_verifier")

    def words(*more: str) -> str:
        asked = overrides(tmp_path / "pool.parquet", *more)
        return str(program._material(program._settings(compose("train_verifier", asked))).scored_words("evaluation"))

    assert words("evaluation.tasks=null") == "45 attempts (3 more without a label) at 12 tasks"
    assert words("evaluation.tasks=5").endswith(" at 5 of 12 tasks (evaluation.tasks=5)")
