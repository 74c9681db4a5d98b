"""How a model is optimised, and where it runs. OptimizerConfig and TrainingConfig are hashed, RuntimeConfig is not."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from rmlab.errors import UsageError
from rmlab.fingerprint import UNHASHED

SEMANTICS = 1
"""Bumped when the same configuration and data give another model; part of every config hash."""


class Match(StrEnum):
    """What a sweep over the amount of data keeps fixed: the passes over the data, or the optimiser steps."""

    epochs = "epochs"
    steps = "steps"


class Parallel(StrEnum):
    """How several GPUs hold the model that they train together. ddp: each the whole of it; fsdp: each a part of every weight, which takes
    less memory and more time; auto: ddp where the weights, their gradients and moments leave room enough (`ranks.fits_whole`)."""

    auto = "auto"
    ddp = "ddp"
    fsdp = "fsdp"


class Dtype(StrEnum):
    """Precision of training and scoring (bfloat16 = autocast over float32 weights; weights that stay frozen beside a verifier's
    adapters are then stored in bfloat16, and a GPU scores with a dense verifier in float16, which rounds less, unless several GPUs
    share out its weights)."""

    float32 = "float32"
    bfloat16 = "bfloat16"


@dataclass
class OptimizerConfig:
    """AdamW with linear warm-up and cosine decay to `final_fraction` of the peak."""

    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    warmup_fraction: float = 0.1
    final_fraction: float = 0.1
    gradient_clip: float = 1.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "epsilon", "gradient_clip"):
            if not getattr(self, name) > 0:
                raise UsageError(f"optimizer.{name}={getattr(self, name)}: must be above 0")
        if not self.weight_decay >= 0:
            raise UsageError(f"optimizer.weight_decay={self.weight_decay}: must be at least 0")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"optimizer.{name}={getattr(self, name)}: must be at least 0 and below 1")
        for name in ("warmup_fraction", "final_fraction"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"optimizer.{name}={getattr(self, name)}: must be a share from 0 to 1")


@dataclass
class TrainingConfig:
    """batch_size: examples per optimiser step, split into micro-batches of at most micro_batch_size examples.

    match=epochs: `epochs` passes over the chosen set. match=steps: as many steps as `epochs` passes over
    `reference_scale` examples, whatever the set's size (the second arm of `data_scale`).
    threads: CPU threads of each run; a preset sets it, and it never depends on how many runs there are at once.
    checkpointing: recompute the activations within a layer in the backward pass instead of keeping them: less memory, more time,
    the same gradient up to rounding.
    """

    epochs: float = 2.0
    match: Match = Match.epochs
    reference_scale: int = 2000
    batch_size: int = 32
    micro_batch_size: int = 32
    dtype: Dtype = Dtype.float32
    threads: int = 1
    checkpointing: bool = field(default=False, metadata=UNHASHED)

    def __post_init__(self) -> None:
        for name in ("batch_size", "micro_batch_size", "threads"):
            if getattr(self, name) < 1:
                raise UsageError(f"training.{name}={getattr(self, name)}: must be at least 1")
        if self.epochs <= 0:
            raise UsageError(f"training.epochs={self.epochs}: must be above 0")


def canonical(training: TrainingConfig, scale: int) -> TrainingConfig:
    """One form for settings that give the same run over `scale` examples.

    `reference_scale` has no effect unless steps are matched (it becomes 0), and whole passes already match the steps of as many
    examples as there are: so the two arms of `data_scale` share one run at the reference scale.
    """
    match = training.match
    if match is Match.steps and scale == training.reference_scale and training.epochs == int(training.epochs):
        match = Match.epochs
    return replace(training, match=match, reference_scale=training.reference_scale if match is Match.steps else 0)


DEVICES = ("cpu", "cuda", "auto")


@dataclass
class RuntimeConfig:
    """Where and how a run is computed; nothing here changes its result beyond rounding. device: cpu, cuda, or auto (cuda if available).

    checkpoint_seconds: time between two checkpoints. progress: draw a bar.
    compiled: compile the model's layers (in pretraining, the whole step) with torch.compile; on a GPU this pays off from about
    ten million tokens.
    """

    HASHED: ClassVar[bool] = False

    device: str = "cpu"
    checkpoint_seconds: float = 60.0
    progress: bool = True
    compiled: bool = False

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise UsageError(f"runtime.device={self.device}: choose one of {', '.join(DEVICES)}")


@dataclass
class MicroBatchRuntimeConfig(RuntimeConfig):
    """micro_batch_tokens: tokens of one forward and backward pass, padding included, instead of training.micro_batch_size examples;
    null = those. Not allowed for a mixture of experts, whose balance loss depends on how a batch is split.
    packed: put examples side by side in one row without padding; only on a GPU in bfloat16, if the model's attention supports it.
    offload: keep what training.checkpointing stores of each layer in host memory instead of GPU memory.
    """

    micro_batch_tokens: int | None = None
    packed: bool = True
    offload: bool = False


@dataclass
class SeveralGpusRuntimeConfig(MicroBatchRuntimeConfig):
    """processes: how many train one model together, one per GPU (`rmlab.launchers.rank_processes`); 0 = one for each visible GPU.
    parallel: see `Parallel`.
    """

    processes: int = 1
    parallel: Parallel = Parallel.auto


@dataclass
class LanguageConfig:
    """tokens: total number of predicted tokens, over as many epochs as needed; max_minutes (not counting the
    first step, which compiles) can end training earlier.

    context: tokens per row. batch_tokens: tokens per step, a multiple of the context. held_out: share of the documents that is
    not trained on. evaluations: how often their loss is measured.
    comparisons: number of questions whether two values are equal (rmlab.pretraining.comparisons; 0 = none), trained on the answer
    only. comparison_share: their share of a step's rows. comparison_weight: weight of their mean loss relative to that of the text.
    """

    tokens: int = 2_400_000_000
    max_minutes: float = 8.0
    context: int = 768
    batch_tokens: int = 98_304
    held_out: float = 0.01
    comparisons: int = 0
    comparison_share: float = 0.25
    comparison_weight: float = 1.0
    evaluations: int = 10
    dtype: Dtype = Dtype.bfloat16
    threads: int = 2
