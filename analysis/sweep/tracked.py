"""The finished verifier runs of one sweep at one preset, grouped so that only comparable runs ever share a line."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmlab.files import path_part
from rmlab.metrics.thin import WITHIN_TASK, cautions
from rmlab.scores.scores import Scores, cluster_of
from rmlab.scores.table import read_score_table
from rmlab.tracking.bundles.reading import AnyRun
from rmlab.tracking.bundles.several import bundled_runs, bundles_named
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store, default_uri
from rmlab.tracking.tags import FINISHED, STATUS
from rmlab.wording import counted, listed

if TYPE_CHECKING:
    from rmlab.metrics.sweep_levels import LevelTest

REPOSITORIES, CLUSTERS = ("repository", "repositories"), ("cluster of tasks", "clusters of tasks")


@dataclass(frozen=True)
class FinishedCell:
    """One finished run: which level, which arm ("" where the sweep has one), which seed."""

    run: AnyRun
    level: str
    arm: str
    seed: int

    @cached_property
    def report(self) -> dict[str, Any]:
        """Metrics of the evaluation part by the contract's names. A report from before ECE less its floor gets it, without an interval;
        within-task values of an earlier one have no interval either where they rest on one mixed task."""
        found = self._json("report.json")
        error, floor = found["ece_width_10"], found["ece_noise_floor_task"]
        found.setdefault("ece_less_floor", None if error is None or floor is None else error - floor)
        if found.get("mixed_tasks", 2) < 2:
            found["ci95"] |= dict.fromkeys(WITHIN_TASK)
        return found

    @cached_property
    def baselines(self) -> dict[str, dict[str, Any]]:
        """The same metrics of each baseline, or {"reason": why there is none}."""
        return self._json("baselines.json")

    def report_on(self, pool: str) -> dict[str, Any]:
        """Metrics on one of `evaluation.pools` by the contract's names."""
        return self._json(f"{pool}_report.json")

    @cached_property
    def scores(self) -> Scores:
        """The evaluation score table."""
        return read_score_table(self.run.artifact("scores.parquet"))

    @property
    def across(self) -> bool:
        """Whether attempts can only be chosen from across policies, because none has two at a task."""
        return set(self.report["rm_at_k"]) <= {"1"} and bool(self.report.get("rm_at_k_across"))

    @cached_property
    def compared(self) -> Scores:
        """The table by which levels are compared: where `across`, all attempts at a task are one group."""
        return replace(self.scores, policy=np.full(len(self.scores), "")) if self.across else self.scores

    def _json(self, name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.run.artifact(name).read_text(encoding="utf-8"))
        return loaded


@dataclass(frozen=True)
class SweepRuns:
    """Cells of one sweep, preset and control_hash: everything but factor and seed is equal in them.

    baseline: the level that the others are compared with, "" where the runs do not say.
    """

    sweep: str
    preset: str
    control_hash: str
    factor: str
    cells: tuple[FinishedCell, ...]
    baseline: str = ""

    @property
    def across(self) -> bool:
        """Whether best of k and the within-task AUC are across policies, see `FinishedCell.across`."""
        return self.cells[0].across

    def reported(self, metric: str) -> str:
        """The name under which reports have a metric of the levels' comparison."""
        return f"{metric}_across" if self.across and metric in ("rm_at_k", "auc_within_task") else metric

    @cached_property
    def levels(self) -> list[str]:
        """Levels in their natural order: numbers by size, words in the sweep file's order."""
        place = {cell.level: (int(cell.run.tags.get("place", len(self.cells))), cell.level) for cell in self.cells}
        if self.numbers:
            return sorted(place, key=lambda level: self.numbers[level])
        return sorted(place, key=lambda level: place[level])

    @cached_property
    def numbers(self) -> dict[str, float]:
        """Levels as numbers; empty where one of them is a word."""
        try:
            return {cell.level: float(cell.level) for cell in self.cells}
        except ValueError:
            return {}

    @cached_property
    def tests(self) -> "dict[tuple[str, str, str], LevelTest]":
        """By arm, level and metric: does the level differ from the baseline of its arm? Holm over all of the sweep.

        Empty where no baseline is known or none of its runs is there.
        """
        from rmlab.metrics.sweep_levels import compare_levels, holm

        found: list[tuple[str, LevelTest]] = []
        for arm in self.arms:
            tables = {level: {cell.seed: cell.compared for cell in self.at(level, arm)} for level in self.levels}
            baseline = tables.pop(self.baseline, {})
            seeds = list(baseline)
            levels = {level: [of_seed.get(seed) for seed in seeds] for level, of_seed in tables.items() if of_seed}
            found += [(arm, test) for test in compare_levels([baseline[seed] for seed in seeds], levels)]
        corrected = holm([test for _, test in found])
        return {(arm, test.level, test.metric): test for (arm, _), test in zip(found, corrected, strict=True)}

    @cached_property
    def arms(self) -> list[str]:
        """Arms of the sweep in alphabetical order."""
        return sorted({cell.arm for cell in self.cells})

    @cached_property
    def seeds(self) -> list[int]:
        """Seeds that at least one cell has."""
        return sorted({cell.seed for cell in self.cells})

    def at(self, level: str, arm: str) -> list[FinishedCell]:
        """The cells of one level and arm, by seed."""
        return sorted((c for c in self.cells if (c.level, c.arm) == (level, arm)), key=lambda c: c.seed)

    def folder(self, out: Path) -> Path:
        """Where this sweep's figures go: OUT/NAME/PRESET-CONTROLHASH."""
        cells = path_part(f"{self.preset}-{self.control_hash}", f"a tag of sweep {self.sweep}")
        return out / path_part(self.sweep, "a sweep's tag") / cells

    def cautions(self) -> list[str]:
        """What has to be known before the levels' headline is believed, as `rmlab.metrics.thin` has it: each sentence once."""
        first = {cell.level: cell for cell in reversed(self.cells)}
        return list(dict.fromkeys(text for cell in first.values() for text in cautions(cell.report, cell.scores)))

    @cached_property
    def data_set(self) -> str:
        """The name of the set that the runs' attempts come from: of its file, without `.parquet`; "" where it is the shipped set of
        micro-SWE. Where it lies does not matter, since runs that share a control hash read one set."""
        paths = [Path(path) for cell in self.cells if (path := cell.run.params.get("data.path"))]
        names = {path.stem if path.suffix == ".parquet" else path.name for path in paths}
        return listed(sorted(names)) if names else ""

    @cached_property
    def resampled(self) -> str:
        """What intervals are over: `tasks`, and of another data set `5 repositories`, or `30 clusters of tasks`."""
        scores, report = self.cells[0].scores, self.cells[0].report
        if not self.data_set or report["clusters"] == report["tasks"]:
            return "tasks"
        named = all(cluster == cluster_of(task) for cluster, task in zip(scores.cluster, scores.task_id, strict=True))
        return counted(report["clusters"], *REPOSITORIES if named else CLUSTERS)

    def foot(self) -> str:
        """The note and what has to be known before the headline is believed, for the foot of a figure."""
        return " ".join([self.note(), *self.cautions()])

    def note(self) -> str:
        """What was drawn from how much, for a figure or a table; says so where cells come from different commits."""
        report = self.cells[0].report
        commits = {cell.run.tags.get("commit", "") for cell in self.cells}
        folds = self.cells[0].run.tags.get("folds")
        judged, where = f"judged out of fold ({folds} folds of repositories)", ""
        if not folds:
            judged = f"evaluation part of data set {self.data_set}" if self.data_set else "micro-SWE evaluation part"
            where = f" in {self.resampled}" if self.resampled != "tasks" else ""
        text = (
            f"{self.sweep}, preset {self.preset}, control {self.control_hash}; {judged}: {report['tasks']} tasks{where}, "
            f"{report['trajectories']} attempts; seeds {', '.join(map(str, self.seeds))}."
        )
        return text + (f" Cells come from {len(commits)} commits." if len(commits) > 1 else "")


