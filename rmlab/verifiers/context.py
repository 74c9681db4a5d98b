"""Has the model a position for every token of the context? Asked before a minute goes into reading and tokenising a pool."""

import json
from pathlib import Path

from rmlab.errors import RmlabError
from rmlab.models.config import ModelConfig
from rmlab.verifiers.config import PromptConfig


def check_context(model: ModelConfig, prompt: PromptConfig) -> None:
    """Raises RmlabError where the context is longer than the model has positions; of a pretrained one as far as its folder says."""
    if not model.pretrained:
        check_positions(model.max_positions, model, prompt)
        return
    try:
        stated = json.loads((Path(model.pretrained) / "config.json").read_text(encoding="utf-8")).get(
            "max_position_embeddings"
        )
    except (OSError, ValueError, AttributeError):
        return  # loading it says what is wrong with the folder
    if isinstance(stated, int):
        check_positions(stated, model, prompt)


def check_positions(positions: int, model: ModelConfig, prompt: PromptConfig) -> None:
    """The same for a known number of positions."""
    if prompt.max_tokens > positions:
        raise RmlabError(
            f"prompt.max_tokens={prompt.max_tokens} is longer than the {positions} positions of "
            f"{model.pretrained or f'model={model.name}'}: lower it, or raise model.max_positions of a model of random start"
        )
