"""A model that several GPUs hold, each the whole of it: each reads its share of a step's micro-batches, and their gradients are added up
before the optimiser's step (data parallel training, as of torch's DistributedDataParallel).

All ranks then take the same step, so their weights stay the same. A whole model's layers are computed in fewer and larger products than a
sharded one's (`rmlab.models.packed_layers`), and its weights are not gathered for every micro-batch: where it fits, this is the faster way.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from rmlab.training.config import Dtype, Parallel
from rmlab.training.ranks import Ranks, fits_whole
from rmlab.training.sharding import received, shard


def spread(model: Any, dtype: Dtype, ranks: Ranks, parallel: Parallel) -> Any:
    """The model over several ranks, as `parallel` says. model, dtype: as in `shard`. All ranks have to call it."""
    from torch.distributed import broadcast_object_list

    whole = [parallel is Parallel.ddp or (parallel is Parallel.auto and ranks.is_first and _fits(model, ranks))]
    broadcast_object_list(whole, 0)
    return replicate(model, ranks) if whole[0] else shard(model, dtype, ranks)


def _fits(model: Any, ranks: Ranks) -> bool:
    """Whether this rank's device has room for the whole of it; a machine's own memory always has."""
    on_gpu = ranks.device.type == "cuda"
    memory = torch.cuda.get_device_properties(ranks.device).total_memory if on_gpu else math.inf
    weights = list(model.parameters())
    return fits_whole(
        sum(w.nbytes for w in weights if w.requires_grad), sum(w.nbytes for w in weights if not w.requires_grad), memory
    )


def replicate(model: Any, ranks: Ranks) -> Any:
    """The whole model on this rank's device. model: on rank 0's CPU, where it stays as it is; None on the others."""
    from torch.distributed import broadcast

    empty = received(model, ranks)
    here: dict[int, Any] = {id(buffer): buffer.to(ranks.device) for buffer in empty.buffers()}
    for weight in empty.parameters():
        here[id(weight)] = torch.nn.Parameter(torch.empty_like(weight, device=ranks.device), weight.requires_grad)
    made = copy.deepcopy(empty, here)  # what is tied stays so
    whole = dict(model.named_parameters()) if ranks.is_first else {}
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if ranks.is_first:
                weight.copy_(whole[name])
            broadcast(weight, 0)
    made.ranks = ranks
    return made


BUCKET = 2**26
"""Bytes of gradients that are added up in one message: many small messages take longer than they are read in."""


def add_gradients(model: Any, ranks: Ranks) -> None:
    """Gives each rank the sum of all ranks' gradients.

    Every rank has read something (`rmlab.training.ranks.dealt`), so all have gradients of the same weights. A weight that no loss asks
    for, such as a language model's own head below a scalar one, has none on any: it gets no zeros, by which it would decay.
    """
    from torch.distributed import all_reduce

    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    for bucket in _buckets(gradients):
        if len(bucket) == 1 and bucket[0].is_contiguous():  # a large one is sent as it lies
            all_reduce(bucket[0])
            continue
        message = torch.cat([gradient.flatten() for gradient in bucket])
        all_reduce(message)
        for gradient, added in zip(
            bucket, torch.split(message, [gradient.numel() for gradient in bucket]), strict=True
        ):
            gradient.copy_(added.view_as(gradient))


def _buckets(gradients: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """In their order, of one type and of at most BUCKET bytes each, or of one gradient that is larger."""
    bucket: list[torch.Tensor] = []
    for gradient in gradients:
        if bucket and (gradient.dtype != bucket[0].dtype or sum(g.nbytes for g in bucket) + gradient.nbytes > BUCKET):
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket
