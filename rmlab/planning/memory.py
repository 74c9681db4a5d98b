"""How much memory does a model take on one GPU, by part, while it is trained or scores?

What a layer keeps for the backward pass is counted tensor by tensor (`tests/planning/test_memory.py` holds the count to what torch
saves, byte by byte); what is there for a moment only (`workspace`) is measured (`experiments/benchmarks/plan_check.py`).
"""

from dataclasses import dataclass, fields

from rmlab.models.cost import ModelShape
from rmlab.models.prefixes import PARTS_BYTES

GIB = 2**30
FLOAT, HALF = 4, 2
COMPILED = 0.6
"""Of what a layer keeps, when torch.compile decides what is made again (0.5 to 0.7 on an H200)."""


@dataclass(frozen=True)
class TrainingMemory:
    """What a training's memory depends on besides its model.

    half: bfloat16 arithmetic (over float32 weights; frozen ones lie in bfloat16). rank: of LoRA adapters, 0 = all weights are trained.
    tokens: of the largest micro-batch, padding included. sequences: in it. answers: positions with logits in it.
    parts: micro-batches of a step. every_position: the last layer is computed at all positions.
    gpus: over which weights, gradients and moments are sharded. offload: what checkpointing keeps lies in the machine's memory.
    compiled: layers are. packed_layers: see `layer_activations`.
    """

    half: bool
    rank: int
    checkpointing: bool
    tokens: int
    sequences: int
    answers: int
    parts: int = 2
    every_position: bool = False
    gpus: int = 1
    offload: bool = False
    compiled: bool = False
    packed_layers: bool = False


class SumOfParts:
    """What a dataclass's fields add up to, all in one unit."""

    def parts(self) -> dict[str, float]:
        """Name to value, of those that there are."""
        return {part.name: value for part in fields(self) if (value := float(getattr(self, part.name)))}  # type: ignore[arg-type]

    @property
    def total(self) -> float:
        """Of all parts; of memory at the peak."""
        return float(sum(self.parts().values()))


@dataclass(frozen=True)
class Memory(SumOfParts):
    """Bytes on one GPU, by part. cache: of keys and values. beside: of other models in the same process."""

    weights: float
    gradients: float = 0.0
    moments: float = 0.0
    activations: float = 0.0
    logits: float = 0.0
    workspace: float = 0.0
    cache: float = 0.0
    beside: float = 0.0


def layer_activations(shape: ModelShape, half: bool, rank: int, packed_layers: bool = False) -> int:
    """Bytes a token that one layer keeps for its backward pass, attention without a score matrix: transformers' layers, or those of
    `rmlab.models.packed_layers`, which a GPU trains through."""
    hidden, queries, keys = shape.hidden_size, shape.queries, shape.keys
    inner = shape.experts_per_token * shape.expert_size if shape.experts else shape.intermediate_size
    head_norms = shape.head_norms
    small = FLOAT * (2 + shape.heads + ((shape.heads + shape.kv_heads) if head_norms else 0))  # norms, log-sum-exp
    if packed_layers:
        heads = (7 if head_norms else 3) * (queries + keys)
        return HALF * (10 * hidden + 4 * inner + heads) + small
    width = 2 if not head_norms else 4 if rank else 5
    if not half:
        norms = 2 * hidden * (2 if rank else 3)  # input, weighted; normalised where the norm's own weight is trained
        projected = (4 - bool(rank) if head_norms else 2) * (queries + keys)
        return FLOAT * (norms + 4 * inner + projected + 7 * rank) + small
    norms = 2 * FLOAT * hidden * (1 if rank else 2)
    casts = HALF * (5 * hidden + 4 * inner)  # what goes into each projection in bfloat16, once each
    return norms + casts + HALF * (width + (rank > 0)) * queries + HALF * width * keys + small + 7 * HALF * rank


def kept_by_heads(shape: ModelShape, half: bool) -> int:
    """Of that, bytes for each value of queries and keys, where all weights are trained."""
    return (HALF if half else FLOAT) * ((5 if half else 4) if shape.head_norms else 2)


