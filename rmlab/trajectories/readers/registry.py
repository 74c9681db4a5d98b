"""All readers, and which one a document is of."""

from typing import Any

from rmlab.errors import UsageError
from rmlab.trajectories.ingest.drafts import Draft, NotATrajectory
from rmlab.trajectories.ingest.locations import Place
from rmlab.trajectories.readers.chat import ChatRows
from rmlab.trajectories.readers.mini import MiniSweAgent
from rmlab.trajectories.readers.moatless import Moatless, MoatlessNodes
from rmlab.trajectories.readers.openhands import OpenHandsCompletions, OpenHandsEvents, OpenHandsOutput
from rmlab.trajectories.readers.own import OwnRecords
from rmlab.trajectories.readers.protocol import Format
from rmlab.trajectories.readers.r2e import R2EGym
from rmlab.trajectories.readers.sweagent import SweAgent

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
