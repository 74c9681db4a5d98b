"""The cells that a study plans, each with the configuration that it is to be trained with; and in what a run differs from its cell."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml
from omegaconf import OmegaConf

from analysis.quick_yaml import quick_yaml
from rmlab.configuration import compose
from rmlab.errors import DataError, MissingArtifact
from rmlab.fingerprint import Identity
from rmlab.paths import portable
from rmlab.sweep.cells import identify, written_config
from rmlab.sweep.factors import find_factors
from rmlab.sweep.plan import cell_name, expand
from rmlab.sweep.spec import SweepSpec
from rmlab.tracking.bundles.reading import AnyRun
from rmlab.tracking.parameters import differing_keys
from rmlab.tracking.tags import FINISHED

if TYPE_CHECKING:
    from omegaconf import DictConfig


@dataclass(frozen=True)
class PlannedCell:
    """key: of its configuration; cells of one key are one training. hashed: what of the configuration can change a result."""

    sweep: str
    level: str
    arm: str
    seed: int
    name: str
    key: str
    config: "DictConfig" = field(compare=False, repr=False)
    hashed: Mapping[str, Any] = field(compare=False, repr=False)


def planned_cells(spec: SweepSpec) -> list[PlannedCell]:
    """The cells of a sweep, as `rmlab sweep NAME preset=PRESET` makes them; neither the attempts nor a model has to be there."""

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
            cell.config,
            json.loads(portable(json.dumps(cell.identity.parts["config"]))),
        )
        for cell in expand(spec, [], compose, identity)
    ]


def differing_from_plan(cell: PlannedCell, run: AnyRun) -> list[str]:
    """The keys in which the configuration of a run (its config.yaml) differs from the planned one, of those that can change a result.

    A finished run without that file differs in it, since nothing shows what was trained; a failed one may have failed before.
    """
    try:
        text = run.artifact("config.yaml").read_text(encoding="utf-8")
    except MissingArtifact:
        return ["config.yaml (the run has none)"] if run.status == FINISHED else []
    try:
        found = written_config(quick_yaml(text), OmegaConf.get_type(cell.config))
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise DataError(f"run {run.name} ({run.run_id}): its config.yaml cannot be read: {why}") from error
    return differing_keys(cell.hashed, found)
