"""Several tasks files read as one: files of further tasks of the part `rl` join a file whose parts are final."""

from collections.abc import Sequence
from pathlib import Path

from rmlab.fingerprint import file_fingerprint
from rmlab.microswe.build.extension import check_joined
from rmlab.microswe.loading import LoadedTasks, held_tasks
from rmlab.microswe.task import Task, read_tasks, tasks_fingerprint


def joined_tasks(path: str | Path, more: Sequence[str], workers: int) -> LoadedTasks:
    """The tasks of `path` that hold here, and those of the files of further tasks of the part `rl`, which join that part.

    Raises DataError where a file may not be joined (`rmlab.microswe.build.extension.check_joined`).
    """
    read_joined(path, more)
    loaded = held_tasks(Path(path), workers)
    for name in more:
        other = held_tasks(Path(name), workers)
        tasks = (*loaded.tasks, *other.tasks)
        left_out = {reason: dict(by_source) for reason, by_source in loaded.left_out.items()}
        for reason, by_source in other.left_out.items():
            own = left_out.setdefault(reason, {})
            for source, number in by_source.items():
                own[source] = own.get(source, 0) + number
        loaded = LoadedTasks(tasks, left_out, tasks_fingerprint(tasks))
    return loaded


def read_joined(path: str | Path, more: Sequence[str]) -> list[Task]:
    """The tasks of both as they stand in the files, not proven. Raises DataError where a file may not be joined."""
    names = [Path(name) for name in (path, *more)]
    if missing := next((name for name in names if not name.is_file()), None):
        read_tasks(missing)  # says so
    key = tuple((name.resolve(), file_fingerprint(name)) for name in names)
    if key not in _joined:
        tasks, _ = read_tasks(Path(path))
        for name in more:
            own, _ = read_tasks(Path(name))
            check_joined(tasks, own, name)
            tasks += own
        _joined[key] = tasks
    return list(_joined[key])


_joined: dict[tuple[tuple[Path, str], ...], list[Task]] = {}
