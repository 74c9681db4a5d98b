"""A policy that is trained on demonstrations: its configuration, its folders, and the record that stays with it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import MISSING

import rmlab
from rmlab.files import MODEL
from rmlab.fingerprint import UNHASHED
from rmlab.microswe.episode import EnvironmentConfig
from rmlab.microswe.loading import LoadedTasks
from rmlab.microswe.sandbox import SandboxConfig
from rmlab.models.config import LoraConfig, ModelConfig
from rmlab.policies.demonstrations import DemonstrationsConfig, HeldOutConfig, RepairsConfig
from rmlab.policies.engine import EngineConfig
from rmlab.policies.folder import holds, save_policy
from rmlab.policies.success import Success
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.run_index import has_finished
from rmlab.training.config import MicroBatchRuntimeConfig, OptimizerConfig, TrainingConfig
from rmlab.trajectories.store import TrajectorySet

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer
    from rmlab.training.policy import Imitated


@dataclass
class TrainPolicyConfig:
    """tasks, output: file and folder. more_tasks: files with tasks of the part rl only, whose functions are also held out.

    workers: sandbox processes. tracked: log to MLflow. snapshots: shares of training at which the
    model is also measured and saved as OUTPUT-at-SHARE: weaker policies of known quality, for collections.
    """

    tasks: str = field(default=MISSING, metadata=UNHASHED)
    more_tasks: list[str] = field(default_factory=list, metadata=UNHASHED)
    output: str = field(default=MISSING, metadata=UNHASHED)
    seed: int = 0
    workers: int = field(default=2, metadata=UNHASHED)
    snapshots: list[float] = field(default_factory=list)
    tracked: bool = field(default=True, metadata=UNHASHED)
    demonstrations: DemonstrationsConfig = field(default_factory=DemonstrationsConfig)
    repairs: RepairsConfig = field(default_factory=RepairsConfig)
    held_out: HeldOutConfig = field(default_factory=HeldOutConfig)
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    lora: LoraConfig = field(default_factory=LoraConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    runtime: MicroBatchRuntimeConfig = field(default_factory=MicroBatchRuntimeConfig)


def is_finished(settings: TrainPolicyConfig, run_hash: str) -> bool:
    """Whether the output folder holds this very policy, trained to its end, its snapshots beside it, and where it is to be tracked
    a finished run of it is in the store."""
    if not all(holds(folder, run_hash, share) for share, folder in kept_folders(settings).items()):
        return False
    return not settings.tracked or has_finished(settings.tracking.uri, run_hash)


def kept_folders(settings: TrainPolicyConfig) -> dict[float, Path]:
    """Share of training -> where the policy stands that was kept after it; the whole one is the output folder."""
    folder = Path(settings.output)
    return {1.0: folder} | {share: folder.with_name(f"{folder.name}-at-{share}") for share in settings.snapshots}


def keep(
    folder: Path,
    model: Any,
    tokenizer: "Tokenizer",
    record: dict[str, Any],
    measured: dict[str, Success],
    took: "Imitated",
) -> None:
    """Writes the model folder with what was measured of it and how its loss went."""
    held_out = {name: asdict(success) for name, success in measured.items()}
    save_policy(
        folder, model, tokenizer, record | {"held_out": held_out}, {"log.json": json.dumps(took.history) + "\n"}, MODEL
    )


def policy_record(
    pools: Sequence[TrajectorySet],
    took: "Imitated",
    model: Any,
    tokenizer: "Tokenizer",
    loaded: LoadedTasks,
    settings: TrainPolicyConfig,
    command: str,
) -> dict[str, Any]:
    """Everything that names this policy: what it learned from, and what that took."""
    import torch
    import transformers

    return {
        "command": command,
        "seed": settings.seed,
        "rmlab_version": rmlab.__version__,
        "base": settings.model.pretrained,
        "demonstrations": [pool.fingerprint for pool in pools],
        "tasks_fingerprint": loaded.fingerprint,
        "tokenizer_fingerprint": tokenizer.fingerprint,
        "parameters": model.num_parameters(),
        "steps": took.steps,
        "tokens": took.tokens,
        "taught_tokens": took.taught_tokens,
        "seconds": round(took.seconds_in_all, 1),
        "tokens_per_second": round(took.tokens_per_second),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name()
        if torch.cuda.is_available() and settings.runtime.device != "cpu"
        else "cpu",
        **{name: asdict(getattr(settings, name)) for name in ("lora", "optimizer", "training", "environment")},
    }
