"""How many real trajectories are there, of how many tasks and repositories, and how long are they? counts.csv and repositories.csv.

    rmlab import auto FOLDER FOLDER FOLDER -o runs/real.parquet      # the three of experiments/studies/real_policy_mixture
    python experiments/studies/real_trajectories_needed/counts.py runs/real.parquet

A task is mixed where one attempt is resolved and another is not: only there can a verifier pick the better one. Tokens: of a
verifier's whole prompt, by the shipped tokenizer.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.presentation.style import write_csv
from rmlab.models.tokenizer import load_tokenizer
from rmlab.paths import STARTER
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet, read_trajectories
from rmlab.verifiers.encoding import prompt_ids

HERE = Path(__file__).parent
CONTEXT = 4096  # of the verifiers in this study


def groups(trajectories: Sequence[Trajectory]) -> dict[str, list[Trajectory]]:
    """Each policy, the policies that have most tasks in common with another one (`pair`), and all."""
    found: dict[str, list[Trajectory]] = {
        policy: [t for t in trajectories if t.policy == policy] for policy in sorted({t.policy for t in trajectories})
    }
    tasks = {policy: {t.task_id for t in of} for policy, of in found.items()}
    pairs = [(a, b) for a in found for b in found if a < b]
    both = max(pairs, key=lambda pair: len(tasks[pair[0]] & tasks[pair[1]]))
    return found | {"pair": [t for t in trajectories if t.policy in both], "all": list(trajectories)}


def outcomes(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    """Tasks with at least two labelled attempts, by what became of these."""
    labels: dict[str, list[bool]] = defaultdict(list)
    for t in trajectories:
        if t.resolved is not None:
            labels[t.task_id].append(t.resolved)
    several = [of for of in labels.values() if len(of) > 1]
    return {
        "tasks_of_two": len(several),
        "mixed": sum(any(of) and not all(of) for of in several),
        "all_resolved": sum(all(of) for of in several),
        "none_resolved": sum(not any(of) for of in several),
    }


def counted(name: str, trajectories: Sequence[Trajectory], tokens: dict[str, int]) -> dict[str, Any]:
    """One row of counts.csv. tokens: by trajectory id."""
    length_N = np.array([tokens[t.trajectory_id] for t in trajectories])
    return {
        "group": name,
        "trajectories": len(trajectories),
        "labelled": sum(t.resolved is not None for t in trajectories),
        "resolved": sum(t.resolved is True for t in trajectories),
        "tasks": len({t.task_id for t in trajectories}),
        "repositories": len({t.cluster for t in trajectories}),
        **outcomes(trajectories),
        "tokens_median": int(np.median(length_N)),
        "tokens_90": int(np.quantile(length_N, 0.9)),
        "tokens_most": int(length_N.max()),
        "fit": round(float((length_N < CONTEXT).mean()), 4),
        "fingerprint": TrajectorySet(tuple(trajectories), {}).fingerprint,
    }


def main(path: Path, out: Path = HERE) -> None:
    """Writes counts.csv, a row a policy and two for several, and repositories.csv, the pair's tasks by repository."""
    whole = read_trajectories(path).trajectories
    tokenizer = load_tokenizer(STARTER / "base", add_markers=True)
    tokens = {t.trajectory_id: len(ids) for t, ids in zip(whole, prompt_ids(whole, tokenizer), strict=True)}
    named = groups(whole)
    write_csv(out / "counts.csv", [counted(name, of, tokens) for name, of in named.items()])
    by_repository: dict[str, list[Trajectory]] = defaultdict(list)
    for t in named["pair"]:
        by_repository[t.cluster].append(t)
    rows = [
        {"repository": name, "tasks": len({t.task_id for t in of}), **outcomes(of)}
        for name, of in by_repository.items()
    ]
    write_csv(out / "repositories.csv", sorted(rows, key=lambda row: (-row["tasks"], row["repository"])))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
