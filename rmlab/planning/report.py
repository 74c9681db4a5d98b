"""A plan in words, as plain values, and the table of memory by model and context."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rmlab.models.cost import KNOWN, ModelShape
from rmlab.planning.advice import MORE_GPUS, Question, what_fits
from rmlab.planning.cards import Card
from rmlab.planning.estimate import Estimate
from rmlab.planning.memory import GIB, Memory, TrainingMemory, training_memory
from rmlab.planning.phases import every_position, through_packed_layers
from rmlab.wording import counted, duration

TABLE_MODELS = ("SmolLM2-135M", "Qwen3-0.6B", "Qwen3-4B", "Qwen3-8B")
TABLE_CONTEXTS = (8192, 32768, 131072)
MODES = {
    "all weights": (0, False),
    "all weights; checkpointing": (0, True),
    "LoRA of rank 16; checkpointing": (16, True),
}
"""Name to the rank of adapters (0 = none) and whether activations are made again."""


def plan_lines(question: Question, estimated: Estimate, command: str) -> list[str]:
    """What `rmlab plan` prints of one run. estimated: the question's answer."""
    work, card = estimated.work, estimated.card
    lines = [_model_line(estimated)]
    lines += [f"assumed     {note}" for note in work.notes]
    for cost in estimated.phases:
        steps = f" in {counted(cost.steps, 'step')}" if cost.steps else ""
        lines.append(
            f"{cost.name}: {_many(cost.tokens)} tokens{steps}, {cost.flops.total:.2e} FLOPs ({_shares(cost)}), "
            f"{duration(cost.seconds.total)} on one {card.name}"
        )
    if not estimated.phases:
        return [*lines, f"command     {command}"]
    memory = estimated.memory
    parts = ", ".join(
        f"{'other models' if name == 'beside' else name} {_gib(value)}" for name, value in memory.parts().items()
    )
    held = "a part of every weight" if estimated.sharded else "the whole model"
    over = f" of each of {estimated.gpus}, which holds {held}," if estimated.gpus > 1 else ""
    lines.append(f"memory      {_gib(memory.total)}{over} at the peak: {parts}")
    if estimated.held > memory.total:
        lines.append(
            f"            torch is taken to hold {_gib(estimated.held)}, since graphs of updates keep memory for themselves"
        )
    if estimated.offloaded:
        lines.append(
            f"machine     {_gib(estimated.offloaded / estimated.gpus)} of each GPU's largest micro-batch in its memory "
            f"(runtime.offload), at most {_gib(estimated.offloaded)} for {counted(estimated.gpus, 'GPU')}"
        )
    lines.append(_verdict(estimated))
    lines += [f"            {line}" for line in advice(question, estimated)]
    lines.append(_time_line(estimated))
    lines.append(f"command     {command}")
    return lines


def _model_line(estimated: Estimate) -> str:
    work = estimated.work
    if not work.phases:
        return f"model       {work.model}"
    shape = work.phases[0].shape
    active = f", {_many(shape.active_weights)} active per token" if shape.experts else ""
    return f"model       {work.model}: {_many(shape.weights)} weights{active}; {'bfloat16 arithmetic' if work.half else 'float32'}"


def _verdict(estimated: Estimate) -> str:
    card = estimated.card
    free = f"{estimated.room / GIB:.0f} GiB"
    if estimated.fits:
        return f"fits        {card.name} has room for {free}"
    return f"does not fit {card.name}, which has room for {free}"


def advice(question: Question, estimated: Estimate) -> list[str]:
    """What to change so that it fits, with the memory and time that it takes then; nothing where it fits."""
    if estimated.fits:
        return []
    found = [
        f"with {' '.join(way.settings)}: {_gib(way.estimated.held)}, {duration(way.estimated.seconds)}"
        for way in what_fits(question)
    ]
    gpus = f", {MORE_GPUS[-1]} GPUs" if question.spreads else ""
    return found or [
        f"neither single examples, checkpointing, adapters{gpus} nor a context of 4,096 tokens makes it fit: use a smaller model"
    ]


