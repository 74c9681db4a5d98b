"""Takes a function of the standard library out of a process, so that no program can answer its task by importing it.

Removed are the function, what it wraps, its accelerator in C, and every place that holds one of them: modules that
export it, aliases, classes, tables, default values, closures. Nothing holds it afterwards, so it is freed, and
`gc.get_objects` does not find it either; `modules.load_all` has taken away the ways to load a module a second time.
Functions that call it fail from then on: they would be another way to it. What this does not keep out: a program that reads
the library's files, where isolation leaves them in sight (`isolation`, the level `limits`), or its memory through `ctypes`.
"""

import gc
import sys
from collections.abc import Iterator
from types import CellType, FunctionType
from typing import Any


def remove(function_id: str) -> None:
    """function_id: module.name, as in a task. Does nothing where the module is not loaded."""
    objects = list(_same_function(*function_id.rpartition(".")[::2]))
    if not objects:
        return
    gc.unfreeze()  # or nothing of what was loaded before the fork would be looked at
    while objects:
        _release(objects.pop())
    gc.freeze()


def _same_function(module: str, name: str) -> Iterator[Any]:
    """The function by its name and those of its other versions (`py_f`, `c_f`, `_module.f`), and what each wraps."""
    if module not in sys.modules:
        return
    plain = name.removeprefix("py_")
    for home in (module, f"_{module.partition('.')[0]}"):
        for version in dict.fromkeys((name, plain, f"c_{plain}")):
            function = vars(sys.modules[home]).get(version) if home in sys.modules else None
            while callable(function):
                yield function
                function = getattr(function, "__wrapped__", None)


def _release(held: Any) -> None:
    """Takes the object out of all that holds it.

    No comprehension and no loop over the holders here: the cell or the list would hold what is to be let go.
    """
    holders = gc.get_referrers(held)
    while holders:
        holder = holders.pop()
        if isinstance(holder, dict):
            for key, value in list(holder.items()):
                if value is held:
                    _forget(holder, key)
        elif isinstance(holder, list):
            for at in reversed(range(len(holder))):
                if holder[at] is held:
                    del holder[at]
        elif isinstance(holder, CellType):
            del holder.cell_contents
        elif isinstance(holder, FunctionType):
            if holder.__defaults__ is held:
                holder.__defaults__ = None
        elif isinstance(holder, tuple):
            _release(holder)


def _forget(names: dict[Any, Any], key: Any) -> None:
    """Deletes the key of a module's names, a class's, or any other dictionary."""
    owners = [] if "__spec__" in names else [owner for owner in gc.get_referrers(names) if isinstance(owner, type)]
    for owner in owners:
        if owner.__dict__.get(key) is names.get(key):
            delattr(owner, key)  # not in its dictionary: a class caches what it looked up there
    names.pop(key, None)
    if key in names.get("__all__", ()):
        names["__all__"] = [name for name in names["__all__"] if name != key]
