"""The tokenizer of verifiers that start from nothing: trained on the prompts of the supervised part, and on the answers."""

from collections.abc import Sequence
from pathlib import Path

from rmlab.errors import DataError
from rmlab.models.config import TokenizerConfig
from rmlab.models.tokenizer import Tokenizer, cached_tokenizer, train_tokenizer
from rmlab.trajectories.record import Trajectory
from rmlab.verifiers.prompt import NO, OPEN_ANSWER, YES, render


def verifier_tokenizer(supervised: Sequence[Trajectory], config: TokenizerConfig, cache: Path | None = None) -> Tokenizer:
    """BPE over the rendered prompts; the same trajectories in any order give the same tokenizer.

    Both answers follow every opened turn once, whatever the label, so that each becomes one token.
    cache: folder that remembers it. Raises DataError where the part is empty.
    """
    if not supervised:
        raise DataError("the pool has no supervised part: a tokenizer is trained on it. Take a pool that was split into parts, "
                        "or a pretrained model (model.pretrained=FOLDER).")
    texts = [render(t) for t in sorted(supervised, key=lambda t: t.trajectory_id)]
    texts += [OPEN_ANSWER + answer for answer in (YES, NO) for _ in texts]
    return cached_tokenizer(texts, config, cache) if cache else train_tokenizer(texts, config)
