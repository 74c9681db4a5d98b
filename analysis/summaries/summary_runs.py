"""What came out of a sweep: its table and figures, in the sweep's one summary run, made again only where its cells changed."""

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.files import write_text
from rmlab.fingerprint import fingerprint
from rmlab.paths import SWEEPS, portable, runs_folder
from rmlab.progress import is_quiet, is_verbose, progress
from rmlab.scratch import scratch_folder
from rmlab.sweep.spec import read_sweep
from rmlab.tracking.notes import summary_note
from rmlab.tracking.query import TrackedRun, runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.tracking.tags import CONFIG_HASH, IMPORTED_RUN
from rmlab.tracking.ui import address_hint, ui_command
from rmlab.wording import counted

if TYPE_CHECKING:
    from analysis.rl.policies import PolicyRun
    from analysis.sweep.tracked import SweepRuns
    from rmlab.sweep.request import Plan
    from rmlab.sweep.spec import SweepSpec
    from rmlab.sweep.study import Study, Tried

TABLES = ("table", "trials")
"""Files of a summary that are no figures, by name."""


def show_sweep(plan: "Plan", store: Store) -> None:
    """Writes the summary run and the figures of what is finished, of verifiers or of RL runs, and says in five lines what came out."""
    from analysis.rl.policies import policy_runs
    from analysis.summaries import conclusions
    from analysis.sweep.tracked import group_runs

    spec = plan.spec
    wanted = {"sweep": spec.name, "preset": spec.preset, "control_hash": plan.control_hash, "status": "finished"}
    found = runs(store, None, wanted)
    ui = f"{ui_command()}, then {address_hint(store, spec.name)}"
    folder = runs_folder() / "figures" / spec.name / f"{spec.preset}-{plan.control_hash}"
    if groups := group_runs(found):
        group = replace(groups[0], baseline=portable(str(spec.baseline)))
        text = _verifiers(plan, store, group, found)
        said = conclusions.of_verifiers(group)
        asked = {cell.identity.config_hash for cell in plan.cells}
        others = sum(one.run.tags[CONFIG_HASH] not in asked for one in group.cells)
        if others and not is_quiet():
            print(
                f"What follows is about all {len(group.cells)} finished runs of this sweep and preset with the same settings: "
                f"{others} of them beside those that this command names."
            )
    elif policies := policy_runs(found):
        text = _policies(plan, store, policies, found)
        said = conclusions.of_policies(spec, policies)
    elif found:
        print(
            f"{counted(len(found), 'run')} finished; neither verifiers nor RL, so there is no figure of them. The runs: {ui}"
        )
        return
    else:
        print("no cell is finished yet: there is nothing to show")
        return
    _tell(spec.question, text, [*said, *conclusions.where_to_look(folder, ui, folder / "table.md")])


def _tell(question: str, table: str, lines: Sequence[str]) -> None:
    """What is printed at the end of a sweep. table: as Markdown, shown where more than usual is asked for."""
    print(f"\n{question}\n")
    if is_verbose():
        if sys.stdout.isatty():
            from rich.console import Console
            from rich.markdown import Markdown

            Console(highlight=False).print(Markdown(table))
        else:
            print(table)
    print(*lines, sep="\n")


def _verifiers(plan: "Plan", store: Store, group: "SweepRuns", found: Sequence[TrackedRun]) -> str:
    """Draws the figures; returns the table as Markdown."""
    from analysis.verifiers import sweep_table

    text = sweep_table.as_markdown(group)
    old = _summary_of(found)
    whole = old is not None and old.tags.get("drawn_from") == _drawn_from(group)
    if not (whole and (group.folder(runs_folder() / "figures") / "table.md").is_file()):
        _summarise(store, group, plan.spec, text, plan.command, old, runs_folder() / "figures")
    return text


def summarise_imported(store: Store, sweeps: Iterable[str]) -> list[str]:
    """Gives sweeps of verifiers that came without their summary run, or to which cells were added, a new one; returns which.

    sweeps: names of experiments; one that has no file in sweeps/ is left out, its question is not known here.
    """
    from analysis.sweep.tracked import group_runs
    from analysis.verifiers import sweep_table

    done = []
    for name in sorted(sweeps):
        if not (SWEEPS / f"{name}.yaml").is_file():
            continue
        found = runs(store, None, {"sweep": name})
        for group in group_runs(found):
            own = {"preset": group.preset, "control_hash": group.control_hash}
            old = _summary_of([run for run in found if own.items() <= run.tags.items()])
            if old is not None and (IMPORTED_RUN in old.tags or old.tags.get("drawn_from") == _drawn_from(group)):
                continue
            with progress(f"summary of {name}, preset {group.preset}", 1, "summary") as advance:
                with scratch_folder() as scratch:
                    text = sweep_table.as_markdown(group)
                    _summarise(store, group, read_sweep(name), text, f"rmlab figures {name}", old, scratch)
                advance(1)
            done.append(f"{name}, {group.preset}")
    return done


def _drawn_from(group: "SweepRuns") -> str:
    return fingerprint([group.baseline, sorted(cell.run.run_id for cell in group.cells)])


def _summarise(
    store: Store, group: "SweepRuns", spec: "SweepSpec", table: str, command: str, old: TrackedRun | None, figures: Path
) -> None:
    """Draws a sweep's figures below `figures` and writes its summary run."""
    from analysis.registry import draw_sweep
    from analysis.sweep import level_words

    draw_sweep(group, figures)
    rest = f"{group.note()}\n\nReported elsewhere: {spec.reported}\n\n`{command}`"
    note = summary_note(spec.question, level_words.answer(group), table, rest)
    tags = {"factor": group.factor, "drawn_from": _drawn_from(group), "cells": len(group.cells)}
    own = {"sweep": group.sweep, "preset": group.preset, "control_hash": group.control_hash}
    _write_summary(own, store, old, sorted(group.folder(figures).iterdir()), note, tags)


