"""The request for a sweep on the command line, and the cells that follow from it.

How a sweep runs: the flags of `rmlab sweep`, which are also keys of Hydra's sweeper (`hydra.sweeper.KEY=VALUE`).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import yaml
from omegaconf import OmegaConf

from rmlab.configuration import compose, load_program
from rmlab.errors import UsageError
from rmlab.overrides import refuse_unread
from rmlab.sweep.plan import Cell, expand
from rmlab.sweep.spec import SweepSpec, read_sweep
from rmlab.sweep.typed_yaml import plain_yaml

CHOICES = ("levels", "baseline", "seeds", "arms", "trials")
"""What chooses within a sweep file, as KEY=VALUE on the command line."""


class OnError(StrEnum):
    """What a failed cell does to its sweep."""

    stop = "stop"
    cont = "continue"


_WHOLE, _SWITCH = (int, "a whole number, at least 1"), (bool, "true or false")
_KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "workers": _WHOLE,
    "batch": _WHOLE,
    "on_error": (str, f"one of {', '.join(OnError)}"),
    "redo_before": (str, "a time, such as 2026-01-31T12:00:00"),
    "stop_after": ((int, float), "a number of minutes"),
    **dict.fromkeys(("dry_run", "explain", "retry_failed", "force", "rerun_stale", "rerun_without_weights"), _SWITCH),
}
"""Of each option what it can be: as a key of Hydra's sweeper it may be given anything."""


@dataclass(frozen=True)
class SweepOptions:
    """workers: cells that run at once, None = as many as the cores (or GPUs) hold. on_error: whether to stop or continue after a failure.

    dry_run, explain: only describe the sweep. retry_failed: rerun failed cells. force: rerun finished cells; redo_before
    (2026-01-31T12:00:00): those that began before then; rerun_stale: those of another commit; rerun_without_weights: those whose weights
    are not in the store. batch: how many cells one of Hydra's own launchers gets at once, None = all of a sweep, one trial of a search.
    stop_after: minutes from the command's start after which no cell runs any more (the preparation of what all cells share is
    finished); None = no limit.
    """

    dry_run: bool = False
    explain: bool = False
    workers: int | None = None
    on_error: OnError = OnError.stop
    retry_failed: bool = False
    force: bool = False
    redo_before: str | None = None
    rerun_stale: bool = False
    rerun_without_weights: bool = False
    batch: int | None = None
    stop_after: float | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for an invalid value."""
        for name, value in vars(self).items():
            kinds, what = _KINDS[name]
            if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool)):
                raise UsageError(f"{name}={value}: must be {what}")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers {self.workers}: must be at least 1")
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"batch={self.batch}: must be at least 1")
        if self.stop_after is not None and not 0 < self.stop_after < math.inf:
            raise UsageError(f"--stop-after {self.stop_after:g}: must be a finite number of minutes above 0")
        if self.on_error not in list(OnError):
            raise UsageError(f"on_error={self.on_error}: must be one of {', '.join(OnError)}")

    def dated(self) -> "SweepOptions":
        """`force` as the time before which runs do not count: a sweep that is interrupted goes on with it."""
        if not self.force:
            return self
        return replace(self, force=False, redo_before=datetime.now().isoformat(timespec="milliseconds"))

    def changed(self) -> dict[str, Any]:
        """Those that are not at their default."""
        default = asdict(SweepOptions())
        return {name: value for name, value in asdict(self).items() if value != default[name]}

    def flags(self) -> list[str]:
        """As flags of the command that goes on with the sweep: what is done once (dry_run, retry_failed) is not among them."""
        again = ("workers", "on_error", "redo_before", "rerun_stale", "rerun_without_weights", "stop_after")
        given = {name: value for name, value in self.changed().items() if name in again}
        words = [
            [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])] for name, value in given.items()
        ]
        return [word for flag in words for word in flag]


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
        return self.cells[0].identity.control_hash


def read_request(arguments: Sequence[str]) -> Request:
    """Raises UsageError for what is no KEY=VALUE."""
    refuse_unread(arguments, multirun=True)
    choices: dict[str, Any] = {}
    overrides: list[str] = []
    settings: list[str] = []
    launcher = Request.launcher
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or text.startswith("-"):
            raise UsageError(f"{text!r} is not an override: write KEY=VALUE, for example data.label_ratio=2:1")
        of_hydra = re.match(r"[+~]*hydra([./]|$)", key)
        if text.startswith(LAUNCHER):
            if not re.fullmatch(r"[A-Za-z_]\w*", value):
                raise UsageError(f"{text}: name one launcher, such as {LAUNCHER}slurm")
            launcher = value
        elif of_hydra:
            settings.append(text)
        elif key in ("preset", *CHOICES):
            try:
                choices[key] = plain_yaml(value)
            except yaml.YAMLError:
                raise UsageError(f"{text}: {key} must be a value, or a list such as [1,2]") from None
        else:
            overrides.append(text)
    return Request(choices, overrides, launcher, settings)


def make_plan(name: str, arguments: Sequence[str], command: str) -> Plan:
    """Reads the sweep, composes its cells and looks ahead whether the data can fill them.

    Raises UsageError for a wrong name or value, RmlabError for data that cannot fill a level.
    """
    from rmlab.selection.pool import read_index  # pyarrow; `rmlab --help` imports this module
    from rmlab.selection.select import DataConfig, check_fill

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
            "rl.max_minutes ends a run before it is finished, and a search cannot judge such a run: leave it out"
        )
    return Plan(spec, cells, command, request)
