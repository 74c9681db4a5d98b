"""A causal language model read from a local folder: safetensors only, no code from the folder is run."""

from pathlib import Path
from typing import Any

from rmlab.errors import DataError


def load_model(folder: Path) -> Any:
    """The model in float32 on the CPU. Raises DataError where the folder holds none that transformers itself knows."""
    import torch
    from transformers import AutoModelForCausalLM

    no_bars()

    if not (folder / "config.json").is_file():
        raise DataError(f"{folder} holds no model (config.json is missing). Name a local folder with a model in safetensors; "
                        "models are not downloaded here.")
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=torch.float32, local_files_only=True, use_safetensors=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} holds no loadable model ({str(error).splitlines()[0]}). It needs safetensors and an "
                        "architecture that this transformers knows.") from error
    model.config.use_cache = False
    return model


def no_bars() -> None:
    """No progress bars of transformers' own: reading or writing one small file needs none."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers does not type it
