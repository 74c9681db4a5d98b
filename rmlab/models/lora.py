"""Low-rank adapters: a model trained by a few per cent of its weights, which travel where the model itself would not.

peft trains and stores them. A model with adapters is wrapped in place: everything that reads `model.get_decoder()` goes on as
before, and what acts (`rmlab.models.generation`) takes `merged_weights`, the plain model that it amounts to.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from rmlab.errors import DataError, RmlabError
from rmlab.models.config import LoraConfig

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def with_adapters(model: Any, config: LoraConfig, seed: int) -> Any:
    """The model with adapters on every projection, drawn by seed; only they are trained. A rank of 0 gives the model back.

    Raises RmlabError where peft (the extra `rl`) is missing.
    """
    if not config.rank:
        return model
    peft = _peft()
    kind = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=list(TARGETS),
        bias="none",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return peft.get_peft_model(model, kind)


def has_adapters(model: Any) -> bool:
    """Whether `with_adapters` (or peft itself) wrapped the model."""
    return hasattr(model, "peft_config")


def plain_model(model: Any) -> Any:
    """The transformers model that adapters were put on (its modules are still the wrapped ones), or the model itself."""
    return model.get_base_model() if has_adapters(model) else model


@torch.no_grad()
def merged_weights(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """(name in the plain model, weight) of all parameters, adapters added in. What is tied comes once."""
    base = plain_model(model)
    layers = {name: module for name, module in base.named_modules() if hasattr(module, "lora_A")}
    for name, parameter in base.named_parameters():
        owner, _, _ = name.rpartition(".base_layer.")
        if owner in layers and name.endswith("base_layer.weight"):
            delta = sum(layers[owner].get_delta_weight(adapter) for adapter in layers[owner].active_adapters)
            yield name.replace(".base_layer.", "."), parameter + delta
        elif ".lora_" not in name:
            yield name.replace(".base_layer.", "."), parameter


def merged(model: Any) -> Any:
    """The plain model in float32 that a model with adapters amounts to; a model without comes back as it is.

    The model that was given is not to be used afterwards.
    """
    return model.float().merge_and_unload() if has_adapters(model) else model


def save_adapters(model: Any, folder: Path) -> Path:
    """Writes the adapters alone, in bfloat16, as safetensors with their configuration. The folder is made."""
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    state = {
        name: weight.detach().to("cpu", torch.bfloat16).contiguous()
        for name, weight in get_peft_model_state_dict(model, save_embedding_layers=False).items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    model.peft_config["default"].save_pretrained(str(folder))
    return folder


def load_adapters(model: Any, folder: Path, trainable: bool = False) -> Any:
    """The plain model with the adapters of a folder. Raises DataError where it holds none, or those of another model."""
    if not (folder / "adapter_model.safetensors").is_file():
        raise DataError(f"{folder} holds no adapters (adapter_model.safetensors is missing)")
    peft = _peft()
    try:
        return peft.PeftModel.from_pretrained(model, str(folder), is_trainable=trainable)
    except (RuntimeError, ValueError) as error:
        raise DataError(f"{folder} holds the adapters of another model ({str(error).splitlines()[0]})") from error


def _peft() -> Any:
    try:
        import peft
    except ModuleNotFoundError as error:
        raise RmlabError(
            "adapters need the package peft: pip install -e '.[rl]' -c constraints.txt, "
            "or train all weights (lora.rank=0)"
        ) from error
    return peft
