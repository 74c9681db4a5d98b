"""Parts of a set by repository, by task, or by time, so that no cluster and no near-duplicate issue lies in two of them.

By repository: the clusters of the record. By task and by time the cluster becomes the task (all attempts at a task stay
together); by time the tasks that were attempted first come first, in the order of the parts as they were given, and the seed
orders those of one time. Shares are of tasks. Groups (clusters joined by near-duplicate issues) are placed whole, largest
first, each where most is missing.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import fingerprint_lines
from rmlab.progress import progress
from rmlab.trajectories.leakage import Near, issue_of, issues_of, near_duplicates
from rmlab.trajectories.record import SPLITS, Split, Trajectory
from rmlab.trajectories.store import fingerprint_line, iterate_trajectories, read_count, write_in_order
from rmlab.wording import counted

By = Literal["repository", "task", "time"]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class TaskFacts:
    """What a split needs of a task. time: of its earliest attempt, ISO; "" = none stated."""

    cluster: str
    issue: str
    time: str = ""


@dataclass(frozen=True)
class SplitResult:
    """part, cluster: of each task. near: pairs of tasks whose issues are nearly the same. joined: groups that hold several
    clusters because of them. notes: what a reader of the parts should know, a line each."""

    part: dict[str, Split]
    cluster: dict[str, str]
    near: list[Near]
    joined: int
    notes: tuple[str, ...] = ()


def split(
    tasks: Mapping[str, TaskFacts],
    shares: Sequence[tuple[Split, float]],
    by: By = "repository",
    seed: int = 0,
    least: float = 0.8,
) -> SplitResult:
    """A part for every task. least: overlap from which issues count as the same; 0 = not looked at.

    Raises UsageError for shares that are none, DataError where there are fewer groups than parts, or times are missing.
    """
    _check(shares, by)
    near = near_duplicates({task: facts.issue for task, facts in tasks.items()}, least) if least > 0 else []
    cluster = {task: facts.cluster if by == "repository" else task for task, facts in tasks.items()}
    groups = groups_of(cluster, near)
    if len(groups) < len(shares):
        raise DataError(
            f"{len(groups)} groups of {by} cannot fill {len(shares)} parts. Split by task, or name fewer parts."
        )
    if by == "time":
        timeless = sorted(task for task, facts in tasks.items() if not facts.time)
        if timeless:
            raise DataError(
                f"{len(timeless)} of {len(tasks)} tasks have no time, first {timeless[0]}. Split by repository or task."
            )
        time = {task: facts.time for task, facts in tasks.items()}
        part = _in_time(groups, time, shares, seed)
        notes = _ties(time, part)
    else:
        part, notes = by_size(groups, shares, seed), ()
    joined = sum(len({cluster[task] for task in group}) > 1 for group in groups)
    return SplitResult(
        part, {task: group_name(group, cluster, task) for group in groups for task in group}, near, joined, notes
    )


def parse_shares(texts: Sequence[str]) -> list[tuple[Split, float]]:
    """`verifier=0.7` and its like. Raises UsageError."""
    shares: list[tuple[Split, float]] = []
    for text in texts or ("verifier=0.7", "validation=0.1", "evaluation=0.2"):
        name, _, share = text.partition("=")
        part = next((p for p in SPLITS if p == name), None)
        try:
            number = float(share)
        except ValueError:
            number = -1.0
        if part is None or not 0 < number <= 1:
            raise UsageError(
                f"--part {text}: write PART=SHARE, with one of {', '.join(SPLITS)} and a share above 0 and at most 1"
            )
        shares.append((part, number))
    return shares


def _check(shares: Sequence[tuple[Split, float]], by: str) -> None:
    if by not in get_args(By):
        raise UsageError(f"--by {by}: must be repository, task or time")
    if abs(sum(share for _, share in shares) - 1) > 1e-6 or len({part for part, _ in shares}) < len(shares):
        raise UsageError(
            f"the shares {', '.join(f'{part}={share:g}' for part, share in shares)} must name each part once and add up to 1"
        )


def joined(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The smallest name of each name's component, where each pair is connected."""
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for pair in pairs:
        a, b = sorted(map(root, pair))
        parent[b] = a
    return {name: root(name) for name in parent}


