"""What the gradient sees: how well do a verifier's group-relative advantages point where the true ones point?

GRPO and GSPO centre the rewards of one task's attempts; only the centred scores reach the policy. A spread of scores
among attempts that are all resolved, or all unresolved, is pure noise in the gradient.
"""

from dataclasses import dataclass

import numpy as np

from rmlab.metrics.table import Codes, Floats, Table, mean_where_defined, sum_by


@dataclass(frozen=True)
class Centred:
    """Products of centred scores ŝ and centred labels ŷ of G groups: ⟨ŝ,ŷ⟩, |ŝ|², |ŷ|². Energy is exactly 0 where max = min."""

    product_G: Floats
    score_energy_G: Floats
    label_energy_G: Floats

    @property
    def cosine_G(self) -> Floats:
        """Cosine of ŝ and ŷ; 0 where the scores are constant (and where the labels are: see mixed_G)."""
        norm_G = np.sqrt(self.score_energy_G * self.label_energy_G)
        return np.divide(self.product_G, norm_G, out=np.zeros_like(norm_G), where=norm_G > 0)

    @property
    def mixed_G(self) -> Floats:
        """1.0 for a group with both labels."""
        return (self.label_energy_G > 0).astype(float)


def centred(score_N: Floats, label_N: Floats, group_N: Codes, groups: int) -> Centred:
    """Centres scores and labels within groups. score_N: no NaN. group_N: codes below `groups`; a group may be empty."""
    score_N, label_N = _centre(score_N, group_N, groups), _centre(label_N, group_N, groups)
    return Centred(
        sum_by(group_N, score_N * label_N, groups),
        sum_by(group_N, score_N**2, groups),
        sum_by(group_N, label_N**2, groups),
    )


def _centre(value_N: Floats, group_N: Codes, groups: int) -> Floats:
    size_G = np.maximum(np.bincount(group_N, minlength=groups), 1)
    mean_G = sum_by(group_N, value_N, groups) / size_G
    low_G, high_G = np.full(groups, np.inf), np.full(groups, -np.inf)
    np.minimum.at(low_G, group_N, value_N)
    np.maximum.at(high_G, group_N, value_N)
    # A mean of equal numbers may be off by a rounding error, which would pass for energy.
    return np.where((low_G == high_G)[group_N], 0.0, value_N - mean_G[group_N])


@dataclass(frozen=True)
class Advantage:
    """cosine: what std-normalised advantages see. cosine_all: what unnormalised ones see. noise_share: share of Σ|ŝ|²
    in one-label groups. Each per policy, averaged over the policies where it is defined; NaN = nowhere."""

    cosine: float
    cosine_all: float
    noise_share: float


def advantage(table: Table) -> Advantage:
    """The three measures over the scored rows of a table."""
    rows = table.scored
    groups = centred(rows.score_N, rows.label_N, rows.group_N, rows.groups)
    mixed_G = groups.mixed_G
    energies = [
        sum_by(rows.policy_G, value_G, rows.policies)
        for value_G in (groups.product_G, groups.score_energy_G, groups.label_energy_G)
    ]
    return Advantage(
        cosine=rows.over_policies(groups.cosine_G * mixed_G, mixed_G),
        cosine_all=float(mean_where_defined(cosine_all(*energies))),
        noise_share=rows.over_policies(groups.score_energy_G * (1 - mixed_G), groups.score_energy_G),
    )


def cosine_all(product: Floats, score_energy: Floats, label_energy: Floats) -> Floats:
    """Σ⟨ŝ,ŷ⟩ / √(Σ|ŝ|² Σ|ŷ|²) of sums of any one shape; NaN where an energy is 0."""
    norm = np.sqrt(score_energy * label_energy)
    return np.divide(product, norm, out=np.full_like(norm, np.nan), where=norm > 0)
