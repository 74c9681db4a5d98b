"""Supervised training on prompts: the loss on the next token, or any other loss that is a sum over examples.

By default the loss is cross-entropy over the whole vocabulary at the last position of each prompt, averaged over the
examples of an optimiser step. Micro-batches add up sums that are divided by the step's example count, so that 8 × 1 = 2 × 4
(gradient accumulation that averages averages is the bug of transformers #34191). The balance loss of a mixture of experts is
not a sum over examples: each micro-batch's is weighted by its share of the step.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from rmlab.errors import UsageError
from rmlab.models.attention import sent
from rmlab.models.cpu_layers import cpu_layers
from rmlab.models.heads import language_model, last_logits, pad_right
from rmlab.models.moe import Routing, experts_of
from rmlab.models.packed import pack_row, packed, packed_rows
from rmlab.models.packed_layers import has_packed_layers, packed_layers
from rmlab.training.batching import Item, micro_batches, plan_batches
from rmlab.training.config import SEMANTICS, MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import checkpointed_layers, compiled_layers, trains_packed
from rmlab.training.loop import Log, Trained, TrainingState, Watch, planned, run_identity, train_loop
from rmlab.training.optimizer import accumulate, adamw
from rmlab.training.ranks import Ranks, dealt, even
from rmlab.training.replicas import add_gradients
from rmlab.training.sharding import is_sharded, within


@dataclass(frozen=True)
class Example:
    """A prompt's token ids and the one id that should follow."""

    ids: Sequence[int] | NDArray[np.int32]
    target: int

    @property
    def tokens(self) -> int:
        """Of the prompt."""
        return len(self.ids)

    def content(self) -> str:
        """Target and ids as text."""
        return f"{self.target} {' '.join(map(str, self.ids))}"


class Loss(Protocol):
    """The sum of a loss over examples, with its gradient; pad_id fills up what is read together, routing goes to the model."""

    def __call__(
        self, model: Any, part: Sequence[Any], pad_id: int, device: Any, routing: Routing | None
    ) -> torch.Tensor: ...


def answer_loss(
    model: Any, part: Sequence[Example], pad_id: int, device: Any, routing: Routing | None = None
) -> torch.Tensor:
    """Cross-entropy over the whole vocabulary behind each prompt, summed."""
    target_B = sent(torch.tensor([e.target for e in part]), device.device)
    logits_BV = read(last_logits, model, [e.ids for e in part], pad_id, device, routing)
    return cross_entropy(logits_BV, target_B, reduction="sum")


def read(
    reader: Callable[..., torch.Tensor],
    model: Any,
    sequences: Sequence[Any],
    pad_id: int,
    device: Any,
    routing: Routing | None,
) -> torch.Tensor:
    """What `last_logits` or `last_hidden` makes of B sequences of ids, in the run's arithmetic on its device.

    Within `packed_rows` they are packed into one, else in rows that are padded to the longest.
    """
    arrange: Any = pack_row if packed(language_model(model)) else pad_right
    ids_BT, ends = arrange(sequences, pad_id)
    with device.autocast():
        return reader(
            model, sent(ids_BT, device.device), ends.to(device.device), *([] if routing is None else [routing])
        )


def train(
    model: Any,
    examples: Sequence[Item],
    pad_id: int,
    device: Any,
    *,
    optimizer: OptimizerConfig,
    training: TrainingConfig,
    runtime: MicroBatchRuntimeConfig,
    seed: int,
    checkpoint: Path | None = None,
    log: Log | None = None,
    watch: Watch | None = None,
    loss: Loss = answer_loss,
    title: str = "train",
) -> Trained:
    """Trains `model` in place (and leaves it on the device) and returns what it took; see `train_loop`.

    model: spread over the ranks (`rmlab.training.replicas`) where there are several. examples: at least one; every one is
    seen once an epoch. device: the run's Accelerator. log: is told every step; watch likewise,
    for a mixture of experts. loss: of a few examples, summed. Raises UsageError where `runtime` would change what is learned.
    """
    ranks = Ranks.of(device)
    if not is_sharded(model):
        model.to(device.device)
    adam = adamw(model, optimizer)
    tokens_N = [e.tokens for e in examples]
    plan = plan_batches(tokens_N, training, seed)
    routing = (
        Routing(model.config.num_experts_per_tok, model.config.router_aux_loss_coef) if experts_of(model) else None
    )
    if routing is not None and model.config.router_aux_loss_coef and runtime.micro_batch_tokens is not None:
        raise UsageError(
            f"runtime.micro_batch_tokens={runtime.micro_batch_tokens}: the balance loss of a mixture of experts is computed per "
            "micro-batch, so the way a batch is split would change the model but not its hash. Leave it out."
        )
    torch.manual_seed(seed)
    inner = language_model(model)
    rows_packed = trains_packed(inner, training, runtime, device)

    def gradient(batch: Sequence[int], _: TrainingState) -> torch.Tensor:
        parts = micro_batches(
            [examples[i] for i in batch], training.micro_batch_size, runtime.micro_batch_tokens, rows_packed
        )
        return mean_gradient(model, parts, pad_id, device, loss, routing)

    recipe = planned(
        plan,
        tokens_N,
        optimizer,
        gradient,
        title,
        after=None if routing is None else lambda _: routing.take_metrics(ranks.total),
    )
    run = run_identity(model, (e.content() for e in examples), SEMANTICS, optimizer, training, seed)
    own_layers = rows_packed and not runtime.offload and has_packed_layers(inner.get_decoder())
    with (
        nullcontext() if rows_packed or runtime.compiled else cpu_layers(model),
        packed_rows(inner, rows_packed),
        packed_layers(inner, own_layers, runtime.compiled, training.checkpointing),
        checkpointed_layers(model, training.checkpointing and not own_layers, runtime.offload),
        compiled_layers(model, runtime.compiled and not own_layers),
    ):
        took, _ = train_loop(
            model,
            adam,
            recipe,
            optimizer=optimizer,
            runtime=runtime,
            run=run,
            checkpoint=checkpoint,
            log=log,
            watch=watch,
            ranks=ranks,
        )
    return took


def mean_gradient(
    model: Any,
    parts: Sequence[Sequence[Item]],
    pad_id: int,
    device: Any,
    loss: Loss = answer_loss,
    routing: Routing | None = None,
) -> torch.Tensor:
    """Adds the gradient of a batch's mean loss to the parameters, micro-batch by micro-batch; returns that loss.

    parts: see `micro_batches`. device: the Accelerator. The loss is divided by the size of the whole batch. The balance loss adds to the
    gradient, not to what is returned. Of several ranks each reads its share of the parts (`dealt`), and the loss is that of all; so
    that none is idle a part is halved, but where its balance loss would be another one then.
    """
    ranks, examples = Ranks.of(device), sum(map(len, parts))
    if routing is None or not routing.weight:
        parts = even(parts, ranks.number)

    def share(one: tuple[Sequence[Item], bool]) -> torch.Tensor:
        part, counts = one
        if routing is not None:
            routing.counts = counts
        value: torch.Tensor = within(model, loss, part, pad_id, device, routing) / examples
        return value if counts else value * 0

    def balance(one: tuple[Sequence[Item], bool]) -> torch.Tensor:
        part, counts = one
        assert routing is not None
        return routing.take_loss() * (len(part) / examples if counts else 0)

    averaged = ranks.number if is_sharded(model) else 1
    local = accumulate(dealt(parts, ranks), share, device, None if routing is None else balance, averaged)
    if ranks.number > 1 and not is_sharded(model):
        add_gradients(model, ranks)
    return ranks.total(local)
