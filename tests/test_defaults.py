"""A default stands once, in its dataclass: a configuration file holds only what differs from that."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from rmlab.configuration import compose, load_program
from rmlab.paths import CONF
from rmlab.policies.language import LanguagePolicyConfig
from rmlab.policies.policy import ScriptedConfig

PROGRAMS = sorted(path.stem for path in CONF.glob("*.yaml"))
OVER = {"preset": "train_verifier", "data_preset": "train_verifier", "data_model": "train_verifier", "rl_preset": "rl"}
"""Files that stand over those of other groups: those of data_preset and data_model over those of preset too."""


def keys(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of the leaves."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from keys(value, f"{path}{key}.")
        elif key != "defaults":
            yield f"{path}{key}", value


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


@cache
def schema(program: str) -> dict[str, Any]:
    load_program(program)
    return dict(keys(plain(ConfigStore.instance().load(f"{program}_schema.yaml").node)))


def plain(config: Any) -> dict[str, Any]:
    found: Any = OmegaConf.to_container(OmegaConf.structured(config), resolve=False, enum_to_str=True)
    return found


def groups(program: str) -> list[str]:
    entries = [entry for entry in read(CONF / f"{program}.yaml")["defaults"] if isinstance(entry, dict)]
    return [group.removeprefix("optional ") for entry in entries for group in entry]


def repeated(found: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Keys whose value is the default as well."""
    return [key for key, value in found.items() if key in defaults and defaults[key] == value]


def set_by_groups(program: str) -> set[str]:
    """Keys that a file of the program's groups sets: the primary file and presets may set them back."""
    files = [(group, path) for group in groups(program) if group not in OVER for path in (CONF / group).glob("*.yaml")]
    return {key for group, path in files for key, _ in keys({group: read(path)})}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_primary_file_repeats_no_default(program: str) -> None:
    again = repeated(dict(keys(read(CONF / f"{program}.yaml"))), schema(program))
    assert [key for key in again if key not in set_by_groups(program)] == []


@pytest.mark.parametrize("group", OVER)
def test_a_preset_repeats_no_default(group: str) -> None:
    program = OVER[group]
    below = set_by_groups(program) | {key for key, _ in keys(read(CONF / f"{program}.yaml"))}
    if group.startswith("data_"):
        below |= {key for path in (CONF / "preset").glob("*.yaml") for key, _ in keys(read(path))}
    for path in (CONF / group).glob("*.yaml"):
        assert [key for key in repeated(dict(keys(read(path))), schema(program)) if key not in below] == [], path.name


def test_a_file_of_a_group_repeats_no_default_of_all_programs_that_have_it() -> None:
    programs: dict[str, list[str]] = {}
    for program in PROGRAMS:
        for group in groups(program):
            programs.setdefault(group, []).append(program)
    for group in programs.keys() - OVER.keys() - {"policy"}:
        for path in (CONF / group).glob("*.yaml"):
            found = dict(keys({group: read(path)}))
            again = [set(repeated(found, schema(program))) for program in programs[group]]
            assert set.intersection(*again) == set(), path.name


def test_a_policy_repeats_no_default() -> None:
    for path in (CONF / "policy").glob("*.yaml"):
        defaults = dict(keys(plain(LanguagePolicyConfig if path.stem == "language" else ScriptedConfig)))
        scripts = read(path).values() if path.stem == "seeking" else [read(path)]
        assert [again for script in scripts for again in repeated(dict(keys(script)), defaults)] == [], path.name


def test_what_a_dataclass_says_is_what_a_program_gets() -> None:
    own, defaults = compose("rl", ["start=FOLDER"]), schema("rl")
    for name in ("algorithm", "rl", "watch", "limits", "lora"):
        found: Any = OmegaConf.to_container(own[name], enum_to_str=True)
        assert dict(keys({name: found})) == {key: v for key, v in defaults.items() if key.startswith(f"{name}.")}
