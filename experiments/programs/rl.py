"""RL: trains a policy in micro-SWE, paid by execution, by a verifier or by both, and measures what became of it.

    rmlab rl start=runs/policies/smollm2-s0 reward=hybrid verifier=data_scale/demo/4000/s0 runtime=cuda engine=cuda

start and verifiers found → sandbox → tasks → policy, engine, reward model → evaluation → steps and evaluations → held-out benchmarks →
one MLflow run. The same command goes on after a kill, or after `rl.max_minutes`: the state lies in the runs folder under the config_hash.
"""

import shutil
import time
from collections.abc import Sequence
from functools import cache

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from rmlab.configuration import compose
from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import Identity, file_fingerprint, hashed_values
from rmlab.microswe.build.joined import joined_tasks
from rmlab.microswe.episode import Edits
from rmlab.microswe.sandbox import Limits, Sandbox, warn_if_weak
from rmlab.policies.folder import record_of
from rmlab.rl.config import SEMANTICS, Calibration, LimitsConfig, RLRun, TransformConfig, check_options
from rmlab.rl.rewards import check_reward
from rmlab.sweep.cells import identify
from rmlab.sweep.factors import find_factors
from rmlab.sweep.single_run import run_once
from rmlab.tracking.parameters import describe_single
from rmlab.tracking.references import VALIDATION_SCORES, Reference, find_model
from rmlab.training.device import compiled_layers

FIXED_LIMIT = (
    "what one program may use is the same in every command (rmlab.microswe.sandbox.Limits); limits.batch_seconds bounds "
    "all that run at once"
)
RENAMED = {
    "rl.checkpoint_seconds": "runtime.checkpoint_seconds",
    "runtime.micro_batch_tokens": "rl.batch_tokens",
    "limits.call_seconds": FIXED_LIMIT,
    "limits.program_seconds": FIXED_LIMIT,
}
PRELOAD: tuple[str, ...] = ()  # the sandbox's workers are forked before torch is imported

ConfigStore.instance().store(name="rl_schema", node=RLRun)


def main(overrides: Sequence[str], force: bool = False) -> str:
    """Composes `conf/rl.yaml` with the overrides, trains, and returns the MLflow run id.

    A configuration that is finished is not trained again unless `force`; one that is being trained is waited for.
    """
    config = compose("rl", list(overrides))
    describe_single(config, overrides)
    _settings(config)
    return run_once(config, identity(config).config_hash, run, force)


def identity(config: DictConfig) -> Identity:
    """Both hashes of a run: its configuration, the tasks that hold here, and the content of the policy and verifiers that it names."""
    settings = _settings(config)  # what has no value is told first
    plain = hashed_values(config)
    if settings.environment.edits is Edits.start_over:
        plain["practised"] = (
            "tasks of one changed line"  # a later choice: what was trained on all of them is told apart
        )
    if settings.reward.transform != TransformConfig():
        plain["transformed"] = (
            "every score in float32 has a logit of its own"  # a later choice: scores were cut at 1e-6
        )
    uri = config.tracking.uri
    record_of(_find_start(config.start, uri).folder)  # a damaged one is said before a finished run is looked for
    plain["verifier"] = _content(config.verifier, "verifier.json", uri) if config.verifier else ""
    plain["reward"]["ensemble"] = [_content(name, "verifier.json", uri) for name in config.reward.ensemble]
    if (
        config.verifier and settings.reward.calibration is not Calibration.none
    ):  # what the calibration is fitted on pays too
        plain["calibrated_on"] = [
            file_fingerprint(find_model(name, "verifier.json", uri).beside(VALIDATION_SCORES))
            for name in [config.verifier, *config.reward.ensemble]
        ]
    return identify(
        plain,
        pool=joined_tasks(settings.tasks, settings.more_tasks, settings.workers).fingerprint,
        tokenizer=_content(config.start, "config.json", uri),
        semantics={"rl": SEMANTICS},
        factors=find_factors(config.tracking.factors),
    )


def prepare(configs: Sequence[DictConfig]) -> None:
    """Nothing is shared between cells; proves that the device is there. Raises RmlabError otherwise."""
    from rmlab.training.device import resolve_device

    for config in configs:
        resolve_device(config.runtime.device)


def run(config: DictConfig) -> str:
    """Trains one policy as one tracked run; returns its id. Where the time is up first, the run is left `stopped` and resumable.

    Raises an RmlabError for a start, verifier or device that is not there, options that contradict, and training that diverges.
    """
    began = time.monotonic()
    settings = _settings(config)
    hashes = identity(config)
    uri = settings.tracking.uri
    start = _find_start(settings.start, uri)
    verifiers = [
        find_model(name, "verifier.json", uri) for name in [settings.verifier, *settings.reward.ensemble] if name
    ]
    loaded = joined_tasks(settings.tasks, settings.more_tasks, settings.workers)
    with Sandbox(settings.workers, limits(settings.limits), allow_weak=settings.sandbox.allow_weak) as sandbox:
        from rmlab.rl.assemble import make_loop
        from rmlab.rl.outcome import timed
        from rmlab.rl.tracked import log_outcome, log_verifier_report, tracked_run

        with tracked_run(settings, hashes, start, verifiers, loaded, str(sandbox.isolation)) as logger:
            warn_if_weak(sandbox.isolation)
            logger.configuration(config)
            cosine = (
                log_verifier_report(logger, verifiers[0], settings.reward, settings.algorithm) if verifiers else None
            )
            loop = make_loop(settings, loaded, sandbox, start, verifiers, hashes.config_hash, logger)
            state = loop.start()
            logger.replay(state.history)
            loop.artifacts.send_again()
            minutes = settings.rl.max_minutes
            with compiled_layers(loop.learner.model, settings.runtime.compiled):
                done = loop.train(state, None if minutes is None else began + 60 * minutes)
            if not done:
                print(
                    f"stopped after {minutes:.1f} minutes at step {state.step} of {settings.rl.steps}: the same command goes on "
                    f"from there ({loop.checkpoint})",
                    *timed(state.history),
                    sep="\n",
                )
                logger.fail(SystemExit())
                return logger.run_id
            logger.metrics({"paid/advantage_cosine": cosine})
            summary = log_outcome(logger, loop, state, settings, start)
            logger.finish()
    shutil.rmtree(loop.checkpoint.parent, ignore_errors=True)
    print(summary)
    return logger.run_id


def limits(config: LimitsConfig) -> Limits:
    """As the sandbox takes them."""
    return Limits(batch_seconds=config.batch_seconds)


def _find_start(name: str, uri: str | None) -> Reference:
    """The policy that learns. Raises DataError for a verifier, which answers YES or NO and makes no attempts."""
    start = find_model(name, "config.json", uri)
    if (start.folder / "verifier.json").is_file():
        raise DataError(
            f"start={name} is a verifier, and a verifier plays no attempts. Name a policy (`rmlab warm-start` makes one). "
            f"The verifier that pays is named by verifier={name}."
        )
    return start


@cache
def _content(name: str, record: str, uri: str | None) -> str:
    return find_model(name, record, uri).fingerprint()


def _settings(config: DictConfig) -> RLRun:
    if missing := sorted(OmegaConf.missing_keys(config)):
        raise UsageError(
            f"{missing[0]} has no value: give one, for example {missing[0]}=runs/policies/starter-s0 "
            "(`rmlab warm-start` makes one)"
        )
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, RLRun)
    check_reward(settings.reward, settings.verifier)
    check_options(settings.rl)
    return settings
