"""A study: several sweeps at one preset, as they are planned, beside what its bundles hold. Which cells are finished, which missing?

A folder of a study has `study.yaml` (preset, sweeps, what the levels of a sweep mean) and the bundles of its runs (`*.zip`, in any
folder below). A planned cell is known by its sweep, level, arm and seed; a run counts for it whose configuration is the planned one,
and that shares pool and tokenizer with the sweep's other runs. Cells of two sweeps with one configuration are one training, whichever
sweep trained it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from analysis.studies.planned_cells import PlannedCell, differing_from_plan, planned_cells
from analysis.sweep.tracked import FinishedCell, SweepRuns, source_runs
from rmlab.errors import UsageError
from rmlab.sweep.spec import SweepSpec, read_sweep
from rmlab.tracking.bundles.reading import AnyRun
from rmlab.tracking.bundles.several import bundles_of
from rmlab.tracking.tags import CONFIG_HASH, CONTROL_HASH, ERROR, FAILED, FINISHED
from rmlab.wording import counted

FILE = "study.yaml"
State = Literal["finished", "elsewhere", "failed", "missing"]
"""elsewhere: another sweep of the study has finished the same configuration."""


@dataclass(frozen=True)
class CellState:
    """What is known of a planned cell. run: that finished it, here or in another sweep. failures: trainings that failed; error: the
    last one's."""

    cell: PlannedCell
    state: State
    run: AnyRun | None = None
    failures: int = 0
    error: str = ""

    @property
    def row(self) -> dict[str, Any]:
        """As a line of the ledger."""
        tags = self.run.tags if self.run else {}
        minutes = (self.run.end_time - self.run.start_time) / 60_000 if self.run and self.run.end_time else None
        return {
            "sweep": self.cell.sweep,
            "level": self.cell.level,
            "arm": self.cell.arm,
            "seed": self.cell.seed,
            "state": self.state,
            "failures": self.failures,
            "config_hash": tags.get(CONFIG_HASH, ""),
            "control_hash": tags.get(CONTROL_HASH, ""),
            "commit": tags.get("commit", ""),
            "device": tags.get("device", ""),
            "minutes": "" if minutes is None or (self.run and self.run.is_reuse) else f"{minutes:.2f}",
            "run_id": self.run.run_id if self.run else "",
            "error": self.error,
        }