def groups_of(cluster: Mapping[str, str], near: Sequence[Near]) -> list[list[str]]:
    """Tasks that have to stay together: those of one cluster, and clusters that share a nearly equal issue."""
    name_of = joined(cluster.values(), ((cluster[pair.a], cluster[pair.b]) for pair in near))
    groups: dict[str, list[str]] = defaultdict(list)
    for task in sorted(cluster):
        groups[name_of[cluster[task]]].append(task)
    return [groups[name] for name in sorted(groups)]


def group_name(group: Sequence[str], cluster: Mapping[str, str], task: str) -> str:
    """A joined group is one cluster from now on, named by all: parts that share a cluster are refused in training."""
    names = sorted({cluster[t] for t in group})
    return cluster[task] if len(names) == 1 else f"{names[0]} + {len(names) - 1} near"


def by_size(groups: Sequence[Sequence[str]], shares: Sequence[tuple[Name, float]], seed: int) -> dict[str, Name]:
    """The part (or fold) of each task: groups are placed whole, largest first, each where most is missing of the shares."""
    total = sum(map(len, groups))
    order = sorted(groups, key=lambda group: (-len(group), _drawn(seed, group[0])))
    filled: dict[Name, int] = {part: 0 for part, _ in shares}
    assigned: dict[str, Name] = {}
    for left, group in zip(range(len(order), 0, -1), order, strict=True):
        empty = [part for part, _ in shares if not filled[part]]
        open_parts = [(part, share) for part, share in shares if part in empty] if left <= len(empty) else list(shares)
        part = max(open_parts, key=lambda one: one[1] * total - filled[one[0]])[0]
        filled[part] += len(group)
        assigned.update((task, part) for task in group)
    return assigned


def _drawn(seed: int, name: str) -> bytes:
    """Where a name stands among those that nothing else orders."""
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


MANY_AT_ONCE = 0.1
"""Share of the tasks from which it is said that tasks of one time lie in several parts."""


def _ties(time: Mapping[str, str], part: Mapping[str, Split]) -> tuple[str, ...]:
    """A line where many tasks have a time at which tasks of several parts began: these do not follow one another in time."""
    parts_at: dict[str, set[Split]] = defaultdict(set)
    for task, moment in time.items():
        parts_at[moment].add(part[task])
    tied = Counter(moment for moment in time.values() if len(parts_at[moment]) > 1)
    if not tied or tied.total() < MANY_AT_ONCE * len(time):
        return ()
    moment, many = tied.most_common(1)[0]
    inside = Counter(part[task] for task, at in time.items() if at == moment)
    shown = ", ".join(f"{name} {n:,}" for name in SPLITS if (n := inside[name]))
    return (
        f"{many:,} of {counted(len(time), 'task')} share one time, {moment}, and lie in several parts ({shown}): these do not follow "
        "one another in time. Tasks of one time are in the order of the seed.",
    )


def _in_time(
    groups: Sequence[Sequence[str]], time: Mapping[str, str], shares: Sequence[tuple[Split, float]], seed: int
) -> dict[str, Split]:
    order = sorted(groups, key=lambda group: (min(time[task] for task in group), _drawn(seed, group[0])))
    total, done = sum(map(len, groups)), 0
    assigned: dict[str, Split] = {}
    bounds = [sum(share for _, share in shares[: i + 1]) * total for i in range(len(shares))]
    for group in order:
        middle = done + len(group) / 2
        part = next((shares[i][0] for i, bound in enumerate(bounds) if middle <= bound), shares[-1][0])
        assigned.update((task, part) for task in group)
        done += len(group)
    return assigned


TOO_NEAR = 0.85
"""Overlap of two issues that is refused. A split joins from 0.8 on (`leakage.LEAST`): what all issues share is left out of an
overlap, and a pool that was made smaller since it was split shares other things."""

WHY = "a verifier would be judged on what it was trained on."


