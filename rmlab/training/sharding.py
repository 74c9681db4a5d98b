"""A model sharded over several GPUs: each rank holds a part of every weight, of its gradient and of its moments (FSDP2,
`torch.distributed.fsdp.fully_shard`, on which accelerate's FSDP2 is based).

Every decoder layer is a group of its own: its whole weights are on a GPU only while it is computed. Everything else (the embeddings,
the last norm, the head) is one group that stays whole during a pass, because the head's weights are used directly and its module is
never called (`rmlab.models.heads`), so the hooks of accelerate's own grouping would not run. Code that takes the layers of a plain
decoder apart checks its class, which is different here: a sharded decoder is read layer by layer. Only the machine of rank 0 holds
the whole model in memory: the other ranks get their parts from it, weight by weight.
"""

import copy
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

import torch

from rmlab.models.heads import language_model
from rmlab.models.lora import plain_model
from rmlab.models.moe import experts_of, use_grouped_experts
from rmlab.training.config import Dtype
from rmlab.training.ranks import ALONE, Ranks

Answer = TypeVar("Answer")


def shard(model: Any, dtype: Dtype, ranks: Ranks) -> Any:
    """The model's parts on this rank's device. model: whole, on rank 0's CPU, where it stays as it is; None on the others.

    dtype: of a layer's whole weights while it is computed; the parts and the sums of gradients keep theirs.
    """
    from torch.distributed import broadcast
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

    parts = received(model, ranks)
    language = plain_model(language_model(parts))
    buffers = {name: buffer.clone() for name, buffer in parts.named_buffers()}
    mesh = init_device_mesh(ranks.device.type, (ranks.number,))
    low = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    policy = low if dtype is Dtype.bfloat16 else MixedPrecisionPolicy()
    decoder = language.get_decoder()
    decoder.__class__ = _shared_out(type(decoder))
    for layer in decoder.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(parts, mesh=mesh, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False))
    parts.to_empty(device=ranks.device)
    with torch.no_grad():
        for name, buffer in parts.named_buffers():
            buffer.copy_(buffers[name])
        whole = dict(model.named_parameters()) if ranks.is_first else {}
        for name, part in parts.named_parameters():
            full = torch.empty(part.shape, dtype=part.dtype, device=ranks.device)
            if ranks.is_first:
                full.copy_(whole[name])
            broadcast(full, 0)
            first, last = rows(part.shape[0], ranks)
            part.to_local().copy_(full[first:last])
    parts.within = MethodType(lambda self, function, *more: function(self, *more), parts)
    register_fsdp_forward_method(parts, "within")
    parts.ranks = ranks
    return parts


def received(model: Any, ranks: Ranks) -> Any:
    """On every rank rank 0's model without values of weights; None is given on the others."""
    from torch.distributed import broadcast_object_list

    sent = [_without_weights(model) if ranks.is_first else None]
    broadcast_object_list(sent, 0)
    parts: Any = sent[0]
    _prepare_class(plain_model(language_model(parts)))
    return parts


def _prepare_class(language: Any) -> None:
    """transformers notes what a class can record (router logits), and ours computes experts, when a model is made: here none was."""
    config = copy.deepcopy(language.config)
    if experts_of(language):
        config._experts_implementation = "grouped_mm"
    with torch.device("meta"):
        use_grouped_experts(type(language)(config))


def _shared_out(kind: type) -> type:
    """The class of a decoder that is not plain. Under its whole name transformers finds what it can record, so that stays."""
    return type(f"Shared{kind.__name__}", (kind,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})


def rows(size: int, ranks: Ranks) -> tuple[int, int]:
    """First row and the row behind the last of a weight of `size` rows that a rank holds, as `torch.chunk` cuts it."""
    each = -(-size // ranks.number)
    return min(ranks.index * each, size), min((ranks.index + 1) * each, size)


def is_sharded(model: Any) -> bool:
    """Whether `shard` made the model."""
    return hasattr(model, "within")


def ranks_of(model: Any) -> Ranks:
    """Over which a model is spread, sharded or as a copy for each (`rmlab.training.replicas`)."""
    return getattr(model, "ranks", ALONE)


def within(model: Any, function: Callable[..., Answer], *more: Any) -> Answer:
    """function(model, *more); of a sharded model, while the weights that it asks for are put together."""
    return model.within(function, *more) if is_sharded(model) else function(model, *more)


def gather(parts: Any, model: Any) -> Any:
    """Puts the weights of all ranks' parts, or of rank 0's copy, into the whole model of rank 0 and returns it; all ranks have to call
    it. model: as `shard` had it."""
    whole = dict(model.named_parameters()) if model is not None else {}
    sharded = is_sharded(parts)
    if sharded:
        parts.reshard()  # a pass without gradient leaves what is no layer whole
    with torch.no_grad():
        for name, part in parts.named_parameters():
            full = part.full_tensor() if sharded else part
            if whole:
                whole[name].copy_(full)
    return model


def _without_weights(model: Any) -> Any:
    """A copy of the model whose weights have shapes and no values; what is tied stays so."""
    empty = {
        id(weight): torch.nn.Parameter(torch.empty_like(weight, device="meta"), weight.requires_grad)
        for weight in model.parameters()
    }
    return copy.deepcopy(model, empty)
