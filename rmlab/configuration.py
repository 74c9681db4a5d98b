"""Programs of experiments/, and their configurations by Hydra: typed, and with one line for what is wrong.

Hydra composes; it never runs anything here, so it writes no outputs/ or multirun/ folder.
"""

import difflib
import importlib
import importlib.util
import math
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from omegaconf import DictConfig, OmegaConf

from rmlab.errors import UsageError
from rmlab.hydra_keys import refuse_unread
from rmlab.paths import CONF, PROGRAMS, STARTER, runs_folder

if TYPE_CHECKING:
    from hydra._internal.hydra import Hydra

    from rmlab.sweep.cells import Identity

PROGRAMS_PACKAGE = "experiments.programs"

HYDRA_SAYS = {
    "unknown key": re.compile(r"Could not override '([^']+)'"),
    "unknown choice": re.compile(r"Could not find '([^']+)'"),
    "choices": re.compile(r"Available options in '[^']*':\s*(.*?)(?:Config search path|$)", re.DOTALL),
    "wrong value": re.compile(r"Error merging override (.*)"),
    "several values": re.compile(r"Ambiguous value for argument '(.*)'"),
}
"""What Hydra's messages have in common with the errors they stand for: it has one exception for most of them. A test makes each."""


def register_resolvers() -> None:
    """`${rmlab.starter:FILE}` and `${rmlab.runs:FILE}`: shipped data and the runs folder, wherever the clone lies.

    `${rmlab.if:VALUE,A,B}`: A where a value is neither 0 nor null nor false, else B.
    """
    for name, folder in (("rmlab.starter", lambda: STARTER), ("rmlab.runs", runs_folder)):
        OmegaConf.register_new_resolver(name, lambda *path, folder=folder: str(folder().joinpath(*path)), replace=True)
    OmegaConf.register_new_resolver("rmlab.if", lambda value, yes, no: yes if value else no, replace=True)


class ProgramModule(Protocol):
    """What a sweep needs of a program: the module of `experiments/programs/NAME.py`, or of a file of one's own."""

    @staticmethod
    def identity(config: DictConfig) -> "Identity":
        """Both hashes of a run, from its configuration and the content of its inputs."""

    @staticmethod
    def prepare(configs: Sequence[DictConfig]) -> None:
        """Makes what runs of these configurations share, and raises an RmlabError where one of them could not run."""

    @staticmethod
    def run(config: DictConfig) -> str:
        """One tracked run, start to end; its id."""


@cache
def load_program(name: str) -> ProgramModule:
    """The program `experiments/programs/NAME.py`, or the file that `name` is the path of (*.py); loading registers its schema.

    Raises UsageError where there is none.
    """
    if name.endswith(".py") and Path(name).is_file():
        return cast(ProgramModule, load_file(Path(name)))
    there = sorted(path.stem for path in PROGRAMS.glob("[!_]*.py"))
    if name not in there:
        raise UsageError(
            f"there is no program {name!r}{near(name, there)}; there are: {', '.join(there)}, or any file *.py"
        )
    return cast(ProgramModule, importlib.import_module(f"{PROGRAMS_PACKAGE}.{name}"))


def config_folder(program: str) -> Path:
    """Where the configuration of a program lies: a program that is named by its path has its `conf/` beside it."""
    return Path(program).absolute().parent / "conf" if program.endswith(".py") else CONF


def load_file(path: Path) -> ModuleType:
    """A Python file as a module, by its path; nothing is added to the import path."""
    module_name = f"rmlab_file.{path.parent.name}.{path.stem}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    if specification is None or specification.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[module_name] = module  # dataclasses look their own module up
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def compose(program: str, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration of a program: `conf/PROGRAM.yaml` under the overrides, typed by the program's schema.

    A program that is named by its path has its `conf/` beside it. Raises UsageError, in one line, for an unknown key, group or
    value; near matches are named, and what replaces a key that is in the program's table `RENAMED`.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    refuse_unread(overrides, multirun=False)
    renamed: Mapping[str, str] = getattr(load_program(program), "RENAMED", {})
    register_resolvers()
    stem = Path(program).stem
    folder = config_folder(program)
    if not (folder / f"{stem}.yaml").is_file():
        raise UsageError(f"program {stem!r} has no configuration ({folder / f'{stem}.yaml'})")
    asked = list(overrides)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folder), version_base="1.3", job_name=stem):
        while True:
            try:
                config = hydra_compose(stem, overrides=asked)
                break
            except ValueError as error:  # a group chosen by a number, `=3`
                raise UsageError(
                    f"{stem}: one of {' '.join(asked)} is no KEY=VALUE, for example data.scale=500 "
                    f"({_lower(str(error))})"
                ) from error
            except (HydraException, OmegaConfBaseException) as error:
                try:
                    base = hydra_compose(stem)
                except (HydraException, OmegaConfBaseException):
                    base = OmegaConf.create()  # the shipped configuration itself is what is wrong: the message says how
                if (opened := _opened(asked, str(error), base)) is None:
                    raise UsageError(unquoted(asked) or _one_line(error, stem, keys_of(base), renamed)) from error
                asked = opened
    _refuse_added_keys(config, stem)
    _refuse_values(config)
    return config


