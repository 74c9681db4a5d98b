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
    settings = Settings(tracking=TrackingConfig(asked=["other.rate"], name="not a parameter"))
    found = parameters(settings, {"seed": 0, "other_steps": 7})
    assert list(found)[:3] == ["other.rate", "seed", "other_steps"]
    assert found["part.steps"] == "1", "a number is no truth value"
    assert found["other_steps"] == 7, "the program's own value, once"
    assert "other.steps" not in found
    assert (found["size"], found["part.kind"], found["part.fits"], found["part.whole"]) == ("3", "one", "null", "true")
    assert found["part.weights"] == "{careful: 2.0}"
    assert found["policy"] == "careful, hasty"
    assert found["part.path"] == "pool.parquet", "no place of this machine"
    assert not [name for name in found if "tracking" in name or found[name] == "not a parameter"]
    check_names(found)


def test_a_group_stands_for_its_keys() -> None:
    settings = Settings(tracking=TrackingConfig(asked=["other"]))
    assert all(name.startswith("other.") for name in list(parameters(settings, {}))[:7])


def test_a_long_value_is_cut() -> None:
    found = parameters(Settings(part=Part(path="x" * 400)), {})
    assert len(found["part.path"]) == 250


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


def test_a_name_is_never_longer_than_one_can_read() -> None:
    config = OmegaConf.structured(Settings)
    describe_single(config, [f"part.key{n}={'long' * 20}" for n in range(20)])
    assert len(config.tracking.name) <= LONGEST_NAME
    assert config.tracking.name.endswith(" s0")


def test_differing_keys_of_two_trees() -> None:
    assert differing_keys({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1, "c": 3}, "d": [1], "e": None}) == ["a.c"]
    assert differing_keys({"a": 1}, {"a": {"b": 1}}) == ["a"]
