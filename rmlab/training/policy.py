"""Imitation: how a policy learns from demonstrations, with the loss on the taught tokens alone.

Loss = mean of -log p over the taught tokens of an optimiser step. Micro-batches add up sums that are divided by the step's
count, so the way a batch is split changes nothing. Conversations of similar length are batched together, right-padded.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from rmlab.errors import UsageError
from rmlab.files import atomic_path
from rmlab.models.attention import sent
from rmlab.models.heads import float_logits
from rmlab.models.packed import PackedRow, pack_row, packed, packed_rows
from rmlab.training.batching import SFTExample, micro_batches, plan_batches
from rmlab.training.checkpoints import load_weights
from rmlab.training.config import MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.training.device import accelerator, checkpointed_layers, compiled_layers, trains_packed
from rmlab.training.loop import Log, Trained, TrainingState, planned, run_identity, train_loop
from rmlab.training.optimizer import accumulate, adamw

WIDTH = 64  # rows are padded to a multiple of this on a GPU
LOG_EVERY = 10  # steps: reading a loss makes the device wait


@dataclass(frozen=True)
class Imitated(Trained):
    """What training took. snapshots: (share of training, model on the CPU as it was then)."""

    taught_tokens: int
    snapshots: tuple[tuple[float, Any], ...]


def imitate(
    model: Any,
    examples: Sequence[SFTExample],
    pad_id: int,
    *,
    optimizer: OptimizerConfig,
    training: TrainingConfig,
    runtime: MicroBatchRuntimeConfig,
    seed: int,
    snapshots: Sequence[float] = (),
    checkpoint: Path | None = None,
    log: Log | None = None,
    title: str = "imitation",
) -> Imitated:
    """Trains `model` in place and leaves it on the CPU; see `train_loop`.

    log: is told every LOG_EVERY steps. snapshots: shares of training (over 0, under 1) at which the model is copied; they lie beside
    the checkpoint, whose owner removes its folder. Raises UsageError without examples.
    """
    if wrong := [share for share in snapshots if not 0 < share < 1]:
        raise UsageError(f"snapshots={wrong[0]}: must be a share of training above 0 and below 1")
    if not examples:
        raise UsageError(
            "there are no demonstrations: name a trajectory set with resolved attempts in the supervised part"
        )
    device = accelerator(training, runtime)
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision("high")
    model.to(device.device)
    adam = adamw(model, optimizer)
    tokens_N = [example.tokens for example in examples]
    plan = plan_batches(tokens_N, training, seed)
    copies = _Snapshots(
        model, {share: math.ceil(share * len(plan)) for share in snapshots}, checkpoint.parent if checkpoint else None
    )

    rows_packed = trains_packed(model, training, runtime, device)

    def gradient(batch: Sequence[int], state: TrainingState) -> torch.Tensor:
        loss, asked = mean_gradient(
            model, [examples[i] for i in batch], pad_id, training, device, runtime.micro_batch_tokens
        )
        state.extra["taught"] = state.extra.get("taught", 0) + asked
        return loss

    recipe = planned(
        plan, tokens_N, optimizer, gradient, title, every=LOG_EVERY, after=copies.take, restore=copies.read
    )
    run = (
        run_identity(model, (example.content() for example in examples), optimizer, training, seed)
        if checkpoint
        else ""
    )
    with (
        packed_rows(model, rows_packed),
        checkpointed_layers(model, training.checkpointing, runtime.offload),
        compiled_layers(model, runtime.compiled),
    ):
        took, state = train_loop(
            model, adam, recipe, optimizer=optimizer, runtime=runtime, run=run, checkpoint=checkpoint, log=log
        )
    model.cpu()
    return Imitated(**vars(took), taught_tokens=state.extra["taught"], snapshots=copies.models())


class _Snapshots:
    """Copies of a model at steps by share of its training; beside a checkpoint they lie as files, so that a resume has them."""

    def __init__(self, model: Any, at: Mapping[float, int], folder: Path | None):
        self.model, self.at, self.folder = model, at, folder
        self.weights: dict[float, dict[str, torch.Tensor]] = {}

    def take(self, state: TrainingState) -> dict[str, float]:
        """Copies the weights that learn where a share of training ends with this step."""
        for share in [share for share, wanted in self.at.items() if wanted == state.step]:
            self.weights[share] = {name: p.detach().to("cpu", copy=True).contiguous() for name, p in self._learning()}
            if self.folder is not None:
                with atomic_path(self._file(share)) as temporary:
                    save_file(self.weights[share], temporary)
        return {}

    def read(self, state: TrainingState) -> None:
        """The copies that were taken before a resume."""
        for share in [share for share, wanted in self.at.items() if wanted <= state.step]:
            self.weights[share] = load_weights(self._file(share))

    def models(self) -> tuple[tuple[float, Any], ...]:
        """(share, model on the CPU) in the order of shares."""
        models = []
        for share, weights in sorted(self.weights.items()):
            made = copy.deepcopy(self.model).cpu().eval()
            with torch.no_grad():
                for name, parameter in made.named_parameters():
                    if name in weights:
                        parameter.copy_(weights[name])
            models.append((share, made))
        return tuple(models)

    def _learning(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [(name, p) for name, p in self.model.named_parameters() if p.requires_grad]

    def _file(self, share: float) -> Path:
        assert self.folder is not None
        return self.folder / f"snapshot_{share}.safetensors"


def mean_gradient(
    model: Any,
    batch: Sequence[SFTExample],
    pad_id: int,
    training: TrainingConfig,
    device: Any,
    micro_batch_tokens: int | None = None,
) -> tuple[torch.Tensor, int]:
    """Adds the gradient of the batch's mean loss to the parameters; returns that loss (on the device) and the tokens it is over."""
    asked = sum(int(example.loss_mask_T.sum()) for example in batch)
    rows = 0 if micro_batch_tokens else min(training.micro_batch_size, len(batch))
    rows_packed = packed(model)

    def loss(part: Sequence[SFTExample]) -> torch.Tensor:
        row = None
        if rows_packed:
            ids_BT, loss_mask_BT, row = one_row(part, pad_id, device.device)
        else:
            ids_BT, loss_mask_BT = padded(part, pad_id, rows, device.device)
        with device.autocast():
            logprob_BT, _ = token_logprobs(model, ids_BT, loss_mask_BT, row=row)
        return -logprob_BT.sum() / max(asked, 1)

    return accumulate(
        micro_batches(batch, training.micro_batch_size, micro_batch_tokens, rows_packed), loss, device
    ), asked


