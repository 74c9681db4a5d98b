"""A dry run says which cells go on from a checkpoint and how far they are, and gives the file's cost for the file's cells alone."""

from pathlib import Path
from typing import Any

import pytest
import torch

from rmlab.sweep.dry_run import description, redo_rule
from rmlab.sweep.plan import Cell
from rmlab.sweep.request import make_plan
from rmlab.sweep.spec import read_sweep
from rmlab.sweep.stopped_cells import has_checkpoint, trained_share
from rmlab.training.checkpoints import save_checkpoint
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
    folder = runs_folder / "cells" / "abc"
    folder.mkdir(parents=True)
    (folder / "best_000001.safetensors").touch()
    assert not has_checkpoint("abc")
    (folder / "state.safetensors").touch()
    assert has_checkpoint("abc")


@pytest.mark.parametrize("state", [{"step": None, "steps": 3}, {"step": [1], "steps": 3}, {"step": -1, "steps": 3}, {}])
def test_a_state_that_says_no_step_gives_no_share(state: dict[str, Any], runs_folder: Path) -> None:
    [cell, *_] = cells()
    stopped(runs_folder, cell, "checkpoint.safetensors", state)
    assert trained_share(cell) is None
