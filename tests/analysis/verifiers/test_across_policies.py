"""Where every policy has one attempt at a task: whose is picked, and is that better than always the better policy?"""

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from analysis.summaries import conclusions
from analysis.sweep import level_tests
from analysis.sweep.tracked import group_runs
from analysis.verifiers import across_policies, rm_at_k, sweep_table
from rmlab.commands.compare import compare
from rmlab.commands.figures import draw_figures
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

pytestmark = pytest.mark.usefixtures("small_pictures")

TASKS = (
    40  # in 8 repositories; both policies resolve the first 10, p alone the next 14, q alone the next 6, none the rest
)


def made(score_p: np.ndarray, score_q: np.ndarray) -> Scores:
    """A score table of two policies with one attempt each."""
    task = [f"t{i:02}" for i in range(TASKS)]
    by_p, by_q = np.arange(TASKS) < 24, (np.arange(TASKS) < 10) | ((np.arange(TASKS) >= 24) & (np.arange(TASKS) < 30))
    ids, cluster = [f"{policy}{i}" for policy in "pq" for i in range(TASKS)], [f"r{i % 8}" for i in range(TASKS)]
    return Scores.of(
        task * 2,
        [*score_p, *score_q],
        [*by_p, *by_q],
        policy=["p"] * TASKS + ["q"] * TASKS,
        trajectory_id=ids,
        cluster=cluster * 2,
    )


def scores(level: str, seed: int) -> Scores:
    """`good` picks the resolved one of every mixed pair but `seed` of them, `other` always that of q."""
    rng = np.random.default_rng(seed)
    if level == "other":
        return made(rng.uniform(0.1, 0.3, TASKS), rng.uniform(0.6, 0.9, TASKS))
    right = np.arange(TASKS) < 24
    right[10 : 10 + seed] = False
    return made(
        np.where(right, 0.8, 0.2) + rng.uniform(0, 0.1, TASKS), np.full(TASKS, 0.5) + rng.uniform(0, 0.1, TASKS)
    )


@pytest.fixture
def group(runs_folder: Path, tmp_path: Path):
    always = made(np.full(TASKS, 0.6), np.full(TASKS, 0.4))
    baselines = {"policy_identity": report(always, replicates=0), "shape": {"reason": "none"}}
    store = Store.open(None)
    for place, level in enumerate(("other", "good")):
        for seed in range(3):
            table = scores(level, seed)
            tags = {
                "sweep": "mixture",
                "preset": "demo",
                "factor": "policy_mixture",
                "level": level,
                "baseline": "other",
                "place": place,
                "config_hash": f"{level}{seed}",
                "control_hash": "c",
                "folds": 2,
            }
            with RunLogger.start(
                store, "mixture", f"{level} s{seed}", kind="verifier", tags=tags, params={"seed": seed}
            ) as run:
                run.json("report.json", report(table, replicates=20))
                run.json("baselines.json", baselines)
                run.json(
                    "by_policy.json", {name: report(table.select(table.policy == name), replicates=20) for name in "pq"}
                )
                for name, one in {"scores": table, "policy_identity_scores": always}.items():
                    write_score_table(tmp_path / f"{name}.parquet", one)
                    run.artifact(tmp_path / f"{name}.parquet")
    [found] = group_runs(runs(store, tags={"kind": "verifier"}))
    return found


