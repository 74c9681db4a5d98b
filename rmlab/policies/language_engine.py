"""A language model as a policy, from a folder to attempts; and the rollout engine: many of its attempts, decoded in slots while programs
run.

An attempt opens (its issue needs the public call's value), takes a slot, reads, speaks, may wait there for what `run` shows,
leaves the slot when it submits or runs out of turns, and closes (its last program is tested). The slot is given to the next
attempt at once. Where `overlap` is off, programs run whenever an eighth of the slots waits for them, so that a run on a CPU
repeats itself exactly.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import MISSING

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.sandbox import Sandbox
from rmlab.models.generation import SlotDecoder
from rmlab.models.tokenizer import Tokenizer
from rmlab.policies.conversation import PolicyPrompt
from rmlab.policies.engine import EngineConfig, Rollouts, Sampling
from rmlab.policies.programs import Executor
from rmlab.policies.rollout import Planned
from rmlab.policies.rollout_schedule import RolloutSchedule
from rmlab.progress import Advance
from rmlab.tracking.query import find_model
from rmlab.trajectories.record import Trajectory
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.trajectories.record import Trajectory

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class LanguageEngine:
    """`rmlab.policies.engine.Engine` over one model. device: cpu or cuda; the model may lie elsewhere.

    sandbox: started before torch was imported. The engine belongs to one thread. Raises UsageError for an unknown dtype.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        sandbox: Sandbox,
        environment: EnvironmentConfig,
        config: EngineConfig,
        device: str = "cpu",
    ):
        if config.dtype not in DTYPES:
            raise UsageError(f"engine.dtype={config.dtype}: choose one of {', '.join(DTYPES)}")
        on_gpu = device != "cpu"
        if config.graphs and not on_gpu:
            raise UsageError(
                "engine.graphs=true: CUDA graphs need a CUDA device. Take engine=cpu, or engine.graphs=null."
            )
        self.prompt, self.environment, self.config = PolicyPrompt(tokenizer), environment, config
        self.executor = Executor(sandbox)
        self.decoder = SlotDecoder(
            model,
            config.slots,
            config.capacity,
            self.prompt.stop_id,
            device,
            DTYPES[config.dtype],
            on_gpu if config.graphs is None else config.graphs,
        )
        self.overlap = on_gpu if config.overlap is None else config.overlap
        self.burst = config.burst if on_gpu else 1  # on a CPU a look at who has finished costs nothing

    def refresh(self) -> None:
        """Takes the weights of the model again that it was made with."""
        self.decoder.refresh()

    def rollout(
        self,
        planned: Sequence[Planned],
        sampling: Sampling | Sequence[Sampling],
        seed: int,
        advance: Advance | None = None,
        on_finished: Callable[[Trajectory], None] | None = None,
    ) -> Rollouts:
        """See `rmlab.policies.engine.Engine.rollout`. on_finished: is called with each trajectory as it is finished."""
        sampling_N = [sampling] * len(planned) if isinstance(sampling, Sampling) else list(sampling)
        for one in dict.fromkeys(sampling_N):
            if one.temperature < 0 or one.max_action_tokens < 1:
                raise UsageError(
                    f"temperature={one.temperature}, max_action_tokens={one.max_action_tokens}: at least 0, and 1"
                )
        with RolloutSchedule(self, planned, sampling_N, seed, advance, on_finished) as schedule:
            return Rollouts(schedule.play(), schedule.seconds)


@dataclass
class LanguagePolicyConfig:
    """model: a folder, a run or a cell. temperature, max_action_tokens: see Sampling. device: cpu, cuda or auto."""

    model: str = MISSING
    temperature: float = 1.0
    max_action_tokens: int = 64
    device: str = "auto"
    engine: EngineConfig = field(default_factory=EngineConfig)

    @property
    def sampling(self) -> Sampling:
        """How tokens are taken."""
        return Sampling(self.temperature, self.max_action_tokens)

    @property
    def folder(self) -> Path:
        """Where the model lies. Raises DataError or StoreError where its name means none."""
        return find_model(self.model, "config.json").folder


def stated(config: LanguagePolicyConfig) -> dict[str, Any]:
    """What names a policy in a trajectory set: its weights, how it samples, and the quality that was measured when it was trained.

    Raises DataError where the folder holds no weights.
    """
    folder = config.folder
    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise DataError(f"{folder} holds no model in safetensors. `rmlab warm-start` writes one.")
    record = folder / "policy.json"
    held_out = json.loads(record.read_text(encoding="utf-8")).get("held_out", {}) if record.is_file() else {}
    return {
        "weights": fingerprint([file_fingerprint(path) for path in weights]),
        "temperature": config.temperature,
        "max_action_tokens": config.max_action_tokens,
        "pass_at_1": {name: round(float(rates["pass_at_1"]), 4) for name, rates in held_out.items()},
    }


def load_engine(config: LanguagePolicyConfig, sandbox: Sandbox, environment: EnvironmentConfig) -> "LanguageEngine":
    """The engine of one policy. Raises DataError where the folder holds no model."""
    from rmlab.models.load import load_model
    from rmlab.models.tokenizer import load_tokenizer
    from rmlab.training.device import prepare_device

    device, folder = prepare_device(config.device), config.folder
    return LanguageEngine(
        load_model(folder).eval(), load_tokenizer(folder), sandbox, environment, config.engine, device
    )


def play(
    config: LanguagePolicyConfig,
    planned: Sequence[Planned],
    sandbox: Sandbox,
    environment: EnvironmentConfig,
    seed: int,
    advance: Advance | None = None,
    on_finished: "Callable[[Trajectory], None] | None" = None,
) -> "list[Trajectory]":
    """The trajectories of planned attempts, in the order of the plan. on_finished: is called with each as it is finished."""
    engine = load_engine(config, sandbox, environment)
    rollouts, seconds = engine.rollout(planned, config.sampling, seed, advance, on_finished)
    print(f"{config.model}: {counted(len(rollouts), 'attempt')} in {seconds}", file=sys.stderr)
    return [rollout.trajectory for rollout in rollouts]
