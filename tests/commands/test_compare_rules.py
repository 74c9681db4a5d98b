"""`rmlab compare A RULE`: a run or a score table beside a rule that needs no verifier, on the same attempts."""

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from rmlab.baselines.rules import SCORING, score_baselines
from rmlab.commands.compare import compare
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.metrics.compare import compare as paired
from rmlab.paths import REPOSITORY, located
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.trajectories.folds import FoldsConfig, folds_of
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet, write_trajectories
from tests.verifiers.examples import episodes

JUDGED = episodes(6, "evaluation", 3000, 4)
SET = [*episodes(10, "verifier", 1000), *episodes(6, "validation", 2000, 4), *JUDGED]


def table(attempts: list[Trajectory] = JUDGED) -> Scores:
    return Scores.of_trajectories(attempts, np.random.default_rng(0).random(len(attempts)))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_folder: Path) -> Path:
    """The working folder, with a set of trajectories and a score table of its evaluation part."""
    monkeypatch.chdir(tmp_path)
    write_trajectories(Path("set.parquet"), SET)
    write_score_table(Path("scores.parquet"), table())
    return tmp_path


def tracked(config: dict, dataset: str) -> str:
    """A finished run with the score table of the working folder; its id."""
    with RunLogger.start(Store.open(), "verifiers", "one", kind="verifier", tags={"dataset": dataset}) as run:
        run.artifact(Path("scores.parquet"))
        run.text("config.yaml", yaml.safe_dump(config))
    return run.run_id


