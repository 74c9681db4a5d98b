"""The tracked run that trains a verifier: opened with its identity; how long one took before."""

from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from rmlab.errors import MissingArtifact
from rmlab.paths import portable
from rmlab.tracking.config import sweep_tags
from rmlab.tracking.parameters import differing_keys
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.verifiers.training import VerifierSettings, run_name

EXPERIMENT, KIND = "verifiers", "verifier"


def start_run(settings: VerifierSettings, **tags: Any) -> RunLogger:
    """Opens the run, under the sweep that it is a cell of or by itself. tags: both hashes, the device, and what else identifies it."""
    tracking = settings.tracking
    return RunLogger.start(
        Store.open(tracking.uri),
        tracking.experiment or tracking.sweep or EXPERIMENT,
        run_name(settings),
        kind=KIND,
        tags={**sweep_tags(tracking), **tags},
        once=True,
        replaces=tracking.replaces,
    )


def known_time(store: Store, config: DictConfig, device: str, tokens: int) -> str | None:
    """How long so many tokens take, by the last finished run of the same model and batches on such a device; None without one."""
    wanted = yaml.safe_load(portable(OmegaConf.to_yaml(config, resolve=True)))  # as `config.yaml` holds it
    alike = (
        "model",
        "lora",
        "runtime",
        "training.batch_size",
        "training.micro_batch_size",
        "training.dtype",
        "training.threads",
        "training.checkpointing",
    )
    for run in runs(store, tags={"kind": KIND, "status": "finished", "device": device}):
        speed = run.metrics.get("train/tokens_per_second")
        if not speed or run.is_reuse:
            continue
        try:
            before = yaml.safe_load(run.artifact("config.yaml").read_text(encoding="utf-8"))
        except MissingArtifact:  # it came in a bundle, without it
            continue
        if not any(key.startswith(alike) for key in differing_keys(before, wanted)):
            return f"about {tokens / speed:,.0f} s at {speed:,.0f} tokens/s, as run {run.run_id} ({run.name})"
    return None