@dataclass(frozen=True)
class PlannedStudy:
    """name: of its folder. runs: finished and failed runs of verifiers, of any sweep and preset; others than the study's are left.
    meanings: a sentence or more on the levels of a sweep, for readers of its page."""

    name: str
    preset: str
    sweeps: tuple[str, ...]
    runs: tuple[AnyRun, ...]
    meanings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path, runs: Iterable[AnyRun]) -> "PlannedStudy":
        """The study of a folder. Raises UsageError where it has no study.yaml that names a preset and sweeps."""
        preset, sweeps, meanings = _read_plan(folder)
        own = [run for run in runs if run.tags.get("sweep") in sweeps and run.tags.get("preset") == preset]
        return cls(folder.resolve().name, preset, sweeps, tuple(own), meanings)

    @cached_property
    def specs(self) -> dict[str, SweepSpec]:
        """The sweep files at the study's preset."""
        return {name: read_sweep(name, self.preset) for name in self.sweeps}

    @cached_property
    def groups(self) -> dict[str, SweepRuns]:
        """The finished cells of each sweep that has any of its own; a cell that another sweep trained stands in its place here."""
        return {name: group for name in self.sweeps if (group := self._group(name)) is not None}

    def _group(self, name: str) -> SweepRuns | None:
        spec, control, cells = self.specs[name], "", []
        for one in self.of(name):
            if one.run is not None:
                control = one.run.tags[CONTROL_HASH] if one.state == "finished" else control
                place = spec.levels.index(next(level for level in spec.levels if str(level) == one.cell.level))
                tags = {**one.run.tags, "level": one.cell.level, "arm": one.cell.arm, "place": str(place)}
                cells.append(FinishedCell(replace(one.run, tags=tags), one.cell.level, one.cell.arm, one.cell.seed))
        if not control:
            return None
        return SweepRuns(name, self.preset, control, spec.factor, tuple(cells), str(spec.baseline))

    @cached_property
    def planned(self) -> dict[str, list[PlannedCell]]:
        """The cells of each sweep, as `rmlab sweep NAME preset=PRESET` makes them."""
        return {name: planned_cells(spec) for name, spec in self.specs.items()}

    @cached_property
    def cells(self) -> list[CellState]:
        """Every planned cell and what is known of it."""
        by_key: dict[str, list[AnyRun]] = defaultdict(list)
        for cell, runs in self._counted[0].items():
            by_key[cell.key] += runs
        return [
            _state(cell, own, [run for run in by_key[cell.key] if self._has_inputs(cell.sweep, run)])
            for cell, own in self._counted[0].items()
        ]

    @cached_property
    def _counted(self) -> tuple[dict[PlannedCell, list[AnyRun]], Counter[tuple[str, str]]]:
        """The runs that count for each planned cell, oldest first, and how many of each sweep do not, by the reason."""
        places = {(one.sweep, one.level, one.arm, one.seed): one for cells in self.planned.values() for one in cells}
        own: dict[PlannedCell, list[AnyRun]] = {cell: [] for cell in places.values()}
        aside: Counter[tuple[str, str]] = Counter()
        for run in sorted(self.runs, key=lambda run: run.start_time):
            if "seed" not in run.params or CONTROL_HASH not in run.tags:
                aside[run.tags["sweep"], "that ended before its seed and its control hash were tracked"] += 1
                continue
            place = (run.tags["sweep"], run.tags.get("level", ""), run.tags.get("arm", ""), int(run.params["seed"]))
            if (cell := places.get(place)) is not None:
                if keys := differing_from_plan(cell, run):
                    aside[cell.sweep, f"of another configuration, by the plan in {', '.join(keys)}"] += 1
                else:
                    own[cell].append(run)
        for name, cells in self.planned.items():
            if usual := _usual_control([own[cell] for cell in cells]):
                for cell in cells:
                    for run in own[cell]:
                        if (control := run.tags[CONTROL_HASH]) != usual:
                            why = (
                                f"of control hash {control}, other than {usual} of most cells: pool, tokenizer or code"
                            )
                            aside[name, why] += 1
                    own[cell] = [run for run in own[cell] if run.tags[CONTROL_HASH] == usual]
        return own, aside

    def _has_inputs(self, sweep: str, run: AnyRun) -> bool:
        """Whether a run was made from the pool and the tokenizer of a sweep's own finished runs, unless its factors vary these."""
        own = [
            one
            for cell in self.planned[sweep]
            for one in self._counted[0][cell]
            if FINISHED == one.status == run.status
        ]
        factors = self.specs[sweep].factors
        kept = [
            *(["dataset"] if not any(one.owns_pool for one in factors) else []),
            *(["tokenizer"] if not any(one.owns_tokenizer for one in factors) else []),
        ]
        return not own or all(run.tags.get(tag) == own[0].tags.get(tag) for tag in kept)

    def finished_runs(self, sweep: str) -> dict[PlannedCell, list[AnyRun]]:
        """The sweep's own finished runs of each of its cells, oldest first; the tables use the last one."""
        counted = self._counted[0]
        return {cell: [run for run in counted[cell] if run.status == FINISHED] for cell in self.planned[sweep]}

    def left_aside(self) -> list[str]:
        """What counts for no cell though a planned one has its level, arm and seed, or its configuration: how much of it, and why."""
        texts = [
            f"{name}: not counted: {counted(number, 'run')} {why}" for (name, why), number in self._counted[1].items()
        ]
        done = {one.cell.key for one in self.cells if one.run is not None}
        other = Counter(one.cell.sweep for one in self.cells if one.run is None and one.cell.key in done)
        return texts + [
            f"{name}: not counted: {counted(number, 'cell')} that another sweep finished, with another pool or tokenizer"
            for name, number in other.items()
        ]

    @property
    def unplanned(self) -> int:
        """Finished runs of the study's sweeps that stand for no planned cell: another level, arm or seed, or an older run of a cell."""
        used = {one.run.run_id for one in self.cells if one.run is not None}
        return len({run.run_id for run in self.runs if run.status == FINISHED} - used)

    def of(self, sweep: str) -> list[CellState]:
        """The cells of one sweep."""
        return [one for one in self.cells if one.cell.sweep == sweep]

    @property
    def trainings(self) -> tuple[int, int]:
        """Of how many trainings the study consists, and how many are finished; a cell of two sweeps is one."""
        keys = {one.cell.key for one in self.cells}
        return len(keys), len(keys - {one.cell.key for one in self.cells if one.run is None})

    def contradictions(self) -> list[str]:
        """Cells that are planned as one training and were not trained as one: their runs differ in what is hashed beside the
        configuration (the attempts, the model, a version of the code)."""
        hashes: dict[str, dict[str, str]] = defaultdict(dict)
        for one in self.cells:
            if one.state == "finished" and one.run is not None:
                hashes[one.cell.key].setdefault(one.run.tags.get(CONFIG_HASH, ""), f"{one.cell.sweep}: {one.cell.name}")
        return [
            f"one configuration, but different inputs or code: {', '.join(f'{where} ({key})' for key, where in found.items())}"
            for found in hashes.values()
            if len(found) > 1
        ]


