"""What probability does a model give to the tokens of a conversation? The one forward pass of policy training.

Positions whose probability is not wanted cost no head: with a vocabulary of 50,000 the head of every position would take
more memory than everything else.
"""

from typing import Any

import torch
from torch.nn.functional import cross_entropy

from rmlab.models.last_position import float_logits


def token_logprobs(
    model: Any,
    ids_BT: torch.Tensor,
    wanted_BT: torch.Tensor,
    temperature: float = 1.0,
    entropy: bool = False,
    entropy_gradient: bool = False,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """logprob_BT (float32, natural logarithm): of the token at position t given those before it; 0 where it is not wanted.

    model: a transformers causal language model; gradients flow. ids_BT: right-padded, so causal attention needs no mask.
    wanted_BT: bool; its first column must be False (nothing comes before it); on the CPU it costs no wait for the device.
    temperature: as tokens were sampled; 0 counts
    as 1. entropy: the second value is entropy_BT in nats, 0 where not wanted; else None. entropy_gradient: it is differentiable.
    """
    hidden_BTH = model.get_decoder()(input_ids=ids_BT, use_cache=False).last_hidden_state
    row_N, column_N = (index_N.to(ids_BT.device) for index_N in wanted_BT.nonzero(as_tuple=True))
    logits_NV = float_logits(model, hidden_BTH[row_N, column_N - 1]) / (temperature or 1.0)
    logprob_N = -cross_entropy(logits_NV, ids_BT[row_N, column_N], reduction="none")
    logprob_BT = torch.zeros(ids_BT.shape, device=ids_BT.device).index_put((row_N, column_N), logprob_N)
    if not entropy:
        return logprob_BT, None
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        share_NV = torch.log_softmax(logits_NV, dim=-1)
        entropy_N = -(share_NV.exp() * share_NV).sum(-1)
        entropy_BT = torch.zeros(ids_BT.shape, device=ids_BT.device).index_put((row_N, column_N), entropy_N)
    return logprob_BT, entropy_BT