def hydra_of(program: str) -> "Hydra":
    """Hydra itself over a program's configuration and ours, for what `compose` does not do: a multirun, `--info`."""
    from hydra import version
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_config_search_path
    from hydra.core.global_hydra import GlobalHydra

    version.setbase("1.3")
    load_program(program)
    register_resolvers()
    GlobalHydra.instance().clear()
    search_path = create_config_search_path(str(config_folder(program)))
    if config_folder(program) != CONF:
        search_path.prepend("rmlab", str(CONF))  # its sweepers and launchers, for a program that lies elsewhere
    return Hydra.create_main_hydra2(task_name=Path(program).stem, config_search_path=search_path)


def taken_choices(program: str, overrides: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Each group of a program under the overrides: the choices that are taken, and those that there are."""
    from hydra.types import RunMode

    loader = hydra_of(program).config_loader
    stem = Path(program).stem
    found: dict[str, tuple[list[str], list[str]]] = {}
    for default in loader.compute_defaults_list(stem, list(overrides), RunMode.RUN).defaults:
        group, _, choice = (default.config_path or "").rpartition("/")
        if group and not group.startswith("hydra"):
            found.setdefault(group, ([], loader.get_group_options(group)))[0].append(choice)
    return found


def with_values(config: DictConfig, overrides: Sequence[str]) -> DictConfig | None:
    """A composed configuration with plain values set, as composing it anew would; None where that needs composing (a group).

    Raises UsageError for a value of the wrong type.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    changed = config.copy()
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise UsageError(unquoted(overrides) or _lower(str(error).splitlines()[0])) from error
    for override in parsed:
        key, value = override.key_or_group, override.value()
        if override.is_sweep_override() or override.is_add() or override.is_delete() or override.package is not None:
            return None
        if isinstance(OmegaConf.select(config, key), DictConfig | None):  # a group, a mapping, or nothing that is there
            return None
        try:
            OmegaConf.update(changed, key, value)
        except OmegaConfBaseException as error:
            raise UsageError(f"{override.input_line}: {_lower(str(error).splitlines()[0])}") from error
    _refuse_values(changed)
    return changed


def quoted(text: str) -> str:
    """A text as a value of an override, whatever characters it has."""
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    escaped = re.sub(r"(\\+)$", r"\1\1", escaped)
    return f"'{escaped}'"


def unquoted(overrides: Iterable[str]) -> str | None:
    """What is wrong with the first override that Hydra's grammar refuses, and how to write it; None where it takes them all."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    for text in overrides:
        try:
            OverridesParser.create().parse_override(text)
        except HydraException:
            found = re.fullmatch(r"([+~]*[A-Za-z_][\w./@:-]*)=(.*)", text, re.ASCII | re.DOTALL)
            if found is None or not text.isprintable():
                return f"{text!r} is not an override: write KEY=VALUE, for example data.scale=500"
            key, value = found.groups()
            if value.startswith(("[", "{")):
                example = shlex.quote(f"{key}=['a text']")
                return (
                    f"{text}: the list or mapping cannot be read. Close its brackets, and quote each text in it that has other "
                    f"characters than letters, digits and / - . _: {example}"
                )
            if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
                value = value[1:-1]
            value = str(Path(value).expanduser()) if value.startswith("~") else value
            return (
                f"{text}: the value has characters that mean something in an override, so it is quoted twice, for Hydra and for "
                f"the shell: {shlex.quote(f'{key}={quoted(value)}')}"
            )
    return None


def _opened(overrides: list[str], error: str, base: DictConfig) -> list[str] | None:
    """The overrides again where Hydra refused a new name in a mapping of free names (`data.policies={careful: 2}`), else None."""
    found = HYDRA_SAYS["unknown key"].search(error)
    if found is None:
        return None
    key = found[1]
    for name in (key, key.rpartition(".")[0]):
        node = OmegaConf.select(base, name) if name else None
        if (
            isinstance(node, DictConfig)
            and OmegaConf.get_type(node) is dict
            and any(text.startswith(f"{key}=") for text in overrides)
        ):
            return [f"++{text}" if text.startswith(f"{key}=") else text for text in overrides]
    return None


def restore(program: str, plain: Mapping[str, Any]) -> DictConfig:
    """A composed configuration again from its plain container, typed by the program's schema."""
    from hydra.core.config_store import ConfigStore

    load_program(program)
    schema = ConfigStore.instance().load(f"{Path(program).stem}_schema.yaml").node
    return cast(DictConfig, OmegaConf.merge(schema, OmegaConf.create(dict(plain))))


def _refuse_added_keys(config: DictConfig, program: str) -> None:
    """Hydra's `+key=value` adds keys that no schema knows; nothing would read them."""
    from dataclasses import fields, is_dataclass

    def walk(node: DictConfig, path: str) -> None:
        schema = OmegaConf.get_type(node)
        known = {f.name for f in fields(schema)} if is_dataclass(schema) else None
        for key in node:
            name = f"{path}{key!s}"
            if known is not None and key not in known:
                raise UsageError(f"{program} has no key {name!r}{near(name, keys_of(config))}. Take +{name}=... out.")
            inner = node._get_node(key)
            if isinstance(inner, DictConfig) and not inner._is_none() and not inner._is_interpolation():
                walk(inner, f"{name}.")

    walk(config, "")


def _refuse_values(config: DictConfig) -> None:
    """What no key means: a reference to nothing, a number that is not finite, and in schemas of rmlab itself a whole number below 0
    (they are counts and seeds; rewards and weights are no whole numbers)."""
    from omegaconf.errors import OmegaConfBaseException

    def walk(value: Any, name: str, node: Any, own: bool) -> None:
        if isinstance(node, DictConfig) and isinstance(schema := OmegaConf.get_type(node), type) and schema is not dict:
            own = schema.__module__.startswith(("rmlab.", f"{PROGRAMS_PACKAGE}."))
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(
                    inner,
                    f"{name}.{key}" if name else str(key),
                    node._get_node(key) if isinstance(node, DictConfig) else None,
                    own,
                )
        elif isinstance(value, list):
            for inner in value:
                walk(inner, name, None, own)
        elif isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name}={value}: a number has to be finite")
        elif isinstance(value, int) and own and value < 0:
            raise UsageError(f"{name}={value}: it is at least 0")

    try:
        walk(OmegaConf.to_container(config, resolve=True), "", config, False)
    except OmegaConfBaseException as error:
        raise UsageError(f"{error.full_key}: {_lower(str(error).splitlines()[0])}") from error


