"""Sweep: launches or resumes `sweeps/NAME.yaml`, one process a cell, and shows what came out.

    rmlab sweep data_scale preset=demo
    rmlab sweep data_scale preset=smoke levels=[64,128] seeds=[0] --dry-run

sweep file → cells and their hashes → which are finished, anywhere in the store → what all share is made once, every level
is proven to be fillable → the rest run → summary run, table, figures. The same command again goes on where it stopped.
"""

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from omegaconf import OmegaConf

from rmlab.ablation.pool import read_index
from rmlab.ablation.selection import DataConfig, check_fill
from rmlab.ablation.sweep_files import plain_yaml
from rmlab.ablation.sweeps import Cell, SweepSpec, expand, read_sweep
from rmlab.configuration import compose, load_program
from rmlab.errors import RmlabError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.locks import exclusive
from rmlab.paths import runs_folder
from rmlab.tracking.heads import CellRuns, RunHead, cell_runs
from rmlab.tracking.leases import Watch
from rmlab.tracking.origin import commit
from rmlab.tracking.store import Store

if TYPE_CHECKING:
    from analysis.tracked import SweepRuns
    from rmlab.ablation.processes import LocalLauncher
    from rmlab.tracking.query import TrackedRun

OnError = Literal["stop", "continue"]
OF_THE_SWEEP = ("preset", "levels", "baseline", "seeds", "arms")


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
    workers: int | None = None,
    on_error: OnError = "stop",
    retry_failed: bool = False,
    force: bool = False,
    redo_before: str | None = None,
    rerun_stale: bool = False,
) -> None:
    """Launches, resumes or (dry_run) only describes a sweep.

    arguments: `preset=P`, `levels=[...]`, `seeds=[...]`, `arms=[...]`, `baseline=...` choose within the sweep file; anything
    else overrides the program's configuration in every cell. workers: cells at once, default as many as the cores (or GPUs)
    hold. on_error: after a failed cell start no more, or go on. retry_failed: run again what failed before. force: run again
    what is finished; redo_before (2026-01-31T12:00:00): what began before then; rerun_stale: what another commit made.
    Raises UsageError for a wrong name or value, RmlabError for data that cannot fill a level and when cells failed.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"--workers {workers}: at least one cell runs at once")
    redo_before = datetime.now().isoformat(timespec="seconds") if force else redo_before
    given = [*(["--workers", str(workers)] if workers else []), *(["--on-error", on_error] if on_error != "stop" else []),
             *(["--redo-before", redo_before] if redo_before else []), *(["--rerun-stale"] if rerun_stale else [])]
    plan = make_plan(name, arguments, shlex.join(["rmlab", "sweep", name, *arguments, *given]))
    redo = redo_rule(redo_before, rerun_stale)
    if dry_run:
        print(description(plan, Store.existing(plan.uri), retry_failed, redo))
        return
    from rmlab.ablation.running import run_cells

    store = Store.open(plan.uri)
    lock = runs_folder() / "locks" / f"sweep-{plan.spec.name}-{plan.spec.preset}.lock"
    with exclusive(lock, f"sweep {plan.spec.name} at preset {plan.spec.preset}", patience=0):
        try:
            outcome = run_cells(plan.cells, store, local_launcher(plan.cells, workers), on_error=on_error,
                                retry_failed=retry_failed, redo=redo)
        except KeyboardInterrupt:
            print(f"\nStopped; finished cells stay finished. Go on with: {plan.command}", file=sys.stderr)
            raise
        if not (outcome.ran or outcome.failed or outcome.left):
            print("every cell was finished already: nothing was trained", file=sys.stderr)
        show_results(plan, store)
    if outcome.failed or outcome.left:
        left = f", {len(outcome.left)} not started" if outcome.left else ""
        raise RmlabError(f"{len(outcome.failed)} of {len(plan.cells)} cells failed ({', '.join(outcome.failed)}){left}. "
                         f"Try them again with: {plan.command} --retry-failed")


def make_plan(name: str, arguments: Sequence[str], command: str) -> Plan:
    """Reads the sweep, composes its cells and looks ahead whether the data can fill them."""
    changes, overrides = split_arguments(arguments)
    spec = read_sweep(name, changes.pop("preset", None), changes)
    cells = expand(spec, overrides, compose, load_program(spec.program).identity)
    if OmegaConf.get_type(cells[0].config, "data") is DataConfig:
        choices = {str(cell.config.data): cell.config.data for cell in cells}  # seeds ask for the same
        for data in choices.values():
            check_fill(read_index(data.path).rows, data)
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


def local_launcher(cells: Sequence[Cell], workers: int | None) -> "LocalLauncher":
    """Processes on this machine. workers: None = one a GPU where cells use them, else as many as the cores hold."""
    from rmlab.ablation.gpus import Gpus, visible_gpus
    from rmlab.ablation.processes import LocalLauncher, usable_cores

    config = cells[0].config
    device = OmegaConf.select(config, "runtime.device") or "cpu"
    names = visible_gpus() if device != "cpu" else []
    threads = OmegaConf.select(config, "training.threads") or 1
    usual = len(names) or (1 if device == "cuda" else max(1, usable_cores() // threads))
    return LocalLauncher(workers or usual, Gpus(names, runs_folder() / "locks") if names else None)


def redo_rule(before: str | None, stale: bool) -> Callable[[RunHead], bool]:
    """Which finished runs do not count. before: those that began before then (ISO). stale: those that another commit made."""
    if before is None and not stale:
        return lambda run: False
    try:
        milliseconds = datetime.fromisoformat(before).timestamp() * 1000 if before else 0.0
    except ValueError:
        raise UsageError(f"--redo-before {before}: a time is written 2026-01-31T12:00:00") from None
    here = commit()
    return lambda run: run.start_time < milliseconds or (stale and run.tags.get("commit") != here)


def description(plan: Plan, store: Store | None, retry_failed: bool = False,
                redo: Callable[[RunHead], bool] = lambda run: False) -> str:
    """What would run: question, cells and what is known of them, cost. store: None = nothing was ever tracked."""
    spec, cells = plan.spec, plan.cells
    known = cell_runs(store)
    watch = Watch()
    lines = [spec.question, f"factor {spec.factor}, baseline {spec.baseline}, preset {spec.preset}, "
             f"control {cells[0].identity.control_hash}", ""]
    first: dict[str, str] = {}
    states: Counter[str] = Counter()
    for cell in cells:
        key = cell.identity.config_hash
        if key in first:
            state = f"the same run as {first[key]}"
        else:
            kind, words = _state(key, known, watch, redo, retry_failed)
            states[kind] += 1
            state = f"{kind}{words}"
        first.setdefault(key, cell.name)
        lines.append(f"  {cell.name:<32} {key}  {state}")
    counted = [f"{len(cells)} cells", f"{states['finished']} of {len(first)} runs finished"]
    if states["failed"]:
        counted.append(f"{states['failed']} failed before (--retry-failed runs them again)")
    if states["at work"]:
        counted.append(f"{states['at work']} at work elsewhere")
    lines += ["", ", ".join([*counted, f"{states['to run']} to run"])]
    if cost := spec.cost.get(spec.preset):
        lines.append(f"cost of the whole sweep at this preset: {cost}")
    return "\n".join(lines)


def _state(key: str, known: CellRuns, watch: Watch, redo: Callable[[RunHead], bool], retry_failed: bool) -> tuple[str, str]:
    """Of one hash: its kind, and what there is to say beside it."""
    if (run := known.finished.get(key)) is not None:
        again = f" again (finished in run {run.run_id})"
        return ("to run", again) if redo(run) else ("finished", f" (run {run.run_id})")
    if (run := watch.holder(known.all.get(key, []))) is not None:
        return "at work", f" (run {run.run_id} by {run.tags['lease']})"
    if (run := known.failed.get(key)) is not None:
        error = run.tags.get("error", "")
        return ("to run", f" again (failed: {error})") if retry_failed else ("failed", f": {error}")
    return "to run", ""


def show_results(plan: Plan, store: Store) -> None:
    """Writes the summary run and the figures of what is finished, and names them."""
    from analysis.tracked import group_runs
    from rmlab.tracking.query import runs
    from rmlab.tracking.ui import address_hint

    spec = plan.spec
    found = runs(store, None, {"sweep": spec.name, "preset": spec.preset,
                               "control_hash": plan.cells[0].identity.control_hash, "status": "finished"})
    groups = group_runs(found)
    if not groups:
        print("no cell is finished yet: there is nothing to show")
        return
    figures, text = summarise(plan, store, groups[0], found)
    print(f"\n{spec.question}\n\n{text}")
    print("figures:")
    for path in figures:
        print(f"  {path}")
    print(f"table:\n  {groups[0].folder(runs_folder() / 'figures') / 'table.csv'}")
    print(f"look at the runs:\n  rmlab ui\n  {address_hint(store, spec.name)}")


def summarise(plan: Plan, store: Store, group: "SweepRuns", found: "Sequence[TrackedRun]") -> tuple[list[Path], str]:
    """The one summary run of a sweep, preset and control hash: table, figures and a note. Drawn again only when cells changed.

    Returns the figures' files and the table as Markdown.
    """
    from analysis import style, sweep_table
    from rmlab.files import write_text
    from rmlab.tracking.run import RunLogger

    spec = plan.spec
    folder = group.folder(runs_folder() / "figures")
    text = sweep_table.as_markdown(group)
    drawn_from = fingerprint(sorted(cell.run.run_id for cell in group.cells))
    old = next((run for run in found if run.tags.get("kind") == "summary"), None)
    figures = sorted(folder.glob("*.p*"))
    if old is not None and old.tags.get("drawn_from") == drawn_from and figures:
        return figures, text
    load_program("figures").draw(group, runs_folder() / "figures")
    write_text(folder / "table.csv", style.csv_text(sweep_table.rows(group)))
    write_text(folder / "table.md", text)
    note = f"{spec.question}\n\n{text}\n\n{group.note()}\n\nReported elsewhere: {spec.reported}\n\n`{plan.command}`"
    tags = {"sweep": spec.name, "preset": spec.preset, "factor": spec.factor, "control_hash": group.control_hash}
    logger = (RunLogger(store, old.run_id, old.experiment_id) if old else
              RunLogger.start(store, spec.name, f"summary {spec.preset}", kind="summary", tags=tags))
    with logger as run:
        for path in sorted(folder.iterdir()):
            run.artifact(path, "figures" if path.stem != "table" else None)
        run.tags({"mlflow.note.content": note, "drawn_from": drawn_from, "cells": len(group.cells)})
    return sorted(folder.glob("*.p*")), text


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
