"""All readers, and which one a document is of."""

from typing import Any

from rmlab.errors import UsageError
from rmlab.trajectories.draft import Draft, NotATrajectory
from rmlab.trajectories.formats.chat import ChatRows
from rmlab.trajectories.formats.mini import MiniSweAgent
from rmlab.trajectories.formats.moatless import Moatless
from rmlab.trajectories.formats.moatless_nodes import MoatlessNodes
from rmlab.trajectories.formats.openhands_completions import OpenHandsCompletions
from rmlab.trajectories.formats.openhands_events import OpenHandsEvents
from rmlab.trajectories.formats.openhands_output import OpenHandsOutput
from rmlab.trajectories.formats.own import OwnRecords
from rmlab.trajectories.formats.protocol import Format
from rmlab.trajectories.formats.r2e import R2EGym
from rmlab.trajectories.formats.sweagent import SweAgent
from rmlab.trajectories.places import Place

FORMATS: tuple[Format, ...] = (
    MiniSweAgent(),
    OpenHandsEvents(),
    OpenHandsCompletions(),
    OpenHandsOutput(),
    SweAgent(),
    Moatless(),
    MoatlessNodes(),
    R2EGym(),
    OwnRecords(),
    ChatRows(),
)
"""In the order in which they are asked; chat rows last, since several formats hold messages too."""


def format_of(document: Any, among: tuple[Format, ...] = FORMATS) -> Format | None:
    """The first format that knows the document; None where none does."""
    return next((one for one in among if one.matches(document)), None)


def drafted(document: Any, place: Place, among: tuple[Format, ...] = FORMATS) -> Draft | None:
    """The attempt of a document; None where no format knows it.

    A document may look like several formats (`messages` beside a `history`): the first that finds an attempt in it reads it.
    Raises NotATrajectory with the first format's reason where none does.
    """
    reason: NotATrajectory | None = None
    for one in among:
        if not one.matches(document):
            continue
        try:
            return one.read(document, place)
        except NotATrajectory as error:
            reason = reason or error
    if reason is not None:
        raise reason
    return None


def formats_named(name: str) -> tuple[Format, ...]:
    """All formats for `auto`, else the one of that name. Raises UsageError with the names there are."""
    if name == "auto":
        return FORMATS
    found = tuple(one for one in FORMATS if one.name == name)
    if not found:
        raise UsageError(f"there is no format {name!r}: auto, {', '.join(one.name for one in FORMATS)}")
    return found
