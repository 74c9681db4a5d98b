"""Trains a verifier from its settings: chooses the training set and trains a model on it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.errors import UsageError
from rmlab.fingerprint import OMIT_DEFAULT
from rmlab.models.config import LoraConfig, ModelConfig
from rmlab.selection.select import DataConfig, Selection, check_fill, select
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.parameters import parameters
from rmlab.training.config import Dtype, OptimizerConfig, SeveralGpusRuntimeConfig, TrainingConfig, canonical
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.config import EvaluationConfig, ObjectiveConfig, OverLength, PromptConfig, PromptView

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer
    from rmlab.tracking.fold_logger import FoldLogger
    from rmlab.tracking.run import RunLogger
    from rmlab.training.loop import Trained
    from rmlab.training.ranks import Ranks
    from rmlab.verifiers.answer import AnswerTokens
    from rmlab.verifiers.dataset import VerifierData
    from rmlab.verifiers.objective import TrainingSet
    from rmlab.verifiers.verifier import Verifier

POINTS = 200  # of each training series, however many steps there are


@dataclass
class VerifierSettings:
    """All settings of a verifier. seed: for the draw of the training set, the initial weights and the order of the batches.

    lora: adapters on a pretrained model; if rank > 0, only they (and a scalar head, if the objective has one) are trained, and
    the frozen weights are stored in `training.dtype`.
    """

    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    lora: LoraConfig = field(default_factory=LoraConfig, metadata=OMIT_DEFAULT)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    runtime: SeveralGpusRuntimeConfig = field(default_factory=SeveralGpusRuntimeConfig)


def run_name(settings: VerifierSettings) -> str:
    """Of the tracked run: the cell's, else what it trains on."""
    return settings.tracking.name or f"scale={settings.data.scale} s{settings.seed}"


def check_fits(settings: VerifierSettings) -> None:
    """Raises UsageError where training examples may be longer than what is read."""
    if (room := settings.data.room) and room > settings.prompt.max_tokens:
        raise UsageError(
            f"data.fits={room} is longer than the context, prompt.max_tokens={settings.prompt.max_tokens}: training examples "
            "must be read whole. Lower it, or set it to null."
        )


CHARACTERS = 6
"""Of a token, on average over an attempt: more than a tokenizer makes of code and English (three to four and a half)."""


def check_room(pool: Iterable[Trajectory], settings: VerifierSettings) -> None:
    """The error of `choose` before a tokenizer is trained and the pool is tokenised, where attempts are clearly longer than the context
    and are not cut. Raises DataError."""
    prompt = settings.prompt
    if prompt.over_length not in (OverLength.rank_last, OverLength.drop) or prompt.shows is not PromptView.whole:
        return  # read in part
    if settings.data.hidden_tests is not None:
        return  # other labels than those of the pool

    def fits(trajectory: Trajectory) -> bool:
        characters = sum(len(message.content) for message in trajectory.messages) + len(trajectory.patch or "")
        return characters < CHARACTERS * prompt.max_tokens

    part = [t for t in pool if t.split == "verifier"]
    if not all(map(fits, part)):
        check_fill(part, settings.data, fits)


def choose(ready: "VerifierData", settings: VerifierSettings) -> Selection[Trajectory]:
    """The training set: filtered by length first, then chosen. Raises DataError where the total cannot be filled."""
    check_fits(settings)
    room = settings.data.room
    fits = {
        e.trajectory.trajectory_id for e in ready.verifier if e.ids is not None and (room is None or e.n_tokens < room)
    }
    return select(
        (e.trajectory for e in ready.verifier),
        settings.data,
        settings.seed,
        lambda t: t.trajectory_id in fits,
        is_cut=settings.prompt.over_length not in (OverLength.rank_last, OverLength.drop),
    )


