"""Which of Hydra's own settings (`hydra.KEY`, `hydra/GROUP`) do something here? One that does nothing is refused in one line.

Hydra composes the configuration of every run and rmlab runs it, so Hydra itself makes no folder and no log of it. It starts
the jobs of a multirun (`rmlab train -m`, `rmlab sweep NAME hydra/launcher=...`), with its launchers and sweepers.
"""

from collections.abc import Iterable

from rmlab.errors import UsageError

NOWHERE = {
    ("hydra.run", "hydra.output_subdir"): (
        "what a run writes is in its MLflow run and the runs folder; the variable RMLAB_RUNS=FOLDER names another one"
    ),
    ("hydra.verbose", "hydra.job_logging", "hydra/job_logging", "hydra.hydra_logging", "hydra/hydra_logging"): (
        "-v has a command tell more of its progress, and -q nothing"
    ),
    ("hydra.job.name",): "tracking.name=NAME names a run",
    ("hydra.help", "hydra/help", "hydra.hydra_help", "hydra/hydra_help"): "--help and --info say what a command takes",
}
"""Settings that nothing reads, in a multirun neither, and what does their work here."""
JOBS = ("hydra.launcher", "hydra/launcher", "hydra.sweeper", "hydra/sweeper", "hydra.sweep", "hydra.mode")
EVERYWHERE = ("hydra.searchpath",)


def refuse_unread(overrides: Iterable[str], *, multirun: bool) -> None:
    """Raises UsageError for the first override of a setting of Hydra's that nothing would read."""
    for text in overrides:
        key = text.partition("=")[0].lstrip("+~")
        if not key.startswith(("hydra.", "hydra/")) or _is(key, EVERYWHERE):
            continue
        for keys, instead in NOWHERE.items():
            if _is(key, keys):
                raise UsageError(f"{text}: Hydra only composes the configuration, so this does nothing here; {instead}")
        if multirun:
            continue
        if _is(key, JOBS):
            raise UsageError(
                f"{text}: it is for several runs and does nothing in a single one. Start them with "
                "`rmlab train -m KEY=1,2` or `rmlab sweep NAME`, or take it out"
            )
        raise UsageError(f"{text}: Hydra only composes the configuration, so this does nothing here. Take it out")


def _is(key: str, names: Iterable[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") or key.startswith(f"{name}@") for name in names)
