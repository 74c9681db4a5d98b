"""What a sweep would do: which cells are finished, at work, failed or to run; and how two of its cells differ."""

import difflib
import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from omegaconf import OmegaConf

from rmlab.configuration import load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.paths import portable
from rmlab.sweep.plan import Cell, cell_name, shape
from rmlab.sweep.spec import SweepSpec
from rmlab.sweep.stopped_cells import damaged_checkpoint, has_checkpoint, trained_share
from rmlab.sweep.study_identity import other_studies, storage_uri, study_name, trials_made
from rmlab.tracking.dead_runs import LeaseMonitor
from rmlab.tracking.leases import holder_words
from rmlab.tracking.query import without_weights
from rmlab.tracking.run_index import CellRuns, RunInfo, cell_runs
from rmlab.tracking.store import Store
from rmlab.tracking.tags import FINISHED, commit
from rmlab.wording import counted

Redo = Callable[[RunInfo], bool]


def redo_rule(before: str | None, stale: bool, lacking: Collection[str] = ()) -> Redo:
    """Which finished runs do not count. before: those that began before then (ISO). stale: those that another commit made.
    lacking: those of these ids."""
    if before is None and not stale and not lacking:
        return lambda run: False
    try:
        milliseconds = datetime.fromisoformat(before).timestamp() * 1000 if before else 0.0
    except ValueError:
        raise UsageError(f"--redo-before {before}: write the time as 2026-01-31T12:00:00") from None
    here = commit()
    return lambda run: (
        run.start_time < milliseconds or (stale and run.tags.get("commit") != here) or run.run_id in lacking
    )


def description(cells: Sequence[Cell], store: Store | None, retry_failed: bool, redo: Redo) -> str:
    """What would run: question, cells and what is known of them, cost. store: None = nothing was ever tracked."""
    spec = cells[0].sweep
    known = cell_runs(store)
    monitor = LeaseMonitor()
    lines = [
        spec.question,
        f"factor {spec.factor}, baseline {spec.baseline}, preset {spec.preset}, "
        f"control {cells[0].identity.control_hash}",
        "",
    ]
    bare = cells_without_weights(cells, store, known)
    first: dict[str, str] = {}
    states: Counter[str] = Counter()
    for cell in cells:
        key = cell.identity.config_hash
        if key in first:
            state = f"the same run as {first[key]}"
        else:
            kind, words = _state(key, known, monitor, redo, retry_failed, ", without weights" if key in bare else "")
            states[kind] += 1
            if kind == "to run" and (damaged := damaged_checkpoint(key)) is not None:
                states["damaged"] += 1
                words += f", but {portable(str(damaged))} is not a whole checkpoint: delete it, and the run starts from the beginning"
            elif kind == "to run" and has_checkpoint(key):
                states["to resume"] += 1
                kind = _to_resume(cell)
            state = f"{kind}{words}"
        first.setdefault(key, cell.name)
        lines.append(f"  {cell.name:<32} {key}  {state}")
    parts = [shape(cells), f"{states['finished']} of {counted(len(first), 'run')} finished"]
    if states["failed"]:
        parts.append(f"{states['failed']} failed before (--retry-failed runs them again)")
    if states["at work"]:
        parts.append(f"{states['at work']} at work elsewhere")
    of_them = [f"{states['to resume']} of them from a checkpoint"] if states["to resume"] else []
    of_them += [f"{states['damaged']} refused while a damaged checkpoint is there"] if states["damaged"] else []
    behind = f" ({', '.join(of_them)})" if of_them else ""
    lines += ["", ", ".join([*parts, f"{states['to run']} to run{behind}"])]
    lines += _cost(spec, begun=states["to run"] < len(first) or bool(states["to resume"]))
    return "\n".join(lines)


def cells_to_check(cells: Sequence[Cell], store: Store | None, redo: Redo) -> list[Cell]:
    """A cell of each level and arm that has to run."""
    finished = cell_runs(store).finished
    first: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        run = finished.get(cell.identity.config_hash)
        if run is None or redo(run):
            first.setdefault((cell.level, cell.arm), cell)
    return list(first.values())


