"""Pretrain: a small base model on unlabelled text, once; verifiers then start from it (model=starter).

    rmlab collect output=runs/pretraining/episodes.parquet seed=1 parts.supervised.tasks=null ...   (rmlab/starter/README.md)
    rmlab pretrain only_corpus=true
    rmlab pretrain model=base_128x2 runtime=cuda runtime.compiled=true

corpus → tokenizer → rows → training → a model folder with its tokenizer, what made it (base.json) and its log (log.json).
Where the corpus file is not there it is built first, which needs the extra `tasks`; a built file is carried to a machine with a GPU.
"""

import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

import rmlab
from rmlab.configuration import compose
from rmlab.errors import RmlabError, UsageError
from rmlab.files import MODEL, PARQUET, atomic_folder, check_folder, check_output, only_writer, write_text
from rmlab.fingerprint import UNHASHED, fingerprint, hashed_values
from rmlab.models.config import ModelConfig
from rmlab.models.load import BASE
from rmlab.models.tokenizer import Tokenizer
from rmlab.paths import REPOSITORY, runs_folder
from rmlab.pretraining.corpus import Corpus, CorpusConfig, build_corpus, read_corpus, write_corpus
from rmlab.pretraining.rows import asked, base_tokenizer, packed
from rmlab.stopping import says_how_to_go_on
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.parameters import describe_single, parameters
from rmlab.tracking.run_index import has_finished
from rmlab.training.config import LanguageConfig, OptimizerConfig, RuntimeConfig

if TYPE_CHECKING:
    from rmlab.tracking.run import RunLogger
    from rmlab.training.language import Pretrained

EXPERIMENT, KIND = "pretraining", "pretrain"
RENAMED = {
    "training.compile": "runtime.compiled",
    "runtime.micro_batch_tokens": "a step reads training.batch_tokens tokens in one pass",
}
POINTS = 200  # of each series in log.json


@dataclass
class PretrainConfig:
    """corpus, output: file and folder; relative paths start at the repository's root.

    only_corpus: stop when the corpus is built. tracked: log to MLflow too; set it to false on a machine without MLflow, since
    log.json beside the model has the same content. text: what the corpus is built from if its file does not exist.
    """

    corpus: str = field(default=MISSING, metadata=UNHASHED)
    output: str = field(default=MISSING, metadata=UNHASHED)
    seed: int = 0
    only_corpus: bool = field(default=False, metadata=UNHASHED)
    tracked: bool = field(default=True, metadata=UNHASHED)
    text: CorpusConfig = field(default_factory=CorpusConfig, metadata=UNHASHED)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: LanguageConfig = field(default_factory=LanguageConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)


ConfigStore.instance().store(name="pretrain_schema", node=PretrainConfig)


def main(overrides: Sequence[str], force: bool = False) -> Path | None:
    """Composes `conf/pretrain.yaml` with the overrides and pretrains."""
    command = shlex.join(["rmlab", "pretrain", *overrides])
    with says_how_to_go_on(command + (" --force" if force else "")):
        config = compose("pretrain", list(overrides))
        describe_single(config, overrides)
        return run(config, command=command, force=force)


