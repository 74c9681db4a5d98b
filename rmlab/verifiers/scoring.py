"""Scores attempts with a verifier: the score is the two-way softmax of the YES and NO logits, in float32.

A model with a scalar head gives one number instead, which takes the place of the difference of the two logits.

A score depends only on its prompt, not on its batch, the padding or the order of the table: in float32 to 3e-5, in half precision up
to rounding, since long prompts that are alone in their batch and calls with many tokens use other kernels.

On a GPU a dense verifier that was trained in bfloat16 scores in float16, which has the same peak rate there and rounds eight times as
finely: the scores of one such verifier were off those in float32 by 0.0005 in the mean, in bfloat16 by 0.015
(experiments/benchmarks/README.md). Numbers that are beyond float16's range, 65,504, make no score; such prompts are scored again in
bfloat16. A verifier whose matrices float16 would make zero to a part that matters scores in bfloat16 (`rmlab.verifiers.precision`).
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import linear

from rmlab.models.attention import HALF
from rmlab.models.cpu_layers import cpu_layers
from rmlab.models.heads import ScalarModel, language_model, last_logits, last_scalar, pad_right
from rmlab.models.moe import Routing
from rmlab.models.prefix_decoder import can_fuse, can_share, prefix_last_hidden
from rmlab.models.prefixes import prefix_batches
from rmlab.progress import progress
from rmlab.scores.scores import Scores
from rmlab.training.batching import batches_by_tokens
from rmlab.training.ranks import Ranks, dealt
from rmlab.training.sharding import is_sharded, ranks_of, within
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.config import OverLength, PromptConfig
from rmlab.verifiers.encoding import Encoded
from rmlab.verifiers.precision import Autocast, scored_in

Prompt = Sequence[int] | NDArray[np.int32]
"""Token ids."""
BATCH_TOKENS = {"cpu": 16384, "cuda": 65536}
"""Tokens that are read at once where nothing else is asked for, by the kind of device."""
FUSED_FROM = 40_000_000
"""Tokens of the prompts of one call from which on compiling is worth the 8 s that it takes (SmolLM2's shape on an H200)."""


def score_ids(
    model: Any,
    prompts: Sequence[Prompt],
    answer: AnswerTokens,
    pad_id: int,
    *,
    batch_tokens: int,
    autocast: Autocast = nullcontext,
    dtype: torch.dtype | None = None,
    shared: bool | None = None,
    fused: bool | None = None,
    show: bool = False,
    title: str = "score",
) -> NDArray[np.float64]:
    """score_N of N prompts (token ids, none empty), each in [0, 1]. Where several ranks have the model, all of them have to call this
    with the same prompts, and each gets all scores.

    batch_tokens: that a batch reads, padding included; a longer prompt makes a batch of its own. autocast: a context for lower
    arithmetic, such as `Accelerator.autocast`. dtype: of matrix products and attention; None = autocast's, or float16 in place of its
    bfloat16 (`scored_in`). A model that is sharded has autocast's in any case. shared: what prompts have in common at their start is
    read once, without padding; None = where it pays: on a CPU, and on a GPU in half precision. fused: element-wise work of that is
    compiled; None = from FUSED_FROM tokens on.
    """
    place_N, prompts = distinct(prompts)
    if is_sharded(model):
        return _on_ranks(model, prompts, answer, pad_id, batch_tokens, autocast, show, title)[place_N]
    products = dtype or scored_in(model, autocast)

    def score(some: Sequence[Prompt], show: bool) -> tuple[NDArray[np.float64], bool]:
        return _scores(model, some, answer, pad_id, batch_tokens, products, shared, fused, show, title)

    ranks = ranks_of(model)
    if ranks.number == 1:
        score_U, beyond = score(prompts, show)
        if beyond:
            _say_beyond_range()
        return score_U[place_N]
    own = _own_share(prompts, ranks)
    sums = torch.zeros(len(prompts) + 1, dtype=torch.float64, device=ranks.device)  # last: ranks with prompts beyond
    if own:  # none, where there are few prompts
        own_N, beyond = score([prompts[i] for i in own], show and ranks.is_first)
        sums[own], sums[-1] = torch.from_numpy(own_N).to(ranks.device), float(beyond)
    total: NDArray[np.float64] = ranks.total(sums).cpu().numpy()
    if total[-1] and ranks.is_first:
        _say_beyond_range()
    return total[:-1][place_N]


def _own_share(prompts: Sequence[Prompt], ranks: Ranks) -> list[int]:
    """Those of the prompts that a rank scores which has the whole model: a run of their lexicographic order, so that what they have in
    common at their start is seldom read twice, with about as many tokens as every other rank's. Of few prompts a rank may get none."""
    ordered = sorted(range(len(prompts)), key=lambda i: np.asarray(prompts[i], ">i4").tobytes())
    before_U = np.cumsum([0, *(len(prompts[i]) for i in ordered)])[:-1]
    share_U = before_U * ranks.number // max(sum(map(len, prompts)), 1)
    return [i for i, share in zip(ordered, share_U, strict=True) if share == ranks.index]


def _scores(
    model: Any,
    prompts: Sequence[Prompt],
    answer: AnswerTokens,
    pad_id: int,
    batch_tokens: int,
    dtype: torch.dtype,
    shared: bool | None,
    fused: bool | None,
    show: bool,
    title: str,
) -> tuple[NDArray[np.float64], bool]:
    """score_N of prompts that differ, by this process alone, and whether some were beyond the range of float16."""
    score_N = np.full(len(prompts), np.nan)
    model.eval()
    with torch.inference_mode():
        batches = (
            _shared(model, prompts, answer, batch_tokens, dtype, fused)
            if (sharing_pays(language_model(model), dtype) if shared is None else shared)
            else _padded(model, prompts, answer, batch_tokens, pad_id, dtype)
        )
        waiting = []
        with progress(title, sum(map(len, prompts)), "tokens", show=show) as advance:
            for rows, margin_B in batches:
                waiting.append((rows, torch.sigmoid(margin_B)))
                advance(sum(len(prompts[i]) for i in rows))
            for rows, score_B in waiting:  # only now: a GPU goes on with the next batch meanwhile
                score_N[rows] = score_B.cpu().double().numpy()
    beyond = np.flatnonzero(np.isnan(score_N)).tolist() if dtype is torch.float16 else []
    if beyond:
        again = [prompts[i] for i in beyond]
        score_N[beyond], _ = _scores(
            model, again, answer, pad_id, batch_tokens, torch.bfloat16, shared, fused, show, title
        )
    return score_N, bool(beyond)


@lru_cache
def _say_beyond_range() -> None:
    """Says so once a process: reinforcement learning scores in every step."""
    print(
        "This verifier has numbers beyond the range of float16: the prompts concerned are scored in bfloat16, which rounds more.",
        file=sys.stderr,
    )


def distinct(prompts: Sequence[Prompt]) -> tuple[NDArray[np.intp], list[Prompt]]:
    """place_N, and the U prompts that differ, in their order: prompt i is the one at place_N[i].

    A third of a scripted policy's attempts at a task repeat another one word for word; they are read once and get one score.
    """
    place: dict[bytes, int] = {}
    place_N = np.array([place.setdefault(np.asarray(ids, np.int32).tobytes(), len(place)) for ids in prompts], np.intp)
    first_U = np.unique(place_N, return_index=True)[1]
    return place_N, [prompts[i] for i in first_U]


def _on_ranks(
    model: Any,
    prompts: Sequence[Any],
    answer: AnswerTokens,
    pad_id: int,
    batch_tokens: int,
    autocast: Autocast,
    show: bool,
    title: str,
) -> NDArray[np.float64]:
    """score_N of a sharded model. Each rank scores its part of the batches, so that all of them have to call this; the progress
    is that of rank 0."""
    ranks = ranks_of(model)
    score_N = torch.zeros(len(prompts), dtype=torch.float64, device=ranks.device)
    tokens, shown = sum(map(len, prompts)) / ranks.number, show and ranks.is_first
    model.eval()
    # not inference mode: weights that are put together in it could not be trained any more
    with torch.no_grad(), progress(title, tokens, "tokens", show=shown) as advance:
        for rows, counts in dealt(batches_by_tokens([len(p) for p in prompts], batch_tokens), ranks):
            ids_BT, length_B = pad_right([prompts[i] for i in rows], pad_id)
            with autocast():
                margin_B = within(model, margins, ids_BT.to(ranks.device), length_B.to(ranks.device), answer)
            if counts:
                score_N[rows] = torch.sigmoid(margin_B).double()
                advance(int(length_B.sum()))
    total_N: NDArray[np.float64] = ranks.total(score_N).cpu().numpy()
    return total_N


MarginBatches = Iterator[tuple[Sequence[int], torch.Tensor]]
"""(rows, their margin_B) of one batch after the other."""


def _padded(
    model: Any, prompts: Sequence[Any], answer: AnswerTokens, batch_tokens: int, pad_id: int, dtype: torch.dtype
) -> MarginBatches:
    device = next(model.parameters()).device
    lower = dtype in HALF and any(weight.dtype is not dtype for weight in model.parameters())
    for rows in batches_by_tokens([len(p) for p in prompts], batch_tokens):
        ids_BT, length_B = pad_right([prompts[i] for i in rows], pad_id)
        with torch.autocast(device.type, dtype if lower else None, enabled=lower), cpu_layers(model):
            margin_B = margins(model, ids_BT.to(device), length_B.to(device), answer)
        yield rows, margin_B


def _shared(
    model: Any, prompts: Sequence[Any], answer: AnswerTokens, batch_tokens: int, dtype: torch.dtype, fused: bool | None
) -> MarginBatches:
    inner = language_model(model)
    if fused is None:
        fused = sum(map(len, prompts)) >= FUSED_FROM and can_fuse(inner.device)
    for batch in prefix_batches(prompts, batch_tokens):
        hidden_BH = prefix_last_hidden(inner, batch, dtype, fused)
        yield batch.row_N.tolist(), _margins_behind(model, hidden_BH, answer)


def _margins_behind(model: Any, hidden_BH: torch.Tensor, answer: AnswerTokens) -> torch.Tensor:
    """margin_B in float32 (see `margins`) of what stands behind the prompts, of the two answers' logits alone."""
    if isinstance(model, ScalarModel):
        scalar_B1: torch.Tensor = model.head(hidden_BH.to(model.head.weight.dtype))
        return scalar_B1.squeeze(-1).float()
    head, two = model.get_output_embeddings(), (answer.yes, answer.no)
    weight_2H = torch.stack(
        [head.weight[i] for i in two]
    ).float()  # a list as index would be copied, which waits for the GPU
    bias_2 = None if head.bias is None else torch.stack([head.bias[i] for i in two]).float()
    logits_B2 = linear(hidden_BH, weight_2H, bias_2)
    return logits_B2[:, 0] - logits_B2[:, 1]


def sharing_pays(model: Any, dtype: torch.dtype) -> bool:
    """Whether a causal language model is one whose prompts share their starts, on a device and in an arithmetic where that is faster."""
    return (model.device.type == "cpu" or dtype in HALF) and can_share(model)


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