def _time_line(estimated: Estimate) -> str:
    card, on = estimated.card, counted(estimated.gpus, "GPU")
    line = f"time        {duration(estimated.seconds)} ({estimated.seconds / 3600:.2f} h) on {on}, {card.name}"
    if estimated.mfu is not None:
        return f"{line}, at the given MFU of {estimated.mfu:g}"
    if (achieved := estimated.achieved) is not None:
        reached = f"{achieved:.2f}" if achieved >= 0.005 else "less than 0.01"
        return f"{line}; training at an MFU of {reached} of {card.flops / 1e12:.0f} TFLOP/s ({card.source})"
    return line


def _shares(cost: Any) -> str:
    total = cost.flops.total or 1.0
    named = {
        "projections": cost.flops.projections,
        "attention": cost.flops.attention,
        "head": cost.flops.head,
        "made again": cost.flops.recomputed,
    }
    return ", ".join(f"{name} {value / total:.0%}" for name, value in named.items() if value / total >= 0.005)


def plan_values(question: Question, estimated: Estimate, command: str) -> dict[str, Any]:
    """The same as plain values, for --json; bytes and seconds."""
    return {
        "model": estimated.work.model,
        "assumed": list(estimated.work.notes),
        "card": asdict(estimated.card),
        "gpus": estimated.gpus,
        "phases": [
            {
                "name": cost.name,
                "tokens": cost.tokens,
                "steps": cost.steps,
                "flops": asdict(cost.flops) | {"total": cost.flops.total},
                "seconds": asdict(cost.seconds) | {"total": cost.seconds.total},
                "memory": cost.memory.parts() | {"total": cost.memory.total},
            }
            for cost in estimated.phases
        ],
        "memory": (estimated.memory.parts() | {"total": estimated.memory.total}) if estimated.phases else {},
        "held": estimated.held if estimated.phases else 0.0,
        "offloaded": estimated.offloaded,
        "room": estimated.room,
        "fits": estimated.fits if estimated.phases else True,
        "fits_with": [
            {"settings": way.settings, "held": way.estimated.held, "seconds": way.estimated.seconds}
            for way in (what_fits(question) if estimated.phases and not estimated.fits else [])
        ],
        "seconds": estimated.seconds,
        "mfu": estimated.mfu if estimated.mfu is not None else estimated.achieved if estimated.phases else None,
        "command": command,
    }


def table_rows(models: Sequence[str] = TABLE_MODELS, contexts: Sequence[int] = TABLE_CONTEXTS) -> list[dict[str, Any]]:
    """GiB at the peak of training, one example of the whole context at once, by model, what is trained, and context."""
    return [
        {
            "model": name,
            "trained": mode,
            **{
                str(context): round(memory_at(KNOWN[name], context, rank, again).total / GIB, 1) for context in contexts
            },
        }
        for name in models
        for mode, (rank, again) in MODES.items()
    ]


def memory_at(shape: ModelShape, context: int, rank: int, checkpointing: bool) -> Memory:
    """Of training on single examples of a whole context, in bfloat16, several a step."""
    whole, own = every_position(shape, packed=True), through_packed_layers(shape, True, rank)
    run = TrainingMemory(True, rank, checkpointing, context, 1, 1, every_position=whole, packed_layers=own)
    return training_memory(shape, run)


def csv_of(rows: Sequence[dict[str, Any]]) -> str:
    """The same rows as CSV; the README's table is held to it."""
    lines = [",".join(map(str, line)) for line in (rows[0], *(row.values() for row in rows))]
    return "\n".join(lines)


def memory_table(card: Card | None, rows: Sequence[dict[str, Any]]) -> str:
    """As Markdown; what does not fit a card is struck out."""
    contexts = [name for name in rows[0] if name not in ("model", "trained")]
    head = ["model", "trained", *(f"{int(context):,}" for context in contexts)]
    lines = [f"| {' | '.join(head)} |", f"|---|---|{'---:|' * len(contexts)}"]
    for row in rows:
        cells = [
            f"~~{row[context]:.1f}~~" if card and row[context] > card.gib - 1.5 else f"{row[context]:.1f}"
            for context in contexts
        ]
        lines.append(f"| {row['model']} | {row['trained']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _gib(value: float) -> str:
    return f"{value / GIB:.1f} GiB" if value >= 0.05 * GIB else f"{value / 2**20:.1f} MiB"


def _many(value: float) -> str:
    """`596 M`, `30.5 G`."""
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power:
            return f"{value / 10**power:.3g} {letter}"
    return f"{value:.0f}"
