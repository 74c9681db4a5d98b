"""The training objectives: what a verifier learns to say about an attempt, and from what.

answer   YES or NO as the next token, cross-entropy over the whole vocabulary (SWE-RM)
scalar   one number from a separate head, binary cross-entropy
pairs    the same head; of two attempts at one task the resolved one should score higher: -log sigmoid of the difference
         (Bradley and Terry 1952; reward models since Christiano et al. 2017). Its level is arbitrary, so its scores are not probabilities.

Smoothing gives a share of the target to the other answer. Weighting by difficulty takes from CVeDRL (arXiv 2601.22803; its
public abstract was read, not its formulas) the idea of exponential shaping by the difficulty of a sample; its branch coverage
and its reinforcement learning of unit tests have no counterpart here. The difficulty of a task is the share of unresolved attempts
among its labelled attempts in the verifier part, chosen or not.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import log_softmax, logsigmoid

from rmlab.errors import DataError, UsageError
from rmlab.models.attention import sent
from rmlab.models.heads import last_logits, last_scalar
from rmlab.models.moe import Routing
from rmlab.training.batching import Item
from rmlab.training.config import TrainingConfig
from rmlab.training.supervised import Example, Loss, answer_loss, read
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.answer import AnswerTokens
from rmlab.verifiers.config import Objective, ObjectiveConfig

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Weighed:
    """A prompt's ids, its label, and how much it counts."""

    ids: Ids
    resolved: bool
    weight: float

    @property
    def tokens(self) -> int:
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
            f"objective.smoothing={config.smoothing}: must be the share of the wrong answer, at least 0 and below 0.5"
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
                f"objective.kind=pairs: none of the {len(chosen)} chosen attempts has a partner with the other label at its "
                "task. Raise data.scale, or use another objective."
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
        logprob_BV = log_softmax(read(last_logits, model, [e.ids for e in part], pad_id, device, routing), dim=-1)
        yes_B, no_B = logprob_BV[:, answer.yes], logprob_BV[:, answer.no]
        resolved_B, weight_B = _of(part, logprob_BV.device)
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
        weight_B = sent(torch.tensor([p.weight for p in part]), scalar_2B.device)
        return (weight_B * _two_way(better_B - worse_B, smoothing)).sum()

    return loss


def _two_way(margin_B: torch.Tensor, smoothing: float) -> torch.Tensor:
    """-log sigmoid of a margin that should be large, `smoothing` of the target on the other side."""
    return -((1 - smoothing) * logsigmoid(margin_B) + smoothing * logsigmoid(-margin_B))


def _of(part: Sequence[Weighed], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return sent(torch.tensor([e.resolved for e in part]), device), sent(torch.tensor([e.weight for e in part]), device)
