"""A program that a sweep can run in milliseconds, and that misbehaves when asked to."""

import errno
import math
import os
import signal
import time
from dataclasses import dataclass, field

from hydra.core.config_store import ConfigStore

from rmlab.errors import DataError
from rmlab.paths import runs_folder
from rmlab.progress import progress
from rmlab.stopping import EXIT_CODE, Stopped
from rmlab.sweep.cells import identify
from rmlab.sweep.factors import find_factors
from rmlab.tracking.config import TrackingConfig, sweep_tags
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store


@dataclass
class ToyData:
    scale: int = 1
    ratio: str = "1:1"
    label_ratio: str = "1:1"


@dataclass
class ToyOptimizer:
    learning_rate: float = 0.001


@dataclass
class ToyTraining:
    match: str = "epochs"
    reference_scale: int = 2
    threads: int = 1


@dataclass
class ToyRun:
    """seconds: a run takes. trouble: what happens at a level (error, data, exit, kill, memory, nan, late, full, lost, stall, stand still,
    endless, deaf, crowded, too large); level 0: prepare fails or changes the pool.
    """

    seed: int = 0
    data: ToyData = field(default_factory=ToyData)
    optimizer: ToyOptimizer = field(default_factory=ToyOptimizer)
    training: ToyTraining = field(default_factory=ToyTraining)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    seconds: float = 0.0
    trouble: dict[int, str] = field(default_factory=dict)


PRELOAD = ["rmlab.tracking.preload", "hydra"]
ConfigStore.instance().store(name="toy_schema", node=ToyRun)


def identity(config):
    changed = runs_folder() / "pool"
    pool = changed.read_text() if changed.exists() else "pool"
    return identify(
        config, pool=pool, tokenizer="none", semantics={"toy": 1}, factors=find_factors(config.tracking.factors)
    )


def prepare(configs):
    if configs[0].trouble.get(0) == "change":
        (runs_folder() / "pool").write_text("another pool")
    elif 0 in configs[0].trouble:
        raise DataError("data.scale=3 cannot be filled: two are there. Lower data.scale.")
    ledger("prepared", len(configs))


def run(config):
    who = identity(config)
    tags = {**sweep_tags(config.tracking), "config_hash": who.config_hash, "control_hash": who.control_hash}
    store, where = Store.open(config.tracking.uri), config.tracking
    if (
        config.trouble.get(config.data.scale) == "late"
        and not (late := runs_folder() / f"late-{who.config_hash}").exists()
    ):
        late.touch()  # as a run whose own limit of time is up
        logger = RunLogger.start(store, where.experiment, where.name, kind="toy", tags=tags, once=True)
        logger.fail(SystemExit())
        return logger.run_id
    with RunLogger.start(
        store,
        where.experiment or "toys",
        where.name or "toy",
        kind="toy",
        tags=tags,
        params={"seed": config.seed},
        once=True,
        replaces=where.replaces,
    ) as logger:
        ledger("start", who.config_hash, os.getpid(), os.getppid())
        print("hello from", config.tracking.name)
        with progress(config.tracking.name, 10, "steps") as advance:
            for step in range(10):
                logger.metrics(
                    {"train/loss": 1 / (step + 1), "train/score": -abs(config.data.scale - 7) + step / 100}, step
                )
                if config.seconds >= 1:
                    logger.flush()
                time.sleep(config.seconds / 10)
                advance(1)
        if config.trouble.get(config.data.scale) == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            ledger("deaf", who.config_hash)
        if config.trouble.get(config.data.scale) == "crowded":
            fill_gpu(who.config_hash)
        while (runs_folder() / "hold").exists():  # a test says when it ends
            time.sleep(0.02)
        trouble(config.trouble.get(config.data.scale))
        logger.metrics({"eval/auc_pooled": 0.5 + config.seed / 10})
        score = (
            math.nan if config.trouble.get(config.data.scale) == "nan" else -abs(config.data.scale - 7) + config.seed
        )
        logger.metrics({"eval_of/score": score, "eval_of/cost": config.data.scale * config.optimizer.learning_rate})
    ledger("end", who.config_hash, os.getpid())
    return logger.run_id


def fill_gpu(mine):
    """A GPU has memory for two cells, and three are to begin at first."""
    while len(others := said("start") - {mine}) < 2:
        time.sleep(0.02)
    if len(others - said("end")) > 1:
        raise RuntimeError(FULL_GPU)


def said(word):
    lines = (runs_folder() / "ledger").read_text().splitlines()
    return {key for said, key, *_ in map(str.split, lines) if said == word}


FULL_GPU = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which 2.19 MiB is free."


def trouble(kind):
    if kind == "error":
        raise RuntimeError("this cell has no luck")
    if kind == "too large":
        raise RuntimeError(FULL_GPU)
    if kind == "data":
        raise DataError("this cell has no data. Get some.")
    if kind == "memory":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
        bytearray(1 << 36)
    stalled = runs_folder() / "stalled"
    if kind == "lost":
        raise Stopped("the lease is lost.")
    if kind == "full":
        raise OSError(errno.ENOSPC, "No space left on device")
    if kind in ("stall", "stand still") and not stalled.exists():  # as on a machine that stood still once
        stalled.touch()
        if kind == "stand still":
            os._exit(EXIT_CODE)
        raise Stopped("the lease could not be renewed. The same command continues from the last checkpoint.")
    if kind == "endless":
        time.sleep(86400)
    if kind == "exit":
        os._exit(7)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)


def ledger(*words):
    with (runs_folder() / "ledger").open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")
