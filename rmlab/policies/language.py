"""A language model as a policy: from a folder to attempts. Configurations are read from here, so nothing of it imports torch."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import MISSING

from rmlab.errors import DataError
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.sandbox import Sandbox
from rmlab.policies.engine import EngineConfig, Sampling
from rmlab.policies.rollout import Planned
from rmlab.progress import Advance
from rmlab.tracking.references import find_model
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.policies.language_engine import LanguageEngine
    from rmlab.trajectories.record import Trajectory


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
        raise DataError(f"{folder} has no model in safetensors. `rmlab warm-start` writes one.")
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
    from rmlab.policies.language_engine import LanguageEngine
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
