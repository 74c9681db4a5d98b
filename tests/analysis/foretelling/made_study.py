"""The runs of the study of which metric foretells RL, made up without a store, with a known relation of AUC to the outcome."""

import json
import pickle
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from analysis.foretelling.plan import Plan, read_plan, settings, shared
from analysis.foretelling.runs import changes_scores
from analysis.rl.policies import PolicyRun
from experiments.studies.which_metric_foretells_rl import design
from rmlab.errors import MissingArtifact
from rmlab.fingerprint import fingerprint

ALL_CELLS = read_plan().cells
CELLS = [cell for cell in ALL_CELLS if cell["kind"] == "rl"]
FITTED = {
    **{(f"{kind}_{name}", "good"): "1.5" for kind in ("SLOPE", "SHIFT") for name in design.DISTORTIONS},
    **{(f"SLOPE_within_{role}", role): "0.5" for role in ("good", "poor")},
    ("good", "good"): "balanced-6000",
    ("poor", "poor"): "balanced-430",
}
"""What is fitted to a verifier, whose run has the name of its cell or role here."""
TRAINED = {c["name"]: c["name"] for c in ALL_CELLS if c["kind"] == "verifier"} | {
    "good": "balanced-6000",
    "poor": "balanced-430",
}
PLAN = Plan(ALL_CELLS, FITTED, TRAINED)
TASKS = [f"t{i}" for i in range(60)]
ECE_OF = {"balanced": 0.06, "mostly_unresolved": 0.15, "mostly_resolved": 0.32, "overconfident": 0.22}


@dataclass
class MadeRun:
    """As a run of a store, without one."""

    name: str
    run_id: str
    tags: dict[str, str]
    params: dict[str, str]
    files: dict[str, Any]
    folder: Path
    start_time: int = 0
    end_time: int | None = None
    rows: list[Any] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)

    def artifact(self, path: str) -> Path:
        if path not in self.files:
            raise MissingArtifact(path)
        if isinstance(file := self.files[path], Path):
            return file
        target, text = self.folder / self.run_id / path, json.dumps(self.files[path])
        if self.written.get(path) != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            self.written[path] = text
        return target


def about(cell: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Tags and parameters of a run of a cell."""
    tags = {
        "kind": "rl",
        "status": "finished",
        "start": f"runs/policies/{cell['start']}",
        "start_fingerprint": f"start {cell['start']}",
        "evidence": cell["evidence"],
        "config_hash": fingerprint(cell["name"]),
    }
    if cell["verifier"]:
        tags |= {
            "verifier_fingerprint": cell["verifier"],
            "verifier_training": cell["verifier"],
            "verifier_run": cell["verifier"],
        }
    return tags, {"seed": cell["seed"], "reward": cell["reward"], "reward_weight": "1.0", "steps": "60"}


def configured(cell: Mapping[str, str]) -> dict[str, Any]:
    """The configuration of a run of a cell, for this run alone."""
    found: dict[str, Any] = pickle.loads(_configured(tuple(cell.items())))
    return found


@cache
def _configured(items: tuple[tuple[str, str], ...]) -> bytes:
    """The same as bytes: to read them takes a fifth of the time of a deep copy."""
    cell = dict(items)
    found = deepcopy(shared(cell))
    if cell["kind"] == "rl":
        found |= {"start": f"runs/policies/{cell['start']}", "verifier": cell["verifier"]}
    for key, value in settings(cell).items():
        *path, last = key.split(".")
        place = found
        for part in path:
            place = place.setdefault(part, {})
        place[last] = FITTED.get((value, cell["verifier"]), value)
    return pickle.dumps(found)


def files(outcome: float, auc: float | None, ece: float, rates: dict[str, float]) -> dict[str, Any]:
    """What a run leaves."""
    paired = {"before": 0.2, "after": outcome, "difference": outcome - 0.2, "low": -1.0, "high": 1.0}
    curve = [{"step": 0.0, "pass_at_1": 0.2}, {"step": 60.0, "pass_at_1": outcome}]
    found: dict[str, Any] = {
        "outcome.json": {
            "held_out": {"all": {"sampled": paired, "greedy": paired}},
            "without": ["two_bugs"],
            "collapse": False,
            "area": 0.0,
            "hacking_gap": 0.0,
            "curve": curve,
            "verifier_first": {} if auc is None else {"auc_within_task": auc, "auc_pooled": auc, "ece_width_10": ece},
        },
        "held_out.json": {
            "after": {"new": {"sampled": rates}, "two_bugs": {"sampled": {"b": 0.0}}},
            "clusters": {task: f"c{i // 2}" for i, task in enumerate([*TASKS, "b"])},
        },
    }
    if auc is not None:
        found["verifier_report.json"] = {
            "auc_within_task": auc,
            "auc_pooled": auc - 0.01,
            "ece_width_10": ece,
            "ece_less_floor": ece - 0.02,
            "rm_at_k": {"1": 0.2, "16": 0.2 + 0.3 * auc},
            "brier": 0.1 + ece / 2,
            "advantage_cosine": auc - 0.4,
            "advantage_cosine_all": auc - 0.5,
            "mixed_tasks": 300,
            "trajectories": 9000,
        }
    return found


def made_runs(folder: Path, of_auc: float, seed: int = 0, lowered: float = 0.0, blocks: str = "") -> list[PolicyRun]:
    """The whole study. of_auc: points of pass@1 for a point of AUC. lowered: what the condition of that name truly costs."""
    rng = np.random.default_rng(seed)
    worth: dict[str, tuple[float, float, float]] = {}
    found = []
    for cell in CELLS:
        if blocks and cell["block"] not in blocks.split():
            continue
        amount = float(cell["amount"] or 1000)
        if cell["verifier"] not in worth:
            auc = 0.65 + 0.27 * np.log(amount / 250) / np.log(6000 / 250) + 0.02 * rng.normal()
            ece = ECE_OF.get(cell["column"], 0.05) + 0.02 * rng.random()
            worth[cell["verifier"]] = (auc, ece, 0.03 * rng.normal())
        auc, ece, own = worth[cell["verifier"]]
        noise = 0.003 if cell["condition"] else 0.008
        outcome = (
            0.2 + of_auc * (auc - 0.8) + own + noise * rng.normal() - lowered * (cell["condition"] == "shifted_down")
        )
        rates = {task: outcome + 0.1 * (i % 3) + 0.02 * rng.normal() for i, task in enumerate(TASKS)}
        tags, params = about(cell)
        own_files = files(outcome, auc if cell["verifier"] else None, ece, rates)
        own_files["config.yaml"] = configured(cell)
        if changes_scores(cell):
            own_files["paid_report.json"] = own_files["verifier_report.json"]
        made = MadeRun(cell["name"], fingerprint([cell["name"], seed]) * 2, tags, params, own_files, folder)
        found.append(PolicyRun(made))  # type: ignore[arg-type]
    return found


def rerun_of(run: PolicyRun, outcome: float, **changes: Any) -> PolicyRun:
    """The run of a cell with RL seed 7 and another outcome, under the name of a rerun."""
    made: Any = replace(
        run.run,  # type: ignore[type-var]
        name=f"{run.run.name.rpartition('_s')[0]}_s7_again",
        run_id=run.run.run_id[::-1],
        params={**run.run.params, "seed": "7", **changes},
        tags={**run.run.tags, "start_fingerprint": "made again"},
        files=deepcopy(run.run.files),  # type: ignore[attr-defined]
        written={},
    )
    made.files["config.yaml"]["seed"] = 7
    made.files["outcome.json"]["held_out"]["all"]["sampled"]["after"] = outcome
    return PolicyRun(made)
