"""A cell that another run already finished gets a run of its own, so that every sweep lists all its cells."""

from collections.abc import Mapping
from functools import partial

from rmlab.tracking.config import LEVEL_NUMBER
from rmlab.tracking.query import TrackedRun, get_run
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.store import Store
from rmlab.tracking.tags import AT_WORK, HOST, IMPORTED_AT, IMPORTED_RUN, LEFT_OUT, REPLACES, REUSED, SOURCE_RUN, STATUS


def log_reuse(
    store: Store,
    source: RunInfo,
    experiment: str,
    name: str,
    tags: Mapping[str, str],
    params: Mapping[str, str] | None = None,
) -> TrackedRun:
    """Logs a run of its own for a cell that another run already finished: its parameters, metrics with steps, and `source_run`.

    params: what this sweep says of the cell (`sweep_params`), in place of what the source's sweep said.
    """
    origin = get_run(store, source.tags.get(SOURCE_RUN) or source.run_id)
    own = {
        "sweep",
        "preset",
        "factor",
        "level",
        "arm",
        "baseline",
        "place",
        "kind",
        STATUS,
        HOST,
        *AT_WORK,
        IMPORTED_RUN,
        IMPORTED_AT,
        LEFT_OUT,
        REPLACES,
        REUSED,
        "replaced_by",
    }
    keep = {k: v for k, v in origin.tags.items() if k not in own}
    with RunLogger.start(
        store,
        experiment,
        name,
        kind=origin.tags["kind"],
        params={**(params or {}), **{k: v for k, v in origin.params.items() if k != LEVEL_NUMBER}},
        tags={**keep, **tags, SOURCE_RUN: origin.run_id},
    ) as run:
        for metric in (name for name in origin.metrics if name != LEVEL_NUMBER):
            rows = store.call(partial(store.client.get_metric_history, origin.run_id, metric))
            run.replay((row.key, row.value, row.step, row.timestamp) for row in rows)
    return get_run(store, run.run_id)
