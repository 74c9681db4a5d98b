"""`rmlab trajectories lengths`: how many trajectories fit a context, by label, as they are and with observations cut."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rmlab.errors import UsageError
from rmlab.paths import STARTER, runs_folder
from rmlab.progress import progress
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import iterate_trajectories, read_count

BUDGETS = (8 * 1024, 32 * 1024, 128 * 1024, 256 * 1024)


def main(
    path: Path, tokenizer_name: str = "starter", budgets: Sequence[int] = (), as_json: bool = False
) -> dict[str, Any]:
    """One pass over the file; prints and returns the object. Raises DataError and UsageError."""
    import numpy as np

    from rmlab.verifiers.encoding import token_counts
    from rmlab.verifiers.prompt import escape
    from rmlab.verifiers.truncation import truncate_observations

    if any(budget < 256 for budget in budgets):
        raise UsageError("--budget is a number of tokens, at least 256")
    budgets = tuple(sorted(budgets)) or BUDGETS
    total = read_count(path)  # before anything heavy: a wrong path is said at once
    tokenizer, name = _tokenizer(tokenizer_name)

    def count(text: str) -> int:
        return len(
            tokenizer.hf.backend_tokenizer.encode(escape(text, tokenizer.reserved), add_special_tokens=False).ids
        )

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
    result: dict[str, Any] = {
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
    print(json.dumps(result) if as_json else "\n".join(_lines(result, labels)))
    return result


def _with_ids(path: Path, tokenizer: Any) -> Iterator[tuple[Trajectory, Any]]:
    """Each trajectory and the ids of its whole prompt."""
    from rmlab.verifiers.encoding import in_chunks, prompt_ids

    for chunk in in_chunks(iterate_trajectories(path)):
        yield from zip(chunk, prompt_ids(chunk, tokenizer), strict=True)


def _group(trajectory: Trajectory) -> str:
    return "unlabelled" if trajectory.resolved is None else "resolved" if trajectory.resolved else "unresolved"


def _quantiles(tokens: Any) -> dict[str, float]:
    import numpy as np

    return {
        "n": len(tokens),
        "median": float(np.median(tokens)),
        "p90": float(np.quantile(tokens, 0.9)),
        "max": float(tokens.max()),
    }


def _tokenizer(name: str) -> tuple[Any, str]:
    """The tokenizer and what it is called in the result."""
    if name != "starter":
        from rmlab.models.tokenizer import load_tokenizer

        return load_tokenizer(Path(name)), name
    from rmlab.models.config import TokenizerConfig
    from rmlab.trajectories.store import read_trajectories
    from rmlab.verifiers.answer import verifier_tokenizer

    config = TokenizerConfig()
    pool = read_trajectories(STARTER / "trajectories.parquet", parts=["supervised"])
    tokenizer = verifier_tokenizer(pool.trajectories, config, runs_folder() / "cache" / "tokenizers")
    return (
        tokenizer,
        f"starter (BPE of {tokenizer.size} ids from the shipped micro-SWE text: real text needs about twice a large tokenizer's count)",
    )


def _lines(result: dict[str, Any], labels: Sequence[str]) -> list[str]:
    columns = [*labels, "all"] if result["trajectories"] else labels
    shown = [
        f"{result['trajectories']:,} trajectories, tokenizer {result['tokenizer']}",
        f"{'':>12}" + "".join(f"{column:>24}" for column in columns),
    ]
    if not result["trajectories"]:
        return shown[:1]
    for key in ("n", "median", "p90", "max"):
        shown.append(f"{key:>12}" + "".join(f"{result['tokens'][column][key]:>24,.0f}" for column in columns))
    shown.append("fit rate as it is / with observations cut in the middle (share of characters not read)")
    for budget, row in result["budgets"].items():
        cells = [f"{row['fit_rate'][c]:.1%} / {row['fit_rate_with_observations_cut'][c]:.1%}" for c in columns]
        shown.append(
            f"{int(budget):>12,}" + "".join(f"{cell:>24}" for cell in cells) + f"   ({row['characters_not_read']:.1%})"
        )
    return shown
