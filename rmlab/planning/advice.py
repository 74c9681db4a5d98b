"""What does a program ask of a card, and what to change so that it fits?

The settings are changed and the whole plan is made again, least intrusive change first.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from rmlab.errors import UsageError
from rmlab.planning.assumed import Assumed
from rmlab.planning.cards import Card
from rmlab.planning.estimate import Estimate, estimate
from rmlab.planning.phases import Work
from rmlab.planning.policy_work import collect_work, pretrain_work, rl_work, warm_start_work
from rmlab.planning.verifier_work import verifier_work
from rmlab.training.config import Parallel
from rmlab.trajectories.folds import check_folds

LEAST_CONTEXT = 4096
MORE_GPUS = (2, 4, 8, 16, 32)
RANK = 16
SMALLER_BATCH = 2048
ALL_VISIBLE = 8
"""GPUs of a machine, where a configuration takes all that are visible."""


@dataclass(frozen=True)
class Question:
    """What is planned. settings: of the program, as composed. mfu: None = counted. mean_tokens: of attempts that are not there."""

    program: str
    settings: Any
    card: Card
    gpus: int = 1
    mfu: float | None = None
    mean_tokens: int | None = None

    def answer(self) -> Estimate:
        """Raises an RmlabError where model or data say nothing."""
        assumed = Assumed(self.mean_tokens)
        work = work_of(self.program, self.settings, assumed)
        return estimate(
            replace(work, notes=tuple(assumed.notes), to_name=assumed.to_name), self.card, self.gpus, self.mfu
        )

    def changed(self, values: Mapping[str, Any], gpus: int) -> "Question":
        """The same with other values of some keys."""
        settings = deepcopy(self.settings)
        for key, value in values.items():
            *groups, name = key.split(".")
            owner = settings
            for group in groups:
                owner = getattr(owner, group)
            setattr(owner, name, value)
        return replace(self, settings=settings, gpus=gpus)

    @property
    def spreads(self) -> bool:
        """Whether the program can train on several GPUs together."""
        return self.program != "cross_validate" and self.value("runtime.processes") is not None

    def value(self, key: str) -> Any:
        """Of a dotted key; None where the program has none of that name."""
        owner = self.settings
        for name in key.split("."):
            owner = getattr(owner, name, None)
        return owner


@dataclass(frozen=True)
class Way:
    """settings: to add to the command. kind: what is given up; of each kind only the first that fits is worth telling."""

    kind: str
    settings: tuple[str, ...]
    estimated: Estimate


def configured_gpus(settings: Any) -> int:
    """As many as the configuration names; ALL_VISIBLE where it takes all that are there."""
    return int(getattr(getattr(settings, "runtime", None), "processes", 1)) or ALL_VISIBLE


def ways(question: Question) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Kind, values and GPUs of each change, least intrusive first: smaller batches at once, activations made again, a sharded model,
    adapters, more GPUs, a shorter context."""
    gpus, context = question.gpus, question.value("prompt.max_tokens")
    smaller = {
        "training.micro_batch_size": 1,
        "evaluation.batch_tokens": context,
        "training.batch_tokens": SMALLER_BATCH,
        "rl.batch_tokens": SMALLER_BATCH,
        "engine.slots": 64,
    }
    cut = {
        key: value
        for key, value in smaller.items()
        if value is not None and (given := question.value(key)) is not None and given > value
    }
    if question.value("runtime.micro_batch_tokens") is not None:
        cut["runtime.micro_batch_tokens"] = None
    again = {"training.checkpointing": True} if question.value("training.checkpointing") is False else {}
    pretrained = question.value("model.pretrained") or question.value("start")
    adapted = {"lora.rank": RANK} if question.value("lora.rank") == 0 and pretrained else {}
    whole = question.spreads and question.value("runtime.parallel") is not Parallel.fsdp
    # a model that each GPU holds whole may leave too little for long attempts
    sharded = {"runtime.parallel": Parallel.fsdp} if whole else {}
    if cut:
        yield "time", cut, gpus
    if again:
        yield "time", again, gpus
        yield "time", cut | again, gpus
    if sharded and gpus > 1:
        yield "time", cut | again | sharded, gpus
    if adapted:
        yield "adapters", adapted | cut | again, gpus
    if question.spreads:
        for many in (many for many in MORE_GPUS if many > gpus):
            for values in [cut | again, cut | again | sharded] if sharded else [cut | again]:
                yield "GPUs", values, many
                if adapted:
                    yield "adapters", adapted | values, many
    while context is not None and (context := context // 2) >= LEAST_CONTEXT:
        yield "context", cut | again | {"prompt.max_tokens": context}, gpus
        if adapted:
            yield "context", adapted | cut | again | {"prompt.max_tokens": context}, gpus


def what_fits(question: Question) -> list[Way]:
    """The first way of each kind under which it fits."""
    found: dict[str, Way] = {}
    for kind, values, gpus in ways(question):
        if kind in found:
            continue
        estimated = question.changed(values, gpus).answer()
        if estimated.fits:
            words = [f"{key}={str(value).lower() if value is not None else 'null'}" for key, value in values.items()]
            found[kind] = Way(kind, (*words, *on_gpus(gpus, question.settings)), estimated)
    return list(found.values())


def on_gpus(gpus: int, settings: Any) -> list[str]:
    """The overrides by which a training runs on so many GPUs; none where it is configured so."""
    if gpus == configured_gpus(settings):
        return []
    return ["runtime=multi_gpu", f"runtime.processes={gpus}"]


def command_to_run(words: Sequence[str], settings: Sequence[str], to_name: Mapping[str, str]) -> str:
    """The command that runs what was planned. words: that command as it was planned. settings: overrides that it needs beside them, to
    fit or to run on as many GPUs.

    to_name: keys whose values a run could not take, and the word that stands in the command for what has to be named.
    """
    changed = {
        text.partition("=")[0]: text for text in [*settings, *(f"{key}={word}" for key, word in to_name.items())]
    }
    kept = [changed.pop(text.partition("=")[0].lstrip("+"), text) for text in words[2:]]
    return shlex.join([*words[:2], *kept, *changed.values()])


def _folds_work(settings: Any, assumed: Assumed) -> Work:
    check_folds(settings.folds.unseen, settings.folds)
    return verifier_work(settings, assumed, settings.folds.number)


WORK: dict[str, Callable[[Any, Assumed], Work]] = {
    "train_verifier": verifier_work,
    "cross_validate": _folds_work,
    "train_policy": warm_start_work,
    "pretrain": pretrain_work,
    "rl": rl_work,
    "collect": collect_work,
}
"""By program of experiments/programs."""


def work_of(program: str, settings: Any, assumed: Assumed) -> Work:
    """Of a program's settings. Raises UsageError for one that plans nothing."""
    if program not in WORK:
        raise UsageError(f"{program} cannot be planned; these can: {', '.join(WORK)}")
    work = WORK[program](settings, assumed)
    runtime = getattr(settings, "runtime", None)
    if getattr(runtime, "processes", 1) == 0:
        assumed.note("runtime.processes=0 uses all visible GPUs: 8, or the number given by --gpus")
    if runtime is not None and runtime.device == "cpu" and work.phases:
        assumed.note("it is configured for the CPU (runtime.device=cpu); this plan is for a GPU (runtime=cuda)")
    return replace(work, parallel=getattr(runtime, "parallel", Parallel.auto))
