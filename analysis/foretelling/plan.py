"""The plan of experiments/studies/which_metric_foretells_rl: its cells, what all of a kind share, and in what a configuration departs."""

import csv
import os
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from analysis.quick_yaml import quick_yaml
from analysis.rl.outcomes import damaged
from rmlab.errors import DataError
from rmlab.paths import REPOSITORY
from rmlab.tracking.bundles.reading import AnyRun
from rmlab.tracking.parameters import differing_keys

STUDY = REPOSITORY / "experiments" / "studies" / "which_metric_foretells_rl"
PLAN = "RMLAB_FORETELLING"
"""Variable of the environment: the folder of another plan of the same form, for a rehearsal with tiny models."""
PROGRAMS = {"verifier": "train_verifier", "rl": "rl"}
ROLES = ("good", "poor")
"""What a verifier stands by that is chosen once all are trained."""


def plan_folder() -> Path:
    """Where the plan lies and what has been done of it: cells.csv, common.yaml, ledger.csv, fitted.csv, design.csv."""
    return Path(os.environ.get(PLAN) or STUDY)


def common(kind: str) -> list[str]:
    """The settings that all cells of a kind share. Raises DataError where the plan has none."""
    file = plan_folder() / "common.yaml"
    try:
        return [str(word) for word in quick_yaml(file.read_text(encoding="utf-8"))[kind]]
    except (OSError, yaml.YAMLError, LookupError, TypeError) as error:
        raise DataError(f"{file} does not list the settings of every cell of kind {kind}: {error}") from error


@dataclass(frozen=True)
class Plan:
    """What runs are held against. cells: of verifiers and of RL. fitted: (name, run of the training that it was fitted to) -> value.
    trained: run -> name of its cell, as the ledger has them. ended: (cell, how: failed or killed) -> how often, by the ledger."""

    cells: Sequence[Mapping[str, str]]
    fitted: Mapping[tuple[str, str], str] = field(default_factory=dict)
    trained: Mapping[str, str] = field(default_factory=dict)
    ended: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def payer(self, cell: Mapping[str, str], trained: str) -> str:
        """The name of the verifier that has to pay a cell: of a role, the one that fitted.csv gives it to with this training; else ""."""
        role = cell["verifier"]
        return self.fitted.get((role, trained), "") if role in ROLES else role

    def paid_by_another(self, cell: Mapping[str, str], trained: str, known: Mapping[str, str]) -> str:
        """Why the training that paid a run is not the verifier of its cell, "" where it is. known: run -> name of its cell."""
        if not cell["verifier"]:
            return f"a verifier paid it (run {trained[:8]}), the plan's run has none" if trained else ""
        run, name = f"what paid it (run {trained[:8] or 'not known'})", self.payer(cell, trained)
        if not name:
            return f"{run} is not the {cell['verifier']} verifier of fitted.csv"
        found = known.get(trained, "neither here nor in the ledger")
        return "" if found == name else f"{run} is {found}, the plan's {name}"

    def departure(self, config: Mapping[str, Any], cell: Mapping[str, str], fitted_to: str = "") -> str:
        """In what a configuration is not that of a cell, of all that changes a result; "" where it is.

        fitted_to: the run of the verifier that pays: what is fitted belongs to one training.
        """
        kind = cell["kind"]
        if kind == "rl" and Path(start := str(config.get("start"))).name != cell["start"]:
            return f"its start is {start}, the plan's {cell['start']}"
        asked, common = settings(cell), shared(cell)
        for key in self._varied[kind]:
            planned = asked.get(key, str(value_at(common, key)))
            if planned.startswith(("SLOPE_", "SHIFT_")):
                name, planned = planned, self.fitted.get((planned, fitted_to), "")
                if not planned:
                    return f"fitted.csv has no {name} for the verifier that paid (run {fitted_to[:8] or 'not known'})"
            if not same(found := value_at(config, key), planned):
                return f"its {key} is {'not known' if found is None else found}, the plan's {planned}"
        return departure_from_shared(config, cell, self._varied[kind])

    @cached_property
    def _varied(self) -> dict[str, dict[str, None]]:
        """Kind -> every key that some cell of it sets."""
        found = dict[str, dict[str, None]]()
        for cell in self.cells:
            found.setdefault(cell["kind"], {}).update(dict.fromkeys(settings(cell)))
        return found


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none where it is not there."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_plan() -> Plan:
    """The plan as its folder has it."""
    folder = plan_folder()
    ledger = read_rows(folder / "ledger.csv")
    return Plan(
        read_rows(folder / "cells.csv"),
        {(row["name"], row["run_id"]): row["value"] for row in read_rows(folder / "fitted.csv")},
        {row["run_id"]: row["name"] for row in ledger if row["run_id"]},
        Counter((row["name"], row["ended"]) for row in ledger if not row["run_id"]),
    )


