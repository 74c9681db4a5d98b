"""Which tasks hold on this machine? Another Python has other built-ins, so each task is proven before it is used.

Each original must give its outputs here, and each bug must fail at least one of them. What does not is counted by
reason and source and left out; the fingerprint names the tasks that ran, and what was made from tasks of different
fingerprints is not compared.
"""

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rmlab.errors import DataError, RmlabError
from rmlab.files import made_once, write_text
from rmlab.fingerprint import file_fingerprint
from rmlab.microswe.episode import hidden_program, passes
from rmlab.microswe.sandbox import Outcome, Program, Sandbox
from rmlab.microswe.task import Task, read_tasks, tasks_fingerprint
from rmlab.paths import runs_folder
from rmlab.trajectories.record import Split

NOT_REPRODUCED = "the original gives other outputs here"
PASSES = "the bug passes all tests here"
RETRIES = 2
SEMANTICS = 2  # bumped when a program may end otherwise in the sandbox: verdicts that are kept are found by it


@dataclass(frozen=True)
class LoadedTasks:
    """tasks: those that hold here, in file order. left_out: reason -> source -> number. fingerprint: of `tasks`."""

    tasks: tuple[Task, ...]
    left_out: dict[str, dict[str, int]]
    fingerprint: str

    def part(self, part: Split) -> list[Task]:
        """The tasks of one part, in file order."""
        return [task for task in self.tasks if task.part == part]


def load_tasks(path: Path, sandbox: Sandbox) -> LoadedTasks:
    """Reads and proves a tasks file. The verdicts are kept in the cache folder by file, Python version and machine type.

    Raises DataError where the file is not a tasks file or none of its tasks holds here.
    """
    path = Path(path)
    tasks, _ = read_tasks(path)
    cache = (
        runs_folder()
        / "cache"
        / f"tasks-{SEMANTICS}-{file_fingerprint(path)}-{platform.python_version()}-{platform.machine()}.json"
    )
    was_there = cache.is_file()
    verdicts = _read_verdicts(cache, tasks)
    if verdicts is None:
        if was_there:  # of other tasks: not what its name says
            cache.unlink(missing_ok=True)
        made_once(cache, lambda: write_text(cache, json.dumps(prove(tasks, sandbox))))
        verdicts = dict(json.loads(cache.read_text(encoding="utf-8")))
    good = tuple(task for task in tasks if task.task_id not in verdicts)
    if not good:
        raise DataError(
            f"{path}: none of its {len(tasks)} tasks holds under Python {platform.python_version()}: "
            "build them again with `rmlab tasks build`, or use the Python that they were built with."
        )
    left_out: dict[str, dict[str, int]] = {}
    for task in tasks:
        if (reason := verdicts.get(task.task_id)) is not None:
            by_source = left_out.setdefault(reason, {})
            by_source[task.source] = by_source.get(task.source, 0) + 1
    return LoadedTasks(good, left_out, tasks_fingerprint(good))


def held_tasks(path: Path, workers: int) -> LoadedTasks:
    """`load_tasks` with a sandbox of its own, once a process: what a run is identified by and made of. workers: of the sandbox."""
    key = (Path(path).resolve(), file_fingerprint(Path(path)), runs_folder())
    if key not in _held:
        with Sandbox(workers, allow_weak=True) as sandbox:  # the file's own programs, no model's
            _held[key] = load_tasks(path, sandbox)
    return _held[key]


_held: dict[tuple[Path, str, Path], LoadedTasks] = {}


def prove(tasks: Sequence[Task], sandbox: Sandbox) -> dict[str, str]:
    """task_id -> reason, for the tasks that do not hold here. Equal programs run once."""
    programs = [hidden_program(task, code) for task in tasks for code in (task.original, task.code)]
    outcomes = run_all(programs, sandbox)
    verdicts: dict[str, str] = {}
    for i, task in enumerate(tasks):
        if not passes(outcomes[programs[2 * i]], task.outputs):
            verdicts[task.task_id] = NOT_REPRODUCED
        elif passes(outcomes[programs[2 * i + 1]], task.outputs):
            verdicts[task.task_id] = PASSES
    return verdicts


def run_all(programs: Sequence[Program], sandbox: Sandbox) -> dict[Program, Outcome]:
    """Each program once, again where the sandbox failed. Raises RmlabError where it goes on failing."""
    found: dict[Program, Outcome] = {}
    left, why = list(dict.fromkeys(programs)), None
    for _ in range(1 + RETRIES):
        for program, outcome in zip(left, sandbox.run(left), strict=True):
            if outcome.broken:
                why = outcome.error
            else:
                found[program] = outcome
        left = [program for program in left if program not in found]
        if not left:
            return found
    raise RmlabError(
        f"the sandbox failed {1 + RETRIES} times on {len(left)} programs, {left[0].entry} among them ({why}): "
        "`rmlab doctor` shows what works on this machine."
    )


def _read_verdicts(cache: Path, tasks: Sequence[Task]) -> dict[str, str] | None:
    if not cache.is_file():
        return None
    verdicts = json.loads(cache.read_text(encoding="utf-8"))
    known = {task.task_id for task in tasks}
    return {str(k): str(v) for k, v in verdicts.items()} if set(verdicts) <= known else None
