"""The MLflow run of one training: opened with its identity, and completed with its results."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from rmlab.errors import DataError, StoreError
from rmlab.fingerprint import Identity
from rmlab.metrics.report import report
from rmlab.microswe.loading import LoadedTasks
from rmlab.models.tokenizer import load_tokenizer
from rmlab.policies.folder import record_of, save_policy
from rmlab.rl.assemble import PASSED_ON
from rmlab.rl.config import AlgorithmConfig, RewardConfig, RLRun
from rmlab.rl.learner import RLState
from rmlab.rl.loop import Loop
from rmlab.rl.outcome import described, held_out_rates_record, outcome, outcome_metrics, signal, timed
from rmlab.rl.paid_cosine import paid_cosine
from rmlab.rl.paid_scores import changes_scores, paid_scores
from rmlab.scratch import scratch_folder
from rmlab.sweep.cells import without_keys
from rmlab.tracking.config import sweep_tags
from rmlab.tracking.parameters import parameters
from rmlab.tracking.references import Reference
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.training.device import device_name, resolve_device
from rmlab.wording import counted

EXPERIMENT, KIND = "policies", "rl"
VARIED = ("seed", "verifier", "reward", "environment.evidence")  # what the arms of one figure may differ in


@contextmanager
def tracked_run(
    settings: RLRun,
    identity: Identity,
    start: Reference,
    verifiers: Sequence[Reference],
    loaded: LoadedTasks,
    isolation: str,
) -> Iterator[RunLogger]:
    """The run, opened; an error closes it as failed, an end of the block leaves it open."""
    tracking, reward = settings.tracking, settings.reward
    name = tracking.name or f"{settings.name} {reward.mode} s{settings.seed}"
    tags = {
        **sweep_tags(tracking),
        "config_hash": identity.config_hash,
        "control_hash": identity.control_hash,
        "isolation": isolation,
        "start": settings.start,
        "start_run": start.run_id,
        "start_fingerprint": start.fingerprint(),
        "reward": reward.mode,
        "evidence": settings.environment.evidence.value,
        "dataset": loaded.fingerprint,
        "device": device_name(resolve_device(settings.runtime.device)),
        "fixed": without_keys(identity, VARIED),
        "reward_variant": reward.variant,
    }
    if verifiers:
        tags |= {
            "verifier": settings.verifier,
            "verifier_run": verifiers[0].run_id,
            "verifier_name": verifiers[0].run_name,
            "verifier_fingerprint": verifiers[0].fingerprint(),
            "verifier_training": verifiers[0].run.tags.get("config_hash", "") if verifiers[0].run else "",
        }
    logger = RunLogger.start(
        Store.open(tracking.uri),
        tracking.experiment or tracking.sweep or EXPERIMENT,
        name,
        kind=KIND,
        once=True,
        replaces=tracking.replaces,
        tags={k: v for k, v in tags.items() if v},
        params=parameters(
            settings,
            {
                "seed": settings.seed,
                "reward": reward.mode,
                "reward_weight": reward.weight,
                "learning_rate": settings.optimizer.learning_rate,
                "steps": settings.rl.steps,
                "edits": settings.environment.edits.value,
                "max_turns": settings.environment.max_turns,
                "algorithm": settings.algorithm.name.value,
            },
        ),
    )
    try:
        names = ", ".join(Path(name).name for name in [settings.tasks, *settings.more_tasks])
        logger.dataset(
            Path(settings.tasks).stem, loaded.fingerprint, "rl", {"path": names}, {"tasks": len(loaded.part("rl"))}
        )
        yield logger
    except BaseException as error:
        logger.fail(error)
        raise


def log_verifier_report(
    logger: RunLogger, verifier: Reference, reward: RewardConfig, algorithm: AlgorithmConfig
) -> float | None:
    """The offline metrics of the verifier travel with the policy that it pays for (`verifier_report.json`), and where its scores are
    calibrated or bent before they are paid, those of what is paid (`paid_report.json`). Says and returns how near the advantages of the
    reward as it is paid come to those of the labels (`rmlab.rl.paid_cosine`), None where that is not known."""
    missing = "the metrics of the verifier, or those of its scores as paid, are missing from this run: {}"
    try:
        logger.text("verifier_report.json", verifier.beside("report.json").read_text(encoding="utf-8"))
    except (DataError, StoreError) as error:
        print(missing.format(error))
        return None
    try:
        paid = paid_scores(verifier.beside, reward)
    except (DataError, StoreError) as error:
        if changes_scores(reward):
            print(missing.format(error))
        return None
    if paid is None:
        return None
    if changes_scores(reward):
        logger.json("paid_report.json", report(paid, replicates=0))
    cosine = paid_cosine(paid, reward, algorithm)
    if np.isnan(cosine):
        return None
    print(
        f"reward={reward.mode}: cosine {cosine:.3f} between its advantages and those of the labels, on the attempts that the verifier was "
        "evaluated on (1: as good as the labels, 0: nothing of them)"
    )
    return cosine


def log_outcome(logger: RunLogger, loop: Loop, state: RLState, settings: RLRun, start: Reference) -> str:
    """What came of it, as an artifact, as metrics and in a few lines."""
    result = outcome(state, loop.held_out_after, loop.held_out, loop.held_out_best, settings.watch.outcome_without)
    logger.json("outcome.json", result)
    logger.json("held_out.json", held_out_rates_record(state, loop.held_out_after, loop.held_out))
    logger.metrics(outcome_metrics(result))
    if settings.keep_model:
        with scratch_folder() as scratch:
            save_policy(
                scratch / "model",
                copy.deepcopy(loop.learner.model).cpu(),  # the learner can go on
                load_tokenizer(start.folder),
                {
                    "start": settings.start,
                    "seed": settings.seed,
                    "steps": settings.rl.steps,
                    "reward": asdict(settings.reward),
                    "verifier": settings.verifier,
                    "environment": asdict(settings.environment),
                    **{k: v for k, v in record_of(start.folder).items() if k in PASSED_ON},
                },
            )
            logger.artifact(scratch / "model")
    name = settings.tracking.name or settings.name
    lines = [*signal(state.history), *described(result), *timed(state.history)]
    return "\n".join(
        [f"{name}: {counted(state.step, 'step')} in {state.seconds:.0f} s", *lines, f"  MLflow run {logger.run_id}"]
    )
