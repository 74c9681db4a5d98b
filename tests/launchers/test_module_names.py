"""Names of modules and functions that stand in strings: a rename that forgets one fails here, not silently in a fork server."""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rmlab.configuration import load_program
from rmlab.launchers.jobs import HEAVY
from rmlab.launchers.warmup import MODULE, VARIABLE, import_if_installed, named_function, warm_up
from rmlab.paths import CONF, PROGRAMS, REPOSITORY

NAME = re.compile(r"(rmlab|hydra_plugins)(\.[A-Za-z_]\w*)+(:\w+)?")
QUOTED = re.compile(rf"[\"']{NAME.pattern}[\"']")
RESOLVERS = {"rmlab.starter", "rmlab.runs", "rmlab.if"}  # of Hydra's interpolations, see `register_resolvers`
SWEPT = [
    path.stem for path in PROGRAMS.glob("[!_]*.py") if "ConfigStore.instance()" in path.read_text(encoding="utf-8")
]


def named_in_code() -> Iterator[str]:
    for folder in ("rmlab", "experiments", "hydra_plugins", "analysis"):
        for path in (REPOSITORY / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if not QUOTED.search(text):
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
                    yield node.value


def targets(tree: object) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from [str(value)] if key == "_target_" else targets(value)


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    if ":" in name:
        return callable(named_function(name))
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        module, _, attribute = name.rpartition(".")
        return hasattr(importlib.import_module(module), attribute)
    return True


def test_every_name_of_our_own_in_a_string_is_there() -> None:
    names = sorted(set(named_in_code()) - RESOLVERS - {MODULE})
    assert {"rmlab.models.preload", "rmlab.verifiers.dataset:preload"} <= set(names), "the search finds names"
    assert [name for name in names if not resolves(name)] == []


def test_every_target_of_the_configuration_is_there() -> None:
    names = {name for path in CONF.rglob("*.yaml") for name in targets(yaml.safe_load(path.read_text()))}
    assert names
    assert [name for name in names if not resolves(name)] == []


@pytest.mark.parametrize("program", SWEPT)
def test_what_a_program_preloads_and_shares_is_there(program: str) -> None:
    module = load_program(program)
    for name in getattr(module, "PRELOAD", HEAVY):
        import_if_installed(name)
    for name in getattr(module, "SHARED", {}).values():
        assert callable(named_function(name))


def test_the_module_of_the_fork_server_warms_up(tmp_path: Path) -> None:
    code = f"import {MODULE}, sys, gc; print('json.tool' in sys.modules, gc.isenabled())"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, VARIABLE: json.dumps([["json.tool"], []])},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == ["True", "True"]
    assert not answer.stderr


@pytest.mark.parametrize("module", ["rmlab.not_there", "json.not_there", "xml.etree.not_there"])
def test_a_module_that_was_renamed_is_an_error_and_one_of_no_package_is_not(module: str) -> None:
    import_if_installed("a_package_that_is_not_installed.module")
    with pytest.raises(ModuleNotFoundError, match="not_there"):
        import_if_installed(module)


def test_what_a_fork_server_cannot_do_is_printed_and_what_a_cell_reports_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    reads = [["rmlab.verifiers.dataset:gone", "a"], ["rmlab.verifiers.dataset:preload", str(tmp_path / "none.parquet")]]
    monkeypatch.setenv(VARIABLE, json.dumps([["a_package_that_is_not_installed", "rmlab.not_there"], reads]))
    warm_up()
    first, second = capsys.readouterr().err.splitlines()
    assert "could not import rmlab.not_there (ModuleNotFoundError" in first
    assert "could not call rmlab.verifiers.dataset:gone (AttributeError" in second
    assert VARIABLE not in os.environ
