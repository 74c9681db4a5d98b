"""The runs of experiments/studies/which_metric_foretells_rl beside its plan: which cell each is, which is missing, which is not taken."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from analysis.foretelling_design import row_of
from analysis.outcomes import damaged, parameter, read_json
from analysis.policies import PolicyRun
from rmlab.errors import DataError, MissingArtifact
from rmlab.paths import REPOSITORY

CELLS = REPOSITORY / "experiments" / "studies" / "which_metric_foretells_rl" / "cells.csv"
STEPS = "60"
WITHOUT = "two_bugs"


@dataclass(frozen=True)
class PaidRun:
    """A run of RL and the cell of the plan that it is."""

    cell: Mapping[str, str]
    policy: PolicyRun

    @property
    def start(self) -> str:
        """What it is ranked within: the start by its content."""
        return f"{self.cell['start']} {self.policy.run.tags.get('start_fingerprint', '')}"

    @property
    def outcome(self) -> float:
        """pass@1 of sampled attempts after the last step, on all held-out tasks but those of two bugs."""
        return float(self.policy.outcome["held_out"]["all"]["sampled"]["after"])

    @cached_property
    def rates(self) -> dict[str, float]:
        """The same task by task."""
        after = self._record["after"]
        return {
            task: float(rate)
            for benchmark, ways in after.items()
            if benchmark != WITHOUT
            for task, rate in ways["sampled"].items()
        }

    @property
    def clusters(self) -> dict[str, str]:
        """The cluster of each held-out task."""
        return dict(self._record["clusters"])

    @cached_property
    def _record(self) -> dict[str, Any]:
        found = read_json(self.policy.run, "held_out.json")
        if not {"after", "clusters"} <= found.keys():
            raise damaged(self.policy.run, "held_out.json", "it has no rates by task")
        return found

    @cached_property
    def verifier(self) -> dict[str, Any]:
        """The verifier that paid, on the frozen pool, its scores as they were paid."""
        return row_of({**self.cell, "name": self.cell["verifier"]}, self.policy.verifier_report, self.policy.run.run_id)


@dataclass(frozen=True)
class Study:
    """taken: by the name of the cell. left_out: name and reason, of cells without a run and of runs that are not taken."""

    cells: Sequence[Mapping[str, str]]
    taken: Mapping[str, PaidRun] = field(default_factory=dict)
    left_out: Sequence[tuple[str, str]] = ()

    def of(self, block: str) -> list[PaidRun]:
        """The runs of a block, in the order of the plan."""
        return [
            self.taken[cell["name"]] for cell in self.cells if cell["block"] == block and cell["name"] in self.taken
        ]

    def planned(self, block: str) -> int:
        """How many runs a block should have."""
        return sum(cell["block"] == block for cell in self.cells)

    @property
    def blocks(self) -> list[str]:
        """In the order of the plan."""
        return list(dict.fromkeys(cell["block"] for cell in self.cells))


def read_cells(path: Path = CELLS) -> list[dict[str, str]]:
    """The runs of RL that the plan has."""
    with path.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["kind"] == "rl"]


def read_study(runs: Sequence[PolicyRun], cells: Sequence[Mapping[str, str]] | None = None) -> Study:
    """The plan with the runs that there are, the newest of a cell first. Runs of other studies are passed over."""
    cells = read_cells() if cells is None else cells
    named: dict[str, list[PolicyRun]] = {}
    for run in sorted(runs, key=lambda run: (-run.run.start_time, run.run.run_id)):
        named.setdefault(run.run.name, []).append(run)
    taken: dict[str, PaidRun] = {}
    left_out: list[tuple[str, str]] = []
    for cell in cells:
        name = cell["name"]
        for run in named.get(name, []):
            if name in taken:
                left_out.append((name, f"run {run.run.run_id[:8]}: a later run of the cell is taken"))
            elif reason := refusal(run, cell):
                left_out.append((name, f"run {run.run.run_id[:8]}: {reason}"))
            else:
                taken[name] = PaidRun(cell, run)
        if name not in named:
            left_out.append((name, "no finished run"))
    return Study(cells, taken, left_out)


def refusal(run: PolicyRun, cell: Mapping[str, str]) -> str:
    """Why a run is not what the plan says, "" where it is."""
    given = {
        "reward": parameter(run.run, "reward"),
        "seed": str(run.seed),
        "evidence": run.evidence,
        "start": Path(run.run.tags.get("start", "")).name,
    }
    for what, value in given.items():
        if value != cell[what]:
            return f"its {what} is {value or 'not known'}, the plan's {cell[what]}"
    if (steps := parameter(run.run, "steps")) != STEPS:
        return f"it has {steps} steps, the plan {STEPS}"
    if "all" not in run.outcome["held_out"] or run.outcome.get("without") != [WITHOUT]:
        return "its outcome is not that of all held-out tasks but those of two bugs"
    if cell["verifier"]:
        try:
            report = run.verifier_report
        except (DataError, MissingArtifact) as error:
            return str(error)
        if changes_scores(cell) and not run.says_what_is_paid:
            return "it does not say what its verifier is worth with its scores as they are paid"
        if report.get("auc_within_task") is None:
            return "it does not say what its verifier is worth on the pool"
    return ""


def changes_scores(cell: Mapping[str, str]) -> bool:
    """Whether a cell pays other scores than its verifier gives, of which the verifier's own table tells what they are worth."""
    return "reward.transform." in cell["overrides"] and "reward.transform.difficulty" not in cell["overrides"]


def column(runs: Sequence[PaidRun], name: str) -> Any:
    """A metric of the verifiers that paid, NaN where it is undefined."""
    return np.array([np.nan if (value := run.verifier[name]) is None else float(value) for run in runs])
