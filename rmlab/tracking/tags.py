"""The tags of a run: their names, and how they are set and removed.

Where a run comes from: commit, host, process. Tags only: none of it identifies a run.
"""

import getpass
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # ships no types

from rmlab.errors import StoreError
from rmlab.paths import REPOSITORY, portable
from rmlab.tracking.store import Store

HOST, PROCESS = "host", "process"
UNKNOWN = "unknown"
"""A commit that nobody can tell."""


@cache
def commit() -> str:
    """The checkout's commit, with `+changes` where tracked files differ from it. Outside a checkout (a tree that was copied to a
    machine without its history) what $RMLAB_COMMIT says, else UNKNOWN."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return next(iter(os.environ.get("RMLAB_COMMIT", "").split()), UNKNOWN)[:64]
    return answer.stdout.strip()


@cache
def machine() -> str:
    """This boot of this host, and the space of its process ids: two containers of one name are two machines."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text()[:8])
        parts.append(str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]"))
    return "/".join(parts)


def this_process() -> str:
    """Process id, start time and machine: ids are given again, the three together are not."""
    return f"{_process(os.getpid())} {machine()}"


def is_alive(host: str, process: str) -> bool | None:
    """Whether the process of a run still lives; None where this machine cannot know (another machine, no record)."""
    known, _, where = process.partition(" ")
    if "@" not in known or not (where == machine() if where else host == platform.node()):
        return None
    pid = int(known.split("@")[0])
    try:
        return _process(pid) == known and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None if _is_hidden(pid) else False


def _is_hidden(pid: int) -> bool:
    """Whether there is a process of somebody else that this one is not shown (/proc mounted with hidepid, as on shared login nodes)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _process(pid: int) -> str:
    """Process id and start time. Linux counts the start from the boot, so a clock that is set while the process runs does not
    change it (psutil's `create_time` moves with the clock there)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # no such process, or no Linux
        return f"{pid}@{psutil.Process(pid).create_time():.2f}"
    return f"{pid}@{fields[19]}"


def rmlab_as_called() -> list[str]:
    """The words to type for rmlab: `rmlab`; where the search path has none, as it was called: by its path, or as `python -m rmlab`. For
    commands that are given to be typed as they stand; what only names a command says plain `rmlab`."""
    called = Path(sys.argv[0])
    if shutil.which("rmlab") is None:
        if called.name == "rmlab":
            return [sys.argv[0]]
        if called.parts[-2:] == ("rmlab", "__main__.py"):
            return [sys.orig_argv[0], "-m", "rmlab"]
    return ["rmlab"]


def command_line(as_called: bool = False) -> str:
    """This process' command as one types it again; `python -m rmlab` is `rmlab`. as_called: here, see `rmlab_as_called`."""
    name = Path(sys.argv[0]).name
    rmlab = rmlab_as_called() if as_called else ["rmlab"]
    return shlex.join([*(rmlab if name in ("rmlab", "__main__.py", "cli.py") else [name]), *sys.argv[1:]])


def origin_tags() -> dict[str, str]:
    """Tags of every run: who, where, from which commit, by which command."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's numeric user without a name
        user = str(os.getuid())
    return {
        "commit": commit(),
        HOST: platform.node(),
        PROCESS: this_process(),
        "mlflow.user": user,
        "mlflow.source.name": portable(command_line())[:500],
        "mlflow.source.type": "LOCAL",
    }


STATUS, RUNNING, FINISHED, FAILED = "status", "running", "finished", "failed"
STOPPED, KILLED = "stopped", "killed"
"""Ended before the work was done, through no fault of it: by its own word (Ctrl-C, a signal, a time limit, a full disk), or found dead."""
REPLACED = "replaced"
"""Finished, and another run took its place since."""
IN_MLFLOW = {
    FINISHED: "FINISHED",
    REPLACED: "FINISHED",
    FAILED: "FAILED",
    KILLED: "KILLED",
    STOPPED: "SCHEDULED",  # of its five words the one for work that is to go on; KILLED is shown as a failure
}
CONTINUED_BY = "continued_by"
"""Tag of a run that was stopped, killed or failed: the run of the same configuration that took its work up, or tried it again."""
ERROR, TRACEBACK = "error", "traceback"
LEASE, BEAT = "lease", "beat"
AT_WORK = (PROCESS, LEASE, BEAT)
"""Tags that a run has only while somebody works on it."""
SOURCE_RUN, CONFIG_HASH, CONTROL_HASH, REPLACES = "source_run", "config_hash", "control_hash", "replaces"
REUSED = "reused"
"""Tag of a run in a study's bundle that was logged for a cell which another run had finished: it holds what that one did."""
IMPORTED_RUN, IMPORTED_AT, LEFT_OUT = "imported_run", "imported_at", "left_out"
"""Tags of a run that came in a bundle: its id where it was made, when it was imported (whole), and which of its artifacts the
bundle had not."""
LONGEST_TAG = 7900

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_\-. :]*(/[A-Za-z0-9_][A-Za-z0-9_\-. :]*)*")


def check_names(names: Iterable[str]) -> None:
    """Raises ValueError for a name of a metric, parameter or tag that a store would refuse (in the middle of a run)."""
    for name in names:
        if not _NAME.fullmatch(name) or len(name) > 250:
            raise ValueError(
                f"{name!r} cannot name a metric or parameter: use letters, digits, spaces and _ - . : /, at most 250, "
                "each part between slashes beginning with a letter, a digit or _"
            )


def texts(values: Mapping[str, Any], longest: int | None = None) -> dict[str, str]:
    """Plain values as the store holds them, without the machine's paths; None is left out; cut at `longest` characters."""
    found = {name: portable(str(value)) for name, value in values.items() if value is not None}
    return {name: text[:longest] for name, text in found.items()} if longest else found


def set_tags(store: Store, run_id: str, values: Mapping[str, Any]) -> None:
    """Sets tags of a run, at once (None is left out)."""
    from mlflow.entities import RunTag

    check_names(values)
    rows = [RunTag(name, text) for name, text in texts(values, LONGEST_TAG).items()]
    if rows:
        store.call(lambda: store.client.log_batch(run_id, tags=rows))


def close(store: Store, run_id: str, status: str, tags: Iterable[str], end_time: int | None = None) -> None:
    """Gives a run its end and MLflow's status, then takes those of its `tags` away that say who is at work on it.

    end_time: milliseconds, None = now.
    """
    store.call(partial(store.client.set_terminated, run_id, status, end_time))
    for name in AT_WORK:
        if name in tags:
            with suppress(StoreError):  # its end counts; another process that closes it may have been quicker
                store.call(partial(store.client.delete_tag, run_id, name))
