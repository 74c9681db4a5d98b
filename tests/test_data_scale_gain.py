"""The gain of the best of k that the page of data_scale states is the estimate, not the mean of resamples."""

import runpy

import pytest

from rmlab.metrics.report import report
from rmlab.metrics.table import table
from rmlab.paths import REPOSITORY
from rmlab.scores.scores import Scores


def test_the_gain_is_the_estimate_and_its_interval_that_of_resamples() -> None:
    gain_of = runpy.run_path(str(REPOSITORY / "experiments" / "studies" / "data_scale" / "gain.py"))
    task = [f"t{i // 4}" for i in range(24)]
    scores = Scores.of(task, [(7 * i % 11) / 11 for i in range(24)], [i * i % 7 in (1, 2) for i in range(24)])
    gain, gain_R = gain_of["gains"](table(scores), 4)
    found = report(scores, replicates=0)
    assert gain == pytest.approx(found["rm_at_k"]["4"] - found["pass_at_k"]["1"])
    assert gain_R.mean() != gain
    assert gain_of["shown"](gain, gain_R).startswith(f"{gain:+.3f} [")