def test_a_table_beside_rules_with_and_without_its_trajectories(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compare("scores.parquet", "last_value", trajectories=Path("set.parquet"))
    assert found["metrics"]["auc_within_task"]["b"] == 1.0
    said = capsys.readouterr()
    assert "A = scores.parquet\nB = the rule last_value\n" in said.out
    assert not said.err, "every row is in the set"
    other_way = compare("last_value", "scores.parquet", trajectories=Path("set.parquet"), as_json=True)
    assert other_way["metrics"]["auc_within_task"]["difference"] == -found["metrics"]["auc_within_task"]["difference"]
    own = table()
    oracle = replace(own, score=own.resolved)
    assert compare("scores.parquet", "oracle", as_json=True) == paired(own, oracle), "the same tests as of two tables"
    with pytest.raises(DataError, match=r"last_value reads trajectories.*name them with --trajectories"):
        compare("scores.parquet", "last_value")
    with pytest.raises(
        DataError, match="public_execution cannot score these attempts: the public call was not executed"
    ):
        compare("scores.parquet", "public_execution", trajectories=Path("set.parquet"))


def test_rows_that_the_set_lacks_are_left_out_and_counted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trajectories(Path("part.parquet"), SET[:-4])
    found = compare("scores.parquet", "last_value", trajectories=Path("part.parquet"), as_json=True)
    assert found["trajectories"] == len(JUDGED) - 4
    assert capsys.readouterr().err == "4 attempts of scores.parquet left out: not in part.parquet\n"


def test_a_run_beside_a_rule_reads_what_it_read(files: Path) -> None:
    pool = TrajectorySet(tuple(SET), {})
    run = tracked({"data": {"path": "set.parquet"}}, pool.fingerprint)
    expected = score_baselines(TrajectorySet(tuple(JUDGED), {}), pool.part("validation"))
    for rule in ("last_value", "shape", "length"):
        of_rule = expected[rule]
        assert isinstance(of_rule, Scores)
        compared = compare(run, rule, as_json=True)["metrics"]["auc_pooled"]
        assert compared == paired(table(), of_rule)["metrics"]["auc_pooled"]
    gone = tracked({"data": {"path": "set.parquet"}}, "another")
    with pytest.raises(
        DataError, match=r"set\.parquet is not here, or holds others now\. Name them with --trajectories"
    ):
        compare(gone, "last_value")
    assert compare(gone, "last_value", trajectories=Path("set.parquet"))["metrics"]["auc_within_task"]["b"] == 1.0
    assert compare(gone, "random")["metrics"]["auc_within_task"]["b"] == 0.5, "it needs no trajectories"


def test_a_rule_reads_of_the_final_value_what_the_verifier_read(files: Path) -> None:
    config = {"data": {"path": "set.parquet"}, "prompt": {"evidence": "voluntary"}}
    run = tracked(config, TrajectorySet(tuple(SET), {}).fingerprint)
    assert compare(run, "last_value", as_json=True)["metrics"]["auc_within_task"]["b"] == 0.5


def test_where_a_rule_is_not_fitted_as_in_the_report_is_said(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attempts = [replace(t, policy="ab"[t.attempt % 2]) for t in SET]
    judged = [t for t in attempts if t.split == "evaluation"]
    own = replace(table(judged), n_tokens=np.arange(len(judged), dtype=float))
    write_score_table(Path("scores.parquet"), own)
    gone = tracked({"data": {"path": "set.parquet"}}, "another")
    for rule in ("length", "policy_identity"):
        compare(gone, rule, as_json=True)
        said = capsys.readouterr().err
        assert said.startswith(f"the rule {rule} is fitted on other clusters of the table: the trajectories that the")
    write_trajectories(Path("set.parquet"), [replace(t, split=None) for t in attempts])
    compare("scores.parquet", "policy_identity", trajectories=Path("set.parquet"), as_json=True)
    assert "other clusters of the table: there is no validation part with both labels" in capsys.readouterr().err
    compare("scores.parquet", "policy_identity", as_json=True)
    compare(gone, "oracle", as_json=True)
    assert not capsys.readouterr().err, "a table by itself is what these rules are fitted on; an oracle is not fitted"
    write_score_table(Path("scores.parquet"), table(judged))
    with pytest.raises(DataError, match="the table has no n_tokens; --trajectories gives it the attempts' characters"):
        compare("scores.parquet", "length")


def test_other_labels_of_the_set_are_said(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trajectories(Path("set.parquet"), [replace(t, resolved=not t.resolved) for t in SET])
    found = compare("scores.parquet", "last_value", trajectories=Path("set.parquet"), as_json=True)
    assert found["metrics"]["auc_within_task"]["b"] == 0.0
    assert capsys.readouterr().err == (
        f"{len(JUDGED)} attempts have another label in set.parquet than in scores.parquet: that of set.parquet counts\n"
    )


def test_a_run_keeps_its_own_clusters(files: Path) -> None:
    """As a cross-validation has them, which joins repositories with equal issues."""
    joined = {t.task_id: f"c{i // 2}" for i, t in enumerate(JUDGED[::4])}
    own = table()
    write_score_table(Path("scores.parquet"), replace(own, cluster=np.array([joined[t] for t in own.task_id.tolist()])))
    run = tracked({"data": {"path": "set.parquet"}}, TrajectorySet(tuple(SET), {}).fingerprint)
    assert compare(run, "last_value", as_json=True)["clusters"] == 3
    assert compare("scores.parquet", "last_value", trajectories=Path("set.parquet"), as_json=True)["clusters"] == 6


def test_attempts_without_a_label_are_refused(files: Path) -> None:
    write_score_table(Path("scores.parquet"), table([replace(t, resolved=None) for t in JUDGED]))
    for b in ("oracle", "scores.parquet"):
        with pytest.raises(DataError, match="none of the attempts has a label"):
            compare("scores.parquet", b)


def test_beside_a_cross_validated_run_a_rule_is_fitted_fold_by_fold(files: Path) -> None:
    attempts = [replace(t, split=None, policy="ab"[t.attempt % 2]) for t in JUDGED]
    write_trajectories(Path("set.parquet"), attempts)
    write_score_table(Path("scores.parquet"), table(attempts))
    folds = {"number": 2, "validation": 0.3, "seed": 0, "least": 0.0, "unseen": []}
    pool = TrajectorySet(tuple(attempts), {})
    run = tracked({"data": {"path": "set.parquet"}, "folds": folds}, pool.fingerprint)
    score_of = {}
    for fold in folds_of(attempts, FoldsConfig(**folds)):  # type: ignore[arg-type]
        judged, known = (
            TrajectorySet(tuple(t for t in fold.trajectories if (t.split == "evaluation") == inside), {})
            for inside in (True, False)
        )
        shape = score_baselines(judged, known)["shape"]
        assert isinstance(shape, Scores)
        score_of |= dict(zip(shape.trajectory_id.tolist(), shape.score.tolist(), strict=True))
    of_rule = replace(table(attempts), score=np.array([score_of[t.trajectory_id] for t in attempts]))
    assert (
        compare(run, "shape", as_json=True)["metrics"]["brier"] == paired(table(attempts), of_rule)["metrics"]["brier"]
    )


def test_what_is_no_rule_is_told_their_names(files: Path) -> None:
    words = r"Rules that need no verifier are named random, oracle, last_value.* \(did you mean last_value\?\)\. Levels"
    with pytest.raises(RmlabError, match=words):
        compare("scores.parquet", "last_valu")
    with pytest.raises(UsageError, match="majority gives attempts no scores of their own; rules that do are random"):
        compare("scores.parquet", "majority")
    with pytest.raises(UsageError, match="length and shape are both rules"):
        compare("length", "shape")
    with pytest.raises(UsageError, match="--trajectories is what a rule reads, and neither side is a rule"):
        compare("scores.parquet", "scores.parquet", trajectories=Path("set.parquet"))


def test_the_help_names_every_rule() -> None:
    said = " ".join(inspect.signature(compare).parameters["b"].annotation.__metadata__[0].help.split())
    assert all(rule in said for rule in SCORING)


def test_a_recorded_path_is_found_again(files: Path, runs_folder: Path) -> None:
    (runs_folder / "own.parquet").touch()
    assert located("runs/own.parquet") == runs_folder / "own.parquet"
    assert located("set.parquet") == Path("set.parquet"), "of the working folder"
    assert located("rmlab/starter/tasks.parquet") == REPOSITORY / "rmlab/starter/tasks.parquet"
    assert located("~/set.parquet") == Path.home() / "set.parquet"
