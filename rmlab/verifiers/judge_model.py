"""Any local model as a verifier: a causal language model with a prompt template, or a model with a classification head of one label.

A language model's score is the two-way softmax of the logits of its two answer words after the prompt; a head's is the sigmoid of
its one number. Prompts are padded on the side that the tokenizer sets; a score depends neither on it nor on the batch.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import linear

from rmlab.errors import DataError, UsageError
from rmlab.models.heads import float_logits
from rmlab.models.load import load_model
from rmlab.models.prefix_decoder import prefix_last_hidden
from rmlab.models.prefixes import prefix_batches
from rmlab.models.tokenizer import load_tokenizer
from rmlab.progress import progress
from rmlab.scores.scores import Scores
from rmlab.training.batching import batches_by_tokens
from rmlab.training.pretrained import HUB, fetched_from_hub
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.config import OverLength, PromptConfig
from rmlab.verifiers.encoding import Encoded, Ids
from rmlab.verifiers.judge_prompt import ATTEMPT, QUESTION, ForeignTokenizer, JudgePrompt
from rmlab.verifiers.precision import arithmetic
from rmlab.verifiers.prompt import NO, YES
from rmlab.verifiers.scoring import score_table, sharing_pays

CLASSIFIER = "ForSequenceClassification"
LOGITS_AT_ONCE = 512  # prompts whose logits are held at once
LITTLE = 0.5  # share of the probability below which two answers are not what the model would say
GENERATORS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


@dataclass(frozen=True)
class JudgeModel:
    """model: on its device. answer: ids of the answers, None where the model has a classification head."""

    model: Any
    prompt: JudgePrompt
    answer: AnswerTokens | None

    def encode(self, trajectories: Sequence[Trajectory], show: bool = False) -> list[Encoded]:
        """Prompts as this model reads them."""
        return self.prompt.encode(trajectories, show)

    def encode_prefixes(self, trajectory: Trajectory, prefixes: Sequence[Trajectory]) -> list[Encoded]:
        """Prompts of prefixes of one trajectory, the last of them itself."""
        return self.encode(prefixes)

    def score(self, encoded: Sequence[Encoded], *, batch_tokens: int = 16384, show: bool = False) -> Scores:
        """The score table of encoded trajectories, in their order. show: progress, and how much of the probability the answers have."""
        prompts = [e.ids for e in encoded if e.ids is not None]
        score_N, share_N = score_prompts(
            self.model,
            prompts,
            self.answer,
            self.prompt.tokenizer.hf.padding_side,
            batch_tokens=batch_tokens,
            show=show,
        )
        if show and self.prompt.answers and len(share_N):
            print(_what_answers_have(self.prompt.answers, float(share_N.mean())), file=sys.stderr)
        return score_table(encoded, score_N, PromptConfig(self.prompt.max_tokens, OverLength.cut_observations))


def judge_prompt(
    folder: Path, template: str | None = None, answers: tuple[str, str] | None = None, max_tokens: int | None = None
) -> JudgePrompt:
    """How the model of a folder is asked; its weights are not read. None: the default template, YES and NO, all its positions."""
    config = _config(folder)
    classifier = _is_classifier(folder, config)
    if classifier and answers:
        raise UsageError(f"--answers: {folder} has a classification head, which gives a number and not a word")
    positions = next(
        (int(config[name]) for name in ("max_position_embeddings", "n_positions") if config.get(name)), None
    )
    if max_tokens is None and positions is None:
        raise UsageError(
            f"{folder / 'config.json'} does not say how many tokens the model reads: set the number with --max-tokens"
        )
    if max_tokens is not None and positions is not None and max_tokens > positions:
        raise UsageError(f"--max-tokens {max_tokens}: {folder} has only {positions} positions")
    tokenizer = load_tokenizer(folder, chatml=False)
    stated = [
        n for n in (positions, int(tokenizer.hf.model_max_length)) if n is not None
    ]  # a tokenizer without one says 10^30
    return JudgePrompt(
        ForeignTokenizer(tokenizer.hf, with_specials=not tokenizer.hf.chat_template),
        template if template is not None else ATTEMPT + ("" if classifier else QUESTION),
        None if classifier else answers or (YES, NO),
        max_tokens or min(stated),
    )


def load_judge(
    folder: Path, prompt: JudgePrompt, proven_on: Sequence[Trajectory], dtype: str = "float32"
) -> JudgeModel:
    """The model, on the CPU. proven_on: trajectories behind whose prompts the answers are proven to be one token each.

    Raises DataError where the answers are not, the head has several labels, or model and tokenizer do not belong together.
    """
    prompt, answer = prompt.proven(proven_on)
    model = load_model(folder, classifier=answer is None, dtype=dtype)
    if answer is None and int(model.config.num_labels) != 1:
        raise DataError(
            f"{folder} has a classification head of {model.config.num_labels} labels, but a score needs exactly one (num_labels = 1)"
        )
    rows = int(model.get_input_embeddings().weight.shape[0])
    if rows < prompt.tokenizer.size:
        raise DataError(
            f"{folder}: the model knows {rows} tokens, its tokenizer {prompt.tokenizer.size}: they do not belong together"
        )
    _use_float32_head(model)
    model.eval()
    return JudgeModel(model, prompt, answer)


def score_prompts(
    model: Any,
    prompts: Sequence[Ids],
    answer: AnswerTokens | None,
    side: str = "right",
    *,
    batch_tokens: int = 16384,
    shared: bool | None = None,
    show: bool = False,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(score_N, share_N) of N prompts (token ids, none empty), each in [0, 1].

    share_N: probability of either answer among all tokens, 1 of a classification head. answer: None = there is such a head. side: of
    the padding. shared: as in `rmlab.verifiers.scoring.score_ids`.
    """
    score_N, share_N = np.full(len(prompts), np.nan), np.full(len(prompts), np.nan)
    with torch.inference_mode(), progress("score", sum(map(len, prompts)), "tokens", show=show) as advance:
        if shared is None:
            shared = sharing_pays(model, arithmetic(model))
        if shared:
            batches = _shared_margins(model, prompts, answer, batch_tokens)
        else:
            batches = _padded_margins(model, prompts, answer, side, batch_tokens)
        for rows, margin_B, share_B in batches:
            score_N[rows] = torch.sigmoid(margin_B).cpu().double().numpy()
            share_N[rows] = share_B.cpu().double().numpy()
            advance(sum(len(prompts[i]) for i in rows))
    return score_N, share_N


