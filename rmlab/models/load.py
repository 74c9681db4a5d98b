"""A causal language model read from a local folder: safetensors only, no code from the folder is run."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.models.config import ModelConfig

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer

BASE = "base.json"  # written beside a base of our own by `rmlab pretrain`: what it has read


def load_model(folder: Path, *, classifier: bool = False, dtype: str = "float32") -> Any:
    """The model on the CPU. classifier: with a classification head in place of a language model's. dtype: of its weights.

    Raises DataError where the folder holds none that transformers itself knows, or not all of its weights.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    from rmlab.models.moe import use_grouped_experts

    no_bars()
    auto: Any = AutoModelForSequenceClassification if classifier else AutoModelForCausalLM

    if not (folder / "config.json").is_file():
        raise DataError(
            f"{folder} has no model (config.json is missing). Name a local folder with a model in safetensors, or hf:NAME on "
            "the hub if there is a network."
        )
    try:
        model, loading = auto.from_pretrained(
            str(folder),
            dtype=getattr(torch, dtype),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError) as error:
        raise DataError(
            f"{folder} holds no loadable model ({str(error).splitlines()[0]}). It needs safetensors and an "
            "architecture that this transformers knows."
        ) from error
    if missing := sorted(loading["missing_keys"]):
        raise DataError(
            f"{folder} lacks {len(missing)} weights of its architecture, first {missing[0]}: they would be "
            "random. Fetch the whole folder again."
        )
    model.config.use_cache = False
    use_grouped_experts(model)
    return model


def fit_rows(model: Any, tokenizer: "Tokenizer", name: str) -> None:
    """Gives a model a row for each token of its tokenizer: markers that were added begin as its BOS and its EOS, which also open and
    close, or as the mean of all where it has none.

    name: of the model. Raises DataError where it has fewer rows than its tokenizer has tokens of its own.
    """
    import torch

    from rmlab.models.tokenizer import IM_END, IM_START

    rows, own = int(model.get_input_embeddings().weight.shape[0]), tokenizer.size - 2 * tokenizer.markers_added
    if rows < own:
        raise DataError(f"{name}: the model knows {rows} tokens, its tokenizer {own}: they do not belong together")
    if not tokenizer.markers_added:
        return
    if rows < tokenizer.size:
        model.resize_token_embeddings(tokenizer.size, mean_resizing=False)
    hf = tokenizer.hf
    with torch.no_grad():
        for weight in {id(t): t.weight for t in (model.get_input_embeddings(), model.get_output_embeddings())}.values():
            for marker, like in ((IM_START, hf.bos_token_id), (IM_END, hf.eos_token_id)):
                first = weight[:own].float().mean(0) if like is None else weight[int(like)].clone()
                weight[hf.convert_tokens_to_ids(marker)] = first


def folder_identity(folder: Path) -> str:
    """Of every file of a pretrained model: its weights change results as its tokenizer does. 16 hex digits."""
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
                f"{folder} is a base of `rmlab pretrain` without its {BASE}, so it is unknown whether it has read what it will "
                "be judged on. Fetch the whole folder again."
            )
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["tasks_fingerprint"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} does not say which tasks its text was kept clear of ({error!r}). Fetch the whole folder again."
        ) from error


def no_bars() -> None:
    """No progress bars of transformers' own: reading or writing one small file needs none."""
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers does not type it


def scratch_model(config: ModelConfig, vocab_size: int, seed: int) -> Any:
    """A `Qwen3ForCausalLM`, or `Qwen3MoeForCausalLM` where there are experts, in float32 on the CPU; embeddings tied.

    Linear weights are drawn from N(0, 1 / inputs), norms start at 1. Raises UsageError for a shape that is impossible.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    from rmlab.models.moe import use_grouped_experts

    if config.heads % config.kv_heads:
        raise UsageError(f"model.heads={config.heads} must be a multiple of model.kv_heads={config.kv_heads}")
    if config.head_dim % 2:
        raise UsageError(f"model.head_dim={config.head_dim} must be even (rotary positions)")
    if config.experts and not 1 <= config.experts_per_token <= config.experts:
        raise UsageError(
            f"model.experts_per_token={config.experts_per_token} must be 1 to model.experts={config.experts}"
        )
    shape: dict[str, Any] = {
        "vocab_size": vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.intermediate_size,
        "max_position_embeddings": config.max_positions,
        "tie_word_embeddings": True,
        "use_cache": False,
    }
    with torch.random.fork_rng(devices=[]):
        if config.experts:
            model: Any = Qwen3MoeForCausalLM(
                Qwen3MoeConfig(
                    **shape,
                    num_experts=config.experts,
                    num_experts_per_tok=config.experts_per_token,
                    moe_intermediate_size=config.expert_size,
                    norm_topk_prob=True,
                    router_aux_loss_coef=config.balance,
                )
            )
        else:
            model = Qwen3ForCausalLM(Qwen3Config(**shape))
    use_grouped_experts(model)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if parameter.ndim == 1:
                parameter.fill_(1.0)
            else:  # outputs × inputs, behind the expert's number where there are experts
                stream = torch.Generator().manual_seed(int(fingerprint([seed, name]), 16) % 2**63)
                parameter.normal_(0.0, 1 / math.sqrt(parameter.shape[-1]), generator=stream)
    return model
