"""Build tasks: makes the micro-SWE tasks file from the functions of installed packages (the extra `tasks`).

    rmlab tasks build output=runs/tasks.parquet
    rmlab tasks build output=runs/random.parquet public_call=random
    rmlab tasks build output=runs/more.parquet beside=rmlab/starter/tasks.parquet sources=[numbers,contests] most_of_a_function=20

Done once: the file is shipped and carried, not built again. Deterministic by seed but for programs that a time limit ends.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

import rmlab
from rmlab.configuration import compose
from rmlab.errors import UsageError
from rmlab.microswe.build.bugs import BuildConfig
from rmlab.microswe.build.build import Built, build
from rmlab.microswe.build.functions import SOURCES
from rmlab.microswe.task import write_tasks
from rmlab.paths import REPOSITORY


@dataclass
class BuildTasksConfig(BuildConfig):
    """output: path, from the repository's root where it is relative."""

    output: str = MISSING


ConfigStore.instance().store(name="build_tasks_schema", node=BuildTasksConfig)


def main(overrides: Sequence[str]) -> Built:
    """Composes `conf/build_tasks.yaml` with the overrides and builds."""
    return run(compose("build_tasks", list(overrides)), command=shlex.join(["rmlab", "tasks", "build", *overrides]))


def run(config: DictConfig, command: str = "rmlab tasks build") -> Built:
    """Builds what the configuration asks for, writes the file and says what is in it. Raises UsageError for unknown names."""
    settings = OmegaConf.to_object(config)
    assert isinstance(settings, BuildTasksConfig)
    for key, names in (("sources", settings.sources), ("withheld", [settings.withheld] if settings.withheld else [])):
        for name in names:
            if name not in SOURCES:
                raise UsageError(f"{key}: there is no source {name!r}; the sources are {', '.join(SOURCES)}")
    built = build(settings)
    path = REPOSITORY / settings.output
    write_tasks(path, built.tasks, {"command": command, "rmlab_version": rmlab.__version__, **built.metadata})
    print(summary(built, path))
    return built


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
