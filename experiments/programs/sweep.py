"""Sweep: launches or resumes `sweeps/NAME.yaml`, one process a cell, and shows what came out.

    rmlab sweep data_scale preset=demo
    rmlab sweep data_scale preset=smoke levels=[64,128] seeds=[0] --dry-run

sweep file → cells and their hashes → which are finished, anywhere in the store → what all share is made once, every level
is proven to be fillable → the rest run → summary run, table, figures. The same command again goes on where it stopped.
"""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from omegaconf import DictConfig, OmegaConf

from rmlab.configuration import compose, load_program, near
from rmlab.errors import RmlabError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.locks import exclusive
from rmlab.paths import CONF, runs_folder
from rmlab.selection.pool import read_index
from rmlab.selection.select import DataConfig, check_fill
from rmlab.sweep.dry_run import description, explanation, redo_rule
from rmlab.sweep.plan import Cell, SweepSpec, expand, read_sweep
from rmlab.sweep.spec import plain_yaml
from rmlab.tracking.store import Store
from rmlab.wording import counted

if TYPE_CHECKING:
    from analysis.tracked import SweepRuns
    from rmlab.launchers.jobs import Launcher
    from rmlab.tracking.query import TrackedRun

OnError = Literal["stop", "continue"]
OF_THE_SWEEP = ("preset", "levels", "baseline", "seeds", "arms", "trials")
LAUNCHERS = CONF / "hydra" / "launcher"


@dataclass(frozen=True)
class Plan:
    """A sweep, its cells, and the command that makes the same again."""

    spec: SweepSpec
    cells: list[Cell]
    command: str

    @property
    def uri(self) -> str | None:
        """Of the tracking store, None = the project's own."""
        uri: str | None = OmegaConf.select(self.cells[0].config, "tracking.uri")
        return uri


