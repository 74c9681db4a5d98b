import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rmlab.commands.evaluate import evaluate
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.scores.harness_reports import Incomplete, harness_reports, read_reports

REAL = Path(__file__).parents[3] / "shared" / "data" / "real"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    for name in (
        "bestofk_reports",
        "swebench_pro_eval_results",
        "sbcli_reports_partial",
        "stub_trajs_polydev",
        "leaderboard_matrix",
    ):
        if not (REAL / f"{name}.zip").is_file():
            pytest.skip(f"{REAL} is not here")
        with zipfile.ZipFile(REAL / f"{name}.zip") as archive:
            archive.extractall(folder)
    return folder


def report_file(folder, value, name="report.json"):
    path = folder / name
    path.write_text(json.dumps(value))
    return path


def test_lists_of_ids_by_hand(tmp_path):
    path = report_file(
        tmp_path,
        {
            "total_instances": 5,
            "resolved_instances": 1,
            "resolved_ids": ["a"],
            "unresolved_ids": ["b"],
            "empty_patch_ids": ["c"],
            "error_ids": ["d"],
            "incomplete_ids": ["e"],
            "unremoved_images": ["image"],
        },
    )
    counted, left_out = (read_reports([path], which).scores for which in Incomplete)
    by_task = dict(zip(counted.task_id.tolist(), counted.resolved.tolist(), strict=True))
    assert by_task == {"a": 1, "b": 0, "c": 0, "d": 0, "e": 0}
    assert {
        task for task, label in zip(left_out.task_id.tolist(), left_out.resolved, strict=True) if np.isnan(label)
    } == {"d", "e"}
    assert np.isnan(counted.score).all()


@pytest.mark.parametrize(
    "value",
    [
        {"o__a-1": True, "o__b-1": False},
        {"success_ids": ["o__a-1"], "failure_ids": ["o__b-1"]},
        {"resolved": ["o__a-1"], "no_generation": ["o__b-1"], "generated": ["o__a-1"]},
    ],
)
def test_other_layouts(tmp_path, value):
    (found,) = harness_reports(report_file(tmp_path, value))
    assert found.outcome == {"o__a-1": True, "o__b-1": False}


def test_several_systems_in_one_file_are_policies(tmp_path):
    path = report_file(
        tmp_path, {"base": {"resolved_ids": ["a"], "unresolved_ids": ["b"]}, "new": {"resolved_ids": ["a", "b"]}}
    )
    scores = read_reports([path]).scores
    assert sorted(zip(scores.policy.tolist(), scores.task_id.tolist(), scores.resolved.tolist(), strict=True)) == [
        ("base", "a", 1),
        ("base", "b", 0),
        ("new", "a", 1),
        ("new", "b", 1),
    ]


def test_what_is_no_report_or_contradicts_itself(tmp_path):
    for value in (
        [],
        {},
        {"rows": []},
        {"a": True, "b": 1},
        {"task_id": ["a"], "score": [0.5], "resolved": ["true"]},
        [{"instance_id": "a", "resolved": True, "p": 0.5}],
    ):
        assert harness_reports(report_file(tmp_path, value)) == []
    assert harness_reports(tmp_path / "absent.json") == []
    with pytest.raises(DataError, match="lists task a as both resolved and unresolved"):
        harness_reports(report_file(tmp_path, {"resolved_ids": ["a"], "unresolved_ids": ["a"]}))
    with pytest.raises(DataError, match="lists 1 resolved_ids but states resolved_instances = 2"):
        harness_reports(report_file(tmp_path, {"resolved_ids": ["a"], "resolved_instances": 2}))
    with pytest.raises(DataError, match=r"is not a report of a test harness .*only if all are reports"):
        read_reports([report_file(tmp_path, {"resolved_ids": ["a"]}), report_file(tmp_path, [], "other.json")])


def test_published_pass_at_k_comes_out_of_the_command(real, capsys):
    runs = sorted((real / "bestofk_reports" / "baselines" / "r2e-gym").glob("r2egym-32b-agent.swebench*.json"))
    assert len(runs) == 3
    evaluate(runs, True)
    found = json.loads(capsys.readouterr().out)
    assert [round(100 * found["pass_at_k"][k], 3) for k in "123"] == [32.0, 39.533, 43.2]
    assert found["tasks_at_k"] == {"1": 500, "2": 500, "3": 500}
    assert (found["score_rate"], found["auc_pooled"], found["unlabelled"]) == (0.0, None, 0)
    assert found["ci95"]["pass_at_k"]["3"][0] < 0.432 < found["ci95"]["pass_at_k"]["3"][1]
    assert (
        "500 tasks, 156 resolved, 5 without an outcome (error_ids 1, incomplete_ids 4), counted as unresolved"
        in found["notes"][0]
    )
    evaluate(runs, False, incomplete="unlabelled")
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("15 unlabelled left out", "tasks with k attempts", "No attempt has a score"):
        assert words in shown
    with pytest.raises(UsageError, match="--columns names the columns of a score table"):
        evaluate(runs, True, columns=["score=x"])
    with pytest.raises(UsageError, match="--incomplete maybe: must be one of unresolved, unlabelled"):
        evaluate(runs, True, incomplete="maybe")


def test_counts_of_real_reports(real):
    def counts(pattern, folder):
        return [
            (len(report.outcome) + len(report.unfinished), report.resolved)
            for path in (real / folder).glob(pattern)
            for report in harness_reports(path)
        ]

    pro = counts("traj/*/eval_results.json", "swebench_pro_eval_results")
    assert len(pro) == 9
    assert (min(n for n, _ in pro), max(n for n, _ in pro)) == (562, 955)
    assert (min(r for _, r in pro), max(r for _, r in pro)) == (36, 319)
    partial = counts("*.json", "sbcli_reports_partial")
    assert sorted(r for _, r in partial) == sorted([3, 4, 5, 6, 6, 6, 4, 8])
    assert {n for n, _ in partial} == {23}
    note = read_reports(
        [real / "stub_trajs_polydev" / "claude-haiku-4-5-20251001.validation-baseline-eval.json"]
    ).notes[0]
    assert (
        "500 tasks, 25 resolved, 460 without an outcome (incomplete_ids 460), counted as unresolved; if only part"
        in note
    )
    matrix = read_reports([real / "leaderboard_matrix" / "leaderboards_20251210.json"])
    assert (len(set(matrix.scores.policy.tolist())), len(set(matrix.scores.task_id.tolist()))) == (25, 500)
    assert any("its table has 51 of 500" in note for note in matrix.notes)


def test_near_json_is_read_and_said(tmp_path):
    path = tmp_path / "results.json"
    path.write_text('{"resolved": ["o__a-1",], "no_generation": ["o__b-1"], "generated": ["o__a-1"],}')
    table = read_reports([path])
    assert table.scores.resolved.tolist() == [1, 0]
    assert table.notes[1] == "results.json is not strict JSON: a comma before a closing bracket was ignored"


def test_altered_bytes_are_a_report_or_one_line(real, tmp_path):
    whole = next((real / "sbcli_reports_partial").glob("*.json")).read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "report.json"
    kinds = []
    for _ in range(600):
        altered = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 4)):
            altered[place] = rng.integers(256)
        path.write_bytes(altered)
        try:
            kinds.append("report" if harness_reports(path) else "none")
        except RmlabError as error:
            kinds.append("several lines" if "\n" in str(error) else "line")
    assert {"report", "line"} <= set(kinds)
    assert "several lines" not in kinds
