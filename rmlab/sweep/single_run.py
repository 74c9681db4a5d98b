"""One run by itself, outside a sweep: a finished one is not repeated, and one at work elsewhere is waited for."""

import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rmlab.stopping import says_how_to_go_on
from rmlab.tracking.dead_runs import LeaseMonitor, close_dead
from rmlab.tracking.leases import Done, Held, holder_words, replace
from rmlab.tracking.run_index import finished_run, runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.tags import FINISHED, command_line

if TYPE_CHECKING:
    from omegaconf import DictConfig

LOOK_SECONDS = 2.0
_jitter = random.SystemRandom()


def run_once(config: "DictConfig", config_hash: str, run: "Callable[[DictConfig], str]", force: bool = False) -> str:
    """Id of a finished run of a configuration: of the one that is there, of a process that is at work on it, or a new one.

    run: does it, as a run that holds a lease (`RunLogger.start(..., once=True)`), and returns its id. force: do it though it is
    finished; the new run takes the place of those that are.
    """
    store = Store.open(config.tracking.uri)
    if force:
        config.tracking.replaces = finished_runs(store, config_hash)
    replaces = list(config.tracking.replaces)
    while (done := finished_elsewhere(store, config_hash, replaces)) is None:
        try:
            with says_how_to_go_on(command_line(as_called=True)):
                run_id = run(config)
        except (Held, Done):
            time.sleep(_jitter.uniform(0.1, 1.0))
            continue
        if run_id in finished_runs(store, config_hash):
            replace(store, replaces, run_id)  # a run that a time limit stopped takes nobody's place
        return run_id
    return done


def finished_runs(store: Store, config_hash: str) -> list[str]:
    """Ids of all that are finished, of one configuration."""
    return [info.run_id for info in runs_of(store, config_hash) if info.status == FINISHED]


def finished_elsewhere(store: Store, config_hash: str, replaces: Sequence[str] = ()) -> str | None:
    """Id of the finished run of a configuration, for which who is at work on it is waited for; None where it is still to be done.

    replaces: finished runs that do not count.
    """
    monitor, announced = LeaseMonitor(), ""
    while True:
        tracked = runs_of(store, config_hash)
        whole = finished_run(info for info in tracked if info.run_id not in replaces)
        if whole is not None:
            print(f"finished already: {whole.name}, run {whole.run_id} (--force runs it again)")
            return whole.run_id
        holder = monitor.holder(tracked)
        if holder is None:
            close_dead(store, tracked, monitor)
            return None
        if announced != holder.run_id:
            announced = holder.run_id
            print(
                f"{holder.name} is at work in run {holder.run_id} by {holder_words(holder)}: waiting for it",
                file=sys.stderr,
                flush=True,
            )
        time.sleep(LOOK_SECONDS)
