"""How good is the patch that most of k attempts agree on? A selector that needs no verifier and no execution.

Of k attempts drawn without replacement, one of the most frequent patch is picked; a tie between patches counts as the
mean of the tied. Exact where all attempts are drawn, else the mean over seeded subsets, with its standard error.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rmlab.metrics.best_of_k import SUBSETS, picked


def majority_at_k(
    groups: Sequence[tuple[str, str]], patches: Sequence[str], labels: Sequence[bool], ks: Sequence[int], seed: int = 0
) -> tuple[dict[str, float], dict[str, float]]:
    """({"k": expected label of the pick}, {"k": standard error of the sampling, 0 where exact}), means over policies.

    groups: (task, policy) of each attempt; patches, labels: of each attempt. A group with fewer than k uses all it has.
    Each policy's value is its mean over tasks.
    """
    rng = np.random.default_rng(seed)
    members: dict[tuple[str, str], list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    policies = sorted({policy for _, policy in members})
    value: dict[str, float] = {}
    error: dict[str, float] = {}
    samples: dict[int, dict[str, list[NDArray[np.float64]]]] = {k: {p: [] for p in policies} for k in ks}
    for (_, policy), rows in sorted(members.items()):
        _, patch_N = np.unique([patches[row] for row in rows], return_inverse=True)
        label_N = np.array([float(labels[row]) for row in rows])
        order_SN = rng.permuted(np.tile(np.arange(len(rows)), (SUBSETS, 1)), axis=1)
        for k in ks:
            drawn = order_SN[:, :k] if k < len(rows) else np.arange(len(rows))[None, :]
            samples[k][policy].append(
                np.broadcast_to(picked(patch_N, np.ones(len(rows), dtype=np.int64), label_N, drawn), SUBSETS)
            )
    for k in ks:
        mean_S = np.mean([np.mean(samples[k][policy], axis=0) for policy in policies], axis=0)
        value[str(k)] = float(mean_S.mean())
        error[str(k)] = float(mean_S.std() / np.sqrt(SUBSETS))
    return value, error
