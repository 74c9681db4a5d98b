"""The rollout engine: many attempts of one language model, decoded in slots while programs run.

An attempt opens (its issue needs the public call's value), takes a slot, reads, speaks, may wait there for what `run` shows,
leaves the slot when it submits or runs out of turns, and closes (its last program is tested). The slot is given to the next
attempt at once. Where `overlap` is off, programs run whenever an eighth of the slots waits for them, so that a run on a CPU
repeats itself exactly.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from rmlab.errors import UsageError
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
                "engine.graphs=true: CUDA graphs need a CUDA device. Use engine=cpu, or engine.graphs=null."
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
