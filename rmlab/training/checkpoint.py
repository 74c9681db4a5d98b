"""A training state as one file, so that a killed run goes on exactly where it was.

One safetensors file (weights, moments of the optimiser, the state of the random generators; step and history as JSON in
its header) is renamed into place whole: there is the last checkpoint or the one before, and nothing is unpickled.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from rmlab.errors import DataError
from rmlab.files import atomic_path

FORMAT = 1
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def save_checkpoint(path: Path, model: Any, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Writes weights that learn, their moments, random state and `state` (JSON values: step, history, what the run is)."""
    tensors = {"rng": torch.get_rng_state()}
    if _on_cuda(model):
        tensors["rng_cuda"] = torch.cuda.get_rng_state()
    for name, parameter in _learning(model):
        tensors[f"weight/{name}"] = parameter.detach().cpu().contiguous()
        for moment in MOMENTS:
            if moment in (kept := optimizer.state.get(parameter, {})):
                tensors[f"{moment}/{name}"] = kept[moment].detach().cpu().contiguous()
    with atomic_path(path) as temporary:
        save_file(tensors, temporary, metadata={"format": str(FORMAT), "state": json.dumps(state)})


def load_checkpoint(path: Path, model: Any, optimizer: torch.optim.Optimizer, run: str) -> dict[str, Any] | None:
    """Puts a checkpoint's tensors into model and optimizer and returns its `state`; None where there is none.

    run: fingerprint of the run that asks; a checkpoint of another run (its data or settings changed) raises DataError,
    and so does a file that cannot be read.
    """
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no iterator)
        state: dict[str, Any] = json.loads(metadata["state"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DataError(
            f"{path} is not a readable checkpoint ({error}). Delete it; the run then starts anew."
        ) from error
    if metadata.get("format") != str(FORMAT) or state.get("run") != run:
        raise DataError(
            f"{path} is the checkpoint of another run (its data, settings or format differ). Delete it; the run "
            "then starts anew."
        )
    with torch.no_grad():
        for name, parameter in _learning(model):
            parameter.copy_(tensors[f"weight/{name}"])
            kept = {m: tensors[f"{m}/{name}"] for m in MOMENTS if f"{m}/{name}" in tensors}
            if kept:
                optimizer.state[parameter] = {
                    m: t.to(parameter.device) for m, t in kept.items()
                }  # the fused step is there too
    torch.set_rng_state(tensors["rng"])
    if "rng_cuda" in tensors and _on_cuda(model):
        torch.cuda.set_rng_state(tensors["rng_cuda"])
    return state


def _learning(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """What is frozen is not stored: under adapters it is nearly everything."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def _on_cuda(model: Any) -> bool:
    return any(parameter.is_cuda for _, parameter in model.named_parameters())
