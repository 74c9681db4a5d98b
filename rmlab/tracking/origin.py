"""Where a run comes from: commit, host, process. Tags only: none of it identifies a run."""

import getpass
import os
import platform
import shlex
import subprocess
import sys
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


def this_process() -> str:
    """Process id and start time: ids are given again, the pair is not."""
    return _process(psutil.Process())


def _process(process: psutil.Process) -> str:
    return f"{process.pid}@{process.create_time():.2f}"


def is_alive(host: str, process: str) -> bool | None:
    """Whether the process of a run still lives; None where this host cannot know (another host, no record)."""
    if host != platform.node() or "@" not in process:
        return None
    try:
        found = psutil.Process(int(process.split("@")[0]))
        return _process(found) == process and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


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
