"""The settings of RL: rewards, advantages, loss, and the amount of training. Every option is part of the run's hash.

Names of algorithms: GRPO (DeepSeekMath, arXiv 2402.03300), GSPO (arXiv 2507.18071),
clipping that keeps gradients (GPPO, Klear-Reasoner, arXiv 2508.07629), dynamic sampling (DAPO, arXiv 2503.14476).
"""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from omegaconf import MISSING

from rmlab.errors import UsageError
from rmlab.fingerprint import OMIT_DEFAULT, UNHASHED, fingerprint, hashed_fields
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.sandbox import SandboxConfig
from rmlab.models.config import LoraConfig
from rmlab.policies.engine import EngineConfig
from rmlab.tracking.config import TrackingConfig
from rmlab.training.config import Dtype, OptimizerConfig, RuntimeConfig

Floats = NDArray[np.float64]
SEMANTICS = 2
"""Bumped when the same configuration, start and verifier give another policy; part of every config hash. 2: error messages that a
program words itself are quoted in what a policy is shown."""


class Algorithm(StrEnum):
    """The unit for which the ratio of new to old probability is computed."""

    gspo = "gspo"  # a whole sequence: exp of the mean over its own tokens
    grpo = "grpo"  # every token


class Scale(StrEnum):
    """What centred rewards of a group are divided by."""

    std = "std"  # the group's standard deviation, at least `std_floor`: small groups of noise are not blown up
    none = "none"  # nothing (Dr. GRPO), since dividing weights tasks by how evenly they are solved


class Clipping(StrEnum):
    """What happens to a ratio beyond the clip."""

    cut = "cut"  # PPO's: constant, so no gradient
    preserve = "preserve"  # GPPO's: the same value, and the gradient as if the ratio stood at the clip


class LossMean(StrEnum):
    """What the loss is a mean of. GSPO's is over sequences by definition."""

    sequence = "sequence"  # over tokens within each sequence, then over sequences
    token = "token"  # over all tokens: long sequences weigh more


class KL(StrEnum):
    """Estimators of KL(policy, start) from sampled tokens, d = log policy - log start (Schulman 2020).

    As a loss on the policy's own samples, only k2 has the gradient of the KL; that of k1 is zero on average, that of k3 is biased.
    """

    k1 = "k1"  # d
    k2 = "k2"  # d² / 2
    k3 = "k3"  # exp(-d) - 1 + d


@dataclass
class AlgorithmConfig:
    """clip_low, clip_high: the ratio is clipped to [1 - clip_low, 1 + clip_high]; GSPO's clip is far smaller than GRPO's.

    ratio_guard: a sequence with a larger mean |log ratio| (GRPO: a token) is left out of the update and counted; null = no limit.
    kl_weight, entropy_weight: weights of these terms in the loss, 0 = off.
    """

    name: Algorithm = Algorithm.gspo
    scale: Scale = Scale.std
    std_floor: float = 0.25
    clip_low: float = 0.03
    clip_high: float = 0.04
    clipping: Clipping = Clipping.cut
    mean: LossMean = LossMean.sequence
    kl: KL = KL.k2
    kl_weight: float = 0.0
    entropy_weight: float = 0.0
    ratio_guard: float | None = 1.0


class Calibration(StrEnum):
    """Post-hoc calibration of the verifier before its scores become rewards, fitted on its validation scores."""

    none = "none"
    temperature = "temperature"
    platt = "platt"
    isotonic = "isotonic"


class Combine(StrEnum):
    """How the scores of several verifiers are combined into one."""

    mean = "mean"
    lower_bound = "lower_bound"  # mean - bound_width × standard deviation over verifiers, at least 0


class Unread(StrEnum):
    """What happens to an attempt that does not fit a verifier's context: it stops the run, or it is read in part (and counted)."""

    error = "error"
    cut_observations = "cut_observations"
    truncate_middle = "truncate_middle"
    truncate_head = "truncate_head"


@dataclass
class TransformConfig:
    """Changes to the logit of the score. Each changes one property that offline metrics measure and keeps another.

    slope, shift: logit → slope · logit + shift: keeps order and AUC, changes calibration. difficulty: weight of the task's frozen
    log odds of being solved by the start: raises the pooled AUC, hardly changes what a group sees. same_difficulty: use the mean of
    these log odds over the tasks of the RL part for every task: the same level, without telling tasks apart. spread: factor on the
    distance of a group's logits from their mean: keeps the order, changes the weight in advantages without std. between: factor on
    that mean: 0 keeps only the part within the task. `rmlab.rl.advantages` gives the order.
    """

    slope: float = 1.0
    shift: float = 0.0
    difficulty: float = 0.0
    spread: float = 1.0
    between: float = field(default=1.0, metadata=OMIT_DEFAULT)
    same_difficulty: bool = field(default=False, metadata=OMIT_DEFAULT)


