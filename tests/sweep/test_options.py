"""The options of a sweep, as they travel: to Hydra's sweeper, and into the command that goes on with it."""

from datetime import datetime, timedelta

import pytest

from rmlab.errors import UsageError
from rmlab.sweep.request import OnError, SweepOptions, read_request


def test_what_is_done_once_is_not_in_the_command_that_goes_on() -> None:
    options = SweepOptions(workers=3, on_error=OnError.cont, retry_failed=True, force=True, rerun_stale=True).dated()
    assert options.redo_before is not None
    assert datetime.now() - datetime.fromisoformat(options.redo_before) < timedelta(minutes=1)
    redo = ["--redo-before", options.redo_before]
    assert options.flags() == ["--workers", "3", "--on-error", "continue", *redo, "--rerun-stale"]
    assert options.changed().keys() == {"workers", "on_error", "retry_failed", "redo_before", "rerun_stale"}
    assert SweepOptions().flags() == []
    assert SweepOptions(rerun_without_weights=True).flags() == ["--rerun-without-weights"], (
        "for the cells still to come"
    )
    assert SweepOptions(stop_after=9).flags() == ["--stop-after", "9"], "each command has its own limit"
    assert SweepOptions(redo_before="2026-01-31").dated().redo_before == "2026-01-31"


def test_a_value_that_means_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="--workers 0: must be at least 1"):
        SweepOptions(workers=0)
    for minutes in (0, -1, float("inf"), float("nan")):
        with pytest.raises(UsageError, match=rf"--stop-after {minutes:g}: must be a finite number of minutes above 0"):
            SweepOptions(stop_after=minutes)
    with pytest.raises(UsageError, match="on_error=panic: must be one of stop, continue"):
        SweepOptions(on_error="panic")  # type: ignore[arg-type]  # as Hydra's sweeper gives it


def test_the_line_is_parted() -> None:
    request = read_request(
        ["preset=demo", "levels=[1,2]", "data.scale=3", "hydra/launcher=slurm", "hydra.launcher.minutes=5"]
    )
    assert request.choices == {"preset": "demo", "levels": [1, 2]}
    assert request.overrides == ["data.scale=3"]
    assert (request.launcher, request.settings) == ("slurm", ["hydra.launcher.minutes=5"])
    assert read_request([]).launcher == "local"
    for text, words in (("scale", "is not an override"), ("--x=1", "is not an override"), ("seeds=[1", "or a list")):
        with pytest.raises(UsageError, match=words):
            read_request([text])