def check_cells(cells: Sequence[Cell]) -> None:
    """The quick checks that a launch makes first, where the program has such checks.

    Raises the RmlabError of the first that fails, with the cell's name.
    """
    check = getattr(load_program(cells[0].sweep.program), "check", None) if cells else None
    if check is None:
        return
    for cell in cells:
        try:
            check(cell.config)
        except RmlabError as error:
            kind = UsageError if isinstance(error, UsageError) else DataError
            raise kind(f"{cell.name} would be refused: {error}") from error


def told_needs(cells: Sequence[Cell]) -> tuple[str, str]:
    """How many attempts a fold's verifier is trained on at each level and how many there are at most, in a line, and the refusal of the
    cells that have too few, empty where none has; nothing of a program without folds. Raises an RmlabError where there can be no folds."""
    needs = getattr(load_program(cells[0].sweep.program), "needs", None) if cells else None
    if needs is None:
        return "", ""
    found = needs([cell.config for cell in cells])
    words = [
        f"{' '.join(filter(None, (cell.level, cell.arm)))} {needed:,} of {there:,}{' (too few)' if needed > there else ''}"
        for cell, (needed, there) in zip(cells, found, strict=True)
    ]
    about = (
        "attempts that each fold's verifier needs, of the most that every fold has at this ratio if all fit the context"
    )
    line = f"{about}: {', '.join(words)}"
    short = {cell.name: there for cell, (needed, there) in zip(cells, found, strict=True) if needed > there}
    if not short:
        return line, ""
    most = min(short.values())
    remedy = f"Lower it (to {most:,} for all of them), change" if most else "Change"
    return line, (
        f"{', '.join(short)} would be refused: a fold has too few attempts for data.scale. {remedy} data.label_ratio, or use attempts at "
        "more tasks."
    )


def names_alone(spec: SweepSpec) -> str:
    """The cells of a sweep whose model is not here: hashes cover the model, so without it nothing is known of their runs."""
    names = [cell_name(spec, str(level), str(arm), seed) for level, arm in spec.combinations for seed in spec.seeds]
    lines = [spec.question, f"factor {spec.factor}, baseline {spec.baseline}, preset {spec.preset}", ""]
    lines += [f"  {name}" for name in names]
    lines += [
        "",
        f"{counted(len(names), 'cell')}; which of them are finished is known when the model is here",
        *_cost(spec),
    ]
    return "\n".join(lines)


def cells_without_weights(cells: Sequence[Cell], store: Store | None, known: CellRuns) -> set[str]:
    """The hashes of the cells whose finished run has no weights here: it was imported without them, or they were deleted."""
    keys = {cell.identity.config_hash for cell in cells} & known.finished.keys()
    if store is None or not keys:
        return set()
    lacking = {run.run_id for run in without_weights(store, [known.finished[key] for key in keys])}
    return {key for key in keys if known.finished[key].run_id in lacking}


def runs_without_weights(cells: Sequence[Cell], store: Store | None) -> set[str]:
    """Ids of the finished runs of the cells without weights: whichever sweep logged them, a run with weights takes their place."""
    known = cell_runs(store)
    bare = cells_without_weights(cells, store, known)
    return {run.run_id for key in bare for run in known.all[key] if run.status == FINISHED}


def weights_words(cells: Sequence[Cell], store: Store, command: str) -> str:
    """What to say of cells that are finished but cannot score anything; empty where there are none."""
    bare = cells_without_weights(cells, store, cell_runs(store))
    many = sum(cell.identity.config_hash in bare for cell in cells)
    if not many:
        return ""
    return (
        f"{many} of {counted(len(cells), 'cell')} {'is' if many == 1 else 'are'} finished without weights in this store; to train "
        f"{'it' if many == 1 else 'them'} here: {command} --rerun-without-weights"
    )


def _cost(spec: SweepSpec, begun: bool = False) -> list[str]:
    """What the file says of the whole sweep's cost, if anything. begun: part of it is done."""
    cost = spec.cost.get(spec.preset)
    whole = "whole sweep at this preset, what is done already included" if begun else "sweep at this preset"
    return [f"cost of the {whole}, according to its file: {cost}"] if cost else []


def _to_resume(cell: Cell) -> str:
    """How a cell is called that goes on from its checkpoint: `to resume (69 % trained)`."""
    share = trained_share(cell)
    return "to resume" if share is None else f"to resume ({math.floor(100 * share)} % trained)"


