"""No key is taken and ignored: for every field of a program's configuration there is code, within its reach, that reads it."""

import ast
import dataclasses
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from rmlab.configuration import load_program
from rmlab.paths import CONF, PROGRAMS, REPOSITORY

NAMES = sorted(p.stem for p in PROGRAMS.glob("[!_]*.py") if (CONF / p.name).with_suffix(".yaml").is_file())


SET_BY_SWEEPS = {
    "replaces"
}  # of tracking: programs that no sweep launches share its configuration with those that one does


def schema(program: str) -> type:
    load_program(program)
    found = OmegaConf.get_type(ConfigStore.instance().load(f"{program}_schema.yaml").node)
    assert dataclasses.is_dataclass(found)
    return typing.cast(type, found)


def fields(kind: type, path: str = "") -> Iterator[tuple[str, str]]:
    """(group, field) of every key that holds a value; the group of a key of the top level is ""."""
    hints = typing.get_type_hints(kind)
    for one in dataclasses.fields(kind):
        inner = [t for t in (hints[one.name], *typing.get_args(hints[one.name])) if dataclasses.is_dataclass(t)]
        if inner:
            yield from fields(typing.cast(type, inner[0]), f"{path}.{one.name}".lstrip("."))
        else:
            yield path, one.name


@cache
def parsed(path: Path) -> tuple[frozenset[str], frozenset[Path]]:
    """Attributes that a file reads, but for checks of a configuration's own, and the files of rmlab that it names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__post_init__"
        for inner in ast.walk(node)
    }
    read: set[str] = set()
    names: set[str] = set()
    programs: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node not in own:
            read.add(node.attr)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "load_program":
            programs |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    files = [REPOSITORY.joinpath(*name.split(".")) for name in names if name.startswith(("rmlab.", "experiments."))]
    candidates = [*(f.with_suffix(".py") for f in files), *(f / "__init__.py" for f in files)]
    candidates += [PROGRAMS / f"{name}.py" for name in programs]
    return frozenset(read), frozenset(p for p in candidates if p.is_file())


def read_by(program: str) -> set[str]:
    """Every attribute that is read in the program's file and in those that it reaches by imports, at any level."""
    found: set[str] = set()
    waiting, seen = [PROGRAMS / f"{program}.py"], set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        attributes, imported = parsed(path)
        found |= attributes
        waiting += imported
    return found


@pytest.mark.parametrize("program", NAMES)
def test_every_key_of_a_program_is_read(program: str) -> None:
    read = read_by(program) | SET_BY_SWEEPS
    assert [f"{group}.{name}" for group, name in fields(schema(program)) if name not in read] == []


@pytest.mark.parametrize("program", NAMES)
def test_no_key_has_a_namesake_that_sets_the_same_thing(program: str) -> None:
    """Two keys for one thing are one too many: the name would be read, and only one of them (`compiled`, `runtime.compiled`)."""
    keys: list[tuple[str, str]] = list(fields(schema(program)))
    runtime = {name for group, name in keys if group == "runtime"}
    assert [f"{group}.{name}" for group, name in keys if group != "runtime" and name in runtime] == []


def test_what_programs_read_is_found_at_all() -> None:
    assert {"train_verifier", "train_policy", "rl", "pretrain", "collect"} <= set(NAMES)
    assert {"micro_batch_tokens", "over_length", "no_such_field"} & read_by("train_verifier") == {
        "micro_batch_tokens",
        "over_length",
    }
    accepted = {program: {name for group, name in fields(schema(program)) if group == "runtime"} for program in NAMES}
    assert [p for p in NAMES if "micro_batch_tokens" in accepted[p]] == [
        "cross_validate",
        "train_policy",
        "train_verifier",
    ], "rl and pretrain cut their batches otherwise"