def check_parts(trajectories: Iterable[Trajectory]) -> None:
    """Proves that parts share no cluster, no task, and no issue that is nearly the same. No part counts as none.

    Raises DataError that names the first in more than one part (of two issues also how much they overlap), and how many are.
    """
    parted = [t for t in trajectories if t.split is not None]
    for what in ("cluster", "task_id"):
        parts_of: dict[str, set[str]] = {}
        for trajectory in parted:
            parts_of.setdefault(getattr(trajectory, what), set()).add(str(trajectory.split))
        if mixed := sorted(name for name, parts in parts_of.items() if len(parts) > 1):
            word, parts = what.removesuffix("_id"), " and ".join(sorted(parts_of[mixed[0]]))
            raise DataError(
                f"{word} {mixed[0]} lies in the parts {parts} ({len(mixed)} {word}s are mixed): {WHY} "
                "Split the pool by cluster again."
            )
    part = {t.task_id: str(t.split) for t in parted}
    if near := near_duplicates(issues_of(parted), TOO_NEAR, part):
        worst = max(near, key=lambda pair: pair.overlap)
        raise DataError(
            f"tasks {worst.a} ({part[worst.a]}) and {worst.b} ({part[worst.b]}) have nearly the same issue (overlap "
            f"{worst.overlap:.2f}, {TOO_NEAR:g} is too much; {len(near)} such pairs lie in two parts): {WHY} Split the "
            "pool again: `rmlab trajectories split` keeps such tasks together."
        )


def split_set(
    path: Path,
    out: Path,
    by: By,
    shares: Sequence[tuple[Split, float]],
    seed: int,
    near: float,
    made_by: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Reads a set once for its tasks and once a part, writes it with its parts, and returns what is in them. Raises DataError.

    made_by: what the new set says of the request for it, besides what is written always.
    """
    tasks: dict[str, TaskFacts] = {}
    with progress("Reading", read_count(path), "trajectories") as advance:
        for trajectory in iterate_trajectories(path):
            tasks[trajectory.task_id] = _facts(trajectory, tasks.get(trajectory.task_id))
            advance(1)
    split_tasks = split(tasks, shares, by, seed, near)

    def records() -> Iterator[Trajectory]:
        for part, _ in shares:
            for one in iterate_trajectories(path):
                if split_tasks.part[one.task_id] == part:
                    yield replace(one, split=part, cluster=split_tasks.cluster[one.task_id])

    lines: list[str] = []
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for one in records():
        lines.append(fingerprint_line(one, one.trajectory_id))
        counts[str(one.split)]["trajectories"] += 1
        counts[str(one.split)]["labelled"] += one.resolved is not None
        counts[str(one.split)]["resolved"] += one.resolved is True
    write_in_order(
        out,
        records(),
        {"command": "rmlab trajectories split", "by": by, "seed": str(seed), "near": f"{near:g}", **(made_by or {})},
        fingerprint_lines(sorted(lines)),
    )
    return _summary(split_tasks, shares, counts)


def _facts(trajectory: Trajectory, known: TaskFacts | None) -> TaskFacts:
    time = str(trajectory.extra.get("time") or "")
    if known is not None:
        return replace(known, time=min(filter(None, (known.time, time)), default=""))
    first = next((m.content for m in trajectory.messages if m.role == "user"), "")
    return TaskFacts(trajectory.cluster, issue_of(first), time)


def _summary(
    split_tasks: SplitResult, shares: Sequence[tuple[str, float]], counts: dict[str, Counter[str]]
) -> dict[str, Any]:
    parts = {}
    for part, share in shares:
        inside = [task for task, where in split_tasks.part.items() if where == part]
        parts[part] = {
            "asked": share,
            "share": len(inside) / max(len(split_tasks.part), 1),
            "tasks": len(inside),
            "clusters": len({split_tasks.cluster[task] for task in inside}),
            **counts[part],
        }
    return {
        "parts": parts,
        "near_duplicates": len(split_tasks.near),
        "joined_groups": split_tasks.joined,
        "notes": list(split_tasks.notes),
        "near": [{"a": n.a, "b": n.b, "overlap": round(n.overlap, 3)} for n in split_tasks.near[:20]],
    }