def _state(
    key: str, known: CellRuns, monitor: LeaseMonitor, redo: Redo, retry_failed: bool, lacks: str
) -> tuple[str, str]:
    """Of one hash: its kind, and what there is to say beside it. lacks: what a finished run lacks, in words."""
    run = known.finished.get(key)
    if run is not None and not redo(run):
        return "finished", f" (run {run.run_id}){lacks}"
    if (holder := monitor.holder(known.all.get(key, []))) is not None:
        return "at work", f" (run {holder.run_id}, by {holder_words(holder)})"
    if run is not None:
        return "to run", f" again (finished in run {run.run_id}{lacks})"
    if (failed := known.failed.get(key)) is not None:
        error = failed.tags.get("error", "")
        return ("to run", f" again (failed: {error})") if retry_failed else ("failed", f": {error}")
    return "to run", ""


def search_description(templates: Sequence[Cell]) -> str:
    """What would be searched, and how far the study is. Makes nothing."""
    sweep = templates[0].sweep
    search = sweep.search
    assert search is not None
    name = study_name(templates)
    ended = trials_made(str(name), search)
    lines = [
        sweep.question,
        f"preset {sweep.preset}, control {templates[0].identity.control_hash}, seeds {sweep.seeds}",
        "",
        "objectives:",
        *(f"  {name}: {goal}" for name, goal in search.objectives.items()),
        "space:",
        *(f"  {name}: {allowed}" for name, allowed in search.space.items()),
        "",
        f"{counted(search.trials, 'trial')} in all, {ended} made in {storage_uri(search)}",
        *other_studies(name, search),
    ]
    if cost := sweep.cost.get(sweep.preset):
        lines.append(f"cost of the whole search at this preset: {cost}")
    return "\n".join(lines)


def explanation(cells: Sequence[Cell]) -> str:
    """What all cells share, and as diffs of what is hashed: in what another level, arm and seed differ from the first cell."""
    spec, first = cells[0].sweep, cells[0]
    owned = "; ".join(f"{factor.name} owns {', '.join(factor.owns)}" for factor in spec.factors)
    lines = [
        f"{spec.name}, preset {spec.preset}: {counted(len(cells), 'cell')}, {counted(len({c.identity.config_hash for c in cells}), 'run')}",
        f"control {first.identity.control_hash}, the same in every cell: everything but the seed and what the factors own ({owned})",
    ]
    if alike := _alike(cells):
        lines.append(f"among it {', '.join(alike)}")
    others = {
        "level": next(
            (c for c in cells if c.level != first.level and c.arm == first.arm and c.seed == first.seed), None
        ),
        "arm": next((c for c in cells if c.arm != first.arm and c.level == first.level and c.seed == first.seed), None),
        "seed": next(
            (c for c in cells if c.seed != first.seed and c.level == first.level and c.arm == first.arm), None
        ),
    }
    for what, other in others.items():
        if other is not None:
            lines += ["", f"another {what}:", *_diff(first, other)]
    return "\n".join(lines)


TOLD = (
    "model.name",
    "model.pretrained",
    "data.path",
    "data.scale",
    "data.label_ratio",
    "prompt.max_tokens",
    "prompt.over_length",
    "training.epochs",
    "training.batch_size",
    "evaluation.tasks",
    "folds.unseen",
    "start",
    "verifier",
)
"""Keys that say what a sweep is about, whichever its program has."""


def _alike(cells: Sequence[Cell]) -> list[str]:
    """`KEY=VALUE` of the keys of TOLD that have one value in all cells."""
    found = []
    for key in TOLD:
        values = {str(OmegaConf.select(cell.config, key)) for cell in cells}
        if len(values) == 1 and (value := values.pop()) not in ("None", "", "[]"):
            found.append(f"{key}={portable(value)}")
    return found


def _diff(one: Cell, other: Cell) -> list[str]:
    if one.identity.config_hash == other.identity.config_hash:
        return [f"{other.name} is the same run as {one.name}: {one.identity.config_hash}"]
    before, after = (
        json.dumps(dict(c.identity.parts), indent=2, sort_keys=True, ensure_ascii=False).splitlines()
        for c in (one, other)
    )
    titles = [f"{cell.name} ({cell.identity.config_hash})" for cell in (one, other)]
    return list(difflib.unified_diff(before, after, titles[0], titles[1], lineterm=""))
