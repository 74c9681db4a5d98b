"""Cross validate: one verifier a fold of repositories, the scores of all folds as one table; one cell of a sweep.

    rmlab sweep real_policy_mixture data.path=runs/real.parquet

pool → folds of whole repositories → in each fold: parts do not mix, prompts do not leak → tokenizer → selection → training →
validation and what was left out are scored → out-of-fold scores pooled → report and baselines → one MLflow run. For real
trajectories, of which there are too few to keep an evaluation part aside. A killed run goes on from its fold's checkpoint.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import UNHASHED, Identity, fingerprint
from rmlab.models import tokenizer as tokenizers
from rmlab.models.load import folder_identity
from rmlab.paths import runs_folder
from rmlab.scratch import scratch_folder
from rmlab.selection import select as choice
from rmlab.selection.pool import read_index
from rmlab.selection.select import DataConfig, Selection, check_fill, largest_scale
from rmlab.sweep.cells import identify, tokenizer_identity
from rmlab.sweep.factors import find_factors
from rmlab.training.pretrained import find_pretrained, pretrained_folder
from rmlab.trajectories import folds
from rmlab.trajectories.folds import Fold, FoldsConfig, check_folds, folds_of
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.config import SEMANTICS, check_context
from rmlab.verifiers.training import VerifierSettings, check_fits, check_room, choose, fit, run_name

if TYPE_CHECKING:
    from rmlab.scores.scores import Scores
    from rmlab.tracking.run import RunLogger
    from rmlab.verifiers.dataset import VerifierData
    from rmlab.verifiers.encoding import Encoded
    from rmlab.verifiers.fold_report import JudgedFold

WHERE = (
    "data.path has to be given: the trajectories are not shipped. Those of the sweep real_policy_mixture are public: "
    "aorwall/moatless-tools at f188761f, evaluations/20240623_moatless_claude-3.5-sonnet, and at 68783da9, "
    "evaluations/20240609_moatless_gpt4o; gruckion/mini-swe-agent at d12a71af, swebench_results/20251118_gemini-3-pro-74pct. "
    "Then `rmlab import auto FOLDER ... -o runs/real.parquet` and data.path=runs/real.parquet "
    "(experiments/studies/real_policy_mixture/README.md)."
)


@dataclass
class UnsplitData(DataConfig):
    """A pool without parts, of one's own: its file has to be named."""

    path: str = field(default="", metadata=UNHASHED)


@dataclass
class CrossValidation(VerifierSettings):
    """Everything that makes the verifiers of one cell, one a fold."""

    data: UnsplitData = field(default_factory=UnsplitData)
    folds: FoldsConfig = field(default_factory=FoldsConfig)


ConfigStore.instance().store(name="cross_validate_schema", node=CrossValidation)


def identity(config: DictConfig) -> Identity:
    """Both hashes of a run, from its configuration and the content of its inputs."""
    if not config.data.path:
        raise UsageError(WHERE)
    if config.data.hidden_tests is not None:
        raise UsageError(
            "data.hidden_tests only applies to micro-SWE; real attempts have the labels of their reports: leave it out"
        )
    pool = read_index(config.data.path).fingerprint
    tokenizer = (
        folder_identity(pretrained_folder(config.model.pretrained, config.tracking.uri))
        if config.model.pretrained
        else tokenizer_identity(config.model.tokenizer, pool, tokenizers.SEMANTICS)
    )
    return identify(
        config,
        pool=pool,
        tokenizer=tokenizer,
        factors=find_factors(config.tracking.factors),
        semantics=SEMANTICS | {"select": choice.SEMANTICS, "folds": folds.SEMANTICS},
    )