@dataclass
class RewardConfig:
    """mode: the name of a reward (`rmlab.rl.rewards`). weight: weight of the score in hybrid.

    unfinished: added for an attempt that never submitted.
    ensemble: verifiers in addition to `verifier`, named in the same way. bound_width: standard deviations, for lower_bound.
    offset, factor: the reward becomes offset + factor · r. Advantages that are divided by the group's standard deviation do not
    change if algorithm.std_floor is multiplied by the factor too.
    """

    mode: str = "execution"
    weight: float = 1.0
    unfinished: float = -0.5
    calibration: Calibration = Calibration.none
    ensemble: list[str] = field(default_factory=list)
    combine: Combine = Combine.mean
    bound_width: float = 1.0
    transform: TransformConfig = field(default_factory=TransformConfig)
    offset: float = field(default=0.0, metadata=OMIT_DEFAULT)
    factor: float = field(default=1.0, metadata=OMIT_DEFAULT)

    @property
    def is_affine(self) -> bool:
        """Whether the reward is rescaled or shifted."""
        return (self.offset, self.factor) != (0.0, 1.0)

    @property
    def variant(self) -> str:
        """A short hash of everything except mode and weight, "" if all of it is at the defaults."""
        own = hashed_fields(self)
        return "" if own == hashed_fields(RewardConfig(self.mode, self.weight)) else fingerprint(own)[:6]


@dataclass
class LoopConfig:
    """One training of a policy.

    steps: number of rounds of rollout, reward and update. groups, attempts: tasks per step, attempts at each. temperature,
    max_action_tokens: for sampling. updates: optimiser steps that a batch is split into, passes: how often it is read. batch_tokens:
    tokens of one forward pass, with padding; where attempts are packed into a row (a GPU in bfloat16), a shared issue counts once.
    resample: rounds in which groups without signal are replaced by new tasks. retries: for attempts that failed in the environment.
    max_minutes: stop after this time, resumable; null = no limit.
    """

    steps: int = 60
    groups: int = 64
    attempts: int = 8
    temperature: float = 1.0
    max_action_tokens: int = 64
    updates: int = 2
    passes: int = 1
    batch_tokens: int = 16384
    resample: int = 0
    retries: int = 2
    max_minutes: float | None = field(default=None, metadata=UNHASHED)


@dataclass
class WatchConfig:
    """What is evaluated during training.

    every: steps between two evaluations on validation, 0 = only at the start and the end. tasks, attempts: on validation (null = all).
    held_out_tasks, held_out_attempts: on each held-out benchmark, before the first and after the last step (0 = none).
    long_lines: number of lines from which a function counts as long. episodes: attempts shown as HTML at each evaluation.
    difficulty_attempts: attempts of the start at each task of the RL part, if a difficulty term needs them.
    choose: also evaluate the weights with the highest validation pass@1 on the held-out benchmarks.
    outcome_without: held-out benchmarks left out of `all` and of collapse, e.g. [two_bugs] if hardly any of those is solved.
    """

    every: int = 10
    tasks: int | None = 256
    attempts: int = 4
    held_out_tasks: int | None = 256
    held_out_attempts: int = 4
    long_lines: int = 15
    episodes: int = 8
    difficulty_attempts: int = 4
    choose: bool = False
    outcome_without: list[str] = field(default_factory=list, metadata=OMIT_DEFAULT)


@dataclass
class LimitsConfig:
    """How long all programs that run at once may take; the limits of each program are the same in every command (`sandbox.Limits`).

    A program that does not fit into this time counts as an error of the environment and is run again, so that endless programs delay
    a step by at most batch_seconds at a time.
    """

    batch_seconds: float = 60.0


@dataclass
class ArithmeticConfig:
    """dtype: precision of training and scoring (bfloat16 = autocast over float32 weights). threads: CPU threads."""

    dtype: Dtype = Dtype.float32
    threads: int = 2


@dataclass
class RLRun:
    """Everything that makes one policy. start: a folder, a run or a cell. verifier: likewise; "" where nobody scores.

    With reward=execution a verifier pays nothing and is watched all the same. over_length: what becomes of an attempt that a
    verifier cannot read whole. more_tasks: files of tasks of the part rl alone, trained on too. name: of the policy in its
    trajectories. keep_model: the trained policy becomes an artifact. workers: of the sandbox.
    """

    start: str = field(default=MISSING, metadata=UNHASHED)
    verifier: str = ""
    over_length: Unread = Unread.error
    tasks: str = field(default=MISSING, metadata=UNHASHED)
    more_tasks: list[str] = field(default_factory=list, metadata=UNHASHED)
    name: str = "policy"
    seed: int = 0
    workers: int = field(default=2, metadata=UNHASHED)
    keep_model: bool = field(default=True, metadata=UNHASHED)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    rl: LoopConfig = field(default_factory=LoopConfig)
    watch: WatchConfig = field(default_factory=WatchConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: ArithmeticConfig = field(default_factory=ArithmeticConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)


def check_options(loop: LoopConfig) -> None:
    """Raises UsageError for options that contradict each other, before anything is loaded."""
    if loop.attempts < 2 or min(loop.groups, loop.updates, loop.passes) < 1 or loop.steps < 0:
        raise UsageError(
            f"rl.groups={loop.groups}, rl.attempts={loop.attempts}, rl.updates={loop.updates}, rl.passes={loop.passes}: must "
            "be at least 1, and at least 2 attempts to compare within a task"
        )
    if loop.temperature <= 0:
        raise UsageError(
            f"rl.temperature={loop.temperature}: must be above 0, because identical attempts teach nothing"
        )
