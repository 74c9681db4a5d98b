"""What of a run are weights, and the command that trains a run again whose weights are not here.

Such a run came from a bundle without them, or they were deleted. It is finished, and its metrics and tables are here, but nothing can
score with it or start from it.
"""

import re
import shlex

from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.tags import rmlab_as_called

MODEL = "model"
SUFFIXES = (".safetensors", ".bin", ".pt", ".gguf", ".ckpt")
NO_WEIGHTS = ("figures", "episodes")
"""Folders of pictures and of pages."""


def are_weights(name: str) -> bool:
    """Whether an artifact that was left out is a model: a file of weights, or a folder (`model`, `folds/1/model`, that of a base) other
    than those of pictures and pages."""
    return name.endswith(SUFFIXES) or (bool(name) and "." not in name.split("/")[-1] and name not in NO_WEIGHTS)


def training_command(run: RunInfo, bare: bool) -> str:
    """The command that trains a run again here: for a cell that of its sweep, with its level and seed and the baseline, which a sweep
    always has. A cell of a grid, and a run of no sweep, are not named by such words. bare: the run has no weights; then a baseline that
    has its own is not trained again."""
    sweep, preset, level, baseline = (run.tags.get(name, "") for name in ("sweep", "preset", "level", "baseline"))
    if not (sweep and preset and level) or "=" in run.tags.get("arm", ""):
        return "the command that made it, with --force"
    levels = ",".join(dict.fromkeys([baseline or level, level]))
    words = [*rmlab_as_called(), "sweep", sweep, f"preset={preset}", f"levels=[{levels}]"]
    words += [f"seeds=[{seed[1]}]"] if (seed := re.search(r" s(\d+)$", run.name)) else []
    words += [f"arms=[{run.tags['arm']}]"] if run.tags.get("arm") else []
    flag = "--rerun-without-weights" if bare else "--force"
    return f"`{shlex.join(words)} {flag}`, with the overrides that the sweep was given, if there were any"