def fit(
    ready: "VerifierData",
    chosen: Selection[Trajectory],
    settings: VerifierSettings,
    device: Any,
    cell: Path,
    logger: "RunLogger | FoldLogger | None" = None,
) -> "tuple[Verifier, Trained]":
    """Trains a verifier on the chosen set; its checkpoint lies in the folder `cell` while it is under way.

    Where several ranks train it, all of them call this, and each gets what it holds of the model: a part of every weight, or all of it.
    logger: of rank 0.
    """
    from rmlab.training.batching import total_steps
    from rmlab.training.loop import step_metrics
    from rmlab.training.ranks import Ranks
    from rmlab.training.replicas import spread
    from rmlab.training.sharding import gather
    from rmlab.training.supervised import train
    from rmlab.verifiers.verifier import Verifier, finished_verifier

    learned, answer = _lesson(ready, chosen, settings)
    ranks, dtype = Ranks.of(device), settings.training.dtype
    _check_ranks(ranks, settings)
    whole = _first_weights(settings, ready.tokenizer, learned.scalar) if ranks.is_first else None
    if logger:
        _log_inputs(logger, ready, chosen, settings, whole, learned.record)
    model = whole if ranks.number == 1 else spread(whole, dtype, ranks, settings.runtime.parallel)
    every = max(total_steps(len(learned.items), learned.training) // POINTS, 1)

    def log(step: int, loss: float, rate: float, speed: float) -> None:
        if logger and (step % every == 0 or step == 1):
            logger.metrics(step_metrics(loss, rate, speed), step)

    def watch(step: int, routers: dict[str, float]) -> None:
        if logger and (step % every == 0 or step == 1):
            logger.metrics(routers, step)

    took = train(
        model,
        learned.items,
        ready.tokenizer.pad_id,
        device,
        optimizer=settings.optimizer,
        training=learned.training,
        runtime=settings.runtime,
        seed=settings.seed,
        checkpoint=cell / "checkpoint.safetensors",
        log=log,
        watch=watch,
        loss=learned.loss,
        title=settings.tracking.name or "training",
    )
    if not logger:
        gather(model, None)
        if settings.lora.rank:
            model = spread(None, dtype, ranks, settings.runtime.parallel)
        return Verifier(model, ready.tokenizer, settings.prompt, answer, dtype), took
    logger.metrics({"train/steps": took.steps, "train/tokens": took.tokens, "train/seconds": took.seconds})
    if ranks.number > 1:
        whole = gather(model, whole)
    verifier = finished_verifier(whole, ready.tokenizer, settings.prompt, answer, dtype, cell / "adapters")
    if ranks.number > 1 and settings.lora.rank:  # with its adapters merged, as it is saved: other sums round otherwise
        model = spread(verifier.model, dtype, ranks, settings.runtime.parallel)
    return verifier if ranks.number == 1 else replace(verifier, model=model, whole=verifier), took


def _check_ranks(ranks: "Ranks", settings: VerifierSettings) -> None:
    """Raises UsageError where several ranks would train another model than one."""
    if ranks.number > 1 and settings.lora.rank and settings.lora.dropout:
        raise UsageError(
            f"lora.dropout={settings.lora.dropout}: each of {ranks.number} GPUs would draw its own mask, which no hash records. Set it "
            "to 0, or use one GPU (runtime=cuda)."
        )


def planned_cost(ready: "VerifierData", chosen: Selection[Trajectory], settings: VerifierSettings) -> tuple[int, int]:
    """Steps and tokens of the training that `fit` would do."""
    from rmlab.training.batching import plan_batches

    learned, _ = _lesson(ready, chosen, settings)
    tokens_N = [item.tokens for item in learned.items]
    plan = plan_batches(tokens_N, learned.training, settings.seed)
    return len(plan), sum(tokens_N[i] for batch in plan for i in batch)


def _lesson(
    ready: "VerifierData", chosen: Selection[Trajectory], settings: VerifierSettings
) -> "tuple[TrainingSet, AnswerTokens]":
    """What is learned from the chosen set, and the answers' tokens, proven in its prompts."""
    from rmlab.verifiers.answer import prove_answers, spread
    from rmlab.verifiers.objective import lesson
    from rmlab.verifiers.prompt import render

    proven_on = [chosen.chosen[i] for i in spread(len(chosen.chosen))]
    prompts = [render(t, ready.tokenizer.reserved, settings.prompt) for t in proven_on]
    advice = (
        f"use a model other than model.pretrained={settings.model.pretrained}, or train one from random weights (model=scratch), "
        "whose tokenizer learns both words"
        if settings.model.pretrained
        else "raise model.tokenizer.vocab_size or use another one"
    )
    answer = prove_answers(ready.tokenizer, prompts, advice=advice)
    ids = {e.trajectory.trajectory_id: e.ids for e in ready.verifier if e.ids is not None}
    training = canonical(settings.training, settings.data.scale)
    part = [e.trajectory for e in ready.verifier]
    return lesson(chosen.chosen, ids, part, settings.objective, training, answer), answer


def _first_weights(settings: VerifierSettings, tokenizer: "Tokenizer", scalar: bool) -> Any:
    """The model before training. Raises RmlabError where the context is longer than it has positions for."""
    from rmlab.models.heads import ScalarModel
    from rmlab.models.load import fit_rows, load_model, scratch_model
    from rmlab.models.lora import with_adapters
    from rmlab.models.moe import experts_of
    from rmlab.verifiers.config import check_positions

    if settings.model.pretrained:
        dtype = settings.training.dtype if settings.lora.rank else Dtype.float32
        model = load_model(Path(settings.model.pretrained), dtype=dtype.value)
        fit_rows(model, tokenizer, settings.model.pretrained)
        if experts_of(model):
            model.config.router_aux_loss_coef = settings.model.balance
    elif settings.lora.rank:
        raise UsageError(
            f"lora.rank={settings.lora.rank}: adapters do not change the weights, and those of model={settings.model.name} are "
            "random. Name a pretrained model (model=hf model.pretrained=FOLDER), or train all weights (lora.rank=0)."
        )
    else:
        model = scratch_model(settings.model, tokenizer.size, settings.seed)
    check_positions(int(model.config.max_position_embeddings), settings.model, settings.prompt)
    model = with_adapters(model, settings.lora, settings.seed)
    return ScalarModel(model, settings.seed) if scalar else model


def _log_inputs(
    logger: "RunLogger | FoldLogger",
    ready: "VerifierData",
    chosen: Selection[Trajectory],
    settings: VerifierSettings,
    model: Any,
    objective: dict[str, Any],
) -> None:
    """What the run reads, and the few parameters that runs are compared by."""
    from rmlab.verifiers.evaluation import log_inputs, model_parameters

    record = chosen.record()
    weak = ready.weak.record() if ready.weak else None
    log_inputs(
        logger, ready, chosen.chosen, {**record, "objective": objective, "weak_tests": weak}, Path(settings.data.path)
    )
    logger.params(
        parameters(
            settings,
            {
                "seed": settings.seed,
                "data_scale": settings.data.scale,
                "resolved_share": round(record["resolved"] / record["taken"], 4),
                "learning_rate": settings.optimizer.learning_rate,
                "epochs": settings.training.epochs,
                "match": settings.training.match.value,
                "objective": settings.objective.kind.value,
                **model_parameters(model),
            },
        )
    )
    if weak and ready.weak:
        logger.tags({"isolation": ready.weak.isolation})
        logger.metrics({f"labels/{name}": value for name, value in weak.items()})
