"""A study: several sweeps at one preset, as they are planned, beside what its bundles hold. Which cells are finished, which missing?

A folder of a study has `study.yaml` (preset, sweeps) and the bundles of its runs (`*.zip`, in any folder below). A planned cell is
known by its sweep, level, arm and seed; cells of two sweeps with one configuration are one training, whichever sweep trained it.
What is planned follows from the sweep files alone: neither the attempts nor a model has to be there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from analysis.tracked import FinishedCell, SweepRuns, bundles_of, source_runs
from rmlab.configuration import compose
from rmlab.errors import UsageError
from rmlab.sweep.cells import Identity, identify
from rmlab.sweep.factors import find_factors
from rmlab.sweep.plan import cell_name, expand
from rmlab.sweep.spec import SweepSpec, read_sweep
from rmlab.tracking.bundles.reading import AnyRun
from rmlab.tracking.tags import CONFIG_HASH, CONTROL_HASH, ERROR, FAILED, FINISHED
from rmlab.wording import counted

FILE = "study.yaml"
REPEATS = 2
"""How often a cell is trained that fails; after that it is named and left."""
State = Literal["finished", "elsewhere", "failed", "missing"]
"""elsewhere: another sweep of the study has finished the same configuration."""


@dataclass(frozen=True)
class PlannedCell:
    """key: of its configuration; cells of one key are one training."""

    sweep: str
    level: str
    arm: str
    seed: int
    name: str
    key: str


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
    """name: of its folder. runs: finished and failed runs of verifiers, of any sweep and preset; others than the study's are left."""

    name: str
    preset: str
    sweeps: tuple[str, ...]
    runs: tuple[AnyRun, ...]

    @classmethod
    def read(cls, folder: Path, runs: Iterable[AnyRun]) -> "PlannedStudy":
        """The study of a folder. Raises UsageError where it has no study.yaml that names a preset and sweeps."""
        path = folder / FILE
        try:
            raw = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(f"{path} is not there: it names the preset and the sweeps of a study") from None
        if not isinstance(raw, dict) or raw.keys() != {"preset", "sweeps"} or not isinstance(raw["sweeps"], list):
            raise UsageError(f"{path} must have two keys: preset, and the list sweeps")
        sweeps = tuple(map(str, raw["sweeps"]))
        own = [run for run in runs if run.tags.get("sweep") in sweeps and run.tags.get("preset") == raw["preset"]]
        return cls(folder.resolve().name, str(raw["preset"]), sweeps, tuple(own))

    @cached_property
    def specs(self) -> dict[str, SweepSpec]:
        """The sweep files at the study's preset."""
        return {name: read_sweep(name, self.preset) for name in self.sweeps}

    @cached_property
    def groups(self) -> dict[str, SweepRuns]:
        """The finished cells of each sweep that has any of its own; a cell that another sweep trained stands in its place here.

        Raises UsageError where the runs of a sweep may not stand on one line.
        """
        return {name: group for name in self.sweeps if (group := self._group(name)) is not None}

    def _group(self, name: str) -> SweepRuns | None:
        spec, own = self.specs[name], [run for run in self.runs if run.tags["sweep"] == name and run.status == FINISHED]
        controls = sorted({run.tags[CONTROL_HASH] for run in own})
        if len(controls) > 1:
            raise UsageError(
                f"sweep {name} has runs of several control hashes, {', '.join(controls)}: they differ in more than factor and seed. "
                "Take the bundles of all but one away."
            )
        cells = []
        for one in self.of(name):
            if one.run is not None:
                place = spec.levels.index(next(level for level in spec.levels if str(level) == one.cell.level))
                tags = {**one.run.tags, "level": one.cell.level, "arm": one.cell.arm, "place": str(place)}
                cells.append(FinishedCell(replace(one.run, tags=tags), one.cell.level, one.cell.arm, one.cell.seed))
        if not own or not cells:
            return None
        return SweepRuns(name, self.preset, controls[0], spec.factor, tuple(cells), str(spec.baseline))

    @cached_property
    def planned(self) -> dict[str, list[PlannedCell]]:
        """The cells of each sweep, as `rmlab sweep NAME preset=PRESET` makes them."""
        return {name: _planned(spec) for name, spec in self.specs.items()}

    @cached_property
    def cells(self) -> list[CellState]:
        """Every planned cell and what is known of it."""
        own: dict[tuple[str, str, str, int], list[AnyRun]] = defaultdict(list)
        for run in sorted(self.runs, key=lambda run: run.start_time):
            if "level" in run.tags:
                own[run.tags["sweep"], run.tags["level"], run.tags.get("arm", ""), int(run.params["seed"])].append(run)
        everything = [cell for cells in self.planned.values() for cell in cells]
        places = {cell: own[cell.sweep, cell.level, cell.arm, cell.seed] for cell in everything}
        by_key: dict[str, list[AnyRun]] = defaultdict(list)
        for cell, runs in places.items():
            by_key[cell.key] += runs
        return [_state(cell, runs, by_key[cell.key]) for cell, runs in places.items()]

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
        done = {one.cell.key for one in self.cells if one.state in ("finished", "elsewhere")}
        return len({one.cell.key for one in self.cells}), len(done)

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


