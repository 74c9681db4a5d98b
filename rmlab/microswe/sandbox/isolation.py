"""How far a program is shut off from the machine: the levels, and how a worker gets to one.

    namespaces   own user, mount, PID, network, IPC and host name space; an empty tmpfs as the only file system; PID 1 of
                 its own, so that whatever a program leaves is killed with one call; seccomp besides, where there is a table
    seccomp      the kernel's other means where namespaces are refused (a container's rules): only system calls of
                 computing, so no file, socket, process, thread or signal; on the machine's own file system and ids
    limits       resource limits alone: what neither Linux nor a known processor is. Not safe against malice,
                 so taken only where it is asked for

At every level: rlimits, an empty environment, no descriptor but the result channel, root becomes nobody.
A worker tries one level and fails as a whole where a step is refused: no level is reported that was not reached.

A program may import a part of the standard library, all of which is loaded before the doors close: a sandboxed process has no file
system to import from, so what MODULES does not name (nor loads) raises ModuleNotFoundError, at every level alike.
"""

import _imp
import errno
import gc
import importlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rmlab.microswe.sandbox import linux, seccomp
from rmlab.microswe.sandbox.records import Limits
from rmlab.microswe.sandbox.zygote import serve

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


LEVELS = ("namespaces", "seccomp", "limits")
WEAK = LEVELS[-1]
NAMESPACES = ("mount", "pid", "network", "ipc", "host name")
NOBODY = 65534
FOLDER_OPTIONS = "size=8m,nr_inodes=256,mode=0700"


@dataclass(frozen=True)
class IsolationLevel:
    """What shuts programs off from this machine. A run records it; `str` is one line for people.

    name: of LEVELS. namespaces: those that are new. seccomp: whether system calls are filtered. user: whose rights the
    programs have. reasons: why each better level was not reached.
    """

    name: str
    namespaces: tuple[str, ...]
    seccomp: bool
    user: str
    reasons: tuple[str, ...] = ()

    @property
    def weak(self) -> bool:
        """Whether programs can read and change what the caller can, end other processes, and so forge labels."""
        return self.name == WEAK

    def __str__(self) -> str:
        return f"{self.name}: {self.means}"

    @property
    def means(self) -> str:
        """By what programs are shut in, as whom they run, and what this machine does not allow."""
        means = [f"namespaces ({', '.join(self.namespaces)})"] * bool(self.namespaces) + ["seccomp"] * self.seccomp
        text = f"{' + '.join([*means, 'rlimits'])}, as {self.user}"
        return text + "".join(f"; no {reason}" for reason in self.reasons)


def start(level: str, limits: Limits) -> tuple[socket.socket, dict[str, Any]]:
    """Shuts this worker in and makes its zygote; the control socket to it, and the fields of the IsolationLevel.

    Raises OSError, with the step in its words, where the level cannot be had; the process is then of no use.
    """
    if level != WEAK and not linux.IS_LINUX:
        raise OSError(errno.ENOSYS, f"{level}: only Linux has it")
    load_all()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    memory = _address_space() + limits.memory_mb * 2**20
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("500")  # where the machine runs out of memory, programs go first
    caller = os.geteuid()
    namespaces = _enter_namespaces() if level == "namespaces" else ()
    with suppress(OSError):
        _become_nobody()
    call_filter = _give_up_rights(level) if linux.IS_LINUX else None
    errors = os.dup(2)
    os.dup2(null, 2)
    os.close(null)
    ours, theirs = socket.socketpair()
    lock = make_lock(limits, memory, call_filter, bound_to_parent=linux.IS_LINUX and not namespaces)
    gc.collect()
    gc.freeze()
    if not os.fork():
        try:
            ours.close()
            os.close(errors)
            serve(theirs, lock, own_namespace=bool(namespaces))
        finally:
            os._exit(0)
    theirs.close()
    os.dup2(errors, 2)  # the worker's own again: its parent reads there what went wrong in it
    os.close(errors)
    user = "the caller" if caller else "nobody" if os.geteuid() or "user" in namespaces else "root"
    return ours, {"name": level, "namespaces": namespaces, "seccomp": call_filter is not None, "user": user}


def _enter_namespaces() -> tuple[str, ...]:
    """New namespaces and an empty root, as root by right or else through a user namespace; the names of what is new."""
    if os.geteuid() == 0:
        try:
            linux.unshare(_flags())
        except OSError:
            with suppress(OSError):
                _become_nobody()
        else:
            linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)  # or the next mount shows outside
            _enter_empty_root(NOBODY)
            _become_nobody()
            return NAMESPACES
    user, group = os.geteuid(), os.getegid()
    linux.unshare(_flags() | linux.NEW_USER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{NOBODY} {user} 1"), ("gid_map", f"{NOBODY} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
            file.write(text)
    _enter_empty_root(NOBODY)
    return ("user", *NAMESPACES)


def _flags() -> int:
    return linux.NEW_MOUNT | linux.NEW_PID | linux.NEW_NET | linux.NEW_IPC | linux.NEW_UTS


def _enter_empty_root(owner: int) -> None:
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("none", "/tmp", "tmpfs", flags, f"{FOLDER_OPTIONS},uid={owner},gid={owner}")
    linux.enter_root("/tmp")


def _become_nobody() -> None:
    """Root gives itself up for good; nobody else changes. Raises OSError where even root may not (no CAP_SETUID)."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        if linux.IS_LINUX:
            linux.prctl(linux.PR_SET_DUMPABLE, 1)  # as before, so that /proc/self stays this process's own


def _give_up_rights(level: str) -> seccomp.Filter | None:
    """No capability, nothing to gain by exec, nothing to see by ptrace; the filter for the programs of this level."""
    if level == WEAK:
        with suppress(OSError):  # as far as it goes: this level promises none of it
            linux.drop_capabilities()
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
            linux.prctl(linux.PR_SET_DUMPABLE, 0)
        return None
    linux.drop_capabilities()
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    try:
        seccomp.check()
        return seccomp.Filter(files=level == "namespaces")
    except OSError:
        if level == "seccomp":
            raise
        return None


def make_lock(
    limits: Limits, memory: int, call_filter: seccomp.Filter | None, *, bound_to_parent: bool
) -> Callable[[], None]:
    """What a program's process does to itself before it touches the program. memory: bytes of address space."""
    seconds = int(limits.program_seconds) + 1  # a second fence: the worker looks at the time of calls
    wanted = {
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_FSIZE: (limits.file_kb * 1024,) * 2,
        resource.RLIMIT_NOFILE: (limits.descriptors,) * 2,
        resource.RLIMIT_NPROC: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    if linux.IS_LINUX:
        wanted[resource.RLIMIT_AS] = (memory, memory)
    bounds = [(name, _within_own(name, soft), _within_own(name, hard)) for name, (soft, hard) in wanted.items()]

    def lock() -> None:
        for name, soft, hard in bounds:
            resource.setrlimit(name, (soft, hard))
        if bound_to_parent:
            linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        if call_filter is not None:
            call_filter.install()

    return lock


def _within_own(name: int, bound: int) -> int:
    """The bound, or this process's own where that is tighter: no one may raise it."""
    _, own = resource.getrlimit(name)
    return bound if own == resource.RLIM_INFINITY else min(bound, own)


def _address_space() -> int:
    """Bytes of address space that this process has now (0 where the system does not say)."""
    if not linux.IS_LINUX:
        return 0
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[0]) * resource.getpagesize()
