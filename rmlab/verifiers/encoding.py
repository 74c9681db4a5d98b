"""Prompts as token ids, and what becomes of those that do not fit the context.

Tokenised once for all cells of a sweep: lengths decide who can be chosen before anything is chosen, and nothing is cut or
dropped in silence.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.fingerprint import fingerprint, fingerprint_lines
from rmlab.models.tokenizer import Tokenizer
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.config import SEMANTICS, OverLength, PromptConfig
from rmlab.verifiers.prompt import render, turns_of

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Encoded:
    """A trajectory and its prompt.

    ids: token ids as they are read, truncated where the policy says so; None = does not fit and is not scored.
    n_tokens: of the whole prompt, before any truncation.
    """

    trajectory: Trajectory
    ids: Ids | None
    n_tokens: int


def encode(trajectories: Sequence[Trajectory], tokenizer: Tokenizer, config: PromptConfig, cache: Path | None = None) -> list[Encoded]:
    """Renders and tokenises, in order. The context (`max_tokens`) holds the prompt and its answer.

    cache: folder that remembers the ids of this very sequence of trajectories. Raises DataError where a message forged a
    turn in spite of the escape (a tokenizer that normalises special tokens).
    """
    whole = _cached_ids(trajectories, tokenizer, config, cache) if cache else prompt_ids(trajectories, tokenizer, config)
    front = 1 if tokenizer.hf.bos_token_id is not None else 0
    return [Encoded(trajectory, fit(ids, config, front), len(ids)) for trajectory, ids in zip(trajectories, whole, strict=True)]


def prompt_ids(trajectories: Sequence[Trajectory], tokenizer: Tokenizer, config: PromptConfig | None = None) -> list[Ids]:
    """The ids of each trajectory's prompt, before any cut. config: what it shows (None = the whole attempt)."""
    found = tokenizer.encode([render(t, tokenizer.reserved, config) for t in trajectories])
    for trajectory, ids in zip(trajectories, found, strict=True):
        if ids.count(tokenizer.start_id) != turns_of(trajectory, config):
            raise DataError(f"the prompt of {trajectory.trajectory_id} has {ids.count(tokenizer.start_id)} turns instead of "
                            f"{turns_of(trajectory, config)}: this tokenizer reads special tokens where there are none")
    return [np.array(ids, dtype=np.int32) for ids in found]


def fit(ids: Ids, config: PromptConfig, front: int = 0) -> Ids | None:
    """The ids as a context of `max_tokens` holds them with their answer; None where they do not fit and are not cut.

    front: ids at the start that are kept whatever is cut (the BOS).
    """
    room = config.max_tokens - 1
    if len(ids) <= room:
        return ids
    if config.over_length is OverLength.truncate_head:
        return np.concatenate([ids[:front], ids[len(ids) - (room - front):]])
    if config.over_length is OverLength.truncate_middle:
        return np.concatenate([ids[: room // 2], ids[len(ids) - (room - room // 2):]])
    return None


def unfit_counts(encoded: Sequence[Encoded]) -> dict[str, int]:
    """How many trajectories do not fit, by "label, source": a drop is never silent."""
    counts = Counter(f"{_word(e.trajectory.resolved)}, {e.trajectory.source}" for e in encoded if e.ids is None)
    return dict(sorted(counts.items()))


def _word(resolved: bool | None) -> str:
    return "unlabelled" if resolved is None else "resolved" if resolved else "unresolved"


def _cached_ids(trajectories: Sequence[Trajectory], tokenizer: Tokenizer, config: PromptConfig, cache: Path) -> list[Ids]:
    """`prompt_ids` from one file of the cache (all ids in a row, and where each prompt ends), written where it is not there.

    A file that a kill or a full disk left unreadable cannot be: it is renamed into place whole.
    """
    which = fingerprint_lines(t.content_id for t in trajectories)
    shown = [config.shows.value, config.evidence.value]
    path = cache / f"{fingerprint([SEMANTICS['render'], tokenizer.fingerprint, which, shown])}.npz"
    if not path.is_file():
        ids = prompt_ids(trajectories, tokenizer, config)
        ends = np.cumsum([len(one) for one in ids], dtype=np.int64)
        with atomic_path(path) as temporary:
            np.savez(temporary, ids=np.concatenate(ids) if ids else np.zeros(0, np.int32), ends=ends)
    with np.load(path, allow_pickle=False) as saved:
        return np.split(saved["ids"], saved["ends"][:-1]) if len(saved["ends"]) else []
