"""A plan in words, as plain values, and the table of memory by model and context."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rmlab.models.cost import KNOWN, ModelShape
from rmlab.planning.advice import MORE_GPUS, Question, Way, command_to_run, on_gpus, what_fits
from rmlab.planning.assumed import FOLDER
from rmlab.planning.cards import Card
from rmlab.planning.estimate import RESERVED, ROLLOUTS, Estimate, PhaseCost
from rmlab.planning.memory import GIB, Memory, TrainingMemory, training_memory
from rmlab.planning.phases import RolloutPhase, every_position, through_packed_layers
from rmlab.wording import counted, duration

TABLE_MODELS = ("SmolLM2-135M", "Qwen3-0.6B", "Qwen3-4B", "Qwen3-8B")
TABLE_CONTEXTS = (8192, 32768, 131072)
MODES = {
    "all weights": (0, False),
    "all weights; checkpointing": (0, True),
    "LoRA of rank 16; checkpointing": (16, True),
}
"""Name to the rank of adapters (0 = none) and whether activations are made again."""

NAMED_BY = {
    "POLICY": "a run, a cell or a folder (`rmlab warm-start` makes one)",
    "VERIFIER": "a run, a cell or a folder (`rmlab train` makes one)",
    FOLDER: "a folder with a model, or hf:NAME",
}
"""What a run takes in place of each word of `Work.to_name`."""


def plan_lines(question: Question, estimated: Estimate, words: Sequence[str]) -> list[str]:
    """What `rmlab plan` prints of one run. estimated: the question's answer. words: of the command that is planned."""
    work = estimated.work
    lines = [_line("model", _model(estimated)), *(_line("assumed", note) for note in work.notes)]
    if not estimated.phases:
        return [*lines, *command_lines(words, (), work.to_name)]
    ways = _ways(question, estimated)
    lines += listed_lines("work", [_phase(cost, estimated.card) for cost in estimated.phases])
    lines += [_line("memory", _memory(estimated)), *listed_lines("tensors", _tensors(estimated))]
    if estimated.offloaded:
        lines.append(
            _line(
                "machine",
                f"{_gib(estimated.offloaded / estimated.gpus)} of each GPU's largest micro-batch in its memory (runtime.offload), at most "
                f"{_gib(estimated.offloaded)} for {counted(estimated.gpus, 'GPU')}",
            )
        )
    lines += listed_lines("fits", [_verdict(estimated), *advice(question, estimated, ways)])
    lines.append(_line("time", _time(estimated)))
    return [*lines, *command_lines(words, needed(question, ways), work.to_name)]


def _line(key: str, text: str) -> str:
    return f"{key:<12}{text}"


def listed_lines(key: str, texts: Sequence[str]) -> list[str]:
    """Texts below one another, the first behind its key."""
    return [_line(key if not i else "", text) for i, text in enumerate(texts)]


def _model(estimated: Estimate) -> str:
    work = estimated.work
    if not work.phases:
        return work.model
    shape = work.phases[0].shape
    active = f", {_many(shape.active_weights)} active per token" if shape.experts else ""
    return f"{work.model}: {_many(shape.weights)} weights{active}; {'bfloat16 arithmetic' if work.half else 'float32'}"


def _phase(cost: PhaseCost, card: Card) -> str:
    steps = f" in {counted(cost.steps, 'step')}" if cost.steps else ""
    return (
        f"{cost.name}: {_many(cost.tokens)} tokens{steps}, {cost.flops.total:.2e} FLOPs ({_shares(cost)}), "
        f"{duration(cost.seconds.total)} on one {card.name}"
    )


def _memory(estimated: Estimate) -> str:
    """What torch is taken to hold, and how much of it is in tensors."""
    whole = "a part of every weight" if estimated.sharded else "the whole model"
    over = f" on each of {estimated.gpus} GPUs, which holds {whole}" if estimated.gpus > 1 else ""
    said = f"torch is taken to hold {_gib(estimated.held)} at the peak{over}"
    tensors = estimated.memory.total
    if estimated.held <= tensors:
        return f"{said}, all of it in tensors"
    return f"{said}: {_gib(tensors)} in tensors, {_gib(estimated.held - tensors)} that graphs of updates keep for themselves"


def _tensors(estimated: Estimate) -> list[str]:
    """Those of the phase that takes most, and those of other models that lie beside them."""
    parts = estimated.memory.parts()
    beside = parts.pop("beside", 0.0)
    lines = [f"{estimated.largest.name}: {_parts(parts)}"]
    if beside:
        lines.append(f"beside them: {', '.join(_owned(estimated, name) for name in estimated.beside)}")
    return lines


def _owned(estimated: Estimate, owner: str) -> str:
    """What one owner keeps beside the largest phase; of the rollouts' cache, which setting makes it so large."""
    slots = next((phase.slots for phase in estimated.work.phases if isinstance(phase, RolloutPhase)), 0)
    of_cache = f"cache of engine.slots={slots}" if owner == ROLLOUTS else "cache"
    parts = {of_cache if name == "cache" else name: value for name, value in estimated.beside[owner].items()}
    return f"{owner} ({_parts(parts)})"


