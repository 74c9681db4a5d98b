"""The policy being trained: its weights or adapters, its optimiser, and the start that it is compared with."""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.models.config import LoraConfig
from rmlab.models.cost import GRAPHED_WORK
from rmlab.models.load import load_model
from rmlab.models.lora import has_adapters, with_adapters
from rmlab.models.packed import packs
from rmlab.rl.graphed_rows import GraphedRows
from rmlab.training.checkpoints import check_weights, load_checkpoint, load_weights, save_checkpoint
from rmlab.training.config import OptimizerConfig
from rmlab.training.optimizer import adamw

Rates = dict[str, dict[str, dict[str, float]]]
"""Benchmark → way ("sampled", "greedy") → task_id to the share of its attempts that are resolved."""


@dataclass
class Learner:
    """A model that learns. adam: over its trainable parameters. device: the run's Accelerator. reference: the start, as a model
    inside the context that it gives (a frozen copy, or the model with its adapters off); None = no start is kept. graphs: for rows that are
    small enough, once there were some."""

    model: Any
    adam: torch.optim.Optimizer
    device: Any
    pad_id: int
    gradient_clip: float
    reference: Callable[[], AbstractContextManager[Any]] | None = None
    graphs: GraphedRows | None = None

    @property
    def packed(self) -> bool:
        """Whether attempts are packed into rows where they are trained on: on a GPU in bfloat16."""
        half = getattr(self.device, "mixed_precision", "no") == "bf16"
        return bool(self.device.device.type == "cuda" and half and packs(self.model))

    def prepare_rows(self, tokens: int) -> None:
        """Lets rows of at most so many tokens be read by CUDA graphs, where they pay."""
        pays = tokens * sum(p.numel() for p in self.model.parameters()) <= GRAPHED_WORK
        if pays and self.packed and self.device.device.type == "cuda":
            if self.graphs is not None and self.graphs.tokens == tokens:
                return
            self.graphs = GraphedRows(self.model.get_decoder(), tokens)

    @property
    def trainable(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]


def make_learner(
    folder: Path, lora: LoraConfig, optimizer: OptimizerConfig, seed: int, pad_id: int, device: Any
) -> Learner:
    """The policy of a folder on its device, in float32. Raises DataError where the folder holds no model."""
    model = with_adapters(load_model(folder), lora, seed)
    model = model.to(device.device).eval()  # no dropout: what acts is what learns
    frozen = None if has_adapters(model) else copy.deepcopy(model).requires_grad_(False)

    @contextmanager
    def reference() -> Iterator[Any]:
        if frozen is not None:
            yield frozen
        else:
            with model.disable_adapter():
                yield model

    return Learner(model, adamw(model, optimizer), device, pad_id, optimizer.gradient_clip, reference)


@dataclass
class RLState:
    """step: finished ones. drawn: tasks taken from the sampler. evaluated: the step of the last evaluation.

    held_out_before, held_out_after: rates before the first and after the last step, by benchmark, way and task; {} until they are
    measured. curve: a row an evaluation (its metrics and `step`).
    best_step, best: the evaluation with the highest pass@1 on validation (the first of equals), and that value.
    difficulty: log odds of tasks under the start, where a reward needs them. history: metrics as they were logged
    (name, value, step, milliseconds). seconds: of all slices.
    """

    step: int = 0
    evaluated: int = -1
    drawn: int = 0
    held_out_before: Rates = field(default_factory=dict)
    held_out_after: Rates = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)
    best_step: int = -1
    best: float = -1.0
    difficulty: dict[str, float] = field(default_factory=dict)
    history: list[list[Any]] = field(default_factory=list)
    seconds: float = 0.0


class Trainable:
    """A model's learning parameters by name: what a checkpoint holds."""

    def __init__(self, model: Any):
        self.model = model

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Those that have a gradient."""
        return ((name, p) for name, p in self.model.named_parameters() if p.requires_grad)


def save_state(path: Path, model: Any, adam: torch.optim.Optimizer, state: RLState, run: str) -> None:
    """Writes weights, moments and state. run: the config_hash; a state goes on in no other run."""
    save_checkpoint(path, Trainable(model), adam, {"run": run, **asdict(state)})


class BestWeights:
    """The weights of the best evaluation, in files named by step beside the state: a kill leaves those that the state knows of."""

    def __init__(self, folder: Path, model: Any):
        self.folder, self.own = folder, Trainable(model)

    def path(self, step: int) -> Path:
        return self.folder / f"best_{step:06d}.safetensors"

    def keep(self, step: int) -> None:
        with atomic_path(self.path(step)) as temporary:
            save_file({name: p.detach().cpu().contiguous() for name, p in self.own.named_parameters()}, temporary)

    def forget_all_but(self, step: int) -> None:
        """Removes the files of other steps; called when the state that names `step` is saved."""
        for path in self.folder.glob("best_*.safetensors"):
            if path != self.path(step):
                path.unlink()

    def check(self, step: int) -> None:
        """Raises DataError where the kept weights are gone or not whole."""
        if not self.path(step).is_file():
            raise DataError(
                f"{self.path(step)} is missing: the best weights belong to the state beside it, so copy both"
            )
        check_weights(self.path(step))

    def put_back(self, step: int) -> None:
        """Puts the kept weights into the model. Raises DataError where they are gone or cannot be read."""
        self.check(step)
        kept = load_weights(self.path(step))
        with torch.no_grad():
            for name, parameter in self.own.named_parameters():
                parameter.copy_(kept[name])


def load_state(path: Path, model: Any, adam: torch.optim.Optimizer, run: str) -> RLState:
    """The saved state, with weights and moments put back; a new one where there is none. Raises DataError for another run's."""
    state = load_checkpoint(path, Trainable(model), adam, run)
    if state is None:
        return RLState()
    state.pop("run")
    if "looked" in state:  # a state that was saved before this field had its present name
        state["evaluated"] = state.pop("looked")
    state.pop("gap_before", None)  # of such a state: the first row of its curve says it
    return RLState(**state)
