"""What is not read, in one type: raised where reading stops, yielded and counted where the rest goes on."""

from typing import TYPE_CHECKING

from rmlab.errors import DataError

if TYPE_CHECKING:
    from rmlab.trajectories.ingest.locations import Location


class Skipped(DataError):
    """A file or record that is not read. reason: short; see `kind`. location: None where only the caller knows it (see `at`)."""

    def __init__(self, reason: str, location: "Location | None" = None):
        super().__init__(reason)
        self.reason, self._location = reason, location

    @property
    def location(self) -> "Location":
        if self._location is None:
            raise RuntimeError(f"skipped without a location: {self.reason}")
        return self._location

    @property
    def kind(self) -> str:
        """What it is counted by: the reason without what is special about this one, which stands behind " (" or ": "."""
        return self.reason.split(" (", 1)[0].split(": ", 1)[0]

    def at(self, location: "Location") -> "Skipped":
        return Skipped(self.reason, location)
