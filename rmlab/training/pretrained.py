"""The pretrained model that a training starts from: which folder it is, and whether the learning rate suits its weights."""

import json
import math
import re
import sys
from functools import cache
from pathlib import Path
from typing import Protocol

from rmlab.errors import DataError, MissingModel, StoreError
from rmlab.models.config import LoraConfig, ModelConfig
from rmlab.paths import CONF
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.references import find_model
from rmlab.tracking.weights import MODEL
from rmlab.training.config import OptimizerConfig
from rmlab.training.ranks import says_for_all

HUB = "hf:"
FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja", "*.model")
CONFIG = "config.json"
LARGE = 50_000_000
"""Weights from which on a rate is judged: the smaller a model is, the higher the rate that it takes, and bases of our own are small."""
FITTING_RATES = {"all weights": 1e-5, "adapters": 1e-4}  # as conf/model/hf.yaml has them


class Start(Protocol):
    """Of the settings of a training: what it starts from, and how far each step goes from there."""

    model: ModelConfig
    lora: LoraConfig
    optimizer: OptimizerConfig
    tracking: TrackingConfig


def find_pretrained(settings: Start, *, warn: bool = True) -> None:
    """Puts the folder that `model.pretrained` names in its place. warn: say in one line where the learning rate does not fit;
    of several ranks the first one says it.

    Raises DataError as `pretrained_folder` does, and where `model` states another shape than the folder's model has.
    """
    if not settings.model.pretrained:
        return
    folder = pretrained_folder(settings.model.pretrained, settings.tracking.uri)
    settings.model.pretrained = str(folder)
    _check_shape(settings.model, folder)
    if not warn or not says_for_all():
        return
    if warning := warn_of_rate(folder, settings.optimizer.learning_rate, settings.lora.rank):
        print(warning, file=sys.stderr)


def pretrained_folder(name: str, uri: str | None = None) -> Path:
    """The folder of the model that `model.pretrained` names: a folder, hf:NAME or hf:NAME@REVISION of the hub, or a run or a cell
    that saved one (`rmlab.tracking.references`). uri: store of the run, None = the project's own.

    Raises MissingModel where there is none of that name, DataError where the hub's cannot be had.
    """
    if name.startswith(HUB):
        return fetched_from_hub(name)
    folder = Path(name)
    if folder.is_dir():
        return folder / MODEL if (folder / MODEL / CONFIG).is_file() and not (folder / CONFIG).is_file() else folder
    try:
        return find_model(name, CONFIG, uri).folder
    except (DataError, StoreError) as error:
        reason = str(error).rstrip(".")
        shipped = CONF / "model" / f"{Path(name).name}.yaml"
        if command := fetching_command(shipped):
            raise MissingModel(f"model.pretrained={name}: there is no such folder. Make it once: {command}") from error
        to_do = (
            f"The first lines of conf/model/{shipped.name} say how it is made."
            if shipped.is_file()
            else "Name a local folder with a model in safetensors, or hf:NAME on the hub if there is a network."
        )
        raise MissingModel(
            f"model.pretrained={name}: there is no such folder, and no run or cell with a model. {to_do} ({reason}.)"
        ) from error


def fetching_command(shipped: Path) -> str:
    """The command that fetches the model of a file of conf/model, as the comment at its beginning has it; empty where it has none."""
    if not shipped.is_file():
        return ""
    found = re.search(r"^#.*?(rmlab models fetch [^`\n]+)", shipped.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].strip() if found else ""


SHAPE = {
    "hidden_size": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
}
"""Fields of `model` by their names in config.json."""
FEW = 16
"""Tokens by which a vocabulary may differ from what is stated: answers that it lacks are added to it, and a cut ends at a whole word."""


def _check_shape(model: ModelConfig, folder: Path) -> None:
    """`model` names what a run was trained from: a folder of another model would make the name untrue. model=path and model=hf, which
    state no shape, take any."""
    default = ModelConfig()
    if all(getattr(model, name) == getattr(default, name) for name in SHAPE):
        return
    try:
        found = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        pairs = {f"model.{name}": (getattr(model, name), found.get(theirs)) for name, theirs in SHAPE.items()}
        stated, has = model.tokenizer.vocab_size, found.get("vocab_size")
        if isinstance(has, int) and abs(stated - has) > FEW:
            pairs["model.tokenizer.vocab_size"] = (stated, has)
    except (OSError, ValueError, AttributeError):
        return  # loading it says what is wrong with the folder
    for key, (stated, has) in pairs.items():
        if isinstance(has, int) and stated != has:
            raise DataError(
                f"{folder} is not the model that model={model.name} describes: {key} is {stated} there, but {has} in the folder. "
                f"For another model, use model=path model.pretrained={folder}."
            )


@cache
def fetched_from_hub(name: str) -> Path:
    """The folder of hf:NAME or hf:NAME@REVISION, fetched where it is not here yet. Raises DataError where it cannot be had."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    repository, _, revision = name.removeprefix(HUB).partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, allow_patterns=list(FILES)))
    except (OSError, ValueError, HfHubHTTPError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{name} cannot be fetched ({reason[:160]}). Check the name and the network, or copy the folder from a machine that has one "
            "and name it."
        ) from error


def warn_of_rate(folder: Path, learning_rate: float, rank: int) -> str | None:
    """What is to be said of a learning rate ten times above what fits so many pretrained weights; None where there is nothing.

    rank: of the adapters that are trained, 0 = all weights are. For full training see the model cards of Qwen and SmolLM2, for
    adapters Hu et al. 2021 (arXiv 2106.09685), table 11 and following.
    """
    trained = "adapters" if rank else "all weights"
    fitting = FITTING_RATES[trained]
    if learning_rate <= 10 * fitting or (weights := count_weights(folder)) < LARGE:
        return None
    return (
        f"optimizer.learning_rate={learning_rate:g} is far too high for training {trained} of a pretrained model of {weights:,} weights: "
        f"it may forget what it knows. About {fitting:g} is suitable, as in model=hf."
    )


def count_weights(folder: Path) -> int:
    """Numbers in the safetensors files of a folder, read off their headers."""
    from safetensors import safe_open

    total = 0
    for path in folder.glob("*.safetensors"):
        with safe_open(path, framework="pt") as file:
            total += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 (no iterator)
    return total