MarginAndShareBatches = Iterator[tuple[Sequence[int], torch.Tensor, torch.Tensor]]
"""(rows, margin_B, share_B) of some prompts after others."""


def _padded_margins(
    model: Any, prompts: Sequence[Ids], answer: AnswerTokens | None, side: str, batch_tokens: int
) -> MarginAndShareBatches:
    for rows in batches_by_tokens([len(p) for p in prompts], batch_tokens):
        batch = _batch([prompts[i] for i in rows], side, model)
        yield rows, *_margins(model, {name: tensor.to(model.device) for name, tensor in batch.items()}, answer)


def _shared_margins(
    model: Any, prompts: Sequence[Ids], answer: AnswerTokens | None, batch_tokens: int
) -> MarginAndShareBatches:
    """What prompts have in common at their start is read once (`rmlab.models.prefix_decoder`); logits of some prompts at a time."""
    for batch in prefix_batches(prompts, batch_tokens):
        hidden_BH = prefix_last_hidden(model, batch, arithmetic(model))
        rows = batch.row_N.tolist()
        for start in range(0, len(rows), LOGITS_AT_ONCE):
            at = slice(start, start + LOGITS_AT_ONCE)
            logits = float_logits(model, hidden_BH[at]) if answer else model.score(hidden_BH[at])
            yield rows[at], *_of_answers(logits, answer)


def _what_answers_have(answers: tuple[str, str], share: float) -> str:
    share_words = f"{answers[0]!r} and {answers[1]!r} have {share:.1%} of the probability after a prompt, on average"
    if share >= LITTLE:
        return share_words
    return f"{share_words}: the model would rather say something else, so scores may mean little. Change the template, or --answers."


