"""How many trajectories fit a context, by label, as they are and with their observations cut in the middle."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rmlab.models.config import TokenizerConfig
from rmlab.models.tokenizer import load_tokenizer
from rmlab.paths import STARTER, runs_folder
from rmlab.progress import progress
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import iterate_trajectories, read_count, read_trajectories
from rmlab.verifiers.answer import verifier_tokenizer
from rmlab.verifiers.encoding import in_chunks, prompt_ids, token_counts
from rmlab.verifiers.prompt import escape
from rmlab.verifiers.truncation import truncate_observations

BUDGETS = (8 * 1024, 32 * 1024, 128 * 1024, 256 * 1024)


def measure_lengths(path: Path, tokenizer_name: str = "starter", budgets: Sequence[int] = ()) -> dict[str, Any]:
    """Lengths in tokens by label, and for each budget (tokens) the share that fits; one pass over the file.

    tokenizer_name: a folder with tokenizer.json, or starter. Raises DataError.
    """
    budgets = tuple(sorted(budgets)) or BUDGETS
    total = read_count(path)  # before anything heavy: a wrong path is said at once
    tokenizer, name = _tokenizer(tokenizer_name)

    def count(text: str) -> int:
        return len(tokenizer.encode([escape(text, tokenizer.reserved)])[0]) - len(tokenizer.front)

    groups: dict[str, list[int]] = defaultdict(list)
    fits: dict[int, Counter[str]] = {budget: Counter() for budget in budgets}
    cut: dict[int, Counter[str]] = {budget: Counter() for budget in budgets}
    gone: dict[int, int] = dict.fromkeys(budgets, 0)
    total_characters = 0
    with progress("Measuring", total, "trajectories") as advance:
        for trajectory, ids in _with_ids(path, tokenizer):
            group = _group(trajectory)
            known, whole = token_counts(ids, tokenizer), len(ids) + 1  # the answer needs its place too
            groups[group].append(whole)
            characters = sum(len(m.content) for m in trajectory.messages)
            total_characters += characters
            for budget in budgets:
                fits[budget][group] += whole <= budget
                held = truncate_observations(trajectory, budget - 1, count, known)
                cut[budget][group] += held.fits
                gone[budget] += held.characters if held.fits else characters
            advance(1)
    labels = [label for label in ("resolved", "unresolved", "unlabelled") if label in groups]
    every = [n for label in labels for n in groups[label]]
    return {
        "tokenizer": name,
        "trajectories": len(every),
        "tokens": {label: _quantiles(np.array(groups[label])) for label in labels}
        | ({"all": _quantiles(np.array(every))} if every else {}),
        "budgets": {
            str(budget): {
                "fit_rate": {label: fits[budget][label] / len(groups[label]) for label in labels}
                | {"all": sum(fits[budget].values()) / max(len(every), 1)},
                "fit_rate_with_observations_cut": {label: cut[budget][label] / len(groups[label]) for label in labels}
                | {"all": sum(cut[budget].values()) / max(len(every), 1)},
                "characters_not_read": gone[budget] / max(total_characters, 1),
            }
            for budget in budgets
        },
    }


def _with_ids(path: Path, tokenizer: Any) -> Iterator[tuple[Trajectory, Any]]:
    """Each trajectory and the ids of its whole prompt."""
    for chunk in in_chunks(iterate_trajectories(path)):
        yield from zip(chunk, prompt_ids(chunk, tokenizer), strict=True)


def _group(trajectory: Trajectory) -> str:
    return "unlabelled" if trajectory.resolved is None else "resolved" if trajectory.resolved else "unresolved"


def _quantiles(tokens: Any) -> dict[str, float]:
    return {
        "n": len(tokens),
        "median": float(np.median(tokens)),
        "p90": float(np.quantile(tokens, 0.9)),
        "max": float(tokens.max()),
    }


def _tokenizer(name: str) -> tuple[Any, str]:
    """The tokenizer and what it is called in the result."""
    if name != "starter":
        return load_tokenizer(Path(name)), name
    config = TokenizerConfig()
    pool = read_trajectories(STARTER / "trajectories.parquet", parts=["supervised"])
    tokenizer = verifier_tokenizer(pool.trajectories, config, runs_folder() / "cache" / "tokenizers")
    return (
        tokenizer,
        f"starter (BPE of {tokenizer.size} ids from the shipped micro-SWE text: real text needs about twice a large tokenizer's count)",
    )
