"""`rmlab trajectories show`: a set's policies and labels, or one trajectory turn by turn."""

from collections import Counter, defaultdict
from pathlib import Path

from rmlab.errors import DataError
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import iterate_trajectories
from rmlab.wording import counted

MOST = 8  # attempts of a task that are shown whole


def main(path: Path, which: str | None = None, width: int = 600) -> None:
    """Prints. Raises DataError where nothing goes by that name."""
    if which is None:
        _table(path)
        return
    found = [
        t
        for t in iterate_trajectories(path)
        if t.task_id == which or (len(which) >= 4 and t.trajectory_id.startswith(which))
    ]
    if not found:
        raise DataError(
            f"{path} has no trajectory and no task {which!r}. `rmlab trajectories show {path}` says what is there."
        )
    if len(found) > MOST:
        print(f"{which}: {counted(len(found), 'attempt')}, the first {MOST} are shown")
    for trajectory in found[:MOST]:
        _one(trajectory, width)


def _table(path: Path) -> None:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    tasks: dict[tuple[str, str], set[str]] = defaultdict(set)
    for t in iterate_trajectories(path):
        key = (t.policy, str(t.split or "no part"))
        counts[key].update(
            [
                "trajectories",
                "unlabelled" if t.resolved is None else "resolved" if t.resolved else "unresolved",
                t.exit_status,
            ]
        )
        tasks[key].add(t.task_id)
    width = max([len(policy) for policy, _ in counts] or [6])
    print(
        f"{'policy':<{width}}  {'part':<11}{'tasks':>7}{'attempts':>10}{'resolved':>10}"
        f"{'unresolved':>12}{'unlabelled':>12}{'unfinished':>12}{'error':>7}"
    )
    for (policy, part), n in sorted(counts.items()):
        print(
            f"{policy:<{width}}  {part:<11}{len(tasks[policy, part]):>7,}{n['trajectories']:>10,}{n['resolved']:>10,}{n['unresolved']:>12,}"
            f"{n['unlabelled']:>12,}{n['unfinished']:>12,}{n['error']:>7,}"
        )


def _one(t: Trajectory, width: int) -> None:
    label = "unlabelled" if t.resolved is None else f"{'resolved' if t.resolved else 'unresolved'} by {t.label_source}"
    print(
        f"{t.trajectory_id}  {t.task_id}  attempt {t.attempt} of {t.policy}  ({t.exit_status}; {label}; {t.cluster}, {t.source})"
    )
    for number, message in enumerate(t.messages):
        print(f"--- {number} {message.role} ({len(message.content):,} characters)\n{_shown(message.content, width)}")
    print(f"--- patch\n{_shown(t.patch or 'none', 4 * width)}\n")


def _shown(text: str, width: int) -> str:
    """The text with its middle left out, and without what would steer a terminal."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # a progress bar goes back to the start of its line
    plain = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in lines)
    if width <= 0 or len(plain) <= width:
        return plain
    return f"{plain[: width // 2]}\n[... {len(plain) - width:,} characters ...]\n{plain[len(plain) - width // 2 :]}"