@contextmanager
def source_runs(
    source: str | None, kinds: Sequence[str], states: Sequence[str] = (FINISHED,)
) -> Iterator[tuple[str, Sequence[AnyRun]]]:
    """The name of a source, and its runs of some kinds and states, whose artifacts are there as long as the block runs.

    source: a store's URI, the path of a sqlite file, of a bundle, of the folder of an extracted one, or of a folder in which bundles
    lie; None = the project's own store. Raises StoreError for a named one that is not there.
    """
    if source and (bundles := bundles_named(source)):
        with bundled_runs(bundles) as inside:
            yield source, [run for run in inside if run.tags.get("kind") in kinds and run.status in states]
        return
    if Store.to_read(source) is None:
        yield default_uri(), []
        return
    store = Store.open(source)
    tags = [{"kind": kind, STATUS: state} for kind in kinds for state in states]
    yield store.uri, [run for own in tags for run in runs(store, tags=own)]


def group_runs(found: Iterable[AnyRun]) -> list[SweepRuns]:
    """Groups finished verifier runs by sweep, preset and control_hash. The newest run of a cell stands for it, the newest run
    of all says which level is the baseline."""
    groups: dict[tuple[str, str, str, str], dict[tuple[str, str, int], FinishedCell]] = defaultdict(dict)
    for run in found:
        tags = run.tags
        if (
            tags.get("kind") != "verifier"
            or tags.get("status") != "finished"
            or not tags.get("sweep")
            or "level" not in tags
        ):
            continue  # a run by itself, or a trial of a search, which has no level
        key = (tags["sweep"], tags["preset"], tags["control_hash"], tags["factor"])
        cell = FinishedCell(run, level=tags["level"], arm=tags.get("arm", ""), seed=int(run.params["seed"]))
        kept = groups[key].get((cell.level, cell.arm, cell.seed))
        if kept is None or kept.run.start_time <= run.start_time:
            groups[key][cell.level, cell.arm, cell.seed] = cell
    return [SweepRuns(*key, tuple(cells.values()), _baseline(cells.values())) for key, cells in sorted(groups.items())]


def _baseline(cells: Iterable[FinishedCell]) -> str:
    newest = max(cells, key=lambda cell: cell.run.start_time)
    return newest.run.tags.get("baseline", "")


def mean_over_seeds(cells: list[FinishedCell], *path: str) -> tuple[float, float, float] | None:
    """Mean of a reported value over the seeds, and the mean of their 95 % intervals' ends.

    The interval says how far the evaluation tasks may move a seed's value; how far seeds differ is not in it (the figures show
    seeds as dots). None where no seed defines the value.
    """
    points, lows, highs = [], [], []
    for cell in cells:
        value, interval = dig(cell.report, path), dig(cell.report["ci95"], path)
        if value is None:
            continue
        low, high = interval if interval is not None else (np.nan, np.nan)
        points.append(value)
        lows.append(low)
        highs.append(high)
    if not points:
        return None
    return float(np.mean(points)), float(np.mean(lows)), float(np.mean(highs))


def dig(tree: dict[str, Any] | None, path: tuple[str, ...]) -> Any:
    """What lies at a path into a report, None where one of its steps is missing."""
    value: Any = tree
    for name in path:
        value = None if value is None else value.get(name)
    return value
