"""One run by itself, beside sweeps: what is finished is not done again, what is at work elsewhere is waited for."""

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmlab.configuration import load_program, restore
from rmlab.launchers.hydra import cell_to_run
from rmlab.launchers.jobs import answer
from rmlab.tracking.leases import Done, Held, LeaseMonitor, close_dead, holder_words, replace
from rmlab.tracking.run_index import finished_run, runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.tags import FINISHED

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
    monitor, told = LeaseMonitor(), ""
    if force:
        config.tracking.replaces = [head.run_id for head in runs_of(store, config_hash) if head.status == FINISHED]
    replaces = list(config.tracking.replaces)
    while True:
        found = runs_of(store, config_hash)
        whole = finished_run(head for head in found if head.run_id not in replaces)
        if whole is not None:
            print(f"finished already: {whole.name}, run {whole.run_id} (--force runs it again)")
            return whole.run_id
        holder = monitor.holder(found)
        if holder is None:
            close_dead(store, found, monitor)
            try:
                run_id = run(config)
            except KeyboardInterrupt:
                print("\nStopped. The same command goes on from its last checkpoint.", file=sys.stderr)
                raise
            except (Held, Done):
                time.sleep(_jitter.uniform(0.1, 1.0))
                continue
            if finished_run(head for head in runs_of(store, config_hash) if head.run_id == run_id) is not None:
                replace(store, replaces, run_id)  # a run that a time limit stopped takes nobody's place
            return run_id
        if told != holder.run_id:
            told = holder.run_id
            print(
                f"{holder.name} is at work in run {holder.run_id} by {holder_words(holder)}: waiting for it",
                file=sys.stderr,
                flush=True,
            )
        time.sleep(LOOK_SECONDS)


@dataclass(frozen=True)
class HydraTask:
    """The task function that Hydra's launchers call: one cell, or one configuration of a program by itself."""

    program: str

    def __call__(self, config: Any) -> Any:
        """What `answer` says of a cell; the run id of a configuration by itself."""
        if (job := cell_to_run()) is not None:
            return answer(job)
        from omegaconf import OmegaConf

        program = load_program(self.program)
        own = restore(self.program, OmegaConf.to_container(config, resolve=True, enum_to_str=True))  # type: ignore[arg-type]
        return run_once(own, program.identity(own).config_hash, program.run)
