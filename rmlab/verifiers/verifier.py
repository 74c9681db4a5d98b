"""A verifier: a language model, its tokenizer, and its way of being prompted. One folder when saved.

verifier.json records the renderer, scoring and precision that it was trained with, the ids of the answers, whether it has a
scalar head, and its tokenizer; loading checks all of this, because a verifier that is prompted differently from its training
is a different verifier.
"""

import json
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.files import atomic_folder, write_text
from rmlab.microswe.episode import Evidence
from rmlab.models.heads import ScalarModel, language_model, load_head
from rmlab.models.load import load_model, no_bars
from rmlab.models.lora import has_adapters, merged, save_adapters
from rmlab.models.tokenizer import IM_END, Tokenizer, load_tokenizer
from rmlab.scores.scores import Scores
from rmlab.training.config import Dtype
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers import precision, prompt, scoring
from rmlab.verifiers.answer import AnswerTokens, prove_answers
from rmlab.verifiers.config import SEMANTICS, OverLength, PromptConfig, PromptView
from rmlab.verifiers.encoding import Encoded, encode, encode_prefixes

FORMAT = 1
SCORED_IN = "scored_in"
"""Tag of a run: the arithmetic of its scores, which `training.dtype` and the device decide."""
RECORD, ADAPTERS = "verifier.json", "adapters"
ASKED = {stage: SEMANTICS[stage] for stage in ("render", "score")}
ALIKE = ({"render": 1, "score": 1},)
"""Earlier semantics that ask what they could ask as these do: render 2 only added `cut_observations`."""


@dataclass(frozen=True)
class Verifier:
    """model: a transformers causal language model, or one with a scalar head, on its device, in evaluation mode when it scores.

    dtype: arithmetic that it was trained in and scores in, but for what `precision.half_precision` says. adapters: folder of those that
    were merged into its weights. whole: what is saved in its place where several GPUs train its model; rank 0 has it.
    """

    model: Any
    tokenizer: Tokenizer
    prompt: PromptConfig
    answer: AnswerTokens
    dtype: Dtype = Dtype.float32
    adapters: Path | None = None
    whole: "Verifier | None" = None

    def autocast(self) -> AbstractContextManager[Any]:
        import torch

        device = next(self.model.parameters()).device
        return torch.autocast(device.type, torch.bfloat16) if self.dtype is Dtype.bfloat16 else nullcontext()

    @property
    def scored_in(self) -> str:
        """The arithmetic of its scores where its model is now: float32, bfloat16 or float16."""
        return str(precision.scored_in(self.model, self.autocast)).removeprefix("torch.")

    def encode(self, trajectories: Sequence[Trajectory], show: bool = False) -> list[Encoded]:
        """Prompts as this verifier reads them."""
        return encode(trajectories, self.tokenizer, self.prompt, show=show)

    def encode_prefixes(self, trajectory: Trajectory, prefixes: Sequence[Trajectory]) -> list[Encoded]:
        """Prompts of prefixes of one trajectory, the last of them itself, as this verifier reads them."""
        return encode_prefixes(trajectory, prefixes, self.tokenizer, self.prompt)

    def score(
        self,
        encoded: Sequence[Encoded],
        *,
        batch_tokens: int = 16384,
        autocast: precision.Autocast | None = None,
        show: bool = False,
        title: str = "score",
    ) -> Scores:
        """The score table of encoded trajectories, in their order. autocast: None = the verifier's own arithmetic."""
        score_N = self.score_prompts(encoded, batch_tokens=batch_tokens, autocast=autocast, show=show, title=title)
        return scoring.score_table(encoded, score_N, self.prompt)

    def score_prompts(
        self,
        encoded: Sequence[Encoded],
        *,
        batch_tokens: int = 16384,
        autocast: precision.Autocast | None = None,
        show: bool = False,
        title: str = "score",
    ) -> NDArray[np.float64]:
        """score_N of those that fit the context, in their order: `score` without its table, whose hashes take time."""
        return scoring.score_ids(
            self.model,
            [e.ids for e in encoded if e.ids is not None],
            self.answer,
            self.tokenizer.pad_id,
            batch_tokens=batch_tokens,
            autocast=autocast or self.autocast,
            show=show,
            title=title,
        )


