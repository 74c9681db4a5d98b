"""In which of the five parts does each cluster stand?

Whole clusters are dealt out, source by source, to the part that is furthest below its share of tasks. One source is
withheld: it stands in evaluation only, so that evaluation also asks about functions of a kind never trained on.
"""

from collections.abc import Mapping
from fractions import Fraction

from rmlab.fingerprint import fingerprint
from rmlab.trajectories.record import Part

SHARES: dict[Part, float] = {"supervised": 0.22, "verifier": 0.38, "validation": 0.06, "rl": 0.16, "evaluation": 0.18}
"""Share of the tasks of every source that is not withheld."""


def deal(
    sizes: Mapping[str, Mapping[str, int]], withheld: str, seed: int, shares: Mapping[Part, float] = SHARES
) -> dict[str, Part]:
    """Cluster to part.

    sizes: source -> cluster -> tasks. A cluster that reaches over several sources counts where most of its tasks are,
    and goes to evaluation where any of them is withheld. withheld: a source, or "" for none. Deterministic by seed.
    """
    parts: dict[str, Part] = dict.fromkeys(sizes.get(withheld, {}), "evaluation")
    home: dict[str, str] = {}
    total: dict[str, int] = {}
    for source, clusters in sizes.items():
        for cluster, tasks in clusters.items():
            total[cluster] = total.get(cluster, 0) + tasks
            if tasks > sizes.get(home.get(cluster, ""), {}).get(cluster, 0):
                home[cluster] = source
    for source in sorted(sizes):
        names = [c for c in home if home[c] == source and c not in parts]
        # large clusters first: the small ones that follow even the shares out
        names.sort(key=lambda c: (-total[c] // 24, fingerprint([seed, c])))
        dealt: dict[Part, Fraction] = dict.fromkeys(shares, Fraction(0))
        for cluster in names:
            part = min(shares, key=lambda p: (dealt[p] + total[cluster] / 2) / Fraction(shares[p]))
            dealt[part] += total[cluster]
            parts[cluster] = part
    return parts
