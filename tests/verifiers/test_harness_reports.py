import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rmlab.configuration import load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.verifiers.harness_reports import Incomplete, harness_report, read_reports

REAL = Path(__file__).parents[3] / "shared" / "data" / "real"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    for name in ("bestofk_reports", "swebench_pro_eval_results", "sbcli_reports_partial", "stub_trajs_polydev"):
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
    path = report_file(tmp_path, {"total_instances": 5, "resolved_instances": 1, "resolved_ids": ["a"], "unresolved_ids": ["b"],
                                  "empty_patch_ids": ["c"], "error_ids": ["d"], "incomplete_ids": ["e"], "unremoved_images": ["image"]})
    assert harness_report(path).label == {"a": True, "b": False, "c": False, "d": False, "e": None}
    counted, left_out = (read_reports([path], which).scores for which in Incomplete)
    assert counted.resolved.tolist() == [1, 0, 0, 0, 0]
    assert np.isnan(left_out.resolved).tolist() == [False] * 4 + [True]
    assert np.isnan(counted.score).all()


@pytest.mark.parametrize("value", [
    {"a": True, "b": False}, {"success_ids": ["a"], "failure_ids": ["b"]}, {"resolved": ["a"], "no_generation": ["b"], "generated": ["a"]}])
def test_other_layouts(tmp_path, value):
    assert harness_report(report_file(tmp_path, value)).label == {"a": True, "b": False}


def test_what_is_no_report_or_contradicts_itself(tmp_path):
    for value in ([], {}, {"rows": []}, {"a": True, "b": 1}, {"task_id": ["a"], "score": [0.5], "resolved": ["true"]}):
        assert harness_report(report_file(tmp_path, value)) is None
    assert harness_report(tmp_path / "absent.json") is None
    with pytest.raises(DataError, match="task a is in resolved_ids and in unresolved_ids"):
        harness_report(report_file(tmp_path, {"resolved_ids": ["a"], "unresolved_ids": ["a"]}))
    with pytest.raises(DataError, match="lists 1 resolved_ids and states resolved_instances = 2"):
        harness_report(report_file(tmp_path, {"resolved_ids": ["a"], "resolved_instances": 2}))
    with pytest.raises(DataError, match=r"is no report of a test harness .*only if all are reports"):
        read_reports([report_file(tmp_path, {"a": True}), report_file(tmp_path, [], "other.json")])


def test_published_pass_at_k_comes_out_of_the_command(real, capsys):
    runs = sorted((real / "bestofk_reports" / "baselines" / "r2e-gym").glob("r2egym-32b-agent.swebench*.json"))
    assert len(runs) == 3
    load_program("evaluate").main(runs, True)
    found = json.loads(capsys.readouterr().out)
    assert [round(100 * found["pass_at_k"][k], 3) for k in "123"] == [32.0, 39.533, 43.2]
    assert found["tasks_at_k"] == {"1": 500, "2": 500, "3": 500}
    assert (found["score_rate"], found["auc_pooled"], found["unlabelled"]) == (0.0, None, 0)
    assert found["ci95"]["pass_at_k"]["3"][0] < 0.432 < found["ci95"]["pass_at_k"]["3"][1]
    assert "500 tasks, 156 resolved, 4 incomplete (counted as unresolved)" in found["notes"][0]
    load_program("evaluate").main(runs, False, incomplete="unlabelled")
    shown = capsys.readouterr().out
    for words in ("9 unlabelled left out", "0.4320", "No attempt is scored"):
        assert words in shown
    with pytest.raises(UsageError, match="--columns names columns of a score table"):
        load_program("evaluate").main(runs, True, columns=["score=x"])
    with pytest.raises(UsageError, match="--incomplete maybe: it is one of unresolved, unlabelled"):
        load_program("evaluate").main(runs, True, incomplete="maybe")


def test_counts_of_real_reports(real):
    resolved = {path.parent.name: (len(report.label), sum(v is True for v in report.label.values()))
                for path in (real / "swebench_pro_eval_results").glob("traj/*/eval_results.json") if (report := harness_report(path))}
    assert len(resolved) == 9
    assert (min(n for n, _ in resolved.values()), max(n for n, _ in resolved.values())) == (562, 955)
    assert (min(r for _, r in resolved.values()), max(r for _, r in resolved.values())) == (36, 319)
    partial = [harness_report(path) for path in (real / "sbcli_reports_partial").glob("*.json")]
    assert sorted(sum(v is True for v in report.label.values()) for report in partial) == sorted([3, 4, 5, 6, 6, 6, 4, 8])
    assert {len(report.label) for report in partial} == {23}
    note = read_reports([real / "stub_trajs_polydev" / "claude-haiku-4-5-20251001.validation-baseline-eval.json"]).notes[0]
    assert "500 tasks, 25 resolved, 460 incomplete (counted as unresolved); if only a part was handed in, --incomplete unlabelled" in note


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
            kinds.append("report" if harness_report(path) else "none")
        except RmlabError as error:
            kinds.append("several lines" if "\n" in str(error) else "line")
    assert {"report", "line"} <= set(kinds)
    assert "several lines" not in kinds
