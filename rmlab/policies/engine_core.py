"""What all rollouts of an engine share: the model in its slots, its prompt, and who executes programs."""

from typing import Any

import torch

from rmlab.errors import UsageError
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.sandbox import Sandbox
from rmlab.models.generation import SlotDecoder
from rmlab.models.tokenizer import Tokenizer
from rmlab.policies.conversation import PolicyPrompt
from rmlab.policies.engine import EngineConfig
from rmlab.policies.programs import Executor

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class EngineCore:
    """A model that speaks in slots, and a sandbox that executes. device: cpu or cuda; the model may lie elsewhere.

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
