"""What of a configuration enters its hash is said where its fields are defined."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import pytest
from omegaconf import MISSING, OmegaConf

from rmlab.errors import UsageError
from rmlab.fingerprint import OMIT_DEFAULT, UNHASHED, hashed_values


class Kind(Enum):
    plain = "a plain one"
    other = "another one"


@dataclass
class Place:
    HASHED: ClassVar[bool] = False

    folder: str = "here"


@dataclass
class Inner:
    path: str = field(default="here", metadata=UNHASHED)
    scale: int = 3
    kind: Kind = field(default=Kind.plain, metadata=OMIT_DEFAULT)
    names: list[str] = field(default_factory=list, metadata=OMIT_DEFAULT)


@dataclass
class Whole:
    seed: int = 0
    inner: Inner = field(default_factory=Inner)
    place: Place = field(default_factory=Place)
    by_name: dict[str, Inner] = field(default_factory=dict)
    output: str = field(default=MISSING, metadata=UNHASHED)


def values(**changes: Any) -> dict[str, Any]:
    return hashed_values(OmegaConf.merge(OmegaConf.structured(Whole), {"output": "o", **changes}))


def test_what_is_hashed_is_said_by_its_field_or_by_its_class() -> None:
    assert values() == {"seed": 0, "inner": {"scale": 3}, "by_name": {}}
    assert values(place={"folder": "there"}, inner={"path": "there"}, output="p") == values()
    assert values(inner={"kind": "other", "names": ["a"]})["inner"] == {"scale": 3, "kind": "other", "names": ["a"]}


def test_values_of_a_mapping_are_hashed_as_they_are_elsewhere() -> None:
    assert values(by_name={"a": {"path": "there"}})["by_name"] == {"a": {"scale": 3}}


def test_a_value_that_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match="output has no value: set it"):
        hashed_values(OmegaConf.structured(Whole))