@contextmanager
def open_study(folder: Path, source: str | None = None) -> Iterator[PlannedStudy]:
    """The study of a folder with the runs of its bundles, or of another source (see `source_runs`); it may have none yet."""
    if source is None and not bundles_of(folder):
        yield PlannedStudy.read(folder, [])
        return
    with source_runs(source or str(folder), ("verifier",), (FINISHED, FAILED)) as (_, runs):
        yield PlannedStudy.read(folder, runs)


def _read_plan(folder: Path) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """The preset, the sweeps, and what their levels mean, by the study.yaml of a folder."""
    path = folder / FILE
    if not folder.is_dir() and folder.exists():
        raise UsageError(f"{folder} is no folder: name the folder of a study, in which {FILE} lies")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path} is not there: it names the preset and the sweeps of a study") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not readable YAML: {' '.join(str(error).split())}") from error
    if (
        not isinstance(raw, dict)
        or raw.keys() - {"levels"} != {"preset", "sweeps"}
        or not isinstance(raw["sweeps"], list)
    ):
        raise UsageError(
            f"{path} must have two keys: preset, and the list sweeps; `levels` may say what the levels mean"
        )
    if not all(isinstance(name, str) for name in (raw["preset"], *raw["sweeps"])):
        raise UsageError(f"{path}: preset is the name of one, and sweeps is a list of names")
    if not raw["sweeps"]:
        raise UsageError(f"{path}: sweeps is empty: name those that the study consists of")
    if twice := [name for name, number in Counter(raw["sweeps"]).items() if number > 1]:
        raise UsageError(f"{path} names a sweep twice: {', '.join(twice)}")
    meanings = raw.get("levels", {})
    if not isinstance(meanings, dict) or not all(isinstance(text, str) for text in meanings.values()):
        raise UsageError(f"{path}: levels has a text for each sweep that needs one")
    if unknown := [str(name) for name in meanings if name not in raw["sweeps"]]:
        raise UsageError(f"{path}: levels names {', '.join(unknown)}, which sweeps does not")
    return raw["preset"], tuple(raw["sweeps"]), {name: " ".join(text.split()) for name, text in meanings.items()}


def _usual_control(runs_of_cells: Iterable[Sequence[AnyRun]]) -> str:
    """The control hash of most finished cells, of two alike that of the newest run; "" where none is finished."""
    cells: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for runs in runs_of_cells:
        finished = {run.tags[CONTROL_HASH]: run.start_time for run in runs if run.status == FINISHED}
        cells.update(finished.keys())
        newest |= {control: max(newest.get(control, 0), start) for control, start in finished.items()}
    return max(cells, key=lambda control: (cells[control], newest[control]), default="")


def _state(cell: PlannedCell, own: Sequence[AnyRun], alike: Sequence[AnyRun]) -> CellState:
    """own: its runs; alike: those of all cells with its configuration, which are never fewer."""
    failed = [run for run in alike if run.status == FAILED]
    error = failed[-1].tags.get(ERROR, "") if failed else ""
    for state, runs in (("finished", own), ("elsewhere", alike)):
        if whole := [run for run in runs if run.status == FINISHED]:
            return CellState(cell, "finished" if state == "finished" else "elsewhere", whole[-1], len(failed), error)
    return CellState(cell, "failed" if failed else "missing", None, len(failed), error)
