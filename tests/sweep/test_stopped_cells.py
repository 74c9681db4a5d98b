"""A dry run says which cells go on from a checkpoint and how far they are, and gives the file's cost for the file's cells alone."""

import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from rmlab.errors import DataError
from rmlab.paths import portable
from rmlab.sweep.dry_run import description, redo_rule
from rmlab.sweep.plan import Cell
from rmlab.sweep.request import make_plan
from rmlab.sweep.spec import read_sweep
from rmlab.sweep.stopped_cells import damaged_checkpoint, has_checkpoint, trained_share
from rmlab.training.checkpoints import load_checkpoint, save_checkpoint
from tests.sweeping import TOY

CHOSEN = ["preset=one_arm", "levels=[1,2,3]", "baseline=1", "seeds=[0,1]"]


def cells() -> list[Cell]:
    return make_plan(TOY, CHOSEN, "").cells


def stopped(runs_folder: Path, cell: Cell, name: str, state: dict[str, Any]) -> None:
    """As a cell that ends in the middle leaves it."""
    model = torch.nn.Linear(2, 2)
    adam = torch.optim.AdamW(model.parameters())
    path = runs_folder / "cells" / cell.identity.config_hash / name
    path.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(path, model, adam, state)


def test_cells_with_a_checkpoint_are_said_to_be_resumed(runs_folder: Path) -> None:
    far, folds, old, begun, *untouched = cells()
    stopped(runs_folder, far, "checkpoint.safetensors", {"step": 9, "steps": 13})
    stopped(runs_folder, folds, "fold_1/checkpoint.safetensors", {"step": 9, "steps": 13})
    stopped(runs_folder, old, "checkpoint.safetensors", {"step": 9})
    unfinished = runs_folder / "cells" / begun.identity.config_hash / ".checkpoint.12-ab.safetensors"
    unfinished.parent.mkdir(parents=True)
    unfinished.touch()
    assert [trained_share(cell) for cell in cells()] == [9 / 13, *[None] * 5]
    lines = description(cells(), None, False, redo_rule(None, False)).splitlines()
    state = {cell.name: next(line for line in lines if f"  {cell.name} " in line) for cell in cells()}
    assert state[far.name].endswith("  to resume (69 % trained)")
    assert state[folds.name].endswith("  to resume"), "how far all folds are is not known"
    assert state[old.name].endswith("  to resume")
    for cell in (begun, *untouched):
        assert state[cell.name].endswith("  to run")
    assert lines[-1] == "3 levels x 2 seeds = 6 cells, 0 of 6 runs finished, 6 to run (3 of them from a checkpoint)"


def test_how_far_a_run_of_rl_is_follows_from_its_configuration(runs_folder: Path) -> None:
    cell = cells()[0]
    stopped(runs_folder, cell, "state.safetensors", {"step": 15})
    assert trained_share(cell) is None
    from omegaconf import open_dict

    with open_dict(cell.config):
        cell.config.rl = {"steps": 60}
    assert trained_share(cell) == 0.25


def test_other_weights_beside_a_checkpoint_say_nothing_of_the_steps(runs_folder: Path) -> None:
    cell = cells()[0]
    stopped(runs_folder, cell, "checkpoint.safetensors", {"step": 1, "steps": 2})
    (runs_folder / "cells" / cell.identity.config_hash / "best_000001.safetensors").write_bytes(b"short")
    assert trained_share(cell) == 0.5


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({}, True),
        ({"levels": [4000, 100, 1000]}, True),
        ({"baseline": 1000}, True),
        ({"levels": [500, 2000, 8000], "baseline": 2000}, False),
        ({"seeds": [0]}, False),
        ({"arms": ["epochs"]}, True),
        ({"arms": ["epochs", "steps"]}, False),
    ],
)
def test_the_cost_of_the_file_is_of_its_own_cells(changes: dict[str, Any], known: bool) -> None:
    spec = read_sweep("data_scale", "demo", changes)
    assert ("demo" in spec.cost) is known


def test_a_cost_of_cells_that_are_partly_done_is_said_to_be_of_the_whole(runs_folder: Path) -> None:
    found = make_plan("data_scale", ["preset=smoke"], "").cells
    said = "sweep at this preset, according to its file: under a minute on 2 CPU cores"
    assert description(found, None, False, redo_rule(None, False)).endswith(f"cost of the {said}")
    stopped(runs_folder, found[0], "checkpoint.safetensors", {"step": 1, "steps": 2})
    assert "cost of the whole sweep at this preset, what is done already included" in description(
        found, None, False, redo_rule(None, False)
    )


