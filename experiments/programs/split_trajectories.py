"""`rmlab trajectories split`: parts that share no repository (or task) and no issue that is almost the same."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from rmlab.errors import UsageError
from rmlab.files import check_output
from rmlab.fingerprint import fingerprint_lines
from rmlab.progress import progress
from rmlab.trajectories.near_duplicates import issue_of
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.splitting import By, SplitResult, TaskFacts, parse_shares, split
from rmlab.trajectories.store import fingerprint_line, iterate_trajectories, read_count, write_in_order


def main(
    path: Path,
    out: Path,
    by: str = "repository",
    parts: Sequence[str] = (),
    seed: int = 0,
    near: float = 0.8,
    as_json: bool = False,
) -> dict[str, Any]:
    """Reads the set once for its tasks and once a part, writes it, prints and returns the object. Raises DataError and UsageError."""
    shares = parse_shares(parts)
    check_output(out, [path])
    if not 0 <= near <= 1:
        raise UsageError(f"--near {near:g}: it is a share from 0 (do not look) to 1")
    tasks: dict[str, TaskFacts] = {}
    with progress("Reading", read_count(path), "trajectories") as advance:
        for trajectory in iterate_trajectories(path):
            tasks[trajectory.task_id] = _facts(trajectory, tasks.get(trajectory.task_id))
            advance(1)
    found = split(tasks, shares, cast(By, by), seed, near)

    def records() -> Iterator[Trajectory]:
        for part, _ in shares:
            for one in iterate_trajectories(path):
                if found.part[one.task_id] == part:
                    yield replace(one, split=part, cluster=found.cluster[one.task_id])

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
        {"command": "rmlab trajectories split", "by": by, "seed": str(seed), "near": f"{near:g}"},
        fingerprint_lines(sorted(lines)),
    )
    result = _result(found, shares, counts)
    print(json.dumps(result) if as_json else "\n".join([*_lines(result), f"written to {out}"]))
    return result


def _facts(trajectory: Trajectory, known: TaskFacts | None) -> TaskFacts:
    time = str(trajectory.extra.get("time") or "")
    if known is not None:
        return replace(known, time=min(filter(None, (known.time, time)), default=""))
    first = next((m.content for m in trajectory.messages if m.role == "user"), "")
    return TaskFacts(trajectory.cluster, issue_of(first), time)


def _result(found: SplitResult, shares: Sequence[tuple[str, float]], counts: dict[str, Counter[str]]) -> dict[str, Any]:
    parts = {}
    for part, share in shares:
        inside = [task for task, where in found.part.items() if where == part]
        parts[part] = {
            "asked": share,
            "share": len(inside) / max(len(found.part), 1),
            "tasks": len(inside),
            "clusters": len({found.cluster[task] for task in inside}),
            **counts[part],
        }
    return {
        "parts": parts,
        "near_duplicates": len(found.near),
        "joined_groups": found.joined,
        "near": [{"a": n.a, "b": n.b, "overlap": round(n.overlap, 3)} for n in found.near[:20]],
    }


def _lines(result: dict[str, Any]) -> list[str]:
    shown = [
        f"{'part':>12}{'tasks':>8}{'share':>8}{'asked':>8}{'clusters':>10}{'trajectories':>14}{'labelled':>10}{'resolved':>10}"
    ]
    for part, row in result["parts"].items():
        shown.append(
            f"{part:>12}{row['tasks']:>8,}{row['share']:>8.1%}{row['asked']:>8.1%}{row['clusters']:>10,}{row.get('trajectories', 0):>14,}"
            f"{row.get('labelled', 0):>10,}{row.get('resolved', 0):>10,}"
        )
    shown.append(
        f"issues that are nearly the same: {result['near_duplicates']:,} pairs, {result['joined_groups']:,} groups joined because of them"
    )
    shown += [f"  {n['a']} ~ {n['b']} ({n['overlap']:.2f})" for n in result["near"][:3]]
    return shown
