"""Which run came after one of the same configuration that ended unfinished, so that views count each cell once."""

from collections import defaultdict

from rmlab.tracking.run_index import RunInfo, run_infos, runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.tags import CONFIG_HASH, CONTINUED_BY, FAILED, KILLED, STOPPED, set_tags

UNFINISHED = (STOPPED, KILLED, FAILED)


def take_up(store: Store, config_hash: str, run_id: str) -> None:
    """Says in the runs of a cell that ended unfinished that the run `run_id` goes on with it, or tries it again."""
    for run in runs_of(store, config_hash):
        if _is_last(run):
            set_tags(store, run.run_id, {CONTINUED_BY: run_id})


def name_successors(store: Store) -> None:
    """Says the same in runs that an earlier version wrote, and in those whose cell was run again on another machine and came in a bundle.

    The successor is the newest run of the cell, where it began later. A run that failed to replace a finished one has none.
    """
    by_hash: dict[str, list[RunInfo]] = defaultdict(list)
    for info in run_infos(store):
        if CONFIG_HASH in info.tags:
            by_hash[info.tags[CONFIG_HASH]].append(info)
    for found in by_hash.values():
        newest = max(found, key=lambda info: info.start_time)
        for run in found:
            if _is_last(run) and run.start_time < newest.start_time:
                set_tags(store, run.run_id, {CONTINUED_BY: newest.run_id})


def _is_last(run: RunInfo) -> bool:
    """Whether it ended unfinished and no later run of its cell is known."""
    return run.status in UNFINISHED and CONTINUED_BY not in run.tags