def _policies(plan: "Plan", store: Store, policies: "Sequence[PolicyRun]", found: Sequence[TrackedRun]) -> str:
    """Draws the figures; returns the table as Markdown."""
    from analysis.presentation import style
    from analysis.rl import relation, rl_curves, rl_table

    spec = plan.spec
    folder = runs_folder() / "figures" / spec.name / f"{spec.preset}-{plan.control_hash}"
    text = rl_table.as_markdown(policies)
    drawn_from = fingerprint(sorted(policy.run.run_id for policy in policies))
    old = _summary_of(found)
    if old is not None and old.tags.get("drawn_from") == drawn_from and (folder / "table.md").is_file():
        return text
    files = [*rl_curves.draw(policies, folder), *relation.draw(policies, folder)]
    for name, content in (("table.csv", style.csv_text(rl_table.rows(policies))), ("table.md", text)):
        write_text(folder / name, content)
        files.append(folder / name)
    note = f"{spec.question}\n\n{text}\n\nReported elsewhere: {spec.reported}\n\n`{plan.command}`"
    tags = {"factor": spec.factor, "drawn_from": drawn_from, "cells": len(policies)}
    _write_summary(_own(plan), store, old, files, note, tags)
    return text


def show_search(plan: "Plan", study: "Study", study_hash: str, store: Store) -> None:
    """Writes table, figure and the summary run of a study, and says what came out. Another study of the search has its own."""
    from analysis.presentation import style
    from analysis.summaries import conclusions, pareto
    from rmlab.sweep.study_identity import storage_uri

    sweep, search = plan.spec, plan.spec.search
    assert search is not None
    tried = study.tried()
    if not tried:
        print("no trial was made yet: there is nothing to show")
        return
    folder = runs_folder() / "figures" / sweep.name / f"{sweep.preset}-{study_hash}"
    rows = trial_rows(tried, list(search.objectives))
    states = ", ".join(f"{sum(t.state == s for t in tried)} {s}" for s in dict.fromkeys(t.state for t in tried))
    text = best_trials(rows)
    write_text(folder / "trials.csv", style.csv_text(rows))
    write_text(folder / "trials.md", text)
    note = (
        f"{sweep.name}, preset {sweep.preset}, control {plan.control_hash}, study {study_hash}; {states}; validation part, "
        f"seeds {sweep.seeds}."
    )
    pareto.draw(rows, search.objectives, folder, note)
    ui = f"optuna-dashboard {shlex.quote(storage_uri(search))}"
    figures = conclusions.where_to_look(folder, ui, folder / "trials.md")
    _tell(f"{sweep.question}\n{states}", text, [*conclusions.of_trials(sweep, rows), *figures])
    drawn_from = fingerprint([[t.number, t.state] for t in tried])
    own = {"sweep": sweep.name, "preset": sweep.preset, "control_hash": plan.control_hash, "study": study_hash}
    old = _summary_of(runs(store, None, {**own, "kind": "summary"}))
    if old is None or old.tags.get("drawn_from") != drawn_from:
        whole = f"{sweep.question}\n\n{text}\n\n{note}\n\n`{plan.command}`"
        _write_summary(
            _own(plan), store, old, sorted(folder.iterdir()), whole, {"study": study_hash, "drawn_from": drawn_from}
        )


def trial_rows(trials: Sequence["Tried"], objectives: Sequence[str]) -> list[dict[str, Any]]:
    """One row a trial: settings, values, state, runs."""
    return [
        {
            "trial": t.number,
            "state": t.state,
            "best": "yes" if t.best else "",
            **t.params,
            **dict(zip(objectives, t.values or [None] * len(objectives), strict=True)),
            "runs": " ".join(t.runs),
            "why": t.why,
        }
        for t in trials
    ]


def best_trials(rows: Sequence[dict[str, Any]]) -> str:
    """As Markdown: the best trials, or all where none is complete."""
    shown = [row for row in rows if row["best"]] or list(rows)
    names = [name for name in shown[0] if name not in ("runs", "best", "state", "why")]
    cells = [
        [f"{row[n]:.4g}" if isinstance(row[n], float) else "" if row[n] is None else str(row[n]) for n in names]
        for row in shown
    ]
    return "\n".join(["| " + " | ".join(line) + " |" for line in [names, ["---"] * len(names), *cells]])


def _summary_of(found: Sequence[TrackedRun]) -> TrackedRun | None:
    return next((run for run in found if run.tags.get("kind") == "summary"), None)


def _own(plan: "Plan") -> dict[str, str]:
    return {"sweep": plan.spec.name, "preset": plan.spec.preset, "control_hash": plan.control_hash}


def _write_summary(
    own: Mapping[str, str],
    store: Store,
    old: TrackedRun | None,
    files: Sequence[Path],
    note: str,
    tags: Mapping[str, Any],
) -> None:
    """The one summary run of a sweep, preset and control hash (of a search: of its study), written anew where it is there.

    own: tags that say which sweep, preset and control hash.
    """
    logger = (
        RunLogger(store, old.run_id, old.experiment_id)
        if old
        else RunLogger.start(store, own["sweep"], f"summary {own['preset']}", kind="summary", tags=own)
    )
    with logger as run:
        for path in files:
            run.artifact(path, None if path.stem in TABLES else "figures")
        run.tags({"mlflow.note.content": note, **tags})
