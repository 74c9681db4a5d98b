"""Prompts as token ids, and what happens to those that do not fit the context.

Prompts are tokenised once for all cells of a sweep: lengths decide what can be chosen before anything is chosen, and nothing is cut
or dropped silently.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rmlab.errors import DataError
from rmlab.files import atomic_path, made_once
from rmlab.fingerprint import fingerprint, fingerprint_lines
from rmlab.models.tokenizer import Tokenizer
from rmlab.progress import progress
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.config import SEMANTICS, OverLength, PromptConfig, PromptView
from rmlab.verifiers.prompt import escape, render_question, render_shown, turns_of, visible
from rmlab.verifiers.truncation import Count, TokenCounts, truncate_observations

Ids = NDArray[np.int32]

AT_ONCE = 4_000_000  # characters tokenised at once: a tokenizer holds a hundred bytes and more for each token until it is done
NOTHING: Ids = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class Encoded:
    """A trajectory and its prompt.

    ids: token ids as they are read, cut where the policy says so; None = does not fit and is not scored.
    n_tokens: of the whole prompt, before any cut. observations, turns: how many were cut, and left out, to make it fit
    (`cut_observations`).
    """

    trajectory: Trajectory
    ids: Ids | None
    n_tokens: int
    observations: int = 0
    turns: int = 0


def encode(
    trajectories: Sequence[Trajectory],
    tokenizer: Tokenizer,
    config: PromptConfig,
    cache: Path | None = None,
    *,
    show: bool = False,
) -> list[Encoded]:
    """Renders and tokenises, in order. The context (`max_tokens`) holds the prompt and its answer.

    cache: folder that remembers the ids of this very sequence of trajectories. show: progress. Raises DataError where a
    message forged a turn in spite of the escape (a tokenizer that normalises special tokens).
    """
    read = (
        _remembered(trajectories, tokenizer, config, cache, show)
        if cache
        else _read(trajectories, tokenizer, config, show)
    )
    if config.over_length is OverLength.cut_observations:
        return read
    return [e if e.ids is None else _as_read(e.trajectory, e.ids, tokenizer, config) for e in read]


def encode_prefixes(
    trajectory: Trajectory, prefixes: Sequence[Trajectory], tokenizer: Tokenizer, config: PromptConfig
) -> list[Encoded]:
    """`encode` of prefixes of one trajectory, the last of them itself, with each of its turns tokenised once.

    Turns open with a special token, so that the ids of a prefix are those of its turns in the whole prompt and of its own question.
    The whole prompt put together like that is compared with the one that was tokenised as it is; where a tokenizer makes a
    difference, or turns are left out (`prompt.shows`), the prefixes are tokenised one by one.
    """
    front = len(tokenizer.front)
    if visible(trajectory, config) is trajectory and len(prefixes) > 1:
        (whole,) = prompt_ids([trajectory], tokenizer, config)
        start_S = np.flatnonzero(whole == tokenizer.start_id)
        questions = tokenizer.encode([render_question(prefix, tokenizer.reserved) for prefix in prefixes])
        together = [
            np.concatenate([whole[: start_S[len(prefix.messages)]], np.array(ids[front:], dtype=np.int32)])
            for prefix, ids in zip(prefixes, questions, strict=True)
        ]
        if np.array_equal(together[-1], whole):
            return [_as_read(prefix, ids, tokenizer, config) for prefix, ids in zip(prefixes, together, strict=True)]
    return encode(prefixes, tokenizer, config)


def prompt_ids(
    trajectories: Sequence[Trajectory], tokenizer: Tokenizer, config: PromptConfig | None = None
) -> list[Ids]:
    """The ids of each trajectory's prompt, before any cut. config: what it shows (None = the whole attempt)."""
    shown = [visible(t, config) if config else t for t in trajectories]
    return _ids(shown, tokenizer, config is None or config.shows is not PromptView.patch_only)


def token_counts(ids: Ids, tokenizer: Tokenizer) -> TokenCounts:
    """What each message of a prompt takes, read off its ids: every turn opens with the same id. Nothing is tokenised again."""
    start_S = np.flatnonzero(ids == tokenizer.start_id)
    turn_M = np.diff(start_S)[:-1]  # the last two are the question and the opened answer
    roles = tokenizer.encode(["assistant\n", "system\n", "tool\n", "user\n"])
    marks = max(map(len, roles)) - len(tokenizer.front) + 3  # the role, and <|im_start|>, <|im_end|>, a line break
    return TokenCounts(turn_M.tolist(), len(ids) - int(turn_M.sum()), marks)


