"""What a stopped cell left behind: whether there is a checkpoint from which it goes on, and how far it was. Read without torch."""

import json
import struct
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rmlab.paths import runs_folder
from rmlab.sweep.plan import Cell

FIRST_RANK = "rank0000"
BEST = "best_"
"""How files begin that hold the weights of a step alone (`rmlab.rl.learner.BestWeights`)."""
LONGEST_HEADER = 1 << 28
"""Bytes; a file that states more is no checkpoint."""


def has_checkpoint(key: str) -> bool:
    """Whether the cell of a config_hash was stopped with a checkpoint, of whichever program."""
    return bool(_checkpoints(key))


def trained_share(cell: Cell) -> float | None:
    """How much of its steps a stopped cell has made, from 0 to 1; None where that is not known: of several folds, of a training whose
    steps are not known, without a checkpoint."""
    folder = runs_folder() / "cells" / cell.identity.config_hash
    shares = []
    for path in _checkpoints(cell.identity.config_hash):
        place = path.parent if path.stem == FIRST_RANK else path
        state = _state(path)
        if state is None or place.parent != folder:
            continue
        step, steps = state.get("step", 0), state.get("steps") or OmegaConf.select(cell.config, "rl.steps")
        if isinstance(step, int) and isinstance(steps, int) and step >= 0 and steps > 0:
            shares.append(min(step / steps, 1.0))
    return max(shares, default=None)


def _checkpoints(key: str) -> list[Path]:
    """One that was not written to its end has a name with a dot; the weights of a best step alone are no state to go on from."""
    folder = runs_folder() / "cells" / key
    there = [path for path in folder.rglob("*.safetensors") if "/." not in f"/{path.relative_to(folder)}"]
    return [path for path in there if not path.name.startswith(BEST)]


def _state(path: Path) -> dict[str, Any] | None:
    """The state in the header of a checkpoint (`rmlab.training.checkpoints`); None of any other file."""
    try:
        with path.open("rb") as file:
            [length] = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length)) if length < LONGEST_HEADER else {}
        state = json.loads(header["__metadata__"]["state"])
    except (OSError, struct.error, ValueError, KeyError, TypeError, RecursionError):
        return None
    return state if isinstance(state, dict) else None
