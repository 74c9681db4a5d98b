"""A request that the work of this process ends at its next safe point, because it may not or cannot go on.

Who finds the reason (the keeper of a lease) asks; a training looks after every step, writes its checkpoint and raises Stopped.
"""

import errno

from rmlab.errors import RmlabError, StoreOutOfReach

EXIT_CODE = 75
"""Of a process that had to end before its work was done and could not say why (EX_TEMPFAIL of sysexits.h)."""


class Stopped(RmlabError):
    """The work had to end before it was done, through no fault of its own: the same command goes on with it."""


def is_stop(error: BaseException) -> bool:
    """Whether an error is no fault of the work that it ended: a lost lease, a store out of reach, a full disk."""
    if isinstance(error, Stopped | StoreOutOfReach):
        return True
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    behind = error.__cause__ or error.__context__
    return full or "disk is full" in str(error) or (behind is not None and is_stop(behind))


_reason: str | None = None


def ask_to_stop(reason: str | None) -> None:
    """From now on the work is to end because of `reason`; None takes the request back."""
    global _reason
    _reason = reason


def stop_asked() -> str | None:
    """Why the work is to end, None = it goes on."""
    return _reason
