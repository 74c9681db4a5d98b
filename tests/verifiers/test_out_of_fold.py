"""Scores of all folds as one table, and rules that are fitted on what is not judged."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, RmlabError
from rmlab.metrics.best_of_k import rm_curve_across
from rmlab.metrics.table import table
from rmlab.scores.scores import Scores
from rmlab.tracking.fold_logger import FoldLogger
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.trajectories.folds import FoldsConfig, folds_of
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import TrajectorySet
from rmlab.verifiers.config import PromptConfig
from rmlab.verifiers.dataset import VerifierData
from rmlab.verifiers.encoding import Encoded
from rmlab.verifiers.out_of_fold import fold_baselines, of_policies, pooled

# By repository: (resolved by p, resolved by q) of each task. Which policy is the better one depends on what is left out.
TASKS = {
    "r0": [(False, True), (False, True), (False, True)],
    "r1": [(True, False), (True, True)],
    "r2": [(True, False), (True, False)],
    "r3": [(True, False)],
}


def attempts() -> list[Trajectory]:
    made = []
    for repository, rows in TASKS.items():
        for i, (p, q) in enumerate(rows):
            for policy, resolved in (("p", p), ("q", q), ("new", True)):
                made.append(
                    Trajectory(
                        task_id=f"{repository}-{i}",
                        cluster=repository,
                        source="s",
                        policy=policy,
                        attempt=0,
                        exit_status="submitted",
                        messages=(Message("user", f"issue {repository} {i}"), Message("assistant", policy)),
                        patch="x",
                        resolved=resolved,
                    )
                )
    return made


def materials() -> list[VerifierData]:
    folds = folds_of(attempts(), FoldsConfig(number=2, validation=0.4, unseen=["new"]))
    return [
        VerifierData(
            TrajectorySet(fold.trajectories, {}),
            None,
            [],
            [],  # type: ignore[arg-type]
            [Encoded(t, None, 0) for t in fold.trajectories if t.split == "evaluation"],
            PromptConfig(),
            "none",
        )
        for fold in folds
    ]


def test_a_rule_is_fitted_where_it_is_not_judged_and_the_unseen_are_not_in_it() -> None:
    found = fold_baselines(materials(), ["new"])
    rule = found["policy_identity"]
    assert isinstance(rule, Scores)
    assert len(rule) == 16
    assert set(rule.policy) == {"p", "q"}
    # Folds of 4 tasks: r0 and r3; r1 and r2. Where r0 is left out p is resolved at 4 of 4 other tasks and q at 1, else p at 1 of 4
    # and q at 3. So p is picked in r0 and r3 (right once in four), q in r1 and r2 (once in four).
    judged = {name: {str(c) for c in rule.cluster[(rule.policy == "p") & (rule.score == name)]} for name in (1.0, 0.25)}
    assert judged == {1.0: {"r0", "r3"}, 0.25: {"r1", "r2"}}
    assert rm_curve_across(table(rule), [2])[0] == pytest.approx(2 / 8)
    assert "reason" in found["last_value"]


def test_an_attempt_that_two_folds_scored_is_refused() -> None:
    one = Scores.of(["t", "u"], [0.1, 0.9], [0, 1], trajectory_id=["a", "b"], policy=["p", "q"])
    other = replace(one, trajectory_id=np.array(["c", "d"]))
    both = pooled([one, other])
    assert list(both.trajectory_id) == ["a", "b", "c", "d"]
    assert list(of_policies(both, ["q"]).trajectory_id) == ["b", "d"]
    with pytest.raises(DataError, match="trajectory_id a occurs 2 times"):
        pooled([one, replace(other, trajectory_id=np.array(["a", "d"]))])


def test_a_context_longer_than_the_model_is_said_before_anything_is_read() -> None:
    config = compose(
        "cross_validate", ["data.path=nowhere.parquet", "prompt.max_tokens=8192", "model.max_positions=4096"]
    )
    with pytest.raises(RmlabError, match=r"prompt\.max_tokens=8192 is longer than the 4096 positions"):
        load_program("cross_validate").prepare([config])


def test_no_fold_writes_over_another(runs_folder: Path) -> None:
    store = Store.open(None)
    with RunLogger.start(store, "e", "r", kind="verifier") as logger:
        for number in (1, 2):
            fold = FoldLogger(logger, number)
            fold.metrics({"train/loss": number + 0.5, "validation_auc_pooled": None}, 7)
            fold.json("selection.json", {"fold": number})
            fold.params({"seed": 0, "model_parameters": number})
            fold.tags({"dataset": f"f{number}"})
            fold.dataset("pool", "f", "training", {})
    [run] = runs(store, ["e"])
    assert run.series("fold_1/loss") == [(7, 1.5)]
    assert run.series("fold_2/loss") == [(7, 2.5)]
    assert set(run.metrics) == {"fold_1/loss", "fold_2/loss"}
    assert run.params == {"seed": "0", "model_parameters": "1"}
    assert (run.tags["fold_1/dataset"], run.tags["fold_2/dataset"]) == ("f1", "f2")
    assert [json.loads(run.artifact(f"folds/{number}/selection.json").read_text())["fold"] for number in (1, 2)] == [
        1,
        2,
    ]