def fit(ids: Ids, config: PromptConfig, front: int = 0) -> Ids | None:
    """The ids as a context of `max_tokens` holds them with their answer; None where they do not fit and are not truncated.

    front: ids at the start that are kept whatever is cut (the BOS).
    """
    room = config.max_tokens - 1
    if len(ids) <= room:
        return ids
    if config.over_length is OverLength.truncate_head:
        return np.concatenate([ids[:front], ids[len(ids) - (room - front) :]])
    if config.over_length is OverLength.truncate_middle:
        return np.concatenate([ids[: room // 2], ids[len(ids) - (room - room // 2) :]])
    return None


def unfit_counts(encoded: Sequence[Encoded]) -> dict[str, int]:
    """How many trajectories do not fit, by "label, source": a drop is never silent."""
    counts = Counter(f"{_word(e.trajectory.resolved)}, {e.trajectory.source}" for e in encoded if e.ids is None)
    return dict(sorted(counts.items()))


def cut_counts(encoded: Sequence[Encoded]) -> dict[str, int]:
    """What is not read of trajectories that are read in part: how many they are, their tokens, and how many of these are left
    out; observations that were cut and turns that are not there at all (both 0 where ids were truncated)."""
    cut = [(e, len(e.ids)) for e in encoded if e.ids is not None and len(e.ids) < e.n_tokens]
    return {
        "cut_attempts": len(cut),
        "cut_attempts_tokens": sum(e.n_tokens for e, _ in cut),
        "cut_tokens": sum(e.n_tokens - read for e, read in cut),
        "cut_observations": sum(e.observations for e, _ in cut),
        "cut_turns": sum(e.turns for e, _ in cut),
    }


def cut_words(counts: dict[str, int]) -> str:
    """`cut_counts` in a few words; empty where nothing was cut."""
    if not counts["cut_attempts"]:
        return ""
    where = ""
    if counts["cut_observations"] or counts["cut_turns"]:
        where = f" ({counts['cut_observations']:,} observations cut, {counts['cut_turns']:,} turns left out)"
    return (
        f"{counts['cut_attempts']:,} are read only in part: {counts['cut_tokens']:,} of their {counts['cut_attempts_tokens']:,} tokens "
        f"are left out{where}"
    )


def _word(resolved: bool | None) -> str:
    return "unlabelled" if resolved is None else "resolved" if resolved else "unresolved"


def _ids(shown: Sequence[Trajectory], tokenizer: Tokenizer, with_last: bool) -> list[Ids]:
    """The ids of prompts whose messages are chosen. Raises DataError where one has other turns than it should."""
    ids_N = tokenizer.encode([render_shown(t, tokenizer.reserved, with_last) for t in shown])
    for trajectory, ids in zip(shown, ids_N, strict=True):
        if ids.count(tokenizer.start_id) != turns_of(trajectory):
            raise DataError(
                f"the prompt of {trajectory.trajectory_id} has {ids.count(tokenizer.start_id)} turns instead of "
                f"{turns_of(trajectory)}: this tokenizer reads special tokens where there are none"
            )
    return [np.array(ids, dtype=np.int32) for ids in ids_N]


def _read(trajectories: Sequence[Trajectory], tokenizer: Tokenizer, config: PromptConfig, show: bool) -> list[Encoded]:
    """Every prompt whole; cut where observations are to be cut and it does not fit."""
    cuts = config.over_length is OverLength.cut_observations
    read: list[Encoded] = []
    with progress("tokenising", len(trajectories), "trajectories", show=show) as advance:
        for chunk in in_chunks(trajectories):
            for trajectory, ids in zip(chunk, prompt_ids(chunk, tokenizer, config), strict=True):
                read.append(
                    _as_read(trajectory, ids, tokenizer, config) if cuts else Encoded(trajectory, ids, len(ids))
                )
            advance(len(chunk))
    return read


def _as_read(trajectory: Trajectory, whole: Ids, tokenizer: Tokenizer, config: PromptConfig) -> Encoded:
    """whole: the ids of the prompt as it is."""
    if config.over_length is OverLength.cut_observations and len(whole) >= config.max_tokens:
        return _cut(trajectory, whole, tokenizer, config)
    return Encoded(trajectory, fit(whole, config, len(tokenizer.front)), len(whole))


def _cut(trajectory: Trajectory, whole: Ids, tokenizer: Tokenizer, config: PromptConfig) -> Encoded:
    """The prompt with its observations cut. whole: its ids as it is, which do not fit."""
    room, front = config.max_tokens - 1, len(tokenizer.front)

    def count(text: str) -> int:
        return len(tokenizer.encode([escape(text, tokenizer.reserved)])[0]) - front

    def ids_of(short: Trajectory) -> Ids:
        return _ids([short], tokenizer, config.shows is not PromptView.patch_only)[0]

    whole_prompt = Encoded(trajectory, None, len(whole))
    return cut_to_fit(whole_prompt, visible(trajectory, config), room, count, token_counts(whole, tokenizer), ids_of)


def cut_to_fit(
    whole: Encoded, shown: Trajectory, room: int, count: Count, counts: TokenCounts, ids_of: Callable[[Trajectory], Ids]
) -> Encoded:
    """The prompt with its observations cut so that it has at most `room` tokens; `whole` where it cannot fit.

    whole: a prompt without ids. shown: the messages that it is made of. count: tokens of a text. counts: of the whole prompt.
    ids_of: the prompt of what is left.
    """
    budget = room
    while (truncated := truncate_observations(shown, budget, count, counts)).fits:
        ids = ids_of(truncated.trajectory)
        if len(ids) <= room:
            return replace(whole, ids=ids, observations=truncated.cut, turns=truncated.left_out)
        budget -= len(ids) - room  # the question may repeat another end of a last observation that was cut
    return whole


def in_chunks(trajectories: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    """As many trajectories at a time as are tokenised at once (AT_ONCE), in order: on all cores, in little memory."""
    chunk: list[Trajectory] = []
    characters = 0
    for trajectory in trajectories:
        chunk.append(trajectory)
        characters += sum(len(m.content) for m in trajectory.messages) + len(trajectory.patch or "")
        if characters >= AT_ONCE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _remembered(
    trajectories: Sequence[Trajectory], tokenizer: Tokenizer, config: PromptConfig, cache: Path, show: bool
) -> list[Encoded]:
    """`_read` from the cache (a file of all ids in a row, one of where each prompt ends), written where it is not there.

    The ids are mapped into memory, not read: all cells of a sweep share one copy, and what is not asked for takes none. A file that
    a kill or a full disk left unreadable cannot be: each is renamed into place whole, that of the ids first.
    """
    which = fingerprint_lines(t.content_id for t in trajectories)
    key: list[object] = [SEMANTICS["render"], tokenizer.fingerprint, which, [config.shows.value, config.evidence.value]]
    if (
        config.over_length is OverLength.cut_observations
    ):  # whole prompts serve all contexts, cut ones are made for theirs
        key.append(config.max_tokens)
    path = cache / f"{fingerprint(key)}.npz"
    row = path.with_suffix(".npy")
    if path.is_file() and not row.is_file():  # in this order: the ids are written first
        path.unlink(missing_ok=True)
    made_once(path, lambda: _remember(path, row, _read(trajectories, tokenizer, config, show)))
    ids_M = np.asarray(np.load(row, mmap_mode="r", allow_pickle=False))
    with np.load(path, allow_pickle=False) as saved:
        ids_N = np.split(ids_M, saved["ends"][:-1]) if len(saved["ends"]) else []
        counts_3N = saved["counts"].tolist()
    return [
        Encoded(trajectory, ids if len(ids) else None, *counts)
        for trajectory, ids, counts in zip(trajectories, ids_N, zip(*counts_3N, strict=True), strict=True)
    ]


def _remember(path: Path, row: Path, read: Sequence[Encoded]) -> None:
    """Writes the ids to `row`, ends and counts to `path`; a prompt that does not fit has no ids, every other has some."""
    ids_N = [NOTHING if e.ids is None else e.ids for e in read]
    counts_3N = np.array(
        [[e.n_tokens for e in read], [e.observations for e in read], [e.turns for e in read]], dtype=np.int64
    )
    with atomic_path(row) as temporary:
        np.save(temporary, np.concatenate([NOTHING, *ids_N]))
    with atomic_path(path) as temporary:
        np.savez(temporary, ends=np.cumsum([len(ids) for ids in ids_N], dtype=np.int64), counts=counts_3N)