def check(config: DictConfig) -> None:
    """What `prepare` refuses of a configuration without reading text, whatever the device. Raises an RmlabError.

    The whole pool stands for the training part of each fold, so a total that passes may still be too much for a fold.
    """
    settings = _settings(config)
    find_pretrained(settings, warn=False)
    check_context(settings.model, settings.prompt)
    check_fits(settings)
    rows = read_index(settings.data.path).rows
    if all(row.resolved is None for row in rows):
        raise DataError(
            f"none of the {len(rows):,} trajectories of {settings.data.path} has a label, and a verifier learns from both labels: "
            "`rmlab import --labels` joins them"
        )
    check_folds({row.policy for row in rows}, settings.folds)
    check_fill(
        (replace(row, split="verifier") for row in rows if row.policy not in settings.folds.unseen), settings.data
    )


def needs(configs: Sequence[DictConfig]) -> list[tuple[int, int]]:
    """Of each configuration, for a dry run: the attempts that a verifier is trained on, and the most that every fold could give, before it
    is known which fit the context. Reads the pool's text, whose issues say what stays together in a fold. Raises an RmlabError."""
    from rmlab.trajectories.store import read_trajectories

    made: dict[str, list[Fold]] = {}
    found = []
    for settings in map(_settings, configs):
        path = settings.data.path
        key = fingerprint([path, asdict(settings.folds)])
        if key not in made:
            made[key] = folds_of(read_trajectories(Path(path)).trajectories, settings.folds)
        most = []
        for fold in made[key]:
            with _named(fold):
                most.append(largest_scale(fold.trajectories, settings.data))
        found.append((settings.data.scale, min(most)))
    return found


def prepare(configs: Sequence[DictConfig]) -> None:
    """Makes tokenizers and token ids of all folds once. Raises an RmlabError where a device, or an example in one fold, is missing."""
    from rmlab.training.device import resolve_device

    alike: dict[str, list[CrossValidation]] = {}
    for config in configs:
        settings = _settings(config)
        find_pretrained(settings, warn=False)
        resolve_device(settings.runtime.device)
        check_context(settings.model, settings.prompt)
        key = fingerprint(
            [
                OmegaConf.to_container(config[name], resolve=True, enum_to_str=True)
                for name in ("folds", "model", "prompt", "evaluation")
            ]
            + [settings.data.path]
        )
        alike.setdefault(key, []).append(settings)
    for of_key in alike.values():
        for fold, ready in _materials(of_key[0]):
            for settings in of_key:
                _choose(fold, ready, settings)


def run(config: DictConfig) -> str:
    """Trains and scores a verifier a fold and reports on all of them as one tracked run; returns its id.

    Raises an RmlabError for bad data, a missing device, a level that a fold cannot fill, or a store that cannot be written.
    """
    from rmlab.training.device import accelerator, device_name
    from rmlab.verifiers.tracked import start_run

    settings = _settings(config)
    find_pretrained(settings)
    device = accelerator(settings.training, settings.runtime)
    hashes = identity(config)
    cell = runs_folder() / "cells" / hashes.config_hash
    name = run_name(settings)
    with start_run(
        settings,
        config_hash=hashes.config_hash,
        control_hash=hashes.control_hash,
        device=device_name(str(device.device.type)),
        folds=settings.folds.number,
        dataset=read_index(settings.data.path).fingerprint,
    ) as logger:
        logger.configuration(config)
        done = [_one_fold(fold, ready, settings, device, cell, logger) for fold, ready in _materials(settings)]
        said = _report(done, name, settings, logger)
    shutil.rmtree(cell, ignore_errors=True)
    print(f"{name}: {said}\n  MLflow run {logger.run_id}")
    return logger.run_id


