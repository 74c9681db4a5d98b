"""Where a run comes from: commit, host, process. Tags only: none of it identifies a run."""

import getpass
import os
import platform
import shlex
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types

from rmlab.paths import REPOSITORY

HOST, PROCESS = "host", "process"


@cache
def commit() -> str:
    """The checkout's commit, with `+changes` where tracked files differ from it. Outside a checkout (a tree that was copied to a
    machine without its history) what $RMLAB_COMMIT says, else `unknown`."""
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
        return next(iter(os.environ.get("RMLAB_COMMIT", "").split()), "unknown")[:64]
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
        return False


def _process(pid: int) -> str:
    """Process id and start time. Linux counts the start from the boot, so a clock that is set while the process runs does not
    change it (psutil's `create_time` moves with the clock there)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # no such process, or no Linux
        return f"{pid}@{psutil.Process(pid).create_time():.2f}"
    return f"{pid}@{fields[19]}"


def origin_tags() -> dict[str, str]:
    """Tags of every run: who, where, from which commit, by which command."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's numeric user without a name
        user = str(os.getuid())
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return {
        "commit": commit(),
        HOST: platform.node(),
        PROCESS: this_process(),
        "mlflow.user": user,
        "mlflow.source.name": command[:500],
        "mlflow.source.type": "LOCAL",
    }