def _batch(prompts: Sequence[Ids], side: str, model: Any) -> dict[str, torch.Tensor]:
    """input_ids, attention_mask and, where padding stands in front, position_ids: each (B, T).

    The padding is a token that no prompt of the batch holds: heads find the last token of a prompt as the last that is no padding, and
    a prompt may well end in the token that its tokenizer pads with.
    """
    held = set(np.concatenate(prompts).tolist())
    pad = next((i for i in range(model.get_input_embeddings().weight.shape[0]) if i not in held), 0)
    model.config.get_text_config().pad_token_id = pad
    length_B = torch.tensor([len(p) for p in prompts])
    width = int(length_B.max())
    ids_BT = torch.full((len(prompts), width), pad, dtype=torch.long)
    mask_BT = torch.zeros((len(prompts), width), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        at = slice(width - len(prompt), width) if side == "left" else slice(0, len(prompt))
        ids_BT[row, at], mask_BT[row, at] = torch.from_numpy(prompt.astype(np.int64)), 1
    batch = {"input_ids": ids_BT, "attention_mask": mask_BT}
    if side == "left":
        batch["position_ids"] = (mask_BT.cumsum(1) - 1).clamp(min=0)
    return batch


def _margins(
    model: Any, batch: dict[str, torch.Tensor], answer: AnswerTokens | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(margin_B, share_B) in float32: the logit of yes less that of no behind the last token of each prompt, or the one number of a
    head; the probability of either answer."""
    if answer is None:
        return _of_answers(model(**batch).logits, None)
    mask_BT = batch["attention_mask"]
    last_B = mask_BT.shape[1] - 1 - mask_BT.flip(1).argmax(1)
    row_B = torch.arange(len(last_B), device=last_B.device)

    def last_alone(_: Any, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return inputs[0][row_B, last_B][:, None]

    # The model's own forward, so that what it does to logits behind its head (a scale, a cap) counts. The head itself reads one place
    # a prompt: logits of all places would be gigabytes.
    hook = model.get_output_embeddings().register_forward_pre_hook(last_alone)
    try:
        logits_B1V: torch.Tensor = model(**batch, use_cache=False).logits
    finally:
        hook.remove()
    if logits_B1V.shape[1] != 1:
        raise DataError(
            f"a {type(model).__name__} does not compute its logits with its output embeddings, so it cannot score here"
        )
    return _of_answers(logits_B1V[:, 0].float(), answer)


def _of_answers(logits_BV: torch.Tensor, answer: AnswerTokens | None) -> tuple[torch.Tensor, torch.Tensor]:
    """As `_margins`, of the logits behind the prompts or of a head's numbers."""
    if answer is None:
        margin_B = logits_BV[:, 0].float()
        return margin_B, torch.ones_like(margin_B)
    yes_B, no_B = logits_BV[:, answer.yes], logits_BV[:, answer.no]
    return yes_B - no_B, torch.exp(torch.logaddexp(yes_B, no_B) - logits_BV.logsumexp(dim=1))


class _Float32Head(torch.nn.Module):
    """A linear head in float32: at 16 bfloat16 knows steps of 0.125 only, which makes ties of scores."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(head.weight.detach().float(), requires_grad=False)
        self.bias = None if head.bias is None else torch.nn.Parameter(head.bias.detach().float(), requires_grad=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return linear(hidden.float(), self.weight, self.bias)


def _use_float32_head(model: Any) -> None:
    """Puts the head of a model of lower arithmetic into float32."""
    for name in ("lm_head", "score"):
        head = getattr(model, name, None)
        if isinstance(head, torch.nn.Linear) and head.weight.dtype is not torch.float32:
            setattr(model, name, _Float32Head(head))


def local_folder(name: str) -> Path | None:
    """The folder of a model that rmlab has not trained: a local one, or `hf:NAME` (`hf:NAME@REVISION`); None for any other name.

    Raises DataError where a folder holds no model, or the hub's cannot be had.
    """
    if name.startswith(HUB):
        return fetched_from_hub(name)
    folder = Path(name)
    if not folder.is_dir() or any((place / "verifier.json").is_file() for place in (folder, folder / "model")):
        return None
    if not (folder / "config.json").is_file():
        raise DataError(
            f"{name} holds neither a verifier of rmlab (verifier.json) nor a model (config.json): name the folder of one"
        )
    return folder


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / 'config.json'} is not readable ({error}): fetch the folder again") from error
    if not isinstance(config, dict):
        raise DataError(f"{folder / 'config.json'} is not a JSON object: fetch the folder again")
    return (config.get("text_config") or {}) | config


def _is_classifier(folder: Path, config: dict[str, Any]) -> bool:
    """Whether the model has a classification head. Raises DataError where it neither has one nor says what comes next."""
    names = [str(name) for name in config.get("architectures") or ()]
    if any(name.endswith(CLASSIFIER) for name in names):
        return True
    if names and not any(name.endswith(ending) for name in names for ending in GENERATORS):
        raise DataError(
            f"{folder} is a {names[0]}: a score needs a causal language model, or one for sequence classification with one label"
        )
    return False
