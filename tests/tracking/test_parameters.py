"""By what two runs are told apart: parameters, names and differing keys."""

from dataclasses import dataclass, field
from enum import Enum

import pytest
from omegaconf import OmegaConf

from rmlab.configuration import compose
from rmlab.fingerprint import hashed_values
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.parameters import LONGEST_NAME, asked_keys, describe_single, differing_keys, parameters
from rmlab.tracking.tags import check_names


class Kind(Enum):
    one = "one"


@dataclass
class Part:
    kind: Kind = Kind.one
    steps: int = 1
    rate: float = 0.1
    weights: dict[str, float] = field(default_factory=lambda: {"careful": 2.0})
    path: str = "/somewhere/of/this/machine/pool.parquet"
    fits: int | None = None
    whole: bool = True


@dataclass
class Settings:
    part: Part = field(default_factory=Part)
    other: Part = field(default_factory=Part)
    policy: dict[str, Part] = field(default_factory=lambda: {"careful": Part(), "hasty": Part()})
    size: int = 3
    seed: int = 0
    tracking: TrackingConfig = field(default_factory=TrackingConfig)


def test_keys_are_the_shortest_that_are_unique_and_what_was_asked_for_comes_first() -> None:
    changed = Part(steps=2, weights={"careful": 1.0}, fits=3, whole=False, path="/somewhere/else/pool.parquet")
    settings = Settings(changed, size=4, tracking=TrackingConfig(asked=["other.rate"], name="not a parameter"))
    settings.policy["wanderer"] = Part()
    found = parameters(settings, {"seed": 0, "other_steps": 7})
    assert list(found)[:3] == ["other.rate", "seed", "other_steps"]
    assert found["part.steps"] == "2"
    assert found["other_steps"] == 7, "the program's own value, once"
    assert "other.steps" not in found
    assert (found["size"], found["part.fits"], found["part.whole"]) == ("4", "3", "false")
    assert found["part.weights"] == "{careful: 1.0}"
    assert found["policy"] == "careful, hasty, wanderer"
    assert "part.kind" not in found, "it has its default"
    assert "part.path" not in found, "no place of this machine"
    asked = Settings(changed, tracking=TrackingConfig(asked=["part.path"]))
    assert parameters(asked, {})["part.path"] == "pool.parquet"
    assert not [name for name in found if "tracking" in name or found[name] == "not a parameter"]
    check_names(found)


def test_a_group_stands_for_those_of_its_keys_that_are_not_at_their_default() -> None:
    settings = Settings(Part(steps=2), Part(steps=3, rate=0.5), tracking=TrackingConfig(asked=["other"]))
    assert list(parameters(settings, {})) == ["other.steps", "other.rate", "part.steps"]


def test_what_was_asked_for_stands_there_at_its_default_too() -> None:
    asked = ["size", "part.whole"]
    found = parameters(Settings(tracking=TrackingConfig(asked=asked)), {})
    assert found == {"part.whole": "true", "size": "3"}


VERIFIER = (
    "seed data_scale resolved_share learning_rate epochs match objective model_parameters hidden_size layers "
    "active_parameters experts"
)
POLICY = "seed reward reward_weight learning_rate steps edits max_turns algorithm"


@pytest.mark.parametrize(
    ("program", "overrides", "own"),
    [
        ("train_verifier", [], VERIFIER),
        ("train_verifier", ["preset=small"], VERIFIER),
        ("train_verifier", ["preset=smoke", "model=tiny_moe"], VERIFIER),
        ("cross_validate", ["data.path=x"], VERIFIER),
        ("rl", ["start=x", "rl_preset=small"], POLICY),
        ("train_policy", [], "seed model_parameters lessons"),
        ("pretrain", [], "seed model_parameters tokens"),
        ("collect", [], "seed policies"),
    ],
)
def test_parameters_are_few_and_name_no_place(program: str, overrides: list[str], own: str) -> None:
    config = compose(program, overrides)
    describe_single(config, overrides)
    found = parameters(OmegaConf.to_object(config), dict.fromkeys(own.split(), 1))
    assert len(found) <= (25 if not overrides else 35), list(found)
    assert not {"tasks", "output", "corpus", "paths", "beta1", "checkpoint_seconds", "workers"} & set(found)
    assert not [name for name, value in found.items() if "/" in str(value)]
    if program == "train_verifier":
        assert {"label_ratio", "max_tokens", "batch_size", "dtype", "model.name", "rank"} <= set(found)


def test_a_long_value_is_cut() -> None:
    found = parameters(Settings(part=Part(weights={"x" * 400: 1.0})), {})
    assert len(found["part.weights"]) == 250


def test_what_is_asked_for_is_no_tracking_no_preset_and_no_seed() -> None:
    overrides = [
        "preset=smoke",
        "rl_preset=demo",
        "seed=2",
        "tracking.uri=x",
        "+data.scale=3",
        "model=tiny",
        "data.scale=4",
    ]
    assert asked_keys([*overrides, "runtime.progress=false", "~policy.careful"]) == [
        "data.scale",
        "model",
        "policy.careful",
    ]


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], ""),
        (["preset=smoke"], "smoke s0"),
        (["preset=smoke", "seed=3", "data.label_ratio=2:1"], "smoke label_ratio=2:1 s3"),
        (["data.path=/data/mine/pool.parquet", "model=tiny"], "data.path=pool model=tiny s0"),
        (["data.policies={careful: 2, hasty: 1}"], "policies={careful:2,hasty:1} s0"),
        (["tracking.name=mine", "preset=smoke"], "mine"),
        (["data.path=${rmlab.starter:tasks_language_models.parquet}"], "data.path={rmlab.starter:tasks_language_m… s0"),
        (["tracking.experiment=x"], ""),
    ],
)
def test_a_run_made_by_hand_is_named_by_what_was_asked_for(overrides: list[str], name: str) -> None:
    config = compose("train_verifier", overrides)
    before = hashed_values(config)
    describe_single(config, overrides)
    assert config.tracking.name == name
    assert config.tracking.preset == ("smoke" if "preset=smoke" in overrides else "")
    assert hashed_values(config) == before, "what a run is called changes no hash"


def test_a_run_is_named_by_the_whole_cell_of_its_verifier() -> None:
    config = compose("rl", ["start=x"])
    describe_single(config, ["rl_preset=smoke", "start=runs/policies/x-s0", "verifier=data_scale/smoke/128/s0"])
    assert config.tracking.name == "smoke start=x-s0 verifier=data_scale/128/s0 s0"


def test_a_name_is_never_longer_than_one_can_read() -> None:
    config = OmegaConf.structured(Settings)
    describe_single(config, [f"part.key{n}={'long' * 20}" for n in range(20)])
    assert len(config.tracking.name) <= LONGEST_NAME
    assert config.tracking.name.endswith(" s0")


def test_differing_keys_of_two_trees() -> None:
    assert differing_keys({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1, "c": 3}, "d": [1], "e": None}) == ["a.c"]
    assert differing_keys({"a": 1}, {"a": {"b": 1}}) == ["a"]
