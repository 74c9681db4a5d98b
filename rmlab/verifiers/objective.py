"""What a verifier learns to say of an attempt, and from what: the objectives of training.

answer   YES or NO as the next token, cross-entropy over the whole vocabulary (SWE-RM)
scalar   one number from a head of its own, binary cross-entropy
pairs    the same head; of two attempts at one task the resolved one is to stand higher: -log sigmoid of the difference
         (Bradley and Terry 1952; reward models since Christiano et al. 2017). Its level is free, so its scores are no probabilities.

Smoothing gives a share of the target to the other answer. Weighting by difficulty takes from CVeDRL (arXiv 2601.22803; its
public abstract was read, not its formulas) the idea of an exponential shaping by how hard the sample is; its branch coverage
and its reinforcement learning of unit tests have no counterpart here. How hard a task is: the share of unresolved among its
labelled attempts in the verifier part, chosen or not.

The answer is one token: proven in the real context, before anything is trained or scored.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import log_softmax, logsigmoid

from rmlab.errors import DataError, UsageError
from rmlab.models.config import TokenizerConfig
from rmlab.models.heads import last_logits, last_scalar
from rmlab.models.moe import Routing
from rmlab.models.tokenizer import Tokenizer, cached_tokenizer, train_tokenizer
from rmlab.training.batching import Item
from rmlab.training.config import TrainingConfig
from rmlab.training.supervised import Example, Loss, answer_loss, read
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.config import Objective, ObjectiveConfig
from rmlab.verifiers.prompt import NO, OPEN_ANSWER, YES, render

PROVEN_ON = 16  # prompts, spread evenly over those given


@dataclass(frozen=True)
class AnswerTokens:
    """The ids of YES and NO directly behind a prompt: the two labels in training, the two logits in scoring."""

    yes: int
    no: int

    def target(self, resolved: bool) -> int:
        """The id that should follow the prompt of a resolved or unresolved trajectory."""
        return self.yes if resolved else self.no


def prove_answers(
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    answers: tuple[str, str] = (YES, NO),
    advice: str = "raise model.tokenizer.vocab_size or take another",
) -> AnswerTokens:
    """The answers' ids. prompts: rendered texts, at least one. answers: the words for yes and for no.

    Proves for prompts spread over those given that encode(prompt + answer) == encode(prompt) + [id], one id everywhere
    and two different ids. Raises DataError with the prompt's end and the ids otherwise; advice: what to do then.
    """
    if not prompts:
        raise DataError("no prompt is there to prove the answer tokens on: the set of trajectories is empty")
    shown = [prompts[i] for i in spread(len(prompts))]
    found: dict[str, int] = {}
    bare = tokenizer.encode(shown)
    for answer in answers:
        for prompt, before, after in zip(shown, bare, tokenizer.encode([p + answer for p in shown]), strict=True):
            if after[:-1] != before or found.setdefault(answer, after[-1]) != after[-1]:
                raise DataError(
                    f"{answer} is not one token of its own behind {prompt[-40:]!r} (ids {after[-4:]} after {before[-3:]}): "
                    f"this tokenizer cannot answer; {advice}."
                )
    yes, no = answers
    if found[yes] == found[no]:
        raise DataError(f"{yes} and {no} are the same token {found[yes]}: this tokenizer cannot answer")
    return AnswerTokens(found[yes], found[no])


def spread(n: int) -> list[int]:
    """Indices of PROVEN_ON of n, evenly from the first to the last; all where there are fewer."""
    count = min(n, PROVEN_ON)
    return [round(i * (n - 1) / max(count - 1, 1)) for i in range(count)]


LONG = 4_000  # characters of a prompt that is no episode of micro-SWE
ANSWERS = (
    40  # how often either answer is read for every LONG characters: often enough for a place in the smallest vocabulary
)
ENOUGH = 20_000_000  # characters: more text gives hardly other merges, and takes minutes


def verifier_tokenizer(
    supervised: Sequence[Trajectory], config: TokenizerConfig, cache: Path | None = None
) -> Tokenizer:
    """BPE over the rendered prompts; the same trajectories in any order give the same tokenizer.

    Both answers follow every opened turn, whatever the label, once or as often as a long prompt asks for, so that each becomes
    one token.
    Of more than ENOUGH characters the first are read, in the order of the ids, which are hashes: a draw without a choice.
    cache: folder that remembers it. Raises DataError where the part is empty.
    """
    if not supervised:
        raise DataError(
            "the pool has neither a supervised nor a verifier part: a tokenizer is trained on it. Split the pool into parts "
            "(rmlab trajectories split), or take a pretrained model (model.pretrained=FOLDER)."
        )
    texts: list[str] = []
    characters = 0
    for trajectory in sorted(supervised, key=lambda t: t.trajectory_id):
        texts.append(render(trajectory))
        characters += len(texts[-1])
        if characters >= ENOUGH:
            break
    times = sum(max(len(text) // LONG * ANSWERS, 1) for text in texts)
    texts += [OPEN_ANSWER + answer for answer in (YES, NO) for _ in range(times)]
    return cached_tokenizer(texts, config, cache) if cache else train_tokenizer(texts, config)


Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Weighed:
    """A prompt's ids, its label, and how much it counts."""

    ids: Ids
    resolved: bool
    weight: float

    @property
    def tokens(self) -> int:
        """Of the prompt."""
        return len(self.ids)

    def content(self) -> str:
        """Label, weight and ids as text."""
        return f"{self.resolved} {self.weight!r} {' '.join(map(str, self.ids))}"


