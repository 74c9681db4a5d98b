"""The tokenizer of verifiers that start from nothing: trained on the prompts of the supervised part, and on the answers.

Pools of others' trajectories have no such part: there it is the verifier part, whose text a verifier learns from anyway.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from rmlab.errors import DataError
from rmlab.models.config import TokenizerConfig
from rmlab.models.tokenizer import Tokenizer, cached_tokenizer, train_tokenizer
from rmlab.trajectories.record import Part, Trajectory
from rmlab.verifiers.prompt import NO, OPEN_ANSWER, YES, render

LONG = 4_000  # characters of a prompt that is no episode of micro-SWE
ANSWERS = (
    40  # how often either answer is read for every LONG characters: often enough for a place in the smallest vocabulary
)
ENOUGH = 20_000_000  # characters: more text gives hardly other merges, and takes minutes


def lesson_part(parts: Collection[Part | None]) -> Part:
    """The part of a pool that a tokenizer is trained on. parts: those that the pool has."""
    return "supervised" if "supervised" in parts else "verifier"


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
