"""`rmlab compare` of two runs says which runs they are and in what they differ."""

import json
from pathlib import Path

import pytest
import yaml

from rmlab.commands.compare import compare
from rmlab.commands.compare_shown import show_policies
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.scores.table import read_score_table
from rmlab.scores.writing import write_score_table
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

ROWS = "task_id,trajectory_id,score,resolved\na,1,0.9,1\na,2,0.1,0\nb,3,0.4,1\nb,4,0.6,0\n"


def tracked(folder: Path, name: str, config: dict | None, **tags: str) -> str:
    """A finished run with a score table, and its configuration where it is given; its id."""
    (folder / "scores.csv").write_text(ROWS)
    write_score_table(folder / "scores.parquet", read_score_table(folder / "scores.csv"))
    with RunLogger.start(Store.open(), "verifiers", name, kind="verifier", tags={"dataset": "d0", **tags}) as run:
        run.artifact(folder / "scores.parquet")
        if config is not None:
            run.text("config.yaml", yaml.safe_dump(config))
    return run.run_id


def config(scale: int, **more: object) -> dict:
    return {"data": {"scale": scale, "label_ratio": "1:1"}, "seed": 0, "tracking": {"name": str(more)}, **more}


def test_names_and_differing_keys_are_printed(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = tracked(tmp_path, "demo scale=500 s0", config(500))
    b = tracked(tmp_path, "demo scale=900 s0", config(900, optimizer={"learning_rate": 0.1}), dataset="d1")
    compare(a, b)
    said = capsys.readouterr().out
    assert f"A = demo scale=500 s0 (run {a})\nB = demo scale=900 s0 (run {b})\n" in said
    assert "  data.scale: 500 | 900\n" in said
    assert "  dataset: d0 | d1\n" in said
    assert "label_ratio" not in said, "what is the same is not listed"
    assert "tracking" not in said, "nor what a run is called"
    compare(a, b, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["runs"]["b"] == {"name": "demo scale=900 s0", "run_id": b}
    assert found["differ_in"] == {
        "data.scale": [500, 900],
        "optimizer": [None, {"learning_rate": 0.1}],
        "dataset": ["d0", "d1"],
    }


def test_weights_that_were_trained_again_are_a_difference(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both began from runs/policies/a, which held other weights by then. A run without a verifier says nothing of its weights."""
    same = {"start": "runs/policies/a"}
    a = tracked(tmp_path, "one", config(500, **same), start_fingerprint="f1", verifier_fingerprint="v1")
    b = tracked(tmp_path, "two", config(500, **same), start_fingerprint="f2")
    assert compare(a, b)["differ_in"] == {"start_fingerprint": ["f1", "f2"]}
    assert "  start_fingerprint: f1 | f2\n" in capsys.readouterr().out


def test_runs_that_differ_in_nothing_and_one_whose_configuration_is_gone(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (tracked(tmp_path, name, config(500)) for name in ("one", "two"))
    compare(a, b)
    assert "they do not differ: same configuration" in capsys.readouterr().out
    bare = tracked(tmp_path, "bare", None)
    assert compare(a, bare, as_json=True)["differ_in"] is None
    assert "how the two differ is unknown" in capsys.readouterr().err


def test_a_run_is_taken_by_its_name_and_several_of_one_name_are_listed(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (tracked(tmp_path, name, config(500)) for name in ("execution_a", "hybrid 1:4 s0"))
    found = compare("execution_a", "hybrid 1:4 s0", as_json=True)
    assert [found["runs"][side]["run_id"] for side in "ab"] == [a, b]
    other = tracked(tmp_path, "execution_a", config(900), sweep="rewards")
    with pytest.raises(DataError, match=r"2 runs in .* are named execution_a\. Name one by its id: ") as refused:
        compare("execution_a", b)
    assert {run_id in str(refused.value) for run_id in (a, other)} == {True}
    assert f"{other} (verifier, rewards, finished, started 2" in str(refused.value)
    assert "Rules that need no verifier" not in str(refused.value)


def test_how_long_a_run_may_take_is_no_difference(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        tracked(tmp_path, f"{minutes}", config(500, rl={"steps": 60, "max_minutes": minutes})) for minutes in (4.5, 9)
    ]
    assert compare(*runs)["differ_in"] == {}
    assert "they do not differ: same configuration" in capsys.readouterr().out


def test_the_table_says_what_all_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"tasks": 9, "after": 0.5, "before": 0.25, "difference": 0.25, "low": 0.1, "high": 0.4, "clusters": 99}
    rates = {name: {"sampled": row} for name in ("new", "two_bugs", "long", "all")}
    for without, name in (([], "all, sampled"), (["two_bugs", "long"], "all but long and two_bugs, sampled")):
        show_policies(rates, without)
        said = capsys.readouterr().out
        assert f"│ {name} " in said
        assert "│ two_bugs, sampled " in said


def test_a_table_beside_a_run_is_named_by_its_file(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = tracked(tmp_path, "one", config(500))
    found = compare(a, str(tmp_path / "scores.csv"))
    assert "differ_in" not in found
    assert f"A = one (run {a})\nB = {tmp_path / 'scores.csv'}\n" in capsys.readouterr().out


def test_an_option_that_would_say_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(ROWS)
    table = str(tmp_path / "one.csv")
    with pytest.raises(UsageError, match="--preset chooses among the runs of a sweep"):
        compare(table, table, preset="demo")
    with pytest.raises(UsageError, match="--from says where to look up runs"):
        compare(table, table, source="nowhere.db")


def test_levels_without_a_sweep_are_told_of_the_option(runs_folder: Path, tmp_path: Path) -> None:
    run = tracked(tmp_path, "one", config(500))
    for a in ("64", "1:1", "label_ratio=1:1"):
        with pytest.raises(RmlabError, match=r"\. Levels of a sweep are compared with --sweep NAME\.$"):
            compare(a, "128")
    with pytest.raises(RmlabError, match=r"give at least 6 characters of an id\."):
        compare(run[:5], "128")
    with pytest.raises(
        RmlabError, match=r"there is no such file or folder, and no cell or run of this name"
    ) as refused:
        compare("nowhere/t.csv", "128")
    assert "--sweep" not in str(refused.value)


def test_few_clusters_are_warned_of_as_in_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few.csv").write_text(ROWS)
    rows = [f"t{i},{i}{n},0.{n + 1}{i},{n}" for i in range(12) for n in (0, 1)]
    (tmp_path / "many.csv").write_text("\n".join([ROWS.splitlines()[0], *rows]))
    for name, warned in (("few", True), ("many", False)):
        compare(*[str(tmp_path / f"{name}.csv")] * 2)
        assert ("Only 2 clusters: intervals from so few are too narrow" in capsys.readouterr().out) == warned


def test_a_table_with_other_names_is_compared_with_one_that_has_the_usual(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual, other = tmp_path / "usual.csv", tmp_path / "other.csv"
    usual.write_text(ROWS)
    other.write_text(ROWS.replace("task_id,trajectory_id,score,resolved", "iid,trajectory_id,p,label"))
    with pytest.raises(RmlabError, match=r"other\.csv has no column 'task_id'.*use --columns"):
        compare(str(usual), str(other))
    columns = ["task_id=iid,score=p", "resolved=label"]
    found = compare(str(usual), str(other), columns=columns, as_json=True)
    assert found["metrics"]["auc_pooled"]["difference"] == 0
    with pytest.raises(RmlabError, match=r"has no column 'q'.*--columns names it: correct the name there"):
        compare(str(other), str(usual), columns=["task_id=iid,resolved=label,score=q"])
    with pytest.raises(UsageError, match="--columns names the columns of score tables"):
        compare("1:1", "1:2", sweep="label_ratio", columns=columns)


def test_names_that_no_table_has_and_bad_values_are_errors(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual, both, bad = (tmp_path / f"{name}.csv" for name in ("usual", "both", "bad"))
    usual.write_text(ROWS)
    lines = ROWS.splitlines()
    both.write_text("\n".join([f"{lines[0]},p", *(f"{line},0.5" for line in lines[1:])]))
    bad.write_text(both.read_text().replace("0.9,1,0.5", "0.9,1,7"))
    with pytest.raises(DataError, match=r"usual\.csv has no column 'typo'.*--columns names it: correct the name there"):
        compare(str(usual), str(both), columns=["score=typo"])
    for a, b in ((bad, both), (both, bad), (usual, bad)):
        with pytest.raises(DataError, match=r"bad\.csv, line 2: score 7 is outside"):
            compare(str(a), str(b), columns=["score=p"])
    capsys.readouterr()
    found = compare(str(usual), str(both), columns=["score=p"], as_json=True)
    assert found["metrics"]["brier"]["difference"]
    assert capsys.readouterr().err == f"A ({usual}) is read by the usual names: it has not all columns of --columns\n"
    rows = [
        {"task_id": t, "trajectory_id": i, "score": s, "resolved": int(r)}
        for t, i, s, r in (x.split(",") for x in lines[1:])
    ]
    by_column = tmp_path / "by_column.json"
    by_column.write_text(
        json.dumps({name: [float(r[name]) if name == "score" else r[name] for r in rows] for name in rows[0]})
    )
    assert compare(str(by_column), str(both), columns=["score=p"])["metrics"]["brier"] == found["metrics"]["brier"]
    run = tracked(tmp_path, "one", config(500))
    with pytest.raises(UsageError, match="those of runs have the usual ones: leave it out"):
        compare(run, run, columns=["score=p"])
    compare(run, str(both), columns=["score=p"])
    assert f"A (one (run {run})) is read by the usual names" in capsys.readouterr().err
