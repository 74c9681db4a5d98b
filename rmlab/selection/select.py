"""The controlled choice of a training set: the total is fixed by `data.scale` alone, everything else is proportion.

Filter (part, label, fits the context), then apportion the total to labels, within each label to policies, within each policy
to sources, then draw in the order of SHA-256(seed, trajectory_id). Every step is house-monotone, so sets are nested within a
seed, two sets that differ in one factor share all they can, and another seed is another draw.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from math import isfinite
from typing import Any, Generic, Protocol, TypeVar

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import OMIT_DEFAULT, UNHASHED
from rmlab.selection.shares import Key, ShareNode
from rmlab.trajectories.record import Split

SEMANTICS = 1
"""Bumped when the same pool, configuration and seed give another training set."""


@dataclass
class DataConfig:
    """Which trajectories a verifier is trained on.

    path: Parquet file of the pool. scale: total number of examples. label_ratio: resolved:unresolved, such as 1:4, or `pool` = as in
    the pool, of its attempts that may be learned from, whatever policies and sources are asked for. policies, sources: weights by name
    (a name that is left out gets none); empty = the proportions in the pool, within each label.
    held_out_policies: policies whose attempts are not trained on, so that an evaluation pool can consist of unseen policies.
    fits: most tokens of a training prompt with its answer, whatever the context; null = the context (`prompt.max_tokens`).
    refilter: use the context anyway. Neither affects what is scored.
    hidden_tests: label the training set by this many hidden tests of each task (`rmlab.selection.weak_tests`); null = by all, as in
    the pool. tasks: the tasks file with these tests.
    """

    path: str = field(default="${rmlab.starter:trajectories.parquet}", metadata=UNHASHED)
    scale: int = 2000
    label_ratio: str = "1:1"
    policies: dict[str, float] = field(default_factory=dict)
    sources: dict[str, float] = field(default_factory=dict)
    fits: int | None = None
    refilter: bool = False
    hidden_tests: int | None = None
    tasks: str = field(default="${rmlab.starter:tasks.parquet}", metadata=UNHASHED)
    held_out_policies: list[str] = field(default_factory=list, metadata=OMIT_DEFAULT)

    @property
    def room(self) -> int | None:
        """Most tokens of a training prompt with its answer; None = no limit beyond what is read."""
        return None if self.refilter else self.fits


class Candidate(Protocol):
    """What the choice looks at: a Trajectory, or a row of `rmlab.selection.pool` without its text."""

    @property
    def trajectory_id(self) -> str: ...
    @property
    def policy(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def resolved(self) -> bool | None: ...
    @property
    def split(self) -> Split | None: ...


Row = TypeVar("Row", bound=Candidate)
RESOLVED, UNRESOLVED = "resolved", "unresolved"
AS_POOL = "pool"
"""The label ratio of what is there."""


@dataclass(frozen=True)
class Stratum:
    """One row of the table. had: labelled rows of the part; dropped: those that do not fit the context; taken: chosen.

    asked: the exact share, a fraction of a row where shares are not whole.
    """

    label: str
    policy: str
    source: str
    had: int
    dropped: int
    asked: float
    taken: int


@dataclass(frozen=True)
class Selection(Generic[Row]):
    """chosen: the training set in the order of the draw. table: by label, policy and source. unlabelled: rows without a label.
    held_out: rows of policies that are held out, which are in neither."""

    chosen: tuple[Row, ...]
    table: tuple[Stratum, ...]
    unlabelled: int
    held_out: int

    def record(self) -> dict[str, Any]:
        """As plain values, for the run's `selection.json`."""
        resolved = sum(row.taken for row in self.table if row.label == RESOLVED)
        return {
            "taken": len(self.chosen),
            "resolved": resolved,
            "unresolved": len(self.chosen) - resolved,
            "unlabelled": self.unlabelled,
            "held_out": self.held_out,
            "dropped": sum(row.dropped for row in self.table),
            "strata": [asdict(row) for row in self.table],
        }


