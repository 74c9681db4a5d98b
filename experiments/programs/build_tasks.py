"""Build tasks: makes the micro-SWE tasks file from the functions of installed packages (the extra `tasks`).

    rmlab tasks build output=runs/tasks.parquet
    rmlab tasks build output=runs/random.parquet public_call=random
    rmlab tasks build output=runs/more.parquet beside=rmlab/starter/tasks.parquet sources=[numbers,contests] most_of_a_function=20

Done once: the file is shipped and carried, not built again, and the same command does nothing where it is finished. Deterministic by
seed but for programs that a time limit ends.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

import rmlab
from rmlab.configuration import compose
from rmlab.errors import UsageError
from rmlab.files import PARQUET, check_output, only_writer
from rmlab.fingerprint import UNHASHED, fingerprint, hashed_values
from rmlab.made_before import made_before
from rmlab.microswe.build.bugs import BuildConfig
from rmlab.microswe.build.build import SEMANTICS, Built, build
from rmlab.microswe.build.extension import read_base_tasks
from rmlab.microswe.build.functions import SOURCES, versions
from rmlab.microswe.task import read_tasks, write_tasks
from rmlab.paths import REPOSITORY


@dataclass
class BuildTasksConfig(BuildConfig):
    """output: path; a relative path starts at the repository's root."""

    output: str = field(default=MISSING, metadata=UNHASHED)


ConfigStore.instance().store(name="build_tasks_schema", node=BuildTasksConfig)


def main(overrides: Sequence[str], force: bool = False) -> Built:
    """Composes `conf/build_tasks.yaml` with the overrides and builds."""
    command = shlex.join(["rmlab", "tasks", "build", *overrides])
    return run(compose("build_tasks", list(overrides)), command=command, force=force)


def run(config: DictConfig, command: str = "rmlab tasks build", force: bool = False) -> Built:
    """Builds what the configuration asks for, writes the file and says what is in it. Where it is written, nothing is done unless `force`.

    Raises UsageError for unknown names, and where the output holds something else, unless `force`.
    """
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, BuildTasksConfig)
    for key, names in (("sources", settings.sources), ("withheld", [settings.withheld] if settings.withheld else [])):
        for name in names:
            if name not in SOURCES:
                raise UsageError(f"{key}: there is no source {name!r}; the sources are {', '.join(SOURCES)}")
    path = REPOSITORY / settings.output
    check_output(path, endings=PARQUET)
    with only_writer(path, "the tasks file"):
        run_hash = config_hash(config, settings)
        if not force and made_before(path, run_hash):
            print(f"finished already: {path} (--force builds it again)")
            return Built(*read_tasks(path))
        built = build(settings)
        made_by = {"command": command, "config_hash": run_hash, "rmlab_version": rmlab.__version__}
        write_tasks(path, built.tasks, made_by | built.metadata)
    print(summary(built, path))
    return built


def config_hash(config: DictConfig, settings: BuildTasksConfig) -> str:
    """Of everything that can change the tasks: the way they are built, packages and Python too. Raises DataError where a package is not
    installed."""
    beside = read_base_tasks(REPOSITORY / settings.beside).fingerprint if settings.beside else ""
    changes = hashed_values(config) | {"beside": beside}
    installed = versions(tuple(settings.sources))
    return fingerprint({"program": "build_tasks", "semantics": SEMANTICS, "config": changes, "versions": installed})


def summary(built: Built, path: Path) -> str:
    """What a tasks file holds, by part and source."""
    counts = json.loads(built.metadata["counts"])
    largest = counts["largest_cluster"]
    share, withheld = float(built.metadata["share_threshold"]), built.metadata["withheld"] or "nothing"
    lines = [
        f"{path}: {len(built.tasks):,} tasks, {path.stat().st_size / 1e6:.2f} MB, {counts['two_bugs']} with two bugs",
        f"  {counts['functions']} functions in {counts['clusters']} clusters, the largest of {largest['functions']}: "
        f"{largest['name']}",
        f"  at least {share:.0%} of the other wrong edits satisfy the weakest call; withheld for evaluation: {withheld}",
    ]
    for part, by_source in counts["by_part"].items():
        functions = counts["functions_by_part"][part]
        lines.append(f"  {part}: {sum(by_source.values()):,} tasks of {functions} functions, {by_source}")
    for source, reasons in counts["left_out"].items():
        lines.append(
            f"  left out of {source}: " + ", ".join(f"{n} {reason}" for reason, n in list(reasons.items())[:6])
        )
    return "\n".join(lines)