def test_levels_are_compared_across_policies_and_beside_the_better_one(
    group, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert group.across
    assert level_tests.largest_k(group) == "2"
    # RM@2: 10 of 40 tasks are resolved by both; of the mixed ones `other` picks q's 6, `good` all 20 less the seed's.
    values = {cell.report["rm_at_k_across"]["2"] for cell in group.at("other", "")}
    assert values == {16 / 40}
    assert [cell.report["rm_at_k_across"]["2"] for cell in group.at("good", "")] == [30 / 40, 29 / 40, 28 / 40]
    [picked] = [test for (_, level, metric), test in group.tests.items() if (level, metric) == ("good", "rm_at_k")]
    assert picked.difference == pytest.approx((30 + 29 + 28) / 120 - 16 / 40)
    beside = {test.level: test for test in across_policies.beside_the_better_policy(group)}
    assert beside["good"].difference == pytest.approx((30 + 29 + 28) / 120 - 24 / 40)
    assert beside["other"].difference == pytest.approx(16 / 40 - 24 / 40)

    found = conclusions.of_verifiers(group)[1]
    assert "At other the best-scored of 2 attempts is resolved in 40 %" in found
    assert "; AUC within task across policies 0." in found
    compare("good", "other", sweep="mixture")
    assert "\n rm_at_k_across " in capsys.readouterr().out, "by the name that says it"
    text = sweep_table.as_markdown(group)
    assert "RM@2 across policies" in text.splitlines()[0]
    assert "| *policy_identity* |  | 0.600 |" in text
    assert rm_at_k.draw(group, tmp_path) == []
    rows = list(csv.DictReader(across_policies.draw(group, tmp_path)[-1].open()))
    assert {row["group"] for row in rows if row["panel"] == "auc_pooled"} == {"together", "p", "q"}
    assert [float(row["value"]) for row in rows if row["group"] == "baseline policy_identity"] == [0.6]
    assert (across_policies.lacks(group), sweep_table.beside_across(group)) == ("", {})


def test_where_one_policy_has_several_attempts_values_across_stand_beside(
    runs_folder: Path, tmp_path: Path, capsys
) -> None:
    """Two more attempts of p at one task: it is the only one that is mixed within a policy, and 20 are across."""
    base = scores("good", 0)
    more = Scores.of(
        ["t00"] * 2, [0.5, 0.9], [0, 1], policy=["p"] * 2, trajectory_id=["p40", "p41"], cluster=["r0"] * 2
    )
    table = Scores.of(
        *(np.concatenate([getattr(one, name) for one in (base, more)]) for name in ("task_id", "score", "resolved")),
        **{
            name: np.concatenate([getattr(one, name) for one in (base, more)])
            for name in ("policy", "trajectory_id", "cluster")
        },
    )
    write_score_table(tmp_path / "scores.parquet", table)
    measured = report(table, replicates=20)
    names = {"sweep": "mixture", "preset": "demo", "factor": "mixture", "level": "a", "config_hash": "a"}
    tags = names | {"control_hash": "c"}
    with RunLogger.start(Store.open(None), "mixture", "a", kind="verifier", tags=tags, params={"seed": 0}) as run:
        run.json("report.json", measured)
        run.json("baselines.json", {"shape": report(base, replicates=0)})
        run.artifact(tmp_path / "scores.parquet")
    [group] = group_runs(runs(Store.open(None), tags={"kind": "verifier"}))
    [row] = sweep_table.rows(group)
    assert row["auc_within_task_across"] == measured["auc_within_task_across"]
    assert row["rm_at_4_across_low"] == measured["ci95"]["rm_at_k_across"]["4"][0]
    assert row["auc_within_task_low"] is None
    text = sweep_table.as_markdown(group)
    assert "RM@4 across policies | AUC within task across policies" in text.splitlines()[0]
    assert "1.000 (1 mixed task)" in text
    assert "- AUC within task across policies: " in text
    assert "RM@4 across policies 0.750 [" in conclusions.of_verifiers(group)[1]
    assert draw_figures(["across_policies"]) == []
    said = capsys.readouterr().err
    assert (
        "across_policies of mixture/demo-c is not drawn: it is drawn where each policy has one attempt at a task"
        in said
    )
    assert "here a policy has up to 3 attempts at a task. Values across policies stand in figure sweep_table." in said


def test_a_data_set_of_ones_own_is_named_with_its_repositories(runs_folder: Path, tmp_path: Path) -> None:
    tasks = [f"{owner}__{owner}-{i}" for owner in ("aria", "birch") for i in range(8)]
    table = Scores.of(np.repeat(tasks, 2), np.linspace(0, 1, 32), [0, 1] * 16)
    write_score_table(tmp_path / "scores.parquet", table)
    names = {"sweep": "own", "preset": "demo", "factor": "mixture", "level": "a", "config_hash": "a"}
    params = {"seed": 0, "data.path": "sets/lab.parquet"}
    tags = names | {"control_hash": "c"}
    with RunLogger.start(Store.open(None), "own", "a", kind="verifier", tags=tags, params=params) as run:
        run.json("report.json", report(table, replicates=20))
        run.json("baselines.json", {})
        run.artifact(tmp_path / "scores.parquet")
    [group] = group_runs(runs(Store.open(None), tags={"kind": "verifier"}))
    assert "; evaluation part of data set lab: 16 tasks in 2 repositories, 32 attempts;" in group.note()
    assert group.resampled == "2 repositories"
    elsewhere = SimpleNamespace(params={"data.path": "/another/place/lab.parquet"}, tags={})
    folder = SimpleNamespace(params={"data.path": "sets/lab.v2"}, tags={})
    carried, named = (
        replace(group, cells=(*group.cells, replace(group.cells[0], run=run))).data_set for run in (elsewhere, folder)
    )
    assert (carried, named) == ("lab", "lab and lab.v2")
    assert group.foot().endswith(
        "Only 2 clusters: intervals from so few are too narrow, and other clusters may give another result."
    )
    shipped = replace(group, cells=(replace(group.cells[0], run=SimpleNamespace(params={}, tags={})),))
    shipped.cells[0].__dict__.update({"report": group.cells[0].report, "scores": group.cells[0].scores})
    assert (shipped.resampled, "; micro-SWE evaluation part: 16 tasks, 32 attempts;" in shipped.note()) == (
        "tasks",
        True,
    )