def main(
    name: str,
    arguments: Sequence[str] = (),
    *,
    dry_run: bool = False,
    explain: bool = False,
    workers: int | None = None,
    on_error: OnError = "stop",
    retry_failed: bool = False,
    force: bool = False,
    redo_before: str | None = None,
    rerun_stale: bool = False,
    launcher: Any = None,
    batch: int | None = None,
    of_program: str | None = None,
) -> None:
    """Launches, resumes or (dry_run, explain) only describes a sweep.

    arguments: `preset=P`, `levels=[...]`, `seeds=[...]`, `arms=[...]`, `baseline=...` choose within the sweep file;
    `hydra/launcher=NAME` and `hydra.launcher.KEY=VALUE` say where cells run; anything else overrides the program's configuration
    in every cell. workers: cells at once, default as many as the cores (or GPUs) hold. on_error: after a failed cell start no
    more, or go on. retry_failed: run again what failed before. force: run again what is finished; redo_before
    (2026-01-31T12:00:00): what began before then; rerun_stale: what another commit made.
    launcher, batch, of_program: from Hydra, when it started this (`rmlab train -m +sweep=NAME`).
    Raises UsageError for a wrong name or value, RmlabError for data that cannot fill a level and when cells failed.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"--workers {workers}: at least one cell runs at once")
    settings = [text for text in arguments if text.startswith(("hydra/", "hydra."))]
    where = next((text.partition("=")[2] for text in settings if text.startswith("hydra/launcher=")), "local")
    options = {"workers": workers, "on_error": on_error, "retry_failed": retry_failed, "rerun_stale": rerun_stale}
    redo_before = datetime.now().isoformat(timespec="milliseconds") if force else redo_before
    if launcher is None and not (LAUNCHERS / f"{where}.yaml").is_file():
        spec = read_sweep(name, *_choice(arguments))
        load_program("multirun").main(
            spec.program,
            [f"+sweep={name}", *arguments],
            {**options, "dry_run": dry_run, "redo_before": f"'{redo_before}'" if redo_before else None},
        )
        return
    given = [
        *(["--workers", str(workers)] if workers else []),
        *(["--on-error", on_error] if on_error != "stop" else []),
        *(["--redo-before", redo_before] if redo_before else []),
        *(["--rerun-stale"] if rerun_stale else []),
    ]
    own = [text for text in arguments if text not in settings]
    plan = make_plan(name, own, shlex.join(["rmlab", "sweep", name, *arguments, *given]))
    if of_program is not None and of_program != plan.spec.program:
        raise UsageError(
            f"sweep {name} is of the program {plan.spec.program}, not of {of_program}: use rmlab sweep {name}"
        )
    redo = redo_rule(redo_before, rerun_stale)
    if explain:
        print(explanation(plan.cells))
        return
    if dry_run:
        store = Store.existing(plan.uri)
        print(
            load_program("search").description(plan.cells)
            if plan.spec.search
            else description(plan.cells, store, retry_failed, redo)
        )
        return
    runner = (
        _given(launcher, plan, workers, batch)
        if launcher is not None
        else _launcher(plan, where, [text for text in settings if not text.startswith("hydra/launcher=")], workers)
    )
    lock = runs_folder() / "locks" / f"sweep-{plan.spec.name}-{plan.spec.preset}.lock"
    from rmlab.sweep.scheduler import begin, run_cells

    begin(plan.cells, Store.existing(plan.uri), runner, redo)
    store = Store.open(plan.uri)
    with exclusive(lock, f"sweep {plan.spec.name} at preset {plan.spec.preset}", patience=0):
        try:
            if plan.spec.search:
                _, overrides = split_arguments(own)
                load_program("search").launch(plan.cells, overrides, store, runner, plan.command, retry_failed)
                return
            outcome = run_cells(plan.cells, store, runner, on_error=on_error, retry_failed=retry_failed, redo=redo)
        except KeyboardInterrupt:
            print(f"\nStopped; finished cells stay finished. Go on with: {plan.command}", file=sys.stderr)
            raise
        if outcome.paused:
            print(
                f"{len(outcome.paused)} of {counted(len(plan.cells), 'cell')} paused, their time is up ({', '.join(outcome.paused)}). "
                f"They go on with: {plan.command}",
                file=sys.stderr,
            )
        elif not (outcome.ran or outcome.failed or outcome.left):
            print("every cell was finished already: nothing was trained", file=sys.stderr)
        show_results(plan, store)
    if outcome.left and not outcome.failed:
        raise RmlabError(
            f"{len(outcome.left)} of {len(plan.cells)} cells had to stop again and again ({', '.join(outcome.left)}): see above why. "
            f"They go on with: {plan.command}"
        )
    if outcome.failed:
        left = f", {len(outcome.left)} not started" if outcome.left else ""
        raise RmlabError(
            f"{len(outcome.failed)} of {counted(len(plan.cells), 'cell')} failed ({', '.join(outcome.failed)}){left}. "
            f"{'Mend what the errors say, then try' if retry_failed else 'Try'} them again with: {plan.command} --retry-failed"
        )


def _choice(arguments: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    changes, _ = split_arguments([text for text in arguments if not text.startswith(("hydra/", "hydra."))])
    return changes.pop("preset", None), changes


def _given(launcher: Any, plan: Plan, workers: int | None, batch: int | None) -> "Launcher":
    """What runs the cells where Hydra was told a launcher: what is behind one of ours, else the launcher itself, in batches."""
    from rmlab.launchers.hydra import ThroughHydra

    if hasattr(launcher, "cells_launcher"):
        own: Launcher = launcher.cells_launcher(plan.cells[0].config, workers)
        return own
    return ThroughHydra(launcher, batch or workers or (1 if plan.spec.search else None))


def make_plan(name: str, arguments: Sequence[str], command: str) -> Plan:
    """Reads the sweep, composes its cells and looks ahead whether the data can fill them."""
    changes, overrides = split_arguments(arguments)
    spec = read_sweep(name, changes.pop("preset", None), changes)
    cells = expand(spec, overrides, compose, load_program(spec.program).identity)
    if "data" in cells[0].config and OmegaConf.get_type(cells[0].config, "data") is DataConfig:
        choices = {str(cell.config.data): cell.config.data for cell in cells}  # seeds ask for the same
        for data in choices.values():
            if data.hidden_tests is None:  # fewer tests give other labels: `prepare` proves those
                check_fill(read_index(data.path).rows, data)
    if spec.search and any(OmegaConf.select(cell.config, "rl.max_minutes") is not None for cell in cells):
        raise UsageError(
            "rl.max_minutes ends a run before it is finished, which a search cannot judge: leave it out here"
        )
    return Plan(spec, cells, command)


def split_arguments(arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """What chooses within the sweep file, and what overrides its cells."""
    import yaml

    changes: dict[str, Any] = {}
    overrides = []
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or text.startswith("-"):
            raise UsageError(f"{text!r} is not an override: write KEY=VALUE, for example data.label_ratio=2:1")
        if key in OF_THE_SWEEP:
            try:
                changes[key] = plain_yaml(value)
            except yaml.YAMLError:
                raise UsageError(f"{text}: {key} is a value, or a list such as [1,2]") from None
        else:
            overrides.append(text)
    return changes, overrides


def _launcher(plan: Plan, name: str, settings: Sequence[str], workers: int | None) -> "Launcher":
    """One of conf/hydra/launcher by its name. settings: `hydra.launcher.KEY=VALUE`."""
    import yaml
    from hydra.utils import get_class
    from omegaconf.errors import OmegaConfBaseException

    own = cast(DictConfig, OmegaConf.load(LAUNCHERS / f"{name}.yaml"))
    for text in settings:
        key, _, value = text.removeprefix("hydra.launcher.").partition("=")
        if key.split(".")[0] not in own:
            raise UsageError(
                f"{text}: launcher {name} has no {key!r}{near(key, map(str, own))}; it has {', '.join(map(str, own))}"
            )
        try:
            OmegaConf.update(own, key, plain_yaml(value))
        except (yaml.YAMLError, OmegaConfBaseException):
            raise UsageError(f"{text}: the value of {key} cannot be read. Put a text in quotes: {key}='...'") from None
    load_program("multirun").find_plugins()
    made = get_class(own.pop("_target_"))(**cast("dict[str, Any]", OmegaConf.to_container(own)))
    launcher: Launcher = made.cells_launcher(plan.cells[0].config, workers)
    return launcher


def show_results(plan: Plan, store: Store) -> None:
    """Writes the summary run and the figures of what is finished, and names them."""
    from analysis.tracked import group_runs
    from rmlab.tracking.query import runs
    from rmlab.tracking.ui import address_hint, ui_command

    spec = plan.spec
    found = runs(
        store,
        None,
        {
            "sweep": spec.name,
            "preset": spec.preset,
            "control_hash": plan.cells[0].identity.control_hash,
            "status": "finished",
        },
    )
    groups = group_runs(found)
    if not groups:
        if not load_program("rl_summary").show(plan, store, found):
            print("no cell is finished yet: there is nothing to show")
        return
    figures, text = summarise(plan, store, replace(groups[0], baseline=str(spec.baseline)), found)
    print(f"\n{spec.question}\n\n{text}")
    print("figures:")
    for path in figures:
        print(f"  {path}")
    print(f"table:\n  {groups[0].folder(runs_folder() / 'figures') / 'table.csv'}")
    print(f"look at the runs:\n  {ui_command()}\n  {address_hint(store, spec.name)}")


def summarise(plan: Plan, store: Store, group: "SweepRuns", found: "Sequence[TrackedRun]") -> tuple[list[Path], str]:
    """The one summary run of a sweep, preset and control hash: table, figures and a note. Drawn again only when cells changed.

    Returns the figures' files and the table as Markdown.
    """
    from analysis import level_tests, style, sweep_table
    from rmlab.files import write_text
    from rmlab.tracking.notes import summary_note
    from rmlab.tracking.run import RunLogger

    spec = plan.spec
    folder = group.folder(runs_folder() / "figures")
    text = sweep_table.as_markdown(group)
    drawn_from = fingerprint([group.baseline, sorted(cell.run.run_id for cell in group.cells)])
    old = next((run for run in found if run.tags.get("kind") == "summary"), None)
    figures = sorted(folder.glob("*.p*"))
    if old is not None and old.tags.get("drawn_from") == drawn_from and figures:
        return figures, text
    load_program("figures").draw(group, runs_folder() / "figures")
    write_text(folder / "table.csv", style.csv_text(sweep_table.rows(group)))
    write_text(folder / "table.md", text)
    rest = f"{group.note()}\n\nReported elsewhere: {spec.reported}\n\n`{plan.command}`"
    note = summary_note(spec.question, level_tests.answer(group), text, rest)
    tags = {"sweep": spec.name, "preset": spec.preset, "factor": spec.factor, "control_hash": group.control_hash}
    logger = (
        RunLogger(store, old.run_id, old.experiment_id)
        if old
        else RunLogger.start(store, spec.name, f"summary {spec.preset}", kind="summary", tags=tags)
    )
    with logger as run:
        for path in sorted(folder.iterdir()):
            run.artifact(path, "figures" if path.stem != "table" else None)
        run.tags({"mlflow.note.content": note, "drawn_from": drawn_from, "cells": len(group.cells)})
    return sorted(folder.glob("*.p*")), text


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
