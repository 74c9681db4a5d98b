"""How likely is each token of a sampled attempt under a model?

Attempts at one task begin with the same tokens (its issue). On a GPU in half precision they are packed side by side into a row with
one copy of these tokens (`rmlab.models.packed.pack_branches`); elsewhere into rows that are padded to the longest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rmlab.models.attention import sent
from rmlab.models.packed import pack_branches, packed
from rmlab.policies.engine import Rollout
from rmlab.rl.learner import Learner
from rmlab.training.batching import batches_by_tokens
from rmlab.training.policy import chosen_logprobs, token_logprobs


@dataclass(frozen=True)
class Forward:
    """B attempts, on the learner's device. logprob_BT: of each token under the model, 0 where own_BT is False (the policy did not say
    it). entropy_BT: likewise, None where it was not asked for. sampled_BT: the engine's log-probabilities."""

    logprob_BT: torch.Tensor
    entropy_BT: torch.Tensor | None
    own_BT: torch.Tensor
    sampled_BT: torch.Tensor


def forward(
    model: Any,
    rollouts: Sequence[Rollout],
    learner: Learner,
    temperature: float,
    entropy: bool = False,
    gradient: bool = False,
) -> Forward:
    """One forward pass. model: the learner's, or its start. gradient: the entropy is differentiable, as log-probabilities always are."""
    device = learner.device.device
    ids_BT, own_BT, sampled_BT = _padded(rollouts, learner.pad_id)
    with learner.device.autocast():
        if packed(model):
            logprobs = _packed(model, rollouts, own_BT, learner, temperature, entropy, gradient)
        else:
            ids, own = sent(torch.from_numpy(ids_BT), device), torch.from_numpy(own_BT)
            logprobs = token_logprobs(model, ids, own, temperature, entropy, gradient)
    return Forward(*logprobs, sent(torch.from_numpy(own_BT), device), sent(torch.from_numpy(sampled_BT), device))


def micro_batches_of(rollouts: Sequence[Rollout], learner: Learner, batch_tokens: int) -> list[list[int]]:
    """Indices of the attempts of each forward pass: about batch_tokens tokens, padding and what is read once counted as they cost."""
    if not learner.packed:
        return batches_by_tokens([len(r.ids_T) for r in rollouts], batch_tokens)
    batches: list[list[int]] = []
    tokens = batch_tokens
    for begun, rows in _by_beginning(rollouts).items():
        beginning = len(begun) // rollouts[0].ids_T.itemsize
        for row in rows:
            new = len(rollouts[row].ids_T) - beginning
            apart = row == rows[0]
            if tokens + new + beginning * apart > batch_tokens:
                batches.append([])
                tokens, apart = 0, True
            batches[-1].append(row)
            tokens += new + beginning * apart
    return batches


def _by_beginning(rollouts: Sequence[Rollout]) -> dict[bytes, list[int]]:
    """Attempts by the tokens in front of the first that the policy said: all but the last where it said none."""
    rows_of: dict[bytes, list[int]] = {}
    for row, rollout in enumerate(rollouts):
        rows_of.setdefault(rollout.ids_T[: _begun(rollout)].tobytes(), []).append(row)
    return rows_of


def _begun(rollout: Rollout) -> int:
    return int(rollout.own_T.argmax()) if rollout.own_T.any() else len(rollout.ids_T) - 1


def _packed(
    model: Any,
    rollouts: Sequence[Rollout],
    own_BT: NDArray[np.bool_],
    learner: Learner,
    temperature: float,
    entropy: bool,
    gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    device = learner.device.device
    groups = list(_by_beginning(rollouts).values())
    trees = [
        (
            rollouts[rows[0]].ids_T[: _begun(rollouts[rows[0]])],
            [rollouts[row].ids_T[_begun(rollouts[row]) :] for row in rows],
        )
        for rows in groups
    ]
    graphs = learner.graphs if model is learner.model and torch.is_grad_enabled() else None
    tokens = sum(len(beginning) + sum(map(len, continuations)) for beginning, continuations in trees)
    graphs = graphs if graphs is not None and tokens <= graphs.tokens else None
    ids_1T, packed_row, places = pack_branches(trees, learner.pad_id, *([] if graphs is None else [1]))
    place_B = dict(zip([row for rows in groups for row in rows], [p for of in places for p in of], strict=True))
    row_N, column_N = own_BT.nonzero()
    before_N = np.concatenate([place_B[row][:-1][own_BT[row, 1 : len(place_B[row])]] for row in range(len(rollouts))])
    token_N = np.concatenate([rollout.ids_T[rollout.own_T] for rollout in rollouts]).astype(np.int64)
    if graphs is not None:
        hidden_TH = graphs(ids_1T, packed_row)
    else:
        arguments = packed_row.to(device).decoder_arguments
        hidden_1TH = model.get_decoder()(input_ids=sent(ids_1T, device), use_cache=False, **arguments).last_hidden_state
        hidden_TH = hidden_1TH[0]
    before, token, row, column = (sent(torch.from_numpy(x), device) for x in (before_N, token_N, row_N, column_N))
    at = row, column
    return chosen_logprobs(model, hidden_TH[before], token, at, own_BT.shape, temperature, entropy, gradient)


def _padded(
    rollouts: Sequence[Rollout], pad_id: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float32]]:
    """ids_BT, own_BT and the engine's logprob_BT, right-padded."""
    width = max(len(r.ids_T) for r in rollouts)
    ids_BT = np.full((len(rollouts), width), pad_id, dtype=np.int64)
    own_BT = np.zeros((len(rollouts), width), dtype=np.bool_)
    sampled_BT = np.zeros((len(rollouts), width), dtype=np.float32)
    for row, r in enumerate(rollouts):
        end = len(r.ids_T)
        ids_BT[row, :end], own_BT[row, :end], sampled_BT[row, :end] = r.ids_T, r.own_T, r.logprob_T
    return ids_BT, own_BT, sampled_BT
