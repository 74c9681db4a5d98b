"""Which finished runs are run again: what began before a time, to the millisecond that the store keeps, and runs that are named."""

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from rmlab.errors import UsageError
from rmlab.sweep.dry_run import redo_rule


def began(text: str) -> Any:
    began = int(datetime.fromisoformat(text).timestamp() * 1000)
    return SimpleNamespace(run_id="a", start_time=began, tags={"commit": "0"})


def test_a_run_that_began_a_moment_before_is_run_again_and_one_that_began_then_is_not() -> None:
    redo = redo_rule("2026-01-31T12:00:05.700", stale=False)
    assert redo(began("2026-01-31T12:00:05.699"))
    assert not redo(began("2026-01-31T12:00:05.700"))
    assert not redo_rule(None, stale=False)(began("2020-01-01T00:00:00"))
    assert redo_rule(None, stale=True)(began("2026-01-31T12:00:05"))
    assert redo_rule(None, stale=False, lacking={"a"})(began("2026-01-31T12:00:05"))
    assert not redo_rule(None, stale=False, lacking={"b"})(began("2026-01-31T12:00:05"))
    with pytest.raises(UsageError, match="write the time as"):
        redo_rule("yesterday", stale=False)
