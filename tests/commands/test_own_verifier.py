"""From two result folders and a table of scores to a calibrated answer: README's commands, on runs that are made up."""

from pathlib import Path

import pytest

from rmlab.commands.evaluate import evaluate
from rmlab.commands.import_trajectories import import_trajectories
from tests.made_up_runs import write_runs


def test_two_commands_from_result_folders_to_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_runs(tmp_path, tasks=60)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    summary = import_trajectories("auto", ["agent-a", "agent-b"], Path("set.parquet"))
    assert (summary["tasks"], summary["labelled"]) == (60, 120)
    assert summary["policies"] == {"agent-a": 60, "agent-b": 60}
    capsys.readouterr()
    evaluate(
        [Path("my_scores.csv")],
        trajectories=Path("set.parquet"),
        columns=["task_id=instance_id,policy=model,score=p_resolved"],
        html=Path("report.html"),
    )
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "120 labelled attempts of 2 policies",
        "2,000 resamples of 12 clusters",
        "joined with set.parquet: 120 rows by task and policy",
        "every row of the table is in the set",
        "the same, across policies",
        "policy identity",
        "miscalibrated: 95 % of calibrated scores stay below",
    ):
        assert words in shown
    assert "Reliability" in Path("report.html").read_text()
