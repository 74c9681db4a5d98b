"""The runs of experiments/studies/which_metric_foretells_rl beside its plan: which cell each is, which is missing, which is not taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from analysis.foretelling.design import row_of
from analysis.foretelling.plan import Plan, configuration, read_plan, shared, value_at
from analysis.rl.outcomes import damaged, parameter, read_json
from analysis.rl.policies import PolicyRun
from rmlab.errors import DataError, MissingArtifact
from rmlab.tracking.bundles.reading import AnyRun
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.tags import IMPORTED_RUN
from rmlab.wording import counted

WITHOUT = "two_bugs"
NO_RUN = "no finished run"
AGAIN = "_again"
"""How the name of a run ends that repeats a cell of the plan with another RL seed, beyond the plan."""
ENDS = {"failed": "failed", "killed": "was killed"}
"""How a cell may end, by the ledger, without a finished run, and the verb of it."""


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

    @property
    def before(self) -> float:
        """The same before the first step."""
        return float(self.policy.outcome["held_out"]["all"]["sampled"]["before"])

    @property
    def moved(self) -> int:
        """-1: after the last step pass@1 is shown lower than before the first (95 % interval, paired by task), 1: shown higher, else 0."""
        change = self.policy.outcome["held_out"]["all"]["sampled"]
        low, high = change["low"], change["high"]
        return 0 if low is None or high is None else int(low > 0) - int(high < 0)

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
    """taken: by the name of the cell. left_out: name and reason, of cells without a run and of runs that are not taken. again: runs
    beyond the plan that repeat a cell from another start, with another RL seed."""

    cells: Sequence[Mapping[str, str]]
    taken: Mapping[str, PaidRun] = field(default_factory=dict)
    left_out: Sequence[tuple[str, str]] = ()
    again: Sequence[PaidRun] = ()

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


def by_end(run: AnyRun | RunInfo) -> tuple[int, str]:
    """What the runs of a cell are ordered by, the first finished one first; of two at a time by the id from where they were made."""
    return run.end_time or run.start_time, run.tags.get(IMPORTED_RUN, run.run_id)


def read_study(runs: Sequence[PolicyRun], plan: Plan | None = None) -> Study:
    """The plan with the runs that there are: of each cell the first finished one that is the plan's, whatever was run again later.
    Runs of other studies are passed over."""
    plan = read_plan() if plan is None else plan
    cells = [cell for cell in plan.cells if cell["kind"] == "rl"]
    named: dict[str, list[PolicyRun]] = {}
    every = [one for run in runs for one in (run, *run.earlier)]
    for run in sorted(every, key=lambda run: by_end(run.run)):
        named.setdefault(run.run.name, []).append(run)
    taken: dict[str, PaidRun] = {}
    left_out: list[tuple[str, str]] = []
    for cell in cells:
        name = cell["name"]
        for run in named.get(name, []):
            if reason := refusal(run, cell, plan):
                left_out.append((name, f"run {run.run.run_id[:8]}: {reason}"))
            elif name in taken:
                left_out.append((name, f"run {run.run.run_id[:8]}: an earlier run of the cell is taken"))
            else:
                taken[name] = PaidRun(cell, run)
        if name not in named:
            ends = [
                f"it {verb} {counted(n, 'time')}" for how, verb in ENDS.items() if (n := plan.ended.get((name, how)))
            ]
            known = [f"run {run[:8]} of the ledger is not there" for run, of in plan.trained.items() if of == name]
            left_out.append((name, ", ".join([NO_RUN, *ends, *known])))
    again: dict[str, PaidRun] = {}
    for cell, run in repeated(cells, [run for own in named.values() for run in own]):
        one, name = PaidRun(cell, run), run.run.name
        reason = refusal(run, cell, plan)
        if not reason and one.start in {
            known.start for known in taken.values() if known.cell["block"] == cell["block"]
        }:
            reason = "it begins from the very weights that runs of its block began from, so it is no rerun from another start"
        if not reason and name in again:
            reason = "an earlier rerun of this name is taken"
        if reason:
            left_out.append((name, f"run {run.run.run_id[:8]}: {reason}"))
        else:
            again[name] = one
    return Study(cells, taken, left_out, list(again.values()))


def repeated(
    cells: Sequence[Mapping[str, str]], runs: Sequence[PolicyRun]
) -> list[tuple[Mapping[str, str], PolicyRun]]:
    """Runs named CELL_again, where CELL is a cell of the plan but for its RL seed, which no cell has; each with that cell as it would be
    with its seed."""
    stems = {cell["name"].rpartition("_s")[0]: cell for cell in reversed(cells) if cell["block"] != "second_seed"}
    found: list[tuple[Mapping[str, str], PolicyRun]] = []
    for run in runs:
        stem, _, seed = run.run.name.removesuffix(AGAIN).rpartition("_s")
        cell = stems.get(stem)
        planned = any(one["name"] == f"{stem}_s{seed}" for one in cells)
        if cell is not None and not planned and run.run.name.endswith(AGAIN):
            seeds = {f"seed={cell['seed']}": f"seed={seed}"}
            overrides = " ".join(seeds.get(word, word) for word in cell["overrides"].split(" "))
            found.append(({**cell, "name": run.run.name, "seed": seed, "overrides": overrides}, run))
    return found


def refusal(run: PolicyRun, cell: Mapping[str, str], plan: Plan) -> str:
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
    planned = str(value_at(shared(cell), "rl.steps"))
    if (steps := parameter(run.run, "steps")) != planned:
        return f"it has {steps} steps, the plan {planned}"
    if "all" not in run.outcome["held_out"] or run.outcome.get("without") != [WITHOUT]:
        return "its outcome is not that of all held-out tasks but those of two bugs"
    try:
        if reason := plan.departure(configuration(run.run), cell, run.run.tags.get("verifier_run", "")):
            return reason
        return verifier_refusal(run, cell, plan)
    except (DataError, MissingArtifact) as error:
        return str(error)


def verifier_refusal(run: PolicyRun, cell: Mapping[str, str], plan: Plan) -> str:
    """Why what paid a run is not the verifier of its cell, or not known well enough; "" where it is."""
    trained = run.run.tags.get("verifier_run", "")
    name = plan.payer(cell, trained)
    here = {trained: name} if run.paid_by is not None else {}  # what it is its configuration says
    reason = plan.paid_by_another(cell, trained, {**plan.trained, **here})
    if reason or not cell["verifier"]:
        return reason
    if run.paid_by is not None:
        own = next(one for one in plan.cells if one["kind"] == "verifier" and one["name"] == name)
        if reason := plan.departure(configuration(run.paid_by), own):
            return f"what paid it is not {name}: {reason}"
    report = run.verifier_report
    if changes_scores(cell) and not run.says_what_is_paid:
        return "it does not say what its verifier is worth with its scores as they are paid"
    if report.get("auc_within_task") is None:
        return "it does not say what its verifier is worth on the pool"
    return ""


def changes_scores(cell: Mapping[str, str]) -> bool:
    """Whether a cell pays other scores than its verifier gives, of which the verifier's own table tells what they are worth."""
    return "reward.transform." in cell["overrides"] and "reward.transform.difficulty" not in cell["overrides"]


def beside(runs: Sequence[PaidRun], paid_by_execution: Sequence[PaidRun]) -> dict[str, dict[str, float]]:
    """pass@1 that the outcomes of runs stand beside: before RL, and after RL that execution alone pays, where it began as one of them
    did; of each start the mean over its runs."""
    starts = {run.start for run in runs}
    own = [run for run in paid_by_execution if run.start in starts]
    return {
        "before RL": _by_start(runs, [run.before for run in runs]),
        "execution alone pays": _by_start(own, [run.outcome for run in own]),
    }


def _by_start(runs: Sequence[PaidRun], values: Sequence[float]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for run, value in zip(runs, values, strict=True):
        found.setdefault(run.start, []).append(value)
    return {start: float(np.mean(own)) for start, own in sorted(found.items())}


def column(runs: Sequence[PaidRun], name: str) -> Any:
    """A metric of the verifiers that paid, NaN where it is undefined."""
    return np.array([np.nan if (value := run.verifier[name]) is None else float(value) for run in runs])
