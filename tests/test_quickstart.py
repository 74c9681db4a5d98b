"""The first file that a newcomer reads runs as it stands, and prints every step."""

from pathlib import Path

import pytest

from rmlab.configuration import load_file
from rmlab.paths import REPOSITORY

QUICKSTART = REPOSITORY / "experiments" / "quickstart.py"


@pytest.mark.slow
def test_the_quickstart_goes_from_tasks_to_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    found = load_file(QUICKSTART).main(train_tasks=6, evaluation_tasks=2)
    printed = capsys.readouterr().out
    assert (found["tasks"], found["trajectories"], list(found["rm_at_k"])) == (2, 32, ["1", "2", "4", "8"])
    assert found["score_rate"] == 1.0
    assert found["rm_at_k"]["1"] == pytest.approx(found["pass_at_k"]["1"])
    assert found["rm_at_k"]["8"] <= found["pass_at_k"]["8"]
    assert "should return" in printed, "shows an issue"
    for name in ("pass@k", "RM@k", "auc_pooled", "auc_within_task", "ece_width_10"):
        assert name in printed


def test_it_stays_short() -> None:
    assert len(Path(QUICKSTART).read_text(encoding="utf-8").splitlines()) <= 150
