"""Runs that were imported without their weights: how they are told, and what trains one again."""

import shlex

import pytest

from rmlab.tracking.run_index import RunInfo
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
    one = training_command(run("label_ratio=1:4 s2", **cell, level="1:4"))
    assert shlex.split(one.split("`")[1]) == shlex.split(
        "rmlab sweep label_ratio preset=demo 'levels=[1:1,1:4]' 'seeds=[2]' --force"
    )
    assert "levels=[1:1]" in training_command(run("label_ratio=1:1 s0", **cell, level="1:1"))
    arm = training_command(run("data_scale=100 steps s1", **cell, level="100", arm="steps"))
    assert "'arms=[steps]' --force" in arm
    assert training_command(run("mine")) == "the command that made it, with --force"
    grid = run("verifier=a reward=hybrid s0", **cell, level="a", arm="reward=hybrid")
    assert training_command(grid) == "the command that made it, with --force"
