"""Runs that came from a bundle without their weights: which they are, and the command that trains one again.

Such a run is finished, and its metrics and tables are here, but nothing can score with it or start from it.
"""

import re
import shlex
from collections.abc import Iterable

from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.store import Store
from rmlab.tracking.tags import IMPORTED_RUN, LEFT_OUT

MODEL = "model"
TRAINED = ("verifier", "rl")
"""Kinds of runs that save a model."""
SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf", ".ckpt")


def are_weights(name: str) -> bool:
    """Whether an artifact that was left out is a model: a file of weights, or a folder (`model`, `folds/1/model`) other than that of
    pictures."""
    return name.endswith(SUFFIXES) or (bool(name) and "." not in name.split("/")[-1] and name != "figures")


def without_weights(store: Store, found: Iterable[RunInfo]) -> list[RunInfo]:
    """Those of the runs that were imported without a model. A run that reused another one's names no artifact that was left out, so
    its folder is looked at where the store is local."""
    from rmlab.tracking.query import get_run

    lacking = []
    for info in found:
        if IMPORTED_RUN not in info.tags:
            continue
        named = any(are_weights(name) for name in info.tags.get(LEFT_OUT, "").split(", "))
        folder = get_run(store, info.run_id).folder() if not named and info.tags.get("kind") in TRAINED else None
        if named or (folder is not None and not (folder / MODEL).exists()):
            lacking.append(info)
    return lacking


def training_command(run: RunInfo) -> str:
    """The command that trains a run again here: for a cell that of its sweep, with its level and seed and the baseline, which a sweep
    always has."""
    sweep, preset, level, baseline = (run.tags.get(name, "") for name in ("sweep", "preset", "level", "baseline"))
    if not (sweep and preset and level):
        return "the command that made it, with --force"
    levels = ",".join(dict.fromkeys([baseline or level, level]))
    words = ["rmlab", "sweep", sweep, f"preset={preset}", f"levels=[{levels}]"]
    words += [f"seeds=[{seed[1]}]"] if (seed := re.search(r" s(\d+)$", run.name)) else []
    words += [f"arms=[{run.tags['arm']}]"] if run.tags.get("arm") else []
    return f"`{shlex.join(words)} --force`"
