"""What a run says of itself in its tags: their names, and how they are set and taken away. The lowest module of the package."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from rmlab.errors import StoreError
from rmlab.tracking.origin import PROCESS
from rmlab.tracking.store import Store

STATUS, RUNNING, FINISHED, FAILED, KILLED = "status", "running", "finished", "failed", "killed"
REPLACED = "replaced"
"""Finished, and another run took its place since."""
ERROR, TRACEBACK = "error", "traceback"
LEASE, BEAT = "lease", "beat"
AT_WORK = (PROCESS, LEASE, BEAT)
"""Tags that a run has only while somebody works on it."""
SOURCE_RUN, CONFIG_HASH, CONTROL_HASH, REPLACES = "source_run", "config_hash", "control_hash", "replaces"
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
                f"{name!r} cannot name a metric or parameter: letters, digits and _ - . : / or a space, at most 250, "
                "each part between slashes begins with a letter, a digit or _"
            )


def texts(values: Mapping[str, Any], longest: int | None = None) -> dict[str, str]:
    """Plain values as the store holds them; None is left out; cut at `longest` characters."""
    found = {name: str(value) for name, value in values.items() if value is not None}
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
