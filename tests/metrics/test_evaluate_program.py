import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rmlab.commands.evaluate import evaluate
from rmlab.errors import DataError, UsageError
from rmlab.metrics.report import report
from rmlab.scores.table import read_score_table
from rmlab.scores.writing import write_score_table
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories

CASES = Path(__file__).parents[1] / "data" / "metric_cases"


def test_json_is_one_object_and_the_report(capsys):
    evaluate([CASES / "smooth.csv"], True)
    found = json.loads(capsys.readouterr().out)
    assert found["baselines"].keys() >= {"random", "oracle", "task_difficulty", "shape"}
    assert (found["notes"], found["selection"]) == ([], None)
    for name in ("baselines", "notes", "selection"):
        del found[name]
    assert found == json.loads(json.dumps(report(read_score_table(CASES / "smooth.csv"), folds=5)))


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("smooth", ["40 tasks", "100.0% scored", "RM@k", "0.9518", "miscalibrated", "pairs lie within a task"]),
        ("missing", ["70.6% scored", "tasks with k attempts", "0.7000", "73 pairs in 19 tasks"]),
        ("one_class", ["0.0% resolved", "0 pairs in 0 tasks"]),
    ],
)
def test_tables_hold_values_and_notes(capsys, case, words):
    evaluate([CASES / f"{case}.csv"], False)
    shown = capsys.readouterr().out
    for word in words:
        assert word in shown


def test_several_policies_and_calibration_on_validation(capsys, make_scores, tmp_path):
    for name, seed in (("scores", 0), ("validation", 1)):
        table = make_scores(seed, policies=2)
        write_score_table(tmp_path / f"{name}.csv", replace(table, task_id=np.char.add(f"{name} ", table.task_id)))
    with pytest.raises(DataError, match=r"shares \d+ tasks with .*fitted on the tasks that they are judged on"):
        evaluate([tmp_path / "scores.csv"], False, validation=tmp_path / "scores.csv")
    evaluate([tmp_path / "scores.csv"], False, validation=tmp_path / "validation.csv")
    shown = capsys.readouterr().out
    with pytest.raises(UsageError, match="--training-prior needs --validation"):
        evaluate([tmp_path / "scores.csv"], True, training_prior=0.3)
    with pytest.raises(UsageError, match="--training-prior 3: must be a share"):
        evaluate([tmp_path / "scores.csv"], True, training_prior=3)
    evaluate([tmp_path / "scores.csv"], True, validation=tmp_path / "validation.csv", training_prior=0.3)
    found = json.loads(capsys.readouterr().out)
    assert found["ece_prior_corrected"] is not None
    assert found["post_hoc_fitted_on"] == "validation"
    for word in ("2 policies", "RM@k across policies", "Calibrated on validation", "isotonic"):
        assert word in shown


def attempt(task, number, resolved, split):
    return Trajectory(
        task_id=task,
        cluster=task,
        source="s",
        policy="p",
        attempt=number,
        messages=(Message("user", "fix it"),),
        patch=f"-{number % 2}",
        exit_status="submitted",
        resolved=resolved,
        split=split,
    )


def write_scores(path, attempts):
    """A score table that gives every attempt the same score."""
    rows = [
        {"task_id": t.task_id, "trajectory_id": t.trajectory_id, "policy": "p", "score": 0.5, "resolved": t.resolved}
        for t in attempts
    ]
    path.write_text("\n".join(map(json.dumps, rows)))


def test_baselines_stand_beside_where_the_trajectories_are_given(capsys, tmp_path):
    judged = [attempt(f"t{i}", j, (i + j) % 3 == 0, "evaluation") for i in range(6) for j in range(4)]
    pool = write_trajectories(
        tmp_path / "pool.parquet", [*judged, *(attempt(f"v{i}", 0, i % 2 == 0, "validation") for i in range(6))]
    )
    path = tmp_path / "scores.jsonl"
    write_scores(path, judged)
    evaluate([path], True, trajectories=tmp_path / "pool.parquet")
    baselines = json.loads(capsys.readouterr().out)["baselines"]
    assert baselines["oracle"]["auc_within_task"] == 1.0
    assert baselines["random"]["auc_within_task"] == 0.5
    assert "reason" in baselines["policy_likelihood"]
    assert baselines["shape"]["rm_at_k"]
    write_scores(path, pool.trajectories)
    evaluate([path], True, trajectories=tmp_path / "pool.parquet")
    baselines = json.loads(capsys.readouterr().out)["baselines"]
    assert "reason" in baselines["shape"], "nothing is fitted on the tasks that it is judged on"
    write_scores(path, judged)
    evaluate([path], False, trajectories=tmp_path / "pool.parquet")
    assert "Without a verifier" in capsys.readouterr().out
    write_trajectories(tmp_path / "other.parquet", pool.trajectories[:3])
    evaluate([path], True, trajectories=tmp_path / "other.parquet")
    assert json.loads(capsys.readouterr().out)["joined"]["table_only"] == 21
