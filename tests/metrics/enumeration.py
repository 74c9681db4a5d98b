"""Best of k by its definition: every draw, one by one."""

from itertools import combinations

import numpy as np


def best_by_enumeration(score, label, k):
    """The label of the best, averaged over every subset of k; the best of a tie is its mean."""
    score = [-np.inf if np.isnan(s) else s for s in score]
    picks = []
    for draw in combinations(range(len(score)), min(k, len(score))):
        best = max(score[i] for i in draw)
        picks.append(np.mean([label[i] for i in draw if score[i] == best]))
    return np.mean(picks)
