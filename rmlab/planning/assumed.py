"""What is assumed where a run's data or model is not there before it: lengths of attempts, what a policy will say, a model's shape.

Every assumption is noted.
"""

from dataclasses import dataclass, field
from pathlib import Path

from rmlab.errors import DataError
from rmlab.models.config import ModelConfig
from rmlab.models.cost import ModelShape, known_shape, read_shape, shape_of
from rmlab.paths import portable

EPISODE_TOKENS, ISSUE_TOKENS, SAID_TOKENS, EPISODE_TURNS = 300, 180, 40, 5
"""Of an attempt in micro-SWE by a language model: in all, in front of its first turn, said by it, and its turns
(experiments/benchmarks/README.md, rollouts; what stands in front of the first turn: 379 of 487 characters in the starter set)."""


@dataclass
class Assumed:
    """What is given in place of data. mean_tokens: of an attempt, whatever a file says."""

    mean_tokens: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def episode(self) -> int:
        """Tokens of an attempt in micro-SWE."""
        return self.mean_tokens or EPISODE_TOKENS

    def of_episode(self, tokens: int) -> int:
        """What has so many of EPISODE_TOKENS, in an attempt of this length."""
        return max(round(self.episode * tokens / EPISODE_TOKENS), 1)

    def note(self, text: str) -> None:
        """Said once."""
        if text not in self.notes:
            self.notes.append(text)


def model_shape(model: ModelConfig, assumed: Assumed) -> tuple[ModelShape, str]:
    """Shape and name of the model of a configuration: of its folder, of an open model by its name, or as it stands.

    Raises DataError where `pretrained` is neither a folder nor a known name, and the configuration states no shape either.
    """
    if not model.pretrained:
        return shape_of(model), model.name
    try:
        return named_shape(model.pretrained)
    except DataError:
        if (model.hidden_size, model.layers) == (ModelConfig.hidden_size, ModelConfig.layers):
            raise
        assumed.note(f"{portable(model.pretrained)} is not there: the shape that model={model.name} states")
        return shape_of(model), model.name


def named_shape(name: str) -> tuple[ModelShape, str]:
    """The same of a folder or of an open model's name. Raises DataError for another word."""
    folder = Path(name)
    if (folder / "config.json").is_file():
        return read_shape(folder), folder.name
    if (folder / "model" / "config.json").is_file():
        return read_shape(folder / "model"), folder.name
    known = known_shape(name)
    if known is None:
        raise DataError(
            f"model.pretrained={name}: there is no such folder, and no open model whose shape is known by that name. Name a folder "
            "with config.json (weights are not read), or a model such as Qwen3-0.6B or SmolLM2-135M."
        )
    return known
