"""How a model is optimised, and where it runs. OptimizerConfig and TrainingConfig are hashed, RuntimeConfig is not."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar

from rmlab.errors import UsageError
from rmlab.fingerprint import UNHASHED

SEMANTICS = 1
"""Bumped when the same configuration and data train to another model; part of every config hash."""


class Match(StrEnum):
    """What a sweep over the amount of data holds still: passes over the data, or optimiser steps."""

    epochs = "epochs"
    steps = "steps"


class Dtype(StrEnum):
    """Arithmetic of training and scoring (bfloat16 = autocast over float32 weights; those that a verifier's adapters leave frozen lie
    in bfloat16 then)."""

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
    """batch_size: examples an optimiser step, split into micro-batches of at most micro_batch_size examples.

    match=epochs: `epochs` passes over the chosen set. match=steps: as many steps as `epochs` passes over
    `reference_scale` examples, whatever the set's size (the second arm of `data_scale`).
    threads: CPU threads of this one run; a preset's value, never derived from how many runs go on at once.
    checkpointing: activations within a layer are not kept but made again in the backward pass: less memory for more time, the
    same gradient but for rounding.
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


def canonical(training: TrainingConfig, scale: int) -> TrainingConfig:
    """One form for settings that give the same run over `scale` examples.

    `reference_scale` says nothing unless steps are matched (it becomes 0), and matching the steps of as many examples as there
    are is what whole passes do: so the two arms of `data_scale` meet in one run at the scale of reference.
    """
    match = training.match
    if match is Match.steps and scale == training.reference_scale and training.epochs == int(training.epochs):
        match = Match.epochs
    return replace(training, match=match, reference_scale=training.reference_scale if match is Match.steps else 0)


@dataclass
class RuntimeConfig:
    """Where and how a run goes, nothing that changes its result but for rounding. device: cpu, cuda, or auto (cuda where there is one).

    checkpoint_seconds: between two checkpoints. progress: draw a bar.
    compiled: the model's layers (of a base model in pretraining: the whole step), by torch.compile; on a GPU it pays from about
    ten million tokens on.
    """

    HASHED: ClassVar[bool] = False

    device: str = "cpu"
    checkpoint_seconds: float = 60.0
    progress: bool = True
    compiled: bool = False


@dataclass
class MicroBatchRuntimeConfig(RuntimeConfig):
    """micro_batch_tokens: of one forward and backward pass, in place of training.micro_batch_size examples; null = those. Padding
    counts, where there is any. A mixture of experts refuses it: its balance loss depends on how a batch is cut.
    packed: examples stand side by side in one row without padding; on a GPU in bfloat16, where the model's attention can be told
    where each begins.
    offload: what training.checkpointing keeps of each layer lies in the machine's memory, not in the GPU's.
    """

    micro_batch_tokens: int | None = None
    packed: bool = True
    offload: bool = False


@dataclass
class SeveralGpusRuntimeConfig(MicroBatchRuntimeConfig):
    """processes: that train one model together, one a GPU (`rmlab.launchers.rank_processes`); 0 = as many as GPUs are visible."""

    processes: int = 1


@dataclass
class LanguageConfig:
    """tokens: next tokens asked for in all, over as many epochs as that takes; max_minutes (behind the
    first step, which compiles) ends training sooner.

    context: tokens of a row. batch_tokens: of a step, a multiple of the context. held_out: share of the documents that is not
    read. evaluations: how often their loss is taken.
    comparisons: questions whether two values are equal (rmlab.pretraining.comparisons; 0 = none), of which only the answer is
    asked for. comparison_share: of a step's rows. comparison_weight: of the mean loss of their answers beside that of the text.
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
