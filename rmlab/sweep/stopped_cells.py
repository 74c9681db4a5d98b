"""What a stopped cell left behind: whether there is a checkpoint from which it goes on, and how far it was. Read without torch, from the
headers of its files alone."""

import json
import os
import struct
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rmlab.paths import runs_folder
from rmlab.sweep.plan import Cell

FIRST_RANK = "rank0000"
BEST = "best_"
"""How files begin that hold the weights of a step alone (`rmlab.rl.learner.BestWeights`)."""
LONGEST_HEADER = 100_000_000
"""Bytes; safetensors refuses a file that states more."""
UNREADABLE = (OSError, struct.error, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading the header of something else raises, or of a file that is not whole."""


def has_checkpoint(key: str) -> bool:
    """Whether the cell of a config_hash was stopped with a checkpoint, of whichever program, and can go on from it."""
    return bool(_checkpoints(key)) and damaged_checkpoint(key) is None


def damaged_checkpoint(key: str) -> Path | None:
    """A checkpoint of the cell of a config_hash that is not whole (cut by a copy that ended early, say); None where there is none. The
    cell refuses to start until it is deleted."""
    return next((path for path in _checkpoints(key) if not _is_whole(path)), None)


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
    """The state in the header of a checkpoint (`rmlab.training.checkpoints`); None of any other file and of one that is not whole."""
    try:
        state = json.loads(_header(path)["__metadata__"]["state"])
    except UNREADABLE:
        return None
    return state if isinstance(state, dict) else None


def _is_whole(path: Path) -> bool:
    """Whether safetensors would read it. One that was removed meanwhile is in nobody's way."""
    try:
        _header(path)
    except FileNotFoundError:
        return True
    except UNREADABLE:
        return False
    return True


def _header(path: Path) -> dict[str, Any]:
    """Of a safetensors file: 8 bytes that say how long it is, itself as JSON, and then the tensors that it places.

    Raises one of UNREADABLE where the file is none, or does not end with its last tensor.
    """
    with path.open("rb") as file:
        [length] = struct.unpack("<Q", file.read(8))
        if length > LONGEST_HEADER:
            raise ValueError(f"a header of {length} bytes")
        header: dict[str, Any] = json.loads(file.read(length))
        size = os.fstat(file.fileno()).st_size
    end = max((tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"), default=0)
    if size != 8 + length + end:
        raise ValueError(f"{size} bytes in place of {8 + length + end}")
    return header
