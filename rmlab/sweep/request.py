"""What is asked of a sweep on the command line, and the cells that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml
from omegaconf import OmegaConf

from rmlab.configuration import compose, load_program
from rmlab.errors import UsageError
from rmlab.selection.pool import read_index
from rmlab.selection.select import DataConfig, check_fill
from rmlab.sweep.options import CHOICES
from rmlab.sweep.plan import Cell, SweepSpec, expand, read_sweep
from rmlab.sweep.spec import plain_yaml

LAUNCHER, SETTING = "hydra/launcher=", "hydra.launcher."


@dataclass(frozen=True)
class Request:
    """choices: of preset, levels, seeds and the like within the sweep file. overrides: of every cell's configuration.

    launcher: where cells run, a name of conf/hydra/launcher or of one of Hydra's own. settings: its `hydra.launcher.KEY=VALUE`.
    """

    choices: dict[str, Any] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)
    launcher: str = "local"
    settings: list[str] = field(default_factory=list)

    def spec(self, name: str) -> SweepSpec:
        """The sweep file, as chosen. Raises UsageError where there is none, or it has no such preset or level."""
        rest = {key: value for key, value in self.choices.items() if key != "preset"}
        return read_sweep(name, self.choices.get("preset"), rest)


@dataclass(frozen=True)
class Plan:
    """A sweep, its cells, and the command that makes the same again."""

    spec: SweepSpec
    cells: list[Cell]
    command: str
    request: Request

    @property
    def uri(self) -> str | None:
        """Of the tracking store, None = the project's own."""
        uri: str | None = OmegaConf.select(self.cells[0].config, "tracking.uri")
        return uri

    @property
    def control_hash(self) -> str:
        """Of all cells."""
        return self.cells[0].identity.control_hash


def read_request(arguments: Sequence[str]) -> Request:
    """Raises UsageError for what is no KEY=VALUE."""
    choices: dict[str, Any] = {}
    overrides: list[str] = []
    settings: list[str] = []
    launcher = Request.launcher
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or text.startswith("-"):
            raise UsageError(f"{text!r} is not an override: write KEY=VALUE, for example data.label_ratio=2:1")
        if text.startswith(LAUNCHER):
            launcher = value
        elif text.startswith(("hydra/", "hydra.")):
            settings.append(text)
        elif key in ("preset", *CHOICES):
            try:
                choices[key] = plain_yaml(value)
            except yaml.YAMLError:
                raise UsageError(f"{text}: {key} is a value, or a list such as [1,2]") from None
        else:
            overrides.append(text)
    return Request(choices, overrides, launcher, settings)


def make_plan(name: str, arguments: Sequence[str], command: str) -> Plan:
    """Reads the sweep, composes its cells and looks ahead whether the data can fill them.

    Raises UsageError for a wrong name or value, RmlabError for data that cannot fill a level.
    """
    request = read_request(arguments)
    spec = request.spec(name)
    cells = expand(spec, request.overrides, compose, load_program(spec.program).identity)
    if "data" in cells[0].config and OmegaConf.get_type(cells[0].config, "data") is DataConfig:
        choices = {str(cell.config.data): cell.config.data for cell in cells}  # seeds ask for the same
        for data in choices.values():
            if data.hidden_tests is None:  # fewer tests give other labels: `prepare` proves those
                check_fill(read_index(data.path).rows, data)
    if spec.search and any(OmegaConf.select(cell.config, "rl.max_minutes") is not None for cell in cells):
        raise UsageError(
            "rl.max_minutes ends a run before it is finished, which a search cannot judge: leave it out here"
        )
    return Plan(spec, cells, command, request)