def training_memory(shape: ModelShape, run: TrainingMemory) -> Memory:
    """At the peak of a step, behind the first (moments are there).

    Under autocast a copy of each layer's weights in bfloat16 lives as long as the forward pass and what the backward pass needs of it.
    The peak lies at the end of the forward pass, or where a layer's gradient is taken; sharded weights are gathered a layer at a time.
    """
    adapters = shape.adapter_weights(run.rank)
    trained = adapters if run.rank else shape.weights
    frozen = shape.weights if run.rank else 0
    narrow = HALF if run.half else FLOAT
    copies = HALF * (adapters if run.rank else shape.layers * (shape.attention_weights + shape.feed_forward_weights))
    stream = narrow if run.rank else FLOAT  # of what goes from layer to layer
    layer = (
        layer_activations(shape, run.half, run.rank, run.packed_layers)
        * run.tokens
        * (COMPILED if run.compiled else 1.0)
    )
    kept = stream * shape.hidden_size * run.tokens
    whole = shape.layers if run.every_position else shape.layers - 1
    last = 0 if run.every_position else run.tokens * (2 * stream * shape.hidden_size + 2 * narrow * shape.keys)
    activations: float = whole * (kept * (not run.offload) if run.checkpointing else layer) + last + kept
    gradients = FLOAT * trained / run.gpus
    moments = 2 * gradients
    inner = shape.experts_per_token * shape.expert_size if shape.experts else shape.intermediate_size
    # of one layer's backward pass: its activations made again, the gradients of its widest tensors
    again = (layer if run.checkpointing else 0) + run.tokens * (narrow * 3 * inner + 2 * FLOAT * shape.hidden_size)
    embedding = 0 if run.rank else FLOAT * shape.embedding_weights  # gradient of the look-up beside that of the head
    head = FLOAT * shape.embedding_weights if run.rank and run.half else 0  # the frozen head in float32
    if run.half:
        activations += copies / run.gpus
    if run.parts == 1:  # gradients come while activations go
        gradients = max(0.0, gradients - activations)
    return Memory(
        weights=(FLOAT * trained + narrow * frozen) / run.gpus,
        gradients=gradients,
        moments=moments,
        activations=activations,
        logits=3.0 * FLOAT * run.answers * shape.vocabulary + head,
        workspace=max(again, embedding) + gathered(shape, run.gpus),
    )


def offloaded(shape: ModelShape, run: TrainingMemory) -> float:
    """Bytes that checkpointing keeps of the largest micro-batch in the machine's memory, for each GPU."""
    if not (run.offload and run.checkpointing):
        return 0.0
    narrow = (HALF if run.half else FLOAT) if run.rank else FLOAT
    layers = shape.layers if run.every_position else shape.layers - 1
    return float(narrow * layers * shape.hidden_size * run.tokens)


def gathered(shape: ModelShape, gpus: int) -> float:
    """Bytes of sharded weights that lie whole on each GPU during a pass: embedding, head and last layer, and two layers on their way
    (`rmlab.training.sharding`)."""
    if gpus == 1:
        return 0.0
    layer = shape.attention_weights + shape.feed_forward_weights
    return float(FLOAT * (shape.embedding_weights * (1 if shape.tied else 2) + layer) + 2 * HALF * layer)


def scoring_memory(
    shape: ModelShape, weights_half: bool, half: bool, tokens: int, sequences: int, gpus: int = 1
) -> Memory:
    """Of scoring a batch of so many tokens, padding included. weights_half: they lie in bfloat16; half: arithmetic.

    gpus: over which weights are sharded."""
    narrow = HALF if half else FLOAT
    inner = shape.experts_per_token * shape.expert_size if shape.experts else shape.intermediate_size
    layer = shape.attention_weights + shape.feed_forward_weights
    stream = tokens * (
        3 * FLOAT * shape.hidden_size + narrow * (shape.hidden_size + 2 * shape.queries + 2 * shape.keys)
    )
    wide = tokens * narrow * (4 * inner + 5 * shape.hidden_size * shape.experts_per_token)
    return Memory(
        weights=(HALF if weights_half else FLOAT) * shape.weights / gpus,
        activations=stream + (min(wide, PARTS_BYTES) if half else wide),
        logits=2.0 * FLOAT * sequences,
        workspace=(HALF * layer if half and not weights_half else 0) + gathered(shape, gpus),
    )


def rollout_memory(shape: ModelShape, slots: int, capacity: int, half: bool) -> Memory:
    """Of decoding in `slots` conversations of up to `capacity` tokens each, with logits in float32."""
    narrow = HALF if half else FLOAT
    return Memory(
        weights=narrow * shape.weights,
        logits=2.0 * FLOAT * slots * shape.vocabulary,
        cache=2.0 * narrow * shape.layers * shape.keys * slots * capacity,
    )
