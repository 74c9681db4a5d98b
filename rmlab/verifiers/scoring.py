"""What does a verifier say of attempts? Score = two-way softmax of the YES and NO logits, in float32.

A model with a scalar head says one number in their place: it stands for the difference of the two logits.

A score depends on its prompt alone: not on the batch it was in, on the padding, or on the order of the table.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.models.fused import fused_layers
from rmlab.models.heads import ScalarModel, last_logits, last_scalar, pad_right
from rmlab.models.moe import Routing
from rmlab.progress import progress
from rmlab.scores.scores import Scores
from rmlab.training.batching import batches_by_tokens
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.config import OverLength, PromptConfig
from rmlab.verifiers.encoding import Encoded

Autocast = Callable[[], AbstractContextManager[Any]]
Prompt = Sequence[int] | NDArray[np.int32]
"""Token ids."""


def score_ids(
    model: Any,
    prompts: Sequence[Prompt],
    answer: AnswerTokens,
    pad_id: int,
    *,
    batch_tokens: int,
    autocast: Autocast = nullcontext,
    show: bool = False,
    title: str = "score",
) -> NDArray[np.float64]:
    """score_N of N prompts (token ids, none empty), each in [0, 1].

    batch_tokens: padded tokens a batch may hold; a longer prompt makes a batch of its own. autocast: a context
    for lower arithmetic, such as `Accelerator.autocast`.
    """
    place_N, prompts = distinct(prompts)
    score_U = np.full(len(prompts), np.nan)
    device = next(model.parameters()).device
    model.eval()
    with (
        torch.inference_mode(),
        fused_layers(model),
        progress(title, sum(map(len, prompts)), "tokens", show=show) as advance,
    ):
        for rows in batches_by_tokens([len(p) for p in prompts], batch_tokens):
            ids_BT, length_B = pad_right([prompts[i] for i in rows], pad_id)
            with autocast():
                margin_B = margins(model, ids_BT.to(device), length_B.to(device), answer)
            score_U[rows] = torch.sigmoid(margin_B).cpu().double().numpy()
            advance(int(length_B.sum()))
    return score_U[place_N]


def distinct(prompts: Sequence[Prompt]) -> tuple[NDArray[np.intp], list[Prompt]]:
    """place_N, and the U prompts that differ, in their order: prompt i is the one at place_N[i].

    A third of a scripted policy's attempts at a task repeat another one word for word; they are read once and get one score.
    """
    place: dict[bytes, int] = {}
    place_N = np.array([place.setdefault(np.asarray(ids, np.int32).tobytes(), len(place)) for ids in prompts], np.intp)
    first_U = np.unique(place_N, return_index=True)[1]
    return place_N, [prompts[i] for i in first_U]


def margins(
    model: Any, ids_BT: torch.Tensor, length_B: torch.Tensor, answer: AnswerTokens, routing: Routing | None = None
) -> torch.Tensor:
    """margin_B in float32: the logit of YES less that of NO, or what a scalar head says; the score is its sigmoid."""
    if isinstance(model, ScalarModel):
        return last_scalar(model, ids_BT, length_B, routing)
    logits_BV = last_logits(model, ids_BT, length_B, routing)
    return logits_BV[:, answer.yes] - logits_BV[:, answer.no]


def score_table(encoded: Sequence[Encoded], score_N: NDArray[np.float64], config: PromptConfig) -> Scores:
    """The table of `encoded` in its order; score_N belongs to those that fit, NaN stands for the others.

    Under over_length=drop those that do not fit are left out of the table (`unfit_counts` says how many).
    """
    scores = iter(score_N)
    all_scores = [float("nan") if e.ids is None else float(next(scores)) for e in encoded]
    rows = [
        (e, s)
        for e, s in zip(encoded, all_scores, strict=True)
        if e.ids is not None or config.over_length is not OverLength.drop
    ]
    return Scores.of_trajectories([e.trajectory for e, _ in rows], [s for _, s in rows], [e.n_tokens for e, _ in rows])