def one_row(examples: Sequence[SFTExample], pad_id: int, device: Any) -> tuple[torch.Tensor, torch.Tensor, PackedRow]:
    """ids_1T and where examples lie in it, on the device, and loss_mask_1T on the CPU."""
    ids_1T, row = pack_row([example.ids_T for example in examples], pad_id)
    loss_mask_1T = torch.zeros(ids_1T.shape, dtype=torch.bool)
    real_T = np.concatenate([example.loss_mask_T for example in examples])
    loss_mask_1T[0, : len(real_T)] = torch.from_numpy(real_T)
    return sent(ids_1T, device), loss_mask_1T, row.to(device)


def padded(examples: Sequence[SFTExample], pad_id: int, rows: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """ids_BT on the device and loss_mask_BT on the CPU, right-padded to a multiple of WIDTH and to at least `rows` rows."""
    width = (
        -(-max(len(example.ids_T) for example in examples) // WIDTH) * WIDTH
        if torch.device(device).type != "cpu"
        else max(len(x.ids_T) for x in examples)
    )
    ids_BT = np.full((max(rows, len(examples)), width), pad_id, dtype=np.int64)
    loss_mask_BT = np.zeros(ids_BT.shape, dtype=np.bool_)
    for ids_T, loss_mask_T, example in zip(
        ids_BT, loss_mask_BT, examples, strict=False
    ):  # rows behind the last lesson are padding
        ids_T[: len(example.ids_T)] = example.ids_T
        loss_mask_T[: len(example.ids_T)] = example.loss_mask_T
    return sent(torch.from_numpy(ids_BT), device), torch.from_numpy(loss_mask_BT)


def token_logprobs(
    model: Any,
    ids_BT: torch.Tensor,
    wanted_BT: torch.Tensor,
    temperature: float = 1.0,
    entropy: bool = False,
    entropy_gradient: bool = False,
    row: PackedRow | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """logprob_BT (float32, natural logarithm): of the token at position t given those before it; 0 where it is not wanted.

    model: a transformers causal language model; gradients flow. ids_BT: right-padded, so causal attention needs no mask.
    wanted_BT: bool; its first column must be False (nothing comes before it); on the CPU it costs no wait for the device.
    temperature: as tokens were sampled; 0 counts
    as 1. entropy: the second value is entropy_BT in nats, 0 where not wanted; else None. entropy_gradient: it is differentiable.
    row: where sequences lie in the one row, within `packed_rows`; the first token of none is wanted.
    """
    arguments = {} if row is None else row.decoder_arguments
    hidden_BTH = model.get_decoder()(input_ids=ids_BT, use_cache=False, **arguments).last_hidden_state
    row_N, column_N = (sent(index_N, ids_BT.device) for index_N in wanted_BT.nonzero(as_tuple=True))
    at, before_NH, token_N = (row_N, column_N), hidden_BTH[row_N, column_N - 1], ids_BT[row_N, column_N]
    return chosen_logprobs(model, before_NH, token_N, at, ids_BT.shape, temperature, entropy, entropy_gradient)


def chosen_logprobs(
    model: Any,
    hidden_NH: torch.Tensor,
    token_N: torch.Tensor,
    at: tuple[torch.Tensor, torch.Tensor],
    shape: Sequence[int],
    temperature: float,
    entropy: bool,
    entropy_gradient: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """What `token_logprobs` gives, of N tokens and the decoder's states in front of them. at: their rows and columns in `shape`."""
    logits_NV = float_logits(model, hidden_NH) / (temperature or 1.0)
    logprob_N = -cross_entropy(logits_NV, token_N, reduction="none")
    empty_BT = torch.zeros(shape, device=token_N.device)
    logprob_BT = empty_BT.index_put(at, logprob_N)
    if not entropy:
        return logprob_BT, None
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        share_NV = torch.log_softmax(logits_NV, dim=-1)
        return logprob_BT, empty_BT.index_put(at, -(share_NV.exp() * share_NV).sum(-1))
