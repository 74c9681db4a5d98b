"""A run that holds the lease of one cell, and what others see of it."""

import time

from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo, runs_of
from rmlab.tracking.store import Store


def begun(store: Store, **more) -> RunLogger:
    return RunLogger.start(store, "shared", "cell", kind="toy", tags={"config_hash": "abc"}, once=True, **more)


def seen(store: Store, after: float = 0.0) -> RunInfo:
    """The cell's only run, as if the store had been asked so many seconds from now."""
    [head] = runs_of(store, "abc")
    return type(head)(**{**head.__dict__, "asked": time.monotonic() + after})