def test_weights_of_a_best_step_alone_are_nothing_to_go_on_from(runs_folder: Path) -> None:
    cell = cells()[0]
    key = cell.identity.config_hash
    stopped(runs_folder, cell, "best_000001.safetensors", {})
    assert not has_checkpoint(key)
    stopped(runs_folder, cell, "state.safetensors", {})
    assert has_checkpoint(key)


def cut(path: Path, kept: int) -> None:
    """Leaves the first bytes of a file, as a copy does that ends early; of a negative number all but so many."""
    path.write_bytes(path.read_bytes()[:kept])


@pytest.mark.parametrize("kept", [0, 7, 20, -1, -500])
def test_a_checkpoint_that_was_cut_is_not_resumed_but_named(kept: int, runs_folder: Path) -> None:
    short, whole, *_ = cells()
    for cell in (short, whole):
        stopped(runs_folder, cell, "checkpoint.safetensors", {"step": 9, "steps": 13})
    path = runs_folder / "cells" / short.identity.config_hash / "checkpoint.safetensors"
    cut(path, kept)
    with pytest.raises(DataError, match="not a readable checkpoint"):  # which the dry run foretells
        load_checkpoint(path, torch.nn.Linear(2, 2), torch.optim.AdamW(torch.nn.Linear(2, 2).parameters()), "")
    assert damaged_checkpoint(short.identity.config_hash) == path
    assert trained_share(short) is None
    assert not has_checkpoint(short.identity.config_hash)
    lines = description(cells(), None, False, redo_rule(None, False)).splitlines()
    [line] = [line for line in lines if f"  {short.name} " in line]
    assert line.endswith(
        f"  to run, but {portable(str(path))} is not a whole checkpoint: delete it, and the run starts from the beginning"
    )
    assert lines[-1].endswith("6 to run (1 of them from a checkpoint, 1 refused while a damaged checkpoint is there)")


def header_of(bytes_stated: int, text: bytes) -> bytes:
    return struct.pack("<Q", bytes_stated) + text


@pytest.mark.parametrize(
    "content",
    [
        header_of(1 << 62, b"{}"),
        header_of(2, b"[]"),
        header_of(27, b'{"a": {"data_offsets": []}}'),
        header_of(30, b'{"a": {"data_offsets": ["x"]}}'),
        header_of(8, b'{"a": 3}'),
    ],
)
def test_a_file_of_another_kind_is_a_damaged_checkpoint_too(content: bytes, runs_folder: Path) -> None:
    path = runs_folder / "cells" / "abc" / "checkpoint.safetensors"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a readable checkpoint"):
        load_checkpoint(path, torch.nn.Linear(2, 2), torch.optim.AdamW(torch.nn.Linear(2, 2).parameters()), "")
    assert damaged_checkpoint("abc") == path


def test_a_checkpoint_that_is_removed_meanwhile_is_in_nobodys_way(runs_folder: Path) -> None:
    path = runs_folder / "cells" / "abc" / "checkpoint.safetensors"
    path.parent.mkdir(parents=True)
    path.symlink_to(path.with_name("removed"))
    assert damaged_checkpoint("abc") is None


def test_one_file_that_was_cut_damages_the_checkpoint_of_several_ranks(runs_folder: Path) -> None:
    cell = cells()[0]
    for name in ("rank0000", "rank0001"):
        stopped(runs_folder, cell, f"checkpoint-step9/{name}.safetensors", {"step": 9, "steps": 13})
    assert has_checkpoint(cell.identity.config_hash)
    path = runs_folder / "cells" / cell.identity.config_hash / "checkpoint-step9" / "rank0001.safetensors"
    cut(path, -1)
    assert damaged_checkpoint(cell.identity.config_hash) == path


@pytest.mark.parametrize("state", [{"step": None, "steps": 3}, {"step": [1], "steps": 3}, {"step": -1, "steps": 3}, {}])
def test_a_state_that_says_no_step_gives_no_share(state: dict[str, Any], runs_folder: Path) -> None:
    [cell, *_] = cells()
    stopped(runs_folder, cell, "checkpoint.safetensors", state)
    assert trained_share(cell) is None
