"""Says which tasks of finished files may not stand in a set, and writes the files without them."""

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output, write_text
from rmlab.microswe.build.extension import BaseTasks, functions_of
from rmlab.microswe.build.fitness import unfit
from rmlab.microswe.build.parts import counted
from rmlab.microswe.task import Task, read_tasks, tasks_fingerprint, write_tasks

DROPPED = "dropped.json"


def main(files: Sequence[Path], output: Path | None, workers: int) -> None:
    """Writes, into the folder `output`, the files under their names and `dropped.json`: file -> task_id -> function and reason.

    Raises DataError where there are such tasks and no folder is given.
    """
    names = [path.name for path in files]
    if len(set(names)) < len(names):
        raise UsageError(
            f"two of the files have the same name ({', '.join(names)}), and they are written into one folder"
        )
    read = [read_tasks(path) for path in files]
    dropped = [_dropped(tasks, workers) for tasks, _ in read]
    for path, (tasks, _), out in zip(files, read, dropped, strict=True):
        reasons = Counter(about["reason"] for about in out.values())
        words = (
            "; ".join(f"{number:,}: {reason}" for reason, number in reasons.most_common()) or "all may stand in a set"
        )
        print(
            f"{path}: {len(out):,} of {len(tasks):,} tasks may not stand in a set" if out else str(path),
            words,
            sep=": ",
        )
    if output is None:
        if any(dropped):
            raise DataError("some tasks may not stand in a set: `-o FOLDER` writes the files without them")
        return
    for name in (*names, DROPPED):
        check_output(output / name, files)
    kept = [[t for t in tasks if t.task_id not in out] for (tasks, _), out in zip(read, dropped, strict=True)]
    # a file names the one that it was built beside by its fingerprint, which changes where both are written anew
    fingerprints = {about["fingerprint"]: tasks_fingerprint(own) for (_, about), own in zip(read, kept, strict=True)}
    command = shlex.join(["rmlab", "tasks", "check", *names])
    for path, (_, about), own, out in zip(files, read, kept, dropped, strict=True):
        beside = {"beside": fingerprints.get(about["beside"], about["beside"])} if "beside" in about else {}
        checked = {"checked": command, "counts": _counts(about, own, out)} if out else {}
        write_tasks(output / path.name, own, about | beside | checked)
        print(f"{output / path.name}: {len(own):,} tasks, fingerprint {tasks_fingerprint(own)}")
    by_file = dict(zip(names, dropped, strict=True))
    write_text(output / DROPPED, json.dumps(by_file, indent=1, sort_keys=True) + "\n")


def _dropped(tasks: Sequence[Task], workers: int) -> dict[str, dict[str, str]]:
    reasons = unfit(functions_of(BaseTasks(tuple(tasks))), workers)
    return {
        task.task_id: {"function": task.function_id, "reason": reasons[task.function_id]}
        for task in tasks
        if task.function_id in reasons
    }


def _counts(about: dict[str, str], kept: Sequence[Task], dropped: dict[str, dict[str, str]]) -> str:
    """The counts that the file stated, those that its tasks give counted again, and what was dropped."""
    stated = json.loads(about.get("counts", "{}"))
    now = counted(kept)
    again = {key: now.get(key, value) for key, value in stated.items()}
    return json.dumps(again | {"dropped": Counter(entry["reason"] for entry in dropped.values())})
