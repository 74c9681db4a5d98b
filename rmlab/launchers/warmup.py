"""What all cells read alike is read once: by the fork server, before the first cell is forked from it.

A program says in `SHARED` what that is: a configuration key, and the function that reads what the key names, as `module:function`.
The function remembers what it read of which content. A cell finds it remembered, or reads it itself: without a fork server, and
where the file is another one since. A fork server is told by its environment, since it can import modules and nothing else.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

VARIABLE = "RMLAB_FORK_SERVER"
MODULE = "rmlab.launchers.preload"
"""What a fork server imports: it takes in what it was told."""

Reading = tuple[str, str]
"""`module:function`, and the value that it is called with."""


def readings(configs: Sequence["DictConfig"], shared: Mapping[str, str]) -> list[Reading]:
    """What cells of these configurations read, each once, in order. shared: a program's `SHARED`."""
    from omegaconf import OmegaConf

    values = ((function, OmegaConf.select(config, key)) for config in configs for key, function in shared.items())
    return list(dict.fromkeys((function, str(value)) for function, value in values if value is not None))


@contextmanager
def announced(modules: Sequence[str], reads: Sequence[Reading]) -> Iterator[None]:
    """A fork server that is started within imports these modules and reads these."""
    os.environ[VARIABLE] = json.dumps([list(modules), list(reads)])
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def take_in() -> None:
    """Imports and reads what the environment says.

    A module that is not installed is passed over. What cannot be read is left to the cells: each meets the same error and says it
    by its name.
    """
    modules, reads = json.loads(os.environ.pop(VARIABLE, "[[], []]"))
    for module in modules:
        with suppress(ImportError):
            import_module(module)
    for function, value in reads:
        module, _, name = function.partition(":")
        with suppress(Exception):
            getattr(import_module(module), name)(value)