def run(config: DictConfig, command: str = "rmlab pretrain", force: bool = False) -> Path | None:
    """Trains one base model and returns its folder; None where only the corpus was asked for. Where the folder holds this very model,
    nothing is done unless `force`.

    Raises an RmlabError for a missing package, file or device, or a loss that is no longer finite.
    """
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, PretrainConfig)
    if settings.model.pretrained:
        raise UsageError(
            f"model={settings.model.name} is a pretrained model, but a base starts from random weights, for example model=base_128x2"
        )
    if not settings.only_corpus:
        check_folder(REPOSITORY / settings.output, MODEL)
    corpus = the_corpus(settings)
    if settings.only_corpus:
        return None
    run_hash, folder = config_hash(config, corpus.fingerprint), REPOSITORY / settings.output
    under_way = runs_folder() / "cells" / run_hash
    with ExitStack() as stack:
        stack.enter_context(only_writer(folder))
        if not force and is_finished(settings, folder, run_hash):
            print(f"finished already: {folder} (--force trains it again)")
            return folder
        logger = stack.enter_context(_start(settings, corpus, run_hash)) if settings.tracked else None
        tokenizer = base_tokenizer(corpus, settings.model)
        checkpoint = under_way / "checkpoint.safetensors"
        model, took = pretrain(corpus, tokenizer, settings, logger.metrics if logger else None, checkpoint)
        if took.resumed_at:
            print(f"resumed at step {took.resumed_at} of {took.steps}")
        record = _record(corpus, tokenizer, model, took, settings, command)
        save(folder, model, tokenizer, took, record | {"config_hash": run_hash})
        if logger:
            logger.configuration(config)
            logger.params(
                parameters(
                    settings, {"seed": settings.seed, "model_parameters": model.num_parameters(), "tokens": took.tokens}
                )
            )
            logger.tags({"device": took.device})
            logger.artifact(folder)
    shutil.rmtree(under_way, ignore_errors=True)
    _say(folder, took, model)
    return folder


def is_finished(settings: PretrainConfig, folder: Path, run_hash: str) -> bool:
    """Whether the folder holds this very model, and where it is to be tracked a finished run of it is in the store."""
    try:
        made = json.loads((folder / BASE).read_text(encoding="utf-8")).get("config_hash")
    except (OSError, ValueError):
        return False  # a damaged one is written again whole
    if made != run_hash or not any(folder.glob("*.safetensors")):
        return False
    return not settings.tracked or has_finished(settings.tracking.uri, run_hash)


def config_hash(config: DictConfig, corpus: str) -> str:
    """Of everything that can change a base model. corpus: fingerprint of the text, which stands for what it was built from."""
    changes = hashed_values(config)
    changes["model"]["pretrained"] = None  # as every base has it: it starts from nothing
    return fingerprint({"program": "pretrain", "config": changes, "corpus": corpus})


def the_corpus(settings: PretrainConfig) -> Corpus:
    """The corpus file, built first where it is not there."""
    path = REPOSITORY / settings.corpus
    if not path.is_file():
        check_output(path, endings=PARQUET)
        write_corpus(path, build_corpus(settings.text, REPOSITORY, settings.runtime.progress))
    corpus = read_corpus(path)
    print(
        f"{path}: {len(corpus.documents):,} documents, {path.stat().st_size / 1e6:.1f} MB, fingerprint {corpus.fingerprint}, "
        f"{corpus.metadata['counts']}"
    )
    return corpus