@dataclass(frozen=True)
class Pair:
    """The prompts of a resolved and an unresolved attempt at one task."""

    better: Ids
    worse: Ids
    weight: float

    @property
    def tokens(self) -> int:
        """Of both prompts."""
        return len(self.better) + len(self.worse)

    def content(self) -> str:
        """Weight and both prompts' ids as text."""
        return f"{self.weight!r} {' '.join(map(str, self.better))} > {' '.join(map(str, self.worse))}"


@dataclass(frozen=True)
class TrainingSet:
    """What is trained on: items, their loss, and training as it goes with them. scalar: the model needs a scalar head.

    record: plain values for the run's `selection.json`.
    """

    items: Sequence[Item]
    loss: Loss
    training: TrainingConfig
    scalar: bool
    record: dict[str, Any]


def lesson(
    chosen: Sequence[Trajectory],
    ids: Mapping[str, Ids],
    part: Iterable[Trajectory],
    config: ObjectiveConfig,
    training: TrainingConfig,
    answer: AnswerTokens,
) -> TrainingSet:
    """The chosen attempts as an objective reads them.

    ids: of each chosen attempt's prompt, by trajectory_id. part: the verifier part, for difficulty. Pairs count as two examples,
    so a step holds half as many. Raises UsageError for a setting out of range, DataError where no task has both labels.
    """
    if not 0 <= config.smoothing < 0.5:
        raise UsageError(
            f"objective.smoothing={config.smoothing}: it is the wrong answer's share, at least 0 and below 0.5"
        )
    record: dict[str, Any] = {"kind": config.kind.value, "examples": len(chosen)}
    if config.kind is Objective.answer and not config.smoothing and not config.difficulty:
        examples = [Example(ids[t.trajectory_id], answer.target(bool(t.resolved))) for t in chosen]
        return TrainingSet(examples, answer_loss, training, False, record)
    weights = task_weights(chosen, part, config.difficulty)
    if config.kind is Objective.pairs:
        pairs, alone = paired(chosen, ids, weights)
        if not pairs:
            raise DataError(
                f"objective.kind=pairs: none of the {len(chosen)} chosen attempts has a partner of the other label at its "
                "task. Raise data.scale, or take another objective."
            )
        halved = replace(
            training,
            batch_size=max(training.batch_size // 2, 1),
            micro_batch_size=max(training.micro_batch_size // 2, 1),
            reference_scale=training.reference_scale // 2,
        )
        record |= {"pairs": len(pairs), "without_partner": alone}
        return TrainingSet(pairs, _pair_loss(config.smoothing), halved, True, record)
    weighed = [Weighed(ids[t.trajectory_id], bool(t.resolved), weights[t.task_id]) for t in chosen]
    scalar = config.kind is Objective.scalar
    return TrainingSet(
        weighed,
        _binary_loss(config.smoothing) if scalar else _answer_loss(config.smoothing, answer),
        training,
        scalar,
        record,
    )


def task_weights(chosen: Sequence[Trajectory], part: Iterable[Trajectory], difficulty: float) -> dict[str, float]:
    """Weight of each chosen attempt's task: exp(difficulty · share of unresolved among its labelled attempts), mean 1 over `chosen`."""
    labels: dict[str, list[bool]] = defaultdict(list)
    for trajectory in part:
        if trajectory.resolved is not None:
            labels[trajectory.task_id].append(trajectory.resolved)
    raw = {t.task_id: math.exp(difficulty * (1 - float(np.mean(labels[t.task_id])))) for t in chosen}
    mean = float(np.mean([raw[t.task_id] for t in chosen]))
    return {task: weight / mean for task, weight in raw.items()}


def paired(
    chosen: Sequence[Trajectory], ids: Mapping[str, Ids], weights: Mapping[str, float]
) -> tuple[list[Pair], int]:
    """(pairs of one task, attempts without a partner). Every attempt with a partner is in a pair; the rarer label's take turns."""
    by_task: dict[str, tuple[list[Trajectory], list[Trajectory]]] = defaultdict(lambda: ([], []))
    for trajectory in chosen:
        by_task[trajectory.task_id][0 if trajectory.resolved else 1].append(trajectory)
    pairs: list[Pair] = []
    alone = 0
    for task, (better, worse) in by_task.items():
        if not better or not worse:
            alone += len(better) + len(worse)
            continue
        for i in range(max(len(better), len(worse))):
            up, down = better[i % len(better)], worse[i % len(worse)]
            pairs.append(Pair(ids[up.trajectory_id], ids[down.trajectory_id], weights[task]))
    return pairs, alone


def _answer_loss(smoothing: float, answer: AnswerTokens) -> Loss:
    def loss(model: Any, part: Sequence[Weighed], pad_id: int, device: Any, routing: Routing | None) -> torch.Tensor:
        said_BV = log_softmax(read(last_logits, model, [e.ids for e in part], pad_id, device, routing), dim=-1)
        yes_B, no_B = said_BV[:, answer.yes], said_BV[:, answer.no]
        resolved_B, weight_B = _of(part, said_BV.device)
        right_B, wrong_B = torch.where(resolved_B, yes_B, no_B), torch.where(resolved_B, no_B, yes_B)
        return -(weight_B * ((1 - smoothing) * right_B + smoothing * wrong_B)).sum()

    return loss


def _binary_loss(smoothing: float) -> Loss:
    def loss(model: Any, part: Sequence[Weighed], pad_id: int, device: Any, routing: Routing | None) -> torch.Tensor:
        scalar_B = read(last_scalar, model, [e.ids for e in part], pad_id, device, routing)
        resolved_B, weight_B = _of(part, scalar_B.device)
        return (weight_B * _two_way(torch.where(resolved_B, scalar_B, -scalar_B), smoothing)).sum()

    return loss


def _pair_loss(smoothing: float) -> Loss:
    def loss(model: Any, part: Sequence[Pair], pad_id: int, device: Any, routing: Routing | None) -> torch.Tensor:
        scalar_2B = read(
            last_scalar, model, [p.better for p in part] + [p.worse for p in part], pad_id, device, routing
        )
        better_B, worse_B = scalar_2B.chunk(2)
        weight_B = torch.tensor([p.weight for p in part], device=scalar_2B.device)
        return (weight_B * _two_way(better_B - worse_B, smoothing)).sum()

    return loss


def _two_way(margin_B: torch.Tensor, smoothing: float) -> torch.Tensor:
    """-log sigmoid of a margin that should be large, `smoothing` of the target on the other side."""
    return -((1 - smoothing) * logsigmoid(margin_B) + smoothing * logsigmoid(-margin_B))


def _of(part: Sequence[Weighed], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([e.resolved for e in part], device=device), torch.tensor(
        [e.weight for e in part], device=device
    )
