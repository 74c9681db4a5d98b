"""Runs whose weights are not in the store: how they are told, and what trains one again."""

import shlex
import shutil
from pathlib import Path

import pytest

from rmlab.errors import MissingArtifact
from rmlab.tracking.query import without_weights
from rmlab.tracking.references import find_artifact
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo, run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.weights import are_weights, training_command


def run(name: str, **tags: str) -> RunInfo:
    return RunInfo("1" * 32, "0", name, tags, 0, 0)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("model", True),
        ("folds/1/model", True),
        ("base", True),
        ("head.safetensors", True),
        ("browse.html", False),
        ("figures", False),
        ("episodes", False),
        ("silent_scores.parquet", False),
        ("", False),
    ],
)
def test_what_counts_as_weights(name: str, is_one: bool) -> None:
    assert are_weights(name) is is_one


def test_the_command_trains_the_level_and_seed_beside_the_baseline() -> None:
    cell = {"sweep": "label_ratio", "preset": "demo", "baseline": "1:1"}
    for bare, flag in ((True, "--rerun-without-weights"), (False, "--force")):
        one = training_command(run("label_ratio=1:4 s2", **cell, level="1:4"), bare)
        assert shlex.split(one.split("`")[1]) == shlex.split(
            f"rmlab sweep label_ratio preset=demo 'levels=[1:1,1:4]' 'seeds=[2]' {flag}"
        )
        assert "levels=[1:1]" in training_command(run("label_ratio=1:1 s0", **cell, level="1:1"), bare)
        arm = training_command(run("data_scale=100 steps s1", **cell, level="100", arm="steps"), bare)
        assert f"'arms=[steps]' {flag}" in arm
        assert training_command(run("mine"), bare) == "the command that made it, with --force"
        grid = run("verifier=a reward=hybrid s0", **cell, level="a", arm="reward=hybrid")
        assert training_command(grid, bare) == "the command that made it, with --force"


def test_the_command_has_the_path_that_rmlab_was_called_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/rmlab", "score"])
    monkeypatch.setenv("PATH", str(tmp_path))
    cell = run("label_ratio=1:4 s2", sweep="label_ratio", preset="demo", baseline="1:1", level="1:4")
    assert training_command(cell, True).startswith("`.venv/bin/rmlab sweep label_ratio preset=demo")


def test_weights_that_were_deleted_are_missed_and_the_command_is_named(store: Store) -> None:
    tags = {"sweep": "data_scale", "preset": "demo", "level": "8", "baseline": "8"}
    for seed, kind in ((0, "verifier"), (1, "verifier"), (2, "rl")):
        with RunLogger.start(store, "data_scale", f"data_scale=8 s{seed}", kind=kind, tags=tags) as one:
            one.text("report.json", "{}")
            if kind == "verifier":  # a policy is kept where that was asked for
                one.text("model/verifier.json", "{}")
    assert without_weights(store, run_infos(store)) == []
    assert store.artifacts is not None
    bare = next(info for info in run_infos(store) if info.name.endswith("s1"))
    shutil.rmtree(next(store.artifacts.glob(f"*/{bare.run_id}/artifacts/model")))
    assert without_weights(store, run_infos(store)) == [bare]
    with pytest.raises(
        MissingArtifact, match=r"weights are gone\. To train it again: .*'seeds=\[1\]' --rerun-without-w"
    ):
        find_artifact(bare.run_id, "model", store.uri)
