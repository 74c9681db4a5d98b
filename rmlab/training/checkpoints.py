"""A training state on disk, so that a killed run continues exactly where it was, on however many GPUs it then has.

One process, or rank 0 of several that have the whole model each, writes one safetensors file (weights, moments of the optimiser, the
state of the random generators; step and history as JSON in its header); several processes with a sharded model write a folder with
one file each, which holds their rows of every weight. Either is renamed into place as a whole, so there is always the last checkpoint
or the one before. Nothing is unpickled.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.training.ranks import ALONE, Ranks
from rmlab.training.sharding import is_sharded, rows

FORMAT = 1
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def save_checkpoint(
    path: Path, model: Any, optimizer: torch.optim.Optimizer, state: dict[str, Any], ranks: Ranks = ALONE
) -> None:
    """Writes weights that learn, their moments, random state and `state` (JSON values: step, history, what the run is).

    path: of the file of one process; the folder of several stands beside it, and the older of the two is removed. Where each of several
    ranks has the whole model, rank 0 writes the file.
    """
    if ranks.number > 1 and not is_sharded(model):
        if ranks.is_first:
            save_checkpoint(path, model, optimizer, state)
        ranks.wait()
        return
    tensors = {"rng": torch.get_rng_state()}
    if _on_cuda(model):
        tensors["rng_cuda"] = torch.cuda.get_rng_state()
    for name, parameter in _learning(model):
        tensors[f"weight/{name}"] = _here(parameter)
        for moment in MOMENTS:
            if moment in (kept := optimizer.state.get(parameter, {})):
                tensors[f"{moment}/{name}"] = _here(kept[moment])
    place = path if ranks.number == 1 else _folder(path, state["step"])
    writing = path.with_name(f".{path.stem}.writing")
    if ranks.number > 1 and ranks.is_first:
        shutil.rmtree(writing, ignore_errors=True)
        writing.mkdir(parents=True)
    ranks.wait()
    with atomic_path(path if ranks.number == 1 else writing / f"rank{ranks.index:04}.safetensors") as temporary:
        save_file(tensors, temporary, metadata={"format": str(FORMAT), "state": json.dumps(state)})
    ranks.wait()
    if not ranks.is_first:
        return
    if ranks.number > 1:
        shutil.rmtree(place, ignore_errors=True)
        writing.rename(place)
        path.unlink(missing_ok=True)
    for older in _folders(path):
        if older != place:
            shutil.rmtree(older)


def load_checkpoint(
    path: Path, model: Any, optimizer: torch.optim.Optimizer, run: str, ranks: Ranks = ALONE
) -> dict[str, Any] | None:
    """Puts a checkpoint's tensors into model and optimizer and returns its `state`; None where there is none.

    run: fingerprint of the run that asks; a checkpoint of another run (its data or settings changed) raises DataError,
    and so does a file that cannot be read. It may have been written by another number of ranks.
    """
    candidates = [[path]] * path.is_file() + [sorted(folder.glob("rank*.safetensors")) for folder in _folders(path)]
    states = [(_state(files[0], run), files) for files in candidates if files]
    ranks = ranks if is_sharded(model) else ALONE  # each that has the whole model reads all of it
    if not states:
        return None
    state, files = max(states, key=lambda one: int(one[0].get("step", 0)))
    try:
        with ExitStack() as stack, torch.no_grad():
            parts = [stack.enter_context(safe_open(file, framework="pt")) for file in files]
            names = set(parts[0].keys())
            for name, parameter in _learning(model):
                _put(parameter, _rows(parts, f"weight/{name}", ranks))
                kept = {m: _rows(parts, f"{m}/{name}", ranks) for m in MOMENTS if f"{m}/{name}" in names}
                if kept:  # the fused step is there too
                    optimizer.state[parameter] = {m: _like(parameter, tensor) for m, tensor in kept.items()}
            torch.set_rng_state(parts[0].get_tensor("rng"))
            if "rng_cuda" in names and _on_cuda(model):
                torch.cuda.set_rng_state(parts[0].get_tensor("rng_cuda"))
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from error
    return state


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file of weights that was kept beside a checkpoint. Raises DataError where it cannot be read."""
    with _readable(path):
        return load_file(path)


def check_weights(path: Path) -> None:
    """Raises DataError, as `load_weights` does, where such a file is not there or not whole; reads its header alone."""
    with _readable(path), safe_open(path, framework="pt"):
        pass


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise DataError(
            f"{path} is not a readable file of weights ({error}), and the checkpoint beside it needs it. Copy both again, or delete "
            "both; the run then starts from the beginning."
        ) from error


def _state(file: Path, run: str) -> dict[str, Any]:
    try:
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
        state: dict[str, Any] = json.loads(metadata["state"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise _unreadable(file, error) from error
    if metadata.get("format") != str(FORMAT) or state.get("run") != run:
        raise DataError(
            f"{file} is the checkpoint of another run (its data, settings or format differ). Delete it; the run "
            "then starts from the beginning."
        )
    return state


def _unreadable(path: Path, error: Exception) -> DataError:
    return DataError(
        f"{path} is not a readable checkpoint ({error}). Delete it; the run then starts from the beginning."
    )


def _rows(parts: list[Any], name: str, ranks: Ranks) -> torch.Tensor:
    """The rows of a tensor that a rank holds, from the files in which they lie; of the optimiser's step, the number."""
    slices = [part.get_slice(name) for part in parts]
    if not slices[0].get_shape():
        return parts[0].get_tensor(name)  # type: ignore[no-any-return]
    sizes = [int(one.get_shape()[0]) for one in slices]
    first, last = rows(sum(sizes), ranks)
    kept, begin = [], 0
    for one, size in zip(slices, sizes, strict=True):
        low, high = max(first - begin, 0), min(last - begin, size)
        if low < high:
            kept.append(one[low:high])
        begin += size
    return torch.cat(kept) if kept else slices[0][0:0]


def _put(parameter: torch.nn.Parameter, tensor: torch.Tensor) -> None:
    (parameter.to_local() if hasattr(parameter, "to_local") else parameter).copy_(tensor)


def _like(parameter: Any, tensor: torch.Tensor) -> torch.Tensor:
    """A moment's rows as the optimiser keeps them beside such a weight."""
    tensor = tensor.to(parameter.device)
    if not tensor.ndim or not hasattr(parameter, "device_mesh"):
        return tensor
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        tensor, parameter.device_mesh, parameter.placements, shape=parameter.shape, stride=parameter.stride()
    )


def _here(tensor: torch.Tensor) -> torch.Tensor:
    """What of a tensor lies on this rank, on the CPU."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.detach().cpu().contiguous()


def _folder(path: Path, step: int) -> Path:
    return path.with_name(f"{path.stem}-step{step}")


def _folders(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.stem}-step*"))


def _learning(model: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """What is frozen is not stored: under adapters it is nearly everything."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def _on_cuda(model: Any) -> bool:
    return any(parameter.is_cuda for _, parameter in model.named_parameters())
