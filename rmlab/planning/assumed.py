"""What is known of a run's data and model before it: lengths of attempts, what a policy will say, a model's shape. What is not there is
assumed, and every assumption is noted.

How many tokens the attempts of a file have is estimated from their characters (a tokenizer would take minutes):
tokens = characters × rate + 5 a message + 50. The rate follows the vocabulary: 0.46 tokens a character for the 2,048 tokens of the starter
base on its own attempts (measured, 300 of them, with what a message and a prompt add), 0.30 from 49,152 on (code and logs).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rmlab.errors import DataError
from rmlab.models.config import ModelConfig
from rmlab.models.cost import ModelShape, known_shape, read_shape, shape_of
from rmlab.paths import portable
from rmlab.trajectories.set_file import check_set_file

EPISODE_TOKENS, ISSUE_TOKENS, SAID_TOKENS, EPISODE_TURNS = 300, 180, 40, 5
"""Of an attempt in micro-SWE by a language model: in all, in front of its first turn, said by it, and its turns
(experiments/benchmarks/README.md, rollouts; what stands in front of the first turn: 379 of 487 characters in the starter set)."""

FOLDER = "FOLDER"
"""Stands in a command for the folder of a model."""


@dataclass
class Assumed:
    """What is given in place of data. mean_tokens: of an attempt, whatever a file says. to_name: see `rmlab.planning.phases.Work`."""

    mean_tokens: int | None = None
    notes: list[str] = field(default_factory=list)
    to_name: dict[str, str] = field(default_factory=dict)

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
        found = named_shape(model.pretrained)
        if names_open_model(model.pretrained):
            assumed.to_name["model.pretrained"] = FOLDER
        return found
    except DataError:
        if (model.hidden_size, model.layers) == (ModelConfig.hidden_size, ModelConfig.layers):
            raise
        assumed.note(f"{portable(model.pretrained)} does not exist: the shape stated by model={model.name} is used")
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
            f"model.pretrained={name}: there is no such folder, and the shape of no open model is known by that name. Name a folder "
            "with config.json (weights are not read), or a model such as Qwen3-0.6B or SmolLM2-135M."
        )
    return known


def names_open_model(name: str) -> bool:
    """Whether it names an open model and nothing else: neither a path nor the hub's model, which a run could read."""
    return not (Path(name).exists() or "/" in name or ":" in name) and known_shape(name) is not None


MESSAGE, PROMPT = 5, 50
SMALL, LARGE = (2048, 0.46), (49152, 0.30)
MOST_BYTES = 64 << 20
"""Of text that are read; of a larger file row groups are drawn evenly."""
MESSAGES = "messages.list.element.content"


@dataclass(frozen=True)
class Texts:
    """Of the attempts of a file, or of some of them evenly drawn. rows: attempts that the file has, by part."""

    characters_N: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    messages_N: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    split_N: "np.ndarray[tuple[int], np.dtype[np.object_]]"
    labelled_N: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
    task_N: "np.ndarray[tuple[int], np.dtype[np.object_]]"
    share: float

    def tokens(self, vocabulary: int, part: str | None = None) -> list[int]:
        """Estimated tokens of the labelled attempts of a part (None = of all), in ascending order."""
        small, large = math.log2(SMALL[0]), math.log2(LARGE[0])
        place = min(max((math.log2(max(vocabulary, 2)) - small) / (large - small), 0.0), 1.0)
        rate = SMALL[1] + place * (LARGE[1] - SMALL[1])
        chosen_N = self.labelled_N & ((self.split_N == part) if part else True)
        found = self.characters_N[chosen_N] * rate + MESSAGE * self.messages_N[chosen_N] + PROMPT
        return sorted(int(value) for value in found)


def read_texts(path: Path) -> Texts:
    """Reads the lengths of texts, not their tokens. Raises DataError where the file is not a trajectory set."""
    check_set_file(path)
    state = path.stat()
    return _read(path.resolve(), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, *state: int) -> Texts:
    try:
        with pq.ParquetFile(path) as file:
            groups = range(file.num_row_groups)
            sizes = [file.metadata.row_group(group).total_byte_size for group in groups]
            every = max(math.ceil(sum(sizes) / MOST_BYTES), 1)
            table = file.read_row_groups(
                list(groups)[::every], columns=["task_id", MESSAGES, "patch", "resolved", "split"], use_threads=False
            )
            share = table.num_rows / max(file.metadata.num_rows, 1)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(f"{path} is not a readable trajectory file ({str(error).splitlines()[0]})") from error
    messages = table.column("messages").combine_chunks()
    start_N = _plain(messages.offsets)
    total_M = np.concatenate([[0], np.cumsum(_plain(pc.binary_length(messages.values.field("content"))))])
    patch_N = np.array([n or 0 for n in pc.binary_length(table.column("patch")).to_pylist()], dtype=np.int64)
    return Texts(
        total_M[start_N[1:]] - total_M[start_N[:-1]] + patch_N,
        np.diff(start_N),
        _plain(table.column("split"), object),
        _plain(pc.is_valid(table.column("resolved")), bool),
        _plain(table.column("task_id"), object),
        share,
    )


def _plain(column: Any, kind: Any = np.int64) -> Any:
    """Values of a column as an array; pyarrow's own conversions import pandas."""
    return np.array(column.to_pylist(), dtype=kind)


def around(mean: int, most: int, count: int) -> list[int]:
    """Lengths with that mean up to `most`, log-normal as those of real attempts are (the quantiles of one with sigma 0.6)."""
    from statistics import NormalDist

    normal = NormalDist(math.log(mean) - 0.18, 0.6)
    tokens = [min(math.exp(normal.inv_cdf((i + 0.5) / count)), most) for i in range(count)]
    tokens[-1] = most
    return [round(n) for n in tokens]


def spread(lengths: Sequence[int], count: int) -> list[int]:
    """So many of the lengths, evenly drawn (again and again where there are fewer)."""
    if not lengths or count < 1:
        return []
    return [lengths[min(int((i + 0.5) * len(lengths) / count), len(lengths) - 1)] for i in range(count)]
