"""A table of ids and scores takes all else from the trajectories that it scores."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from rmlab.commands.evaluate import evaluate
from rmlab.errors import DataError, UsageError
from rmlab.scores.columns import column_names
from rmlab.scores.joining import join
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_table
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories

TASKS = [f"{owner}__{name}-{n}" for owner, name in (("a", "x"), ("b", "y"), ("c", "z")) for n in range(1, 6)]


def attempt(task: str, policy: str, resolved: bool | None, number: int = 0) -> Trajectory:
    return Trajectory(
        task_id=task,
        cluster="/".join(task.rsplit("-", 1)[0].split("__")),
        source="swe-bench",
        policy=policy,
        attempt=number,
        messages=(Message("user", f"fix {task}"), Message("assistant", "done")),
        patch=f"patch of {policy} {number}",
        exit_status="submitted",
        resolved=resolved,
    )


@pytest.fixture
def pool(tmp_path: Path) -> list[Trajectory]:
    """Two policies, one attempt each at 15 tasks of three repositories."""
    made = [attempt(task, p, (i * (j + 2)) % 3 == 0) for i, task in enumerate(TASKS) for j, p in enumerate("pq")]
    return list(write_trajectories(tmp_path / "set.parquet", made).trajectories)


def score_of(trajectory: Trajectory) -> float:
    return int(trajectory.trajectory_id[:4], 16) / 0x10000


def write_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def evaluated(capsys: pytest.CaptureFixture[str], path: Path, **more: Any) -> dict[str, Any]:
    capsys.readouterr()
    evaluate([path], True, **more)
    return dict(json.loads(capsys.readouterr().out))


def test_the_same_attempts_have_the_same_numbers_whichever_way_they_come_in(capsys, tmp_path, pool):
    columns = [
        {
            "task_id": t.task_id,
            "policy": t.policy,
            "score": score_of(t),
            "resolved": int(bool(t.resolved)),
            "patch": t.patch,
        }
        for t in pool
    ]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reversed(columns)))
    by_id = [{"trajectory_id": t.trajectory_id, "score": score_of(t)} for t in pool]
    by_task = [{"instance_id": t.task_id.lower(), "agent": t.policy, "p": score_of(t)} for t in pool]
    with_set = {"trajectories": tmp_path / "set.parquet"}
    ways = [
        evaluated(capsys, write_csv(tmp_path / "columns.csv", columns)),
        evaluated(capsys, tmp_path / "lines.jsonl"),
        evaluated(capsys, write_csv(tmp_path / "with_labels.csv", columns), **with_set),
        evaluated(capsys, write_csv(tmp_path / "by_id.csv", by_id), **with_set),
        evaluated(capsys, write_csv(tmp_path / "by_task.csv", by_task), columns=["policy=agent,score=p"], **with_set),
    ]
    assert "cluster: the repositories named in the task ids (3 repositories, 15 tasks)" in ways[0]["notes"]
    for way in ways:
        assert (way["clusters"], way["policies"], way["trajectories"], way["patches"]) == (3, 2, 30, 30)
        for said in ("notes", "joined", "baselines"):
            way.pop(said, None)
        assert way == ways[0]


def test_reports_of_a_harness_have_the_clusters_of_an_imported_set(capsys, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"resolved_ids": TASKS[:4], "unresolved_ids": TASKS[4:]}))
    assert evaluated(capsys, tmp_path / "run.json")["clusters"] == 3


def test_what_does_not_match_is_counted(capsys, tmp_path, pool):
    rows = [{"trajectory_id": t.trajectory_id, "score": 0.5, "resolved": "", "n_tokens": 7} for t in pool[:10]]
    rows[0]["resolved"] = int(not pool[0].resolved)
    rows.append({"trajectory_id": "0000", "score": 0.5, "resolved": 1, "n_tokens": 7})
    path = write_csv(tmp_path / "scores.csv", rows)
    found = evaluated(capsys, path, trajectories=tmp_path / "set.parquet")
    assert found["joined"] == {"rows": 10, "by_trajectory_id": 10, "table_only": 1, "set_only": 20, "labels_differ": 1}
    assert found["trajectories"] == 10
    assert found["notes"] == [
        f"joined with {tmp_path / 'set.parquet'}: 10 rows by trajectory_id; 1 row of the table left out, not in the set (first: 0000); "
        "20 trajectories of the set without a row in the table",
        "1 row states a different label from the set, whose labels are used",
    ]


def test_the_table_labels_what_the_set_does_not(tmp_path, pool):
    made = [attempt(TASKS[0], "p", None), attempt(TASKS[1], "p", None), attempt(TASKS[2], "p", True)]
    pool = write_trajectories(tmp_path / "set.parquet", made)
    path = write_csv(
        tmp_path / "scores.csv",
        [{"task_id": t.task_id, "score": 0.1, "resolved": label} for t, label in zip(made, (1, "", 1), strict=True)],
    )
    joined = join(read_table(path, joined=True), path, pool, tmp_path / "set.parquet")
    assert [t.resolved for t in joined.trajectories] == [True, None, True]
    assert joined.labels_differ == 0


def test_what_cannot_be_joined_is_one_line(tmp_path, pool):
    made = write_trajectories(tmp_path / "two.parquet", [attempt(TASKS[0], "p", True, n) for n in range(2)])

    def refused(rows: list[dict[str, Any]], message: str, names: str = "") -> None:
        path = write_csv(tmp_path / "scores.csv", rows)
        with pytest.raises(DataError, match=message):
            evaluate([path], True, columns=[names] if names else None, trajectories=tmp_path / "two.parquet")

    row = {"task_id": TASKS[0], "policy": "p", "score": 0.5}
    refused([row], r"row 1: .*two.parquet has 2 attempts at task a__x-1 of policy p, .*Add a column trajectory_id")
    refused([row | {"policy": "other"}], r"none of the 1 row .*policy other; the set has task a__x-1, policy p")
    twice = {"trajectory_id": made.trajectories[0].trajectory_id, "score": 0.5}
    refused([twice, twice], "already occurs on line 2")
    refused(
        [{"trajectory_id": "x", "score": 0.5}], r"trajectory_id x; the set has .*rows are matched by task and policy"
    )
    refused(
        [{"id": "x", "score": 0.5}],
        r"there is no 'task_id' .*With --trajectories a table needs score and trajectory_id, or task_id",
    )
    refused([row | {"score": 1.5}], r"score 1.5 is outside")
    (tmp_path / "run.json").write_text(json.dumps({"resolved_ids": TASKS[:4], "unresolved_ids": []}))
    with pytest.raises(UsageError, match="--trajectories needs a score table"):
        evaluate([tmp_path / "run.json"], True, trajectories=tmp_path / "two.parquet")


def test_a_policy_that_is_not_named_is_asked_for(tmp_path, pool):
    path = write_csv(tmp_path / "scores.csv", [{"task_id": TASKS[0], "model": "p", "score": 0.5}])
    with pytest.raises(
        DataError, match=r"2 attempts at task a__x-1 \(p, q\), .*Add a column policy \(or --columns policy=NAME\)"
    ):
        evaluate([path], True, trajectories=tmp_path / "set.parquet")


def test_two_rows_that_find_one_attempt(tmp_path, pool):
    path = write_csv(tmp_path / "scores.csv", [{"task_id": TASKS[0], "policy": "p", "score": s} for s in (0.1, 0.2)])
    with pytest.raises(DataError, match=r"rows 1 and 2 score one attempt, .*task a__x-1, policy p"):
        evaluate([path], True, trajectories=tmp_path / "set.parquet")


def test_without_a_set_labels_are_still_needed(tmp_path, pool):
    path = write_csv(tmp_path / "scores.csv", [{"task_id": "t", "score": 0.1}])
    with pytest.raises(DataError, match="has no column 'resolved'"):
        read_table(path)
    assert read_table(path, column_names([]), joined=True).scores.score.tolist() == [0.1]


def test_baselines_that_the_set_cannot_fit_are_the_table_s(capsys, tmp_path, pool):
    rows = [{"trajectory_id": t.trajectory_id, "score": score_of(t)} for t in pool]
    path = write_csv(tmp_path / "scores.csv", rows)
    baselines = evaluated(capsys, path, trajectories=tmp_path / "set.parquet")["baselines"]
    assert baselines["policy_identity"]["rm_at_k_across"]["2"] is not None, "the set has no validation part"
    assert "reason" in baselines["shape"]


def test_validation_is_joined_too_or_stands_for_itself(capsys, tmp_path, pool):
    judged = [{"trajectory_id": t.trajectory_id, "score": score_of(t)} for t in pool if t.cluster != "c/z"]
    path = write_csv(tmp_path / "scores.csv", judged)
    others = [t for t in pool if t.cluster == "c/z"]
    by_id = [{"trajectory_id": t.trajectory_id, "score": score_of(t)} for t in others]
    by_task = [{"task_id": t.task_id, "policy": t.policy, "score": score_of(t)} for t in others]
    labelled = [row | {"resolved": int(bool(t.resolved))} for row, t in zip(by_task, others, strict=True)]
    elsewhere = [row | {"task_id": f"other {row['task_id']}"} for row in labelled]
    found = [
        evaluated(capsys, path, trajectories=tmp_path / "set.parquet", validation=write_csv(tmp_path / "v.csv", rows))
        for rows in (by_id, by_task, labelled, elsewhere)
    ]
    assert found[0]["post_hoc_fitted_on"] == "validation"
    assert [one["post_hoc"] for one in found] == [found[0]["post_hoc"]] * 4


def test_a_micro_swe_task_is_its_own_cluster_where_nothing_says_otherwise():
    found = Scores.of(["functional/take/1a2b", "t7", "django__django-11066"], [0.1] * 3, [1] * 3)
    assert found.cluster.tolist() == ["functional/take/1a2b", "t7", "django/django"]