def pretrain(
    corpus: Corpus,
    tokenizer: Tokenizer,
    settings: PretrainConfig,
    metrics: Callable[..., None] | None,
    checkpoint: Path | None = None,
) -> "tuple[Any, Pretrained]":
    """The trained model and what it took. metrics: logs values by name at a step. checkpoint: file for exact resume."""
    from rmlab.models.load import scratch_model
    from rmlab.training.language import train_language_model

    if settings.training.context > settings.model.max_positions:
        raise RmlabError(
            f"training.context={settings.training.context} is longer than model.max_positions={settings.model.max_positions}"
        )
    rows, held_out = packed(corpus, tokenizer, settings.training)
    questions = None
    if settings.training.comparisons:
        questions, held_out["comparison"] = asked(corpus, tokenizer, settings.training, settings.seed)
        if not len(questions) or not len(held_out["comparison"]):
            raise UsageError(
                f"training.comparisons={settings.training.comparisons}: the corpus has too few episodes that show a value "
                "for comparisons, both to train on and to hold out. Set it to 0, or build the corpus with more episodes."
            )
    print(
        f"{len(rows):,} rows of {settings.training.context}, {rows.tokens:,} tokens per epoch; vocabulary {tokenizer.size}"
    )
    model = scratch_model(settings.model, tokenizer.size, settings.seed)
    every = max(settings.training.tokens // settings.training.batch_tokens // 10 // POINTS, 1) * 10

    def log(step: int, values: dict[str, float]) -> None:
        if metrics and (step % every == 0 or not any(name.startswith("train/") for name in values)):
            metrics(values, step)

    took = train_language_model(
        model,
        rows,
        held_out,
        questions,
        config=settings.training,
        optimizer=settings.optimizer,
        runtime=settings.runtime,
        seed=settings.seed,
        checkpoint=checkpoint,
        log=log,
    )
    return model, took


def save(folder: Path, model: Any, tokenizer: Tokenizer, took: "Pretrained", record: dict[str, Any]) -> None:
    """Writes the model folder whole or not at all: weights in bfloat16, tokenizer, base.json, log.json."""
    import torch

    every = max(len(took.history) // POINTS, 1)
    history = [row for i, row in enumerate(took.history) if i % every == 0 or "train/loss" not in row]
    with atomic_folder(folder, MODEL) as temporary:
        model.to(torch.bfloat16).save_pretrained(str(temporary))
        tokenizer.save(temporary)
        write_text(temporary / BASE, json.dumps(record, indent=1) + "\n")
        write_text(temporary / "log.json", json.dumps(history) + "\n")


def _record(
    corpus: Corpus, tokenizer: Tokenizer, model: Any, took: "Pretrained", settings: PretrainConfig, command: str
) -> dict[str, Any]:
    """Everything that names this model: where it comes from, and what it took."""
    import torch
    import transformers

    names = (
        "versions",
        "packages",
        "episodes",
        "counts",
        "left_out",
    )  # a text built before packages were recorded lacks them
    made_from = {name: json.loads(corpus.metadata[name]) for name in names if name in corpus.metadata}
    return {
        "command": command,
        "seed": settings.seed,
        "rmlab_version": rmlab.__version__,
        "corpus_fingerprint": corpus.fingerprint,
        "tasks_fingerprint": corpus.metadata["tasks_fingerprint"],
        "corpus": made_from,
        "tokenizer_fingerprint": tokenizer.fingerprint,
        "vocabulary": tokenizer.size,
        "parameters": model.num_parameters(),
        "steps": took.steps,
        "tokens": took.tokens,
        "seconds": round(took.seconds, 1),
        "ended_by": took.ended_by,
        "held_out_loss": {kind: round(loss, 4) for kind, loss in took.loss.items()},
        "held_out_right": {kind: round(share, 4) for kind, share in took.right.items()},
        "device": took.device,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "model": asdict(settings.model),
        "optimizer": asdict(settings.optimizer),
        "training": asdict(settings.training),
    }


def _start(settings: PretrainConfig, corpus: Corpus, run_hash: str) -> "RunLogger":
    from rmlab.tracking.run import start_single

    logger = start_single(
        settings.tracking,
        EXPERIMENT,
        f"{settings.model.name} s{settings.seed}",
        kind=KIND,
        tags={"dataset": corpus.fingerprint, "config_hash": run_hash},
    )
    logger.dataset(
        Path(settings.corpus).stem,
        corpus.fingerprint,
        "training",
        {"path": Path(settings.corpus).name},
        {"documents": len(corpus.documents)},
    )
    return logger


def _say(folder: Path, took: "Pretrained", model: Any) -> None:
    losses = ", ".join(f"{kind} {loss:.3f} ({took.right[kind]:.1%} right)" for kind, loss in took.loss.items())
    print(
        f"{folder}: {model.num_parameters():,} parameters, {took.steps} steps, {took.tokens:,} tokens in {took.seconds:.0f} s "
        f"({took.tokens / max(took.seconds, 1e-9):,.0f} tokens/s, {took.device}), ended by {took.ended_by}\n  held-out loss: {losses}"
    )
