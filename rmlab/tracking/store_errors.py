"""Errors of a store that does not work: is it busy for the moment, or is something wrong with it?"""

from pathlib import Path

from rmlab.errors import StoreError

BUSY = (
    "database is locked",
    "database table is locked",
    "unique constraint",
    "duplicate key",
    "duplicate entry",
    "deadlock",
    "could not serialize",
    "too many clients",
    "connection slots",
    "too many requests",
    "error code 502",
    "503",
    "error code 504",
    "connection reset",
    "connection aborted",
    "connection refused",
    "server closed the connection",
    "terminating connection",
    "starting up",
    "shutting down",
    "timed out",
    "temporarily unavailable",
)
"""Signs of a store that is momentarily busy or restarts, in the words of sqlite, PostgreSQL, MySQL and HTTP."""


def is_busy(error: BaseException) -> bool:
    """Locked, momentarily unreachable, or beaten by another writer of the same row (MLflow looks, then inserts a data set)."""
    words = str(error).lower()
    return any(sign in words for sign in BUSY)


def store_error(uri: str, error: BaseException) -> StoreError:
    """What the store itself said, in one line."""
    noise = ("[SQL", "[parameters", "(Background", "(raised as a result of")
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith(noise)]
    reason = lines[0].strip() if lines else type(error).__name__
    return StoreError(
        f"the tracking store {uri} does not work: {reason}. "
        "Check tracking.uri, and the permissions and free space of its location."
    )


def cannot_write(database: Path, reason: str) -> StoreError:
    """The database, or its folder."""
    return StoreError(
        f"the tracking store {database} cannot be written: {reason}. "
        "Fix its permissions, or set RMLAB_RUNS or tracking.uri to another location."
    )