def keys_of(config: DictConfig, path: str = "") -> list[str]:
    """Dotted keys of a configuration, groups and leaves."""
    found = []
    for key in config:
        found.append(f"{path}{key!s}")
        inner = config._get_node(key)
        if isinstance(inner, DictConfig) and not inner._is_none() and not inner._is_interpolation():
            found += keys_of(inner, f"{path}{key!s}.")
    return found


def near(name: str, known: Iterable[str]) -> str:
    """` (did you mean X or Y?)`, empty where nothing is near. The last part of a dotted name counts most."""
    names = list(known)
    matches = difflib.get_close_matches(name, names, n=2, cutoff=0.7)
    if not matches:
        tails = {key.rsplit(".", 1)[-1]: key for key in reversed(names)}
        matches = [tails[t] for t in difflib.get_close_matches(name.rsplit(".", 1)[-1], list(tails), n=2, cutoff=0.75)]
    return f" (did you mean {' or '.join(matches)}?)" if matches else ""


def _one_line(error: Exception, program: str, known: list[str], renamed: Mapping[str, str]) -> str:
    """Hydra's words in one line, with the near matches that Hydra does not name.

    renamed: a key of before -> the key to give in its place or, where none does the same, what to do now.
    """
    text = str(error)
    if found := HYDRA_SAYS["unknown key"].search(text):
        if found[1] in renamed:
            now = renamed[found[1]]
            return f"{program} has no key {found[1]!r} any more: {now if ' ' in now else f'give {now} in its place'}."
        return (
            f"{program} has no key {found[1]!r}{near(found[1], known)}. Its keys stand in the configuration classes that "
            "conf/README.md names."
        )
    if found := HYDRA_SAYS["unknown choice"].search(text):
        group, _, choice = found[1].rpartition("/")
        options = HYDRA_SAYS["choices"].search(text)
        there = options[1].split() if options else []
        return f"{group or program}={choice}: there is no such choice{near(choice, there)}; there are: {', '.join(there) or 'none'}"
    if found := HYDRA_SAYS["wrong value"].search(text):
        reason = str(error.__cause__).splitlines()[0] if error.__cause__ else "it does not fit"
        return f"{found[1].strip()}: {_lower(reason)}"
    if found := HYDRA_SAYS["several values"].search(text):
        return f"{found[1]}: one value at a time; a list is written KEY=[a,b]"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{program}: {'; '.join(lines[:2])}"


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
