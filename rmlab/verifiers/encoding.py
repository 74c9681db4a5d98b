"""Prompts as token ids, and what becomes of those that do not fit the context.

Tokenised once a run: lengths decide who can be chosen before anything is chosen, and nothing is cut or dropped in silence.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.models.tokenizer import Tokenizer
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.config import OverLength, PromptConfig
from rmlab.verifiers.prompt import render, turns_of


@dataclass(frozen=True)
class Encoded:
    """A trajectory and its prompt.

    ids: token ids as they are read, truncated where the policy says so; None = does not fit and is not scored.
    n_tokens: of the whole prompt, before any truncation.
    """

    trajectory: Trajectory
    ids: NDArray[np.int32] | None
    n_tokens: int


def encode(trajectories: Sequence[Trajectory], tokenizer: Tokenizer, config: PromptConfig) -> list[Encoded]:
    """Renders and tokenises, in order. The context (`max_tokens`) holds the prompt and its answer.

    Raises DataError where a message forged a turn in spite of the escape (a tokenizer that normalises special tokens).
    """
    encoded = []
    texts = [render(t, tokenizer.reserved) for t in trajectories]
    for trajectory, ids in zip(trajectories, tokenizer.encode(texts), strict=True):
        if ids.count(tokenizer.start_id) != turns_of(trajectory):
            raise DataError(f"the prompt of {trajectory.trajectory_id} has {ids.count(tokenizer.start_id)} turns instead of "
                            f"{turns_of(trajectory)}: this tokenizer reads special tokens where there are none")
        encoded.append(Encoded(trajectory, _fit(ids, tokenizer, config), len(ids)))
    return encoded


def _fit(ids: list[int], tokenizer: Tokenizer, config: PromptConfig) -> NDArray[np.int32] | None:
    room = config.max_tokens - 1
    kept: list[int] | None = ids
    if len(ids) > room:
        front = 1 if tokenizer.hf.bos_token_id is not None else 0
        if config.over_length is OverLength.truncate_head:
            kept = ids[:front] + ids[len(ids) - (room - front):]
        elif config.over_length is OverLength.truncate_middle:
            kept = ids[: room // 2] + ids[len(ids) - (room - room // 2):]
        else:
            kept = None
    return None if kept is None else np.array(kept, dtype=np.int32)


def unfit_counts(encoded: Sequence[Encoded]) -> dict[str, int]:
    """How many trajectories do not fit, by "label, source": a drop is never silent."""
    counts = Counter(f"{_word(e.trajectory.resolved)}, {e.trajectory.source}" for e in encoded if e.ids is None)
    return dict(sorted(counts.items()))


def _word(resolved: bool | None) -> str:
    return "unlabelled" if resolved is None else "resolved" if resolved else "unresolved"
