"""How a sweep runs: what `rmlab sweep` takes as flags, and Hydra's sweeper as keys (`hydra.sweeper.KEY=VALUE`)."""

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from rmlab.errors import UsageError

CHOICES = ("levels", "baseline", "seeds", "arms", "trials")
"""What chooses within a sweep file, as KEY=VALUE on the command line."""


class OnError(StrEnum):
    """What a failed cell does to its sweep."""

    stop = "stop"
    cont = "continue"


@dataclass(frozen=True)
class SweepOptions:
    """workers: cells at once, None = as many as the cores (or GPUs) hold. on_error: after a failed cell start no more, or go on.

    dry_run, explain: only describe. retry_failed: run again what failed before. force: run again what is finished; redo_before
    (2026-01-31T12:00:00): what began before then; rerun_stale: what another commit made. batch: cells that are given to a launcher
    of Hydra's own at once, None = all of a sweep, one trial of a search.
    """

    dry_run: bool = False
    explain: bool = False
    workers: int | None = None
    on_error: OnError = OnError.stop
    retry_failed: bool = False
    force: bool = False
    redo_before: str | None = None
    rerun_stale: bool = False
    batch: int | None = None

    def __post_init__(self) -> None:
        """Raises UsageError for a value that means nothing."""
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers {self.workers}: at least one cell runs at once")
        if self.on_error not in list(OnError):
            raise UsageError(f"on_error={self.on_error}: it is one of {', '.join(OnError)}")

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
        again = ("workers", "on_error", "redo_before", "rerun_stale")
        given = {name: value for name, value in self.changed().items() if name in again}
        words = [
            [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])] for name, value in given.items()
        ]
        return [word for flag in words for word in flag]