def finished_verifier(
    model: Any, tokenizer: Tokenizer, prompt: PromptConfig, answer: AnswerTokens, dtype: Dtype, adapters: Path
) -> Verifier:
    """The verifier that a trained model makes. Adapters that it has are written to the folder `adapters` and merged into its weights;
    `model` is not to be used afterwards."""
    language = language_model(model)
    if not has_adapters(language):
        return Verifier(model, tokenizer, prompt, answer, dtype)
    save_adapters(language, adapters)
    plain = merged(language).eval()
    if isinstance(model, ScalarModel):
        model.model = plain
    else:
        model = plain
    return Verifier(model, tokenizer, prompt, answer, dtype, adapters)


def save_verifier(folder: Path, verifier: Verifier) -> None:
    """Writes model (safetensors), tokenizer and verifier.json as one folder, whole or not at all; adapters in a folder below."""
    no_bars()
    verifier = verifier.whole or verifier
    with atomic_folder(folder) as temporary:
        scalar = isinstance(verifier.model, ScalarModel)
        language_model(verifier.model).save_pretrained(str(temporary), safe_serialization=True)
        if verifier.adapters:
            shutil.copytree(verifier.adapters, temporary / ADAPTERS)
        if scalar:
            verifier.model.save_head(temporary)
        verifier.tokenizer.save(temporary)
        record = {
            "format": FORMAT,
            "semantics": ASKED,
            "prompt": {
                "max_tokens": verifier.prompt.max_tokens,
                "over_length": verifier.prompt.over_length.value,
                "shows": verifier.prompt.shows.value,
                "evidence": verifier.prompt.evidence.value,
            },
            "answer": asdict(verifier.answer),
            "head": "scalar" if scalar else "answer",
            "dtype": verifier.dtype.value,
            "tokenizer": verifier.tokenizer.fingerprint,
        }
        write_text(temporary / RECORD, json.dumps(record, indent=1))


def load_verifier(folder: Path, device: str = "cpu") -> Verifier:
    """A saved verifier, on a device. Raises DataError where a part is missing or does not belong to the others."""
    folder = Path(folder)
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        asked = record["prompt"]
        config = PromptConfig(
            int(asked["max_tokens"]),
            OverLength(asked["over_length"]),
            PromptView(asked.get("shows", "whole")),
            Evidence(asked.get("evidence", "final")),
        )  # a folder from before there was a choice
        dtype, scalar = (
            Dtype(record.get("dtype", "float32")),
            {"scalar": True, "answer": False}[record.get("head", "answer")],
        )
        answer = AnswerTokens(int(record["answer"]["yes"]), int(record["answer"]["no"]))
        stated, semantics = record["tokenizer"], record["semantics"]
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} has no verifier ({RECORD} is missing). Name the model folder of a verifier run."
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder / RECORD} is not a verifier's record ({error!r})") from error
    if record.get("format") != FORMAT or semantics not in (ASKED, *ALIKE):
        raise DataError(
            f"{folder} was trained with format {record.get('format')}, semantics {semantics}; this rmlab has {FORMAT}, "
            f"{ASKED}, and would prompt it differently from its training. Train it again, or use the commit of its run."
        )
    tokenizer = load_tokenizer(folder)
    if tokenizer.fingerprint != stated:
        raise DataError(
            f"{folder}: its tokenizer ({tokenizer.fingerprint}) is not the one that it was trained with ({stated})"
        )
    opened = f"{IM_END}\n{prompt.OPEN_ANSWER}"
    if prove_answers(tokenizer, [opened]) != answer:
        raise DataError(f"{folder}: {prompt.YES} and {prompt.NO} do not have the ids {answer}")
    model = load_model(folder)
    rows = int(model.get_input_embeddings().weight.shape[0])
    if rows < tokenizer.size or not np.all(np.array([answer.yes, answer.no]) < rows):
        raise DataError(
            f"{folder}: the model knows {rows} tokens, its tokenizer {tokenizer.size}: they do not belong together"
        )
    if dtype is Dtype.bfloat16:
        _halve_matrices(model, device)
    whole = load_head(model, folder) if scalar else model
    whole.to(device).eval()
    adapters = folder / ADAPTERS
    return Verifier(whole, tokenizer, config, answer, dtype, adapters if adapters.is_dir() else None)


def _halve_matrices(model: Any, device: str) -> None:
    """Puts the layers' matrices into the half precision that the model scores in on that device, which would be done at every use: the
    same scores in half the memory. What is beyond its range stays as it is."""
    half = precision.half_precision(model, device)
    for parameter in model.get_decoder().layers.parameters():
        if parameter.ndim > 1 and (halved := parameter.data.to(half)).isfinite().all():
            parameter.data = halved