def _parts(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {_gib(value)}" for name, value in parts.items())


def _verdict(estimated: Estimate) -> str:
    card = estimated.card
    return (
        f"{'yes' if estimated.fits else 'no'}: {card.name} has {card.gib:.1f} GiB, of which {RESERVED:g} GiB are kept free for CUDA and "
        f"for what the allocator cannot use, so torch may hold {_gib(estimated.room)}"
    )


def _ways(question: Question, estimated: Estimate) -> list[Way]:
    """How it would fit; nothing where it fits."""
    return [] if estimated.fits or not estimated.phases else what_fits(question)


def ways_for_all(question: Question, estimated: Estimate, owns_key: Callable[[str], bool]) -> list[Way]:
    """How the cells of a sweep would fit, of which this one takes most: what the sweep varies stays as it is. owns_key: whether it varies
    a key."""
    return [
        way for way in _ways(question, estimated) if not any(owns_key(text.partition("=")[0]) for text in way.settings)
    ]


def advice(question: Question, estimated: Estimate, ways: Sequence[Way] | None = None) -> list[str]:
    """What to change so that it fits, with the memory and time that it takes then; nothing where it fits. ways: where they are known."""
    if estimated.fits:
        return []
    found = [
        f"with {' '.join(way.settings)}: torch is taken to hold {_gib(way.estimated.held)}, {duration(way.estimated.seconds)}"
        for way in (_ways(question, estimated) if ways is None else ways)
    ]
    if len(found) > 1:
        return [f"{'or' if i else 'either'} {line}" for i, line in enumerate(found)]
    gpus = f", {MORE_GPUS[-1]} GPUs" if question.spreads else ""
    return found or [
        f"neither single examples, checkpointing, adapters{gpus} nor a context of 4,096 tokens makes it fit: use a smaller model"
    ]


def _time(estimated: Estimate) -> str:
    card, on = estimated.card, counted(estimated.gpus, "GPU")
    said = f"{duration(estimated.seconds)} ({estimated.seconds / 3600:.2f} h) on {on}, {card.name}"
    if estimated.mfu is not None:
        return f"{said}, at the given MFU of {estimated.mfu:g}"
    if (achieved := estimated.achieved) is not None:
        reached = f"{achieved:.2f}" if achieved >= 0.005 else "less than 0.01"
        return f"{said}; training at an MFU of {reached} of {card.flops / 1e12:.0f} TFLOP/s ({card.source})"
    return said


def needed(question: Question, ways: Sequence[Way]) -> Sequence[str]:
    """The overrides that the command needs beside its own: of the first of the ways to make it fit, or of the GPUs that were asked for."""
    if ways:
        return ways[0].settings
    return on_gpus(question.gpus, question.settings) if question.spreads else ()


def command_lines(words: Sequence[str], settings: Sequence[str], to_name: Mapping[str, str]) -> list[str]:
    """The command that runs it, with the settings that it needs beside its own, and what has to be named in it."""
    lines = [command_to_run(words, settings, to_name)]
    lines += [f"{key}={word}: {named_by(word)}; a plan alone takes a model's name" for key, word in to_name.items()]
    return listed_lines("command", lines)


def named_by(word: str) -> str:
    """What a run takes in place of a word of `Work.to_name`; a list of verifiers as one."""
    return NAMED_BY[word if word in NAMED_BY else "VERIFIER"]


def set_by_levels(key: str, word: str) -> str:
    """What stands below the command of a sweep whose levels set a key to what a plan alone takes."""
    if word == FOLDER:
        return f"the levels set {key} to the name of a folder: start the sweep where that folder, or a link to it, lies"
    return f"the levels set {key}: give each {named_by(word)}; a plan alone takes a model's name"


def _shares(cost: Any) -> str:
    total = cost.flops.total or 1.0
    named = {
        "projections": cost.flops.projections,
        "attention": cost.flops.attention,
        "head": cost.flops.head,
        "made again": cost.flops.recomputed,
    }
    return ", ".join(f"{name} {value / total:.0%}" for name, value in named.items() if value / total >= 0.005)


def plan_values(question: Question, estimated: Estimate, words: Sequence[str]) -> dict[str, Any]:
    """The same as plain values, for --json; bytes and seconds."""
    ways = _ways(question, estimated)
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
        "beside": estimated.beside if estimated.phases else {},
        "held": estimated.held if estimated.phases else 0.0,
        "offloaded": estimated.offloaded,
        "room": estimated.room,
        "fits": estimated.fits if estimated.phases else True,
        "fits_with": [
            {"settings": way.settings, "held": way.estimated.held, "seconds": way.estimated.seconds} for way in ways
        ],
        "seconds": estimated.seconds,
        "mfu": estimated.mfu if estimated.mfu is not None else estimated.achieved if estimated.phases else None,
        "command": command_to_run(words, needed(question, ways), estimated.work.to_name),
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
            f"~~{row[context]:.1f}~~" if card and row[context] > card.gib - RESERVED else f"{row[context]:.1f}"
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
