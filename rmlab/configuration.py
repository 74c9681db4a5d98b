"""Programs of experiments/ and their typed configurations, composed by Hydra, with one-line messages for errors.

Hydra only composes; it never runs anything here, so it writes no outputs/ or multirun/ folder.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from omegaconf import DictConfig, OmegaConf

from rmlab.configured_values import refuse_values, with_values
from rmlab.errors import UsageError
from rmlab.overrides import lower_first, one_line, opened, refuse_unread, unquoted
from rmlab.paths import CONF, PROGRAMS, PROGRAMS_PACKAGE, STARTER, runs_folder
from rmlab.wording import near

if TYPE_CHECKING:
    from hydra._internal.hydra import Hydra

    from rmlab.fingerprint import Identity


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


PLAIN = re.compile(r"[A-Za-z_]\w*(\.\w+)+=", re.ASCII)
"""How an override begins that sets one value, or a mapping of free names: its key has a dot, so it is no group."""
GROUP = re.compile(r"[A-Za-z_][\w/]*=(?!{)", re.ASCII)
"""How one begins whose key has no dot: it chooses of a group (`_chooses`), which no plain one undoes, or sets a value."""


def _chooses(program: str, override: str) -> bool:
    """Whether an override, whose key has no dot, may choose of a group: of a folder in `conf`, or one that a program registers."""
    from hydra.core.config_store import ConfigStore

    key = override.partition("=")[0]
    return "/" in key or key in ConfigStore.instance().repo or (config_folder(program) / key).is_dir()


def compose(program: str, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration of a program: `conf/PROGRAM.yaml` under the overrides, typed by the program's schema.

    A program that is named by its path has its `conf/` beside it. Raises UsageError, in one line, for an unknown key, group or
    value; near matches are named, and what replaces a key that is in the program's table `RENAMED`.

    Composing takes a tenth of a second, setting values a tenth of that: shipped groups are composed once a process, and values, with a
    dot in their key or without, set over them.
    """
    from omegaconf.errors import OmegaConfBaseException

    refuse_unread(overrides, multirun=False)
    if program.endswith(".py") or any(text.startswith("hydra.") for text in overrides):
        return _composed(program, overrides)  # from files that are not ours and may change
    load_program(program)
    plain = [text for text in overrides if PLAIN.match(text) or (GROUP.match(text) and not _chooses(program, text))]
    if not all(PLAIN.match(text) or GROUP.match(text) for text in overrides):
        return _composed(program, overrides)  # `++a.b=1` or `a={b: 1}` may set what a plain one sets: the last one wins
    try:
        config = with_values(_composed_once(program, tuple(text for text in overrides if text not in plain)), plain)
    except (UsageError, OmegaConfBaseException):
        config = None  # composing with all of them says what is wrong
    return _composed(program, overrides) if config is None else config


@lru_cache(maxsize=64)
def _composed_once(program: str, overrides: tuple[str, ...]) -> DictConfig:
    return _composed(program, overrides)


def _composed(program: str, overrides: Sequence[str]) -> DictConfig:
    """What `compose` gives, by Hydra."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    renamed: Mapping[str, str] = getattr(load_program(program), "RENAMED", {})
    register_resolvers()
    stem = Path(program).stem
    folder = config_folder(program)
    if not (folder / f"{stem}.yaml").is_file():
        raise UsageError(f"program {stem!r} has no configuration ({folder / f'{stem}.yaml'})")
    asked = list(overrides)
    while True:
        GlobalHydra.instance().clear()
        try:
            with initialize_config_dir(str(folder), version_base="1.3", job_name=stem):
                config = hydra_compose(stem, overrides=asked)
            break
        except (ValueError, TypeError) as error:  # a group chosen by a number, `=3` or `=[3]`
            if isinstance(error, TypeError) and not any(re.match(r"[+~]*[\w/@]+=\[", text) for text in asked):
                raise
            raise UsageError(
                f"{stem}: one of {' '.join(asked)} is not KEY=VALUE, for example data.scale=500 ({lower_first(str(error))})"
            ) from error
        except (HydraException, OmegaConfBaseException) as error:
            try:
                base = compose(program) if overrides else OmegaConf.create()
            except UsageError:
                base = OmegaConf.create()  # the shipped configuration itself is what is wrong: the message says how
            if (again := opened(asked, str(error), base)) is None:
                raise UsageError(unquoted(asked) or one_line(error, stem, keys_of(base), renamed)) from error
            asked = again
    _refuse_added_keys(config, stem)
    refuse_values(config)
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
                others = [one for one in keys_of(config) if one != name and not one.startswith(f"{name}.")]
                raise UsageError(f"{program} has no key {name!r}{near(name, others)}. Remove +{name}=...")
            inner = node._get_node(key)
            if isinstance(inner, DictConfig) and not inner._is_none() and not inner._is_interpolation():
                walk(inner, f"{name}.")

    walk(config, "")


def keys_of(config: DictConfig, path: str = "") -> list[str]:
    """Dotted keys of a configuration, groups and leaves."""
    found = []
    for key in config:
        found.append(f"{path}{key!s}")
        inner = config._get_node(key)
        if isinstance(inner, DictConfig) and not inner._is_none() and not inner._is_interpolation():
            found += keys_of(inner, f"{path}{key!s}.")
    return found
