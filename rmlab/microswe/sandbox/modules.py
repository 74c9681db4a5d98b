"""The part of the standard library that a program may import: all of it is loaded before the doors close.

A sandboxed process has no file system to import from, so what is not named here (nor loaded by what is) raises
ModuleNotFoundError, at every level of isolation alike. `importable` answers for one name.
"""

import _imp
import importlib
import sys

MODULES = (
    "__future__", "abc", "array", "ast", "base64", "binascii", "bisect", "builtins", "calendar", "cmath", "codecs",
    "collections", "collections.abc", "colorsys", "contextlib", "contextvars", "copy", "copyreg", "csv", "dataclasses",
    "datetime", "decimal", "difflib", "dis", "enum", "errno", "fnmatch", "fractions", "functools", "gc", "genericpath",
    "graphlib", "hashlib", "heapq", "html", "html.entities", "inspect", "io", "ipaddress", "itertools", "json",
    "keyword", "linecache", "locale", "logging", "math", "ntpath", "numbers", "operator", "os", "os.path", "pathlib",
    "pickle", "posixpath", "pprint", "queue", "quopri", "random", "re", "reprlib", "sched", "secrets", "shlex",
    "signal", "stat", "statistics", "string", "stringprep", "struct", "sys", "tempfile", "textwrap", "threading",
    "time", "timeit", "token", "tokenize", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid",
    "warnings", "weakref", "zlib", "zoneinfo",
    # what the above import while they run
    "_colorize", "_pylong", "_strptime", "annotationlib",
    "encodings.ascii", "encodings.latin_1", "encodings.utf_8", "encodings.utf_16", "encodings.utf_16_le",
    "encodings.utf_16_be", "encodings.utf_32", "encodings.utf_32_le", "encodings.utf_32_be", "encodings.utf_8_sig",
    "encodings.utf_7", "encodings.cp1252", "encodings.idna", "encodings.punycode", "encodings.hex_codec",
    "encodings.base64_codec", "encodings.rot_13", "encodings.unicode_escape", "encodings.raw_unicode_escape",
    "encodings.iso8859_1", "encodings.charmap",
)  # fmt: skip

LOADERS = (
    "create_builtin", "exec_builtin", "create_dynamic", "exec_dynamic", "find_frozen", "get_frozen_object", "init_frozen",
)  # fmt: skip
"""With these a module in C, or one that is frozen into Python, can be made afresh without a file."""


def importable(name: str) -> bool:
    """Whether a program can import the module of this (dotted) name."""
    return name in MODULES or any(module.startswith(f"{name}.") for module in MODULES)


def load_all() -> None:
    """Imports every module that programs may use, then takes away the ways to find others, or to load one a second time."""
    for name in MODULES:
        if name.partition(".")[0] in sys.stdlib_module_names:  # some came with a later Python
            importlib.import_module(name)
    sys.path.clear()
    sys.path_hooks.clear()
    sys.path_importer_cache.clear()
    sys.meta_path.clear()
    for name in LOADERS:
        vars(_imp).pop(name, None)  # not every Python has them all