def select(
    pool: Iterable[Row], config: DataConfig, seed: int, fits: Callable[[Row], bool] | None = None, is_cut: bool = False
) -> Selection[Row]:
    """Chooses `config.scale` rows of the pool's part `verifier`.

    seed: of the draw (the cell's seed). fits: whether a row's prompt fits the context (None = all do). is_cut: whether that is of prompts
    that are read in part already, for the error.
    Raises UsageError for a setting that makes no sense, DataError where the total cannot be filled (it names the largest
    total that can).
    """
    if config.scale < 1:
        raise UsageError(f"data.scale={config.scale}: must be at least 1")
    rows, held_out = _learnable(pool, config)
    strata: dict[Key, list[Row]] = defaultdict(list)
    had: Counter[Key] = Counter()
    for row in rows:
        if row.resolved is not None:
            key = (RESOLVED if row.resolved else UNRESOLVED, row.policy, row.source)
            had[key] += 1
            if fits is None or fits(row):
                strata[key].append(row)
    plan = _plan(config, {key: len(strata[key]) for key in had})
    if config.scale > plan.capacity:
        raise DataError(_complaint(config, plan, had, is_cut))
    taken = plan.fill(config.scale)

    def order(row: Row) -> bytes:
        return draw_order(seed, row.trajectory_id)

    chosen = [row for key, n in taken.items() for row in sorted(strata[key], key=order)[:n]]
    asked = plan.shares()
    table = tuple(
        Stratum(*key, had[key], had[key] - len(strata[key]), float(asked[key] * config.scale), taken[key])
        for key in sorted(had)
    )
    unlabelled = sum(row.resolved is None for row in rows)
    return Selection(tuple(sorted(chosen, key=order)), table, unlabelled, held_out)


def check_fill(pool: Iterable[Row], config: DataConfig, fits: Callable[[Row], bool] | None = None) -> None:
    """The error of `select`, without drawing and before lengths are known: for a quick look ahead.

    fits: whether a row may fit the context, where something is known of that (None = all may).
    """
    rows, _ = _learnable(pool, config)
    had: Counter[Key] = Counter()
    there: Counter[Key] = Counter()
    for row in rows:
        if row.resolved is not None:
            key = (RESOLVED if row.resolved else UNRESOLVED, row.policy, row.source)
            had[key] += 1
            there[key] += fits is None or fits(row)
    plan = _plan(config, there)
    if config.scale > plan.capacity:
        raise DataError(_complaint(config, plan, had))


def largest_scale(pool: Iterable[Row], config: DataConfig) -> int:
    """The largest `data.scale` that a pool can fill before lengths are known, whatever is asked for. Raises as `check_fill` does."""
    rows, _ = _learnable(pool, config)
    labelled = [row for row in rows if row.resolved is not None]
    return _plan(
        config, Counter((RESOLVED if r.resolved else UNRESOLVED, r.policy, r.source) for r in labelled)
    ).capacity


def _learnable(pool: Iterable[Row], config: DataConfig) -> tuple[list[Row], int]:
    """The rows of the part `verifier` that a verifier may learn from, and the number of those whose policies are held out.

    Raises UsageError for a held-out name that the part does not have, or that `data.policies` asks for.
    """
    rows = [row for row in pool if row.split == "verifier"]
    there = sorted({row.policy for row in rows})
    held_out = frozenset(config.held_out_policies)  # read once: a look into a configuration costs as much as 100 rows
    for name in config.held_out_policies:
        if name not in there:
            raise UsageError(
                f"data.held_out_policies names {name!r}, which the pool does not have; it has {', '.join(there) or 'nothing'}"
            )
        if config.policies.get(name):
            raise UsageError(
                f"data.policies names {name!r}, which data.held_out_policies excludes: remove it from one of them"
            )
    kept = [row for row in rows if row.policy not in held_out]
    return kept, len(rows) - len(kept)


def draw_order(seed: int, trajectory_id: str) -> bytes:
    """Where a row stands in the draw of a seed: SHA-256 of both."""
    return hashlib.sha256(f"{seed} {trajectory_id}".encode()).digest()


def _plan(config: DataConfig, counts: Mapping[Key, int]) -> ShareNode:
    """The tree of labels, policies and sources over what is there (after the filter)."""
    policies = sorted({policy for _, policy, _ in counts})
    sources = sorted({source for _, _, source in counts})
    _check_weights("data.policies", config.policies, policies)
    _check_weights("data.sources", config.sources, sources)

    def weights(asked: Mapping[str, float], nodes: tuple[ShareNode, ...]) -> tuple[Fraction, ...]:
        if not asked:
            return tuple(Fraction(node.there) for node in nodes)
        return tuple(Fraction(str(asked.get(node.key[-1], 0))) for node in nodes)

    labels = []
    for label in (RESOLVED, UNRESOLVED):
        of_label = []
        for policy in policies:
            leaves = tuple(
                ShareNode((label, policy, source), counts.get((label, policy, source), 0)) for source in sources
            )
            of_label.append(ShareNode((label, policy), _rows(leaves), leaves, weights(config.sources, leaves)))
        labels.append(ShareNode((label,), _rows(of_label), tuple(of_label), weights(config.policies, tuple(of_label))))
    there = (labels[0].there, labels[1].there)
    return ShareNode((), _rows(labels), tuple(labels), label_weights(config.label_ratio, there))


