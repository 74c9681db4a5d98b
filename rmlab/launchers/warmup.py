"""Data and modules that all cells need are loaded once, by the fork server, before the first cell is forked from it.

A program names in `PRELOAD` the modules that it needs, and in `SHARED` what its cells read: a configuration key, and the function
that reads what the key names, as `module:function`. The function remembers what it read of which content. A cell finds it
remembered, or reads it itself: without a fork server, and where the file is another one since. A fork server gets both lists by its
environment, since it can import modules and nothing else.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rmlab.errors import RmlabError

if TYPE_CHECKING:
    from omegaconf import DictConfig

VARIABLE = "RMLAB_FORK_SERVER"
MODULE = "rmlab.launchers.preload"
"""What a fork server imports: it warms itself up."""

SharedRead = tuple[str, str]
"""`module:function`, and the value that it is called with."""


def shared_reads(configs: Sequence["DictConfig"], shared: Mapping[str, str]) -> list[SharedRead]:
    """What cells of these configurations read, each once, in order. shared: a program's `SHARED`."""
    from omegaconf import OmegaConf

    values = ((function, OmegaConf.select(config, key)) for config in configs for key, function in shared.items())
    return list(dict.fromkeys((function, str(value)) for function, value in values if value is not None))


@contextmanager
def warm_up_environment(modules: Sequence[str], reads: Sequence[SharedRead]) -> Iterator[None]:
    """A fork server that is started within imports these modules and reads these."""
    os.environ[VARIABLE] = json.dumps([list(modules), list(reads)])
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def warm_up() -> None:
    """Imports and reads what the environment names.

    A cell imports and reads anew what is missing here, only more slowly. So what goes wrong ends nothing: it is printed, but for a
    package that is not installed, and for a file that cannot be read, which each cell reports by its own name.
    """
    modules, reads = json.loads(os.environ.pop(VARIABLE, "[[], []]"))
    for module in modules:
        with _reported(f"import {module}"):
            import_if_installed(module)
    for function, value in reads:
        with _reported(f"call {function}"):
            read = named_function(function)
            with suppress(RmlabError):
                read(value)


def import_if_installed(module: str) -> None:
    """Imports a module unless its package, or one that it needs, is not installed. Raises ImportError for every other reason, such as
    a module that was renamed within its package."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or importlib.util.find_spec(package) is not None:
            raise


def named_function(name: str) -> Callable[[str], Any]:
    """The function that `module:function` names. Raises ImportError or AttributeError where there is none."""
    module, _, function = name.partition(":")
    found: Callable[[str], Any] = getattr(import_module(module), function)
    return found


@contextmanager
def _reported(what: str) -> Iterator[None]:
    """An error is printed and goes no further."""
    try:
        yield
    except Exception as error:
        print(
            f"rmlab: the fork server could not {what} ({type(error).__name__}: {error}), so each cell does it again",
            file=sys.stderr,
            flush=True,
        )