def _planned(spec: SweepSpec) -> list[PlannedCell]:
    def identity(config: Any) -> Identity:
        factors = find_factors(config.tracking.factors)
        return identify(config, pool="", tokenizer="", semantics={}, factors=factors)

    return [
        PlannedCell(
            spec.name,
            cell.level,
            cell.arm,
            cell.seed,
            cell_name(spec, cell.level, cell.arm, cell.seed),
            cell.identity.config_hash,
        )
        for cell in expand(spec, [], compose, identity)
    ]


def _state(cell: PlannedCell, own: Sequence[AnyRun], alike: Sequence[AnyRun]) -> CellState:
    """own: its runs; alike: those of all cells with its configuration, which are never fewer."""
    failed = [run for run in alike if run.status == FAILED]
    error = failed[-1].tags.get(ERROR, "") if failed else ""
    for state, runs in (("finished", own), ("elsewhere", alike)):
        if whole := [run for run in runs if run.status == FINISHED]:
            return CellState(cell, "finished" if state == "finished" else "elsewhere", whole[-1], len(failed), error)
    return CellState(cell, "failed" if failed else "missing", None, len(failed), error)


def ledger_lines(study: PlannedStudy) -> list[str]:
    """Which cells are finished and which are missing, in words, and the commands that run these."""
    planned, done = study.trainings
    lines = [f"{study.name}: {done} of {counted(planned, 'training')} finished, preset {study.preset}", ""]
    commands = []
    for name in study.sweeps:
        cells = study.of(name)
        states = Counter(one.state for one in cells)
        shared = f" ({states['elsewhere']} of them in another sweep)" if states["elsewhere"] else ""
        lines.append(
            f"  {name:<20} {states['finished'] + states['elsewhere']} of {len(cells)} finished{shared}{_missing(cells)}"
        )
        again = [one for one in cells if one.state == "failed" and one.failures < REPEATS]
        if states["missing"] or again:
            retry = " --retry-failed" if again else ""
            commands.append(f"  rmlab sweep {name} preset={study.preset} --on-error continue{retry}")
    for one in study.cells:
        if one.failures:
            left = (
                "" if one.state != "failed" else "; to be repeated once" if one.failures < REPEATS else "; not repeated"
            )
            lines.append(
                f"  failed {counted(one.failures, 'time')}: {one.cell.sweep}: {one.cell.name}: {one.error}{left}"
            )
    if study.unplanned:
        lines.append(
            f"  {counted(study.unplanned, 'finished run')} beside these: of no planned cell, or older runs of one"
        )
    lines += [f"  {text}" for text in study.contradictions()]
    return [*lines, "", "Next:" if commands else "Nothing is left to run.", *commands]


def _missing(cells: Sequence[CellState]) -> str:
    """`; missing: 2:1, 1:4 s0 s1`: levels and arms of which no seed is there, and seeds of the others."""
    if not any(one.state in ("finished", "failed") for one in cells):
        return "; not begun"
    places: dict[str, list[CellState]] = defaultdict(list)
    for one in cells:
        places[" ".join(filter(None, (one.cell.level, one.cell.arm)))].append(one)
    said = []
    for place, of_place in places.items():
        open_ = [f"s{one.cell.seed}" for one in of_place if one.run is None]
        if open_:
            said.append(place if len(open_) == len(of_place) else " ".join([place, *open_]))
    return f"; missing: {', '.join(said)}" if said else ""