def _rows(nodes: Iterable[ShareNode]) -> int:
    return sum(node.there for node in nodes)


def label_weights(ratio: str, there: tuple[int, int]) -> tuple[Fraction, Fraction]:
    """`2:1` or `pool` as weights of resolved and unresolved. there: attempts of each that may be learned from.

    Raises UsageError for any other text than `pool` and two positive numbers, DataError where `pool` has one label alone.
    """
    if str(ratio).strip() == AS_POOL:
        if min(there) == 0 < max(there):
            lacking, other = (RESOLVED, UNRESOLVED) if there[0] == 0 else (UNRESOLVED, RESOLVED)
            raise DataError(
                f"data.label_ratio={AS_POOL}: of the attempts to learn from {max(there):,} are {other} and none is {lacking}, and a "
                "verifier learns from both. Use a pool with both labels."
            )
        return Fraction(there[0]), Fraction(there[1])
    try:
        resolved, unresolved = (Fraction(text.strip()) for text in str(ratio).split(":"))
        if resolved <= 0 or unresolved <= 0:
            raise ValueError
    except (ValueError, ZeroDivisionError):
        raise UsageError(
            f"data.label_ratio={ratio}: must be resolved:unresolved, two numbers above 0, such as 2:1, or {AS_POOL} (as in the pool)"
        ) from None
    return resolved, unresolved


def _check_weights(key: str, asked: Mapping[str, float], there: list[str]) -> None:
    """Raises UsageError for a name that the pool does not have and for weights that share nothing out."""
    unknown = [name for name in asked if name not in there]
    if unknown:
        raise UsageError(
            f"{key} names {unknown[0]!r}, which the pool does not have; it has {', '.join(there) or 'nothing'}. Name those, or leave "
            f"{key} out; if a preset sets it, take another preset."
        )
    if any(not isfinite(w) or w < 0 for w in asked.values()) or (asked and not any(asked.values())):
        raise UsageError(f"{key}={dict(asked)}: weights must be at least 0, and one of them above 0")


def _complaint(config: DataConfig, plan: ShareNode, had: Mapping[Key, int], is_cut: bool = False) -> str:
    """Why the total cannot be filled: what is there, what that allows, what to change."""
    if not had:
        return (
            "the pool has no labelled trajectory in its part verifier, from which a training set is drawn: `rmlab trajectories split` "
            "gives a set its parts"
        )
    by_label = {node.key[0]: node for node in plan.children}
    short = plan.tightest
    lost = sum(had.values()) - plan.there
    beside = f" ({lost:,} more do not fit the context)" if lost else ""
    if len(short.key) <= 1:
        there = f"{by_label[RESOLVED].there:,} resolved and {by_label[UNRESOLVED].there:,} unresolved trajectories"
        change = "data.label_ratio"
        allows = f"{_ratio_words(config)} allows {plan.capacity:,}"
    else:
        label, policy, *source = short.key
        of_source = f" on source {source[0]}" if source else ""
        there = f"{short.there:,} {label} trajectories of policy {policy}{of_source}"
        change = "data.sources" if source and config.sources else "data.policies"
        shares = config.sources if change == "data.sources" else config.policies
        mixture = " ".join(f"{name}:{weight:g}" for name, weight in shares.items())
        allows = f"the weights {mixture} at {_ratio_words(config)} allow {plan.capacity:,} in all"
    remedies = ["Lower data.scale"]
    if plan.capacity < plan.there:
        remedies.append(f"change {change}")
    if lost:
        remedies.append("raise prompt.max_tokens (and data.fits)")
    if lost and not is_cut:
        remedies.append("read them in part (prompt.over_length=cut_observations)")
    remedy = " or ".join([*([", ".join(remedies[:-1])] if remedies[1:] else []), remedies[-1]])
    return f"data.scale={config.scale} cannot be filled: {there} are available{beside}, {allows}. {remedy}."


def _ratio_words(config: DataConfig) -> str:
    return "the pool's ratio" if config.label_ratio == AS_POOL else f"a {config.label_ratio} ratio"