def settings(cell: Mapping[str, str]) -> dict[str, str]:
    """What a cell has beside the settings of its kind, by the keys of the configuration."""
    pairs = dict(word.partition("=")[::2] for word in shlex.split(cell["overrides"]))
    return {"reward.mode" if key == "reward" else key: value for key, value in pairs.items()}


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key, None where there is none."""
    found: Any = config
    for part in filter(None, key.split(".")):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def same(found: Any, planned: str) -> bool:
    """Whether a value of a configuration is what an override says."""
    try:
        return float(found) == float(planned)
    except (TypeError, ValueError):
        return found is not None and str(found).lower() == planned.lower()


def configuration(run: AnyRun) -> dict[str, Any]:
    """What a run was started with. Raises DataError for what cannot be read, MissingArtifact where it is not there."""
    try:
        found = quick_yaml(run.artifact("config.yaml").read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise damaged(run, "config.yaml", str(error)) from error
    if not isinstance(found, dict):
        raise damaged(run, "config.yaml", "it is no mapping")
    return found


def shared(cell: Mapping[str, str]) -> dict[str, Any]:
    """What a cell is configured with before anything that it varies, as a run writes it down."""
    return _composed(cell["kind"], _words(cell))[0]


def _words(cell: Mapping[str, str]) -> tuple[str, ...]:
    """What all cells of its kind and reward have, and a start: anything, because a run is known by its start's name."""
    return (*common(cell["kind"]), *([f"reward={cell['reward']}", "start=-"] if cell["kind"] == "rl" else []))


@cache
def _composed(kind: str, words: tuple[str, ...]) -> tuple[dict[str, Any], Any]:
    """The configuration with these overrides, and the class that it is of."""
    from omegaconf import OmegaConf

    from rmlab.configuration import compose

    config = compose(PROGRAMS[kind], words)
    return quick_yaml(OmegaConf.to_yaml(config, resolve=True)), OmegaConf.get_type(config)


def departure_from_shared(config: Mapping[str, Any], cell: Mapping[str, str], varied: Collection[str]) -> str:
    """In what a configuration is not what all cells of a kind share, but for the keys that some vary and for the verifier, which are
    looked at by themselves, of all that changes a result; "" where it is."""
    from rmlab.sweep.cells import written_config

    common, schema = _composed(cell["kind"], _words(cell))
    planned = deepcopy(common)
    for key in (*varied, *(["verifier"] if cell["kind"] == "rl" else [])):
        *path, last = key.split(".")
        value_at(planned, ".".join(path))[last] = value_at(config, key)
    found, wanted = (written_config(one, schema) for one in (config, planned))
    for key in differing_keys(found, wanted):
        if not same(value_at(found, key), str(value_at(wanted, key))):  # 1e-8 is a text in YAML, 1.0e-8 a number
            return f"its {key} is {value_at(config, key)}, the plan's {value_at(planned, key)}"
    return ""
