"""A causal language model read from a local folder: safetensors only, no code from the folder is run."""

import json
from pathlib import Path
from typing import Any

from rmlab.errors import DataError
from rmlab.fingerprint import file_fingerprint, fingerprint

BASE = "base.json"  # written beside a base of our own by `rmlab pretrain`: what it has read


def load_model(folder: Path) -> Any:
    """The model in float32 on the CPU. Raises DataError where the folder holds none that transformers itself knows."""
    import torch
    from transformers import AutoModelForCausalLM

    no_bars()

    if not (folder / "config.json").is_file():
        raise DataError(
            f"{folder} holds no model (config.json is missing). Name a local folder with a model in safetensors; "
            "models are not downloaded here."
        )
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=torch.float32, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} holds no loadable model ({str(error).splitlines()[0]}). It needs safetensors and an "
            "architecture that this transformers knows."
        ) from error
    model.config.use_cache = False
    return model


def folder_identity(folder: Path) -> str:
    """Of every file of a pretrained model: its weights change results as its tokenizer does. 16 hex digits."""
    if not folder.is_dir():
        raise DataError(
            f"model.pretrained={folder}: there is no such folder. Models are not downloaded here; name a local one, or take a "
            "model of random start."
        )
    return fingerprint(
        sorted([p.name, file_fingerprint(p)] for p in folder.iterdir() if p.suffix in (".json", ".safetensors", ".txt"))
    )


def tasks_of_base(folder: Path) -> str | None:
    """Fingerprint of the tasks whose functions a base of our own was kept from reading; None for a model from elsewhere.

    Raises DataError where the folder is one that `rmlab pretrain` wrote, but the record is missing or says nothing of tasks.
    """
    path = folder / BASE
    if not path.is_file():
        if (folder / "log.json").is_file():
            raise DataError(
                f"{folder} is a base of `rmlab pretrain` whose {BASE} is missing: whether it has read what it will be judged "
                "on cannot be told. Fetch the whole folder again."
            )
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["tasks_fingerprint"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} does not say of which tasks its text was kept clear ({error!r}). Fetch the whole folder again."
        ) from error


def no_bars() -> None:
    """No progress bars of transformers' own: reading or writing one small file needs none."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers does not type it