def _one_fold(
    fold: Fold, ready: "VerifierData", settings: CrossValidation, device: Any, cell: Path, logger: "RunLogger"
) -> "JudgedFold":
    """Trains the verifier of a fold, looks at it on validation, and scores what was left out, once."""
    from rmlab.metrics.report import report
    from rmlab.scores.writing import write_score_table
    from rmlab.tracking.fold_logger import FoldLogger
    from rmlab.verifiers.fold_report import JudgedFold
    from rmlab.verifiers.verifier import SCORED_IN, save_verifier

    own = FoldLogger(logger, fold.number)
    chosen = _choose(fold, ready, settings)
    verifier, took = fit(ready, chosen, settings, device, cell / f"fold_{fold.number}", own)

    def scored(encoded: "list[Encoded]", title: str) -> "Scores":
        scores: Scores = verifier.score(
            encoded,
            batch_tokens=settings.evaluation.batch_tokens,
            autocast=device.autocast,
            show=settings.runtime.progress,
            title=f"fold {fold.number}: {title}",
        )
        return scores

    logger.tags({SCORED_IN: verifier.scored_in})
    watched = scored(ready.validation, "scoring validation")
    scores = scored(ready.evaluation, "scoring the held-out fold")
    validation = report(watched, replicates=0)
    own.metrics(
        {
            f"validation_{name}": validation[name]
            for name in ("auc_pooled", "log_loss", "ece_width_10", "ece_less_floor")
        }
    )
    with scratch_folder() as scratch:
        write_score_table(scratch / "validation_scores.parquet", watched)
        logger.artifact(scratch / "validation_scores.parquet", own.folder)
        save_verifier(scratch / "model", verifier)
        logger.artifact(scratch / "model", own.folder)
    device.free_memory()
    return JudgedFold(
        fold,
        ready,
        scores,
        chosen.record()["resolved"],
        validation=validation,
        took={"steps": took.steps, "tokens": took.tokens, "seconds": took.seconds},
    )


def _report(done: "Sequence[JudgedFold]", name: str, settings: CrossValidation, logger: "RunLogger") -> str:
    """Reports on the pooled scores, with their pictures. Says what came out, in lines."""
    from rmlab.pages.browse import browse_page, most_wrong_first
    from rmlab.pages.report_page import RELIABILITY, reliability_picture
    from rmlab.verifiers.fold_report import log_folds

    judged, read, said = log_folds(done, settings, settings.folds, logger)
    logger.text(RELIABILITY, reliability_picture(judged))
    logger.text("browse.html", browse_page(name, most_wrong_first(judged, [e.trajectory for e in read])))
    return said


def _materials(settings: CrossValidation) -> "Iterator[tuple[Fold, VerifierData]]":
    """Every fold and what its verifier is made from."""
    from rmlab.trajectories.store import read_trajectories
    from rmlab.verifiers.out_of_fold import fold_data

    pool = read_trajectories(Path(settings.data.path))
    for fold in folds_of(pool.trajectories, settings.folds):
        with _named(fold):
            check_room(fold.trajectories, settings)
        yield (
            fold,
            fold_data(
                fold, pool.metadata, settings.model, settings.prompt, settings.evaluation, runs_folder() / "cache"
            ),
        )


def _choose(fold: Fold, ready: "VerifierData", settings: CrossValidation) -> Selection[Trajectory]:
    """The training set of a fold. Raises DataError, which names the fold, where the total cannot be filled."""
    with _named(fold):
        return choose(ready, settings)


@contextmanager
def _named(fold: Fold) -> Iterator[None]:
    """Names the fold in a DataError."""
    try:
        yield
    except DataError as error:
        raise DataError(f"fold {fold.number} (without {', '.join(fold.clusters('evaluation'))}): {error}") from error


def _settings(config: DictConfig) -> CrossValidation:
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, CrossValidation)
    if settings.evaluation.pools:
        raise UsageError(
            f"evaluation.pools={sorted(settings.evaluation.pools)}: only `rmlab train` judges a verifier on more pools. Leave it out; "
            "folds.unseen names policies that no fold trains on."
        )
    if settings.runtime.processes != 1:
        raise UsageError(
            f"runtime.processes={settings.runtime.processes}: only `rmlab train` trains one verifier on several GPUs. A sweep of folds "
            "runs one cell per GPU: use runtime=cuda."
        )
    return settings
