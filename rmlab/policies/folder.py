"""A policy's model folder: what collection, evaluation and reinforcement learning start from, written whole or not at all.

Weights in bfloat16 in files that travel, the tokenizer, and policy.json with what it came from. Where adapters were trained
they are added in, and stand in adapters/ too: with the base's folder they are the same model (`rmlab models merge`), and they
travel in a few megabytes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.errors import DataError
from rmlab.files import atomic_folder, write_text

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer

RECORD = "policy.json"
SHARD = "15MB"  # of the saved weights: files of this size travel


def save_policy(
    folder: Path,
    model: Any,
    tokenizer: "Tokenizer",
    record: Mapping[str, Any],
    beside: Mapping[str, str] | None = None,
    known_by: tuple[str, ...] = (),
) -> None:
    """Writes the folder. model: on the CPU, not usable afterwards. beside: further texts by file name. known_by: files that a
    folder has which may be replaced (`rmlab.files.check_folder`)."""
    import torch

    from rmlab.models.load import no_bars
    from rmlab.models.lora import has_adapters, save_adapters

    no_bars()
    with atomic_folder(folder, known_by) as temporary:
        if has_adapters(model):
            save_adapters(model, temporary / "adapters")
            model = model.merge_and_unload()
        model.to(torch.bfloat16).save_pretrained(str(temporary), max_shard_size=SHARD)
        tokenizer.save(temporary)
        write_text(temporary / RECORD, json.dumps(dict(record), indent=1) + "\n")
        for name, text in (beside or {}).items():
            write_text(temporary / name, text)


def record_of(folder: Path) -> dict[str, Any]:
    """What policy.json says, {} where there is none (a model from elsewhere). Raises DataError where it is damaged."""
    path = folder / RECORD
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} is not readable ({error}), so it is unknown what this policy was trained on. Fetch the folder again."
        ) from error
    shapes = {"shown_clusters": list, "environment": dict}
    if not isinstance(record, dict) or any(
        not isinstance(record.get(key, shape()), shape) for key, shape in shapes.items()
    ):
        raise DataError(
            f"{path} is not the record of a policy, so it is unknown what it was trained on. Fetch the folder again."
        )
    return record


def holds(folder: Path, config_hash: str, trained: float) -> bool:
    """Whether the folder holds, whole, the policy of a configuration after a share of its training. A damaged one counts as none."""
    try:
        record = record_of(folder)
    except DataError:
        return False  # written again whole
    has_weights = any(folder.glob("*.safetensors"))
    return has_weights and (record.get("config_hash"), record.get("trained")) == (config_hash, trained)
