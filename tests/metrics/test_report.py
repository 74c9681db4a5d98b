import json
from pathlib import Path

import numpy as np
import pytest

from rmlab.baselines.rules import table_baselines
from rmlab.errors import DataError
from rmlab.metrics.calibration import prior_corrected
from rmlab.metrics.report import is_miscalibrated, report
from rmlab.pages.report_page import report_page
from rmlab.pages.report_tables import beside_baselines
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table

CASES = Path(__file__).parents[1] / "data" / "metric_cases"
CONTRACT = {
    "tasks",
    "trajectories",
    "unlabelled",
    "score_rate",
    "resolved_rate",
    "pass_at_k",
    "rm_at_k",
    "tasks_at_k",
    "auc_pooled",
    "auc_within_task",
    "auc_between_tasks",
    "within_pair_share",
    "mixed_tasks",
    "ece_width_10",
    "ece_width_15",
    "ece_mass_10",
    "ece_noise_floor",
    "ece_noise_floor_p95",
    "ece_noise_floor_task",
    "ece_noise_floor_task_p95",
    "brier",
    "log_loss",
    "advantage_cosine",
    "advantage_cosine_all",
    "advantage_noise_share",
    "ci95",
}


def assert_close(expected, found, path):
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert_close(value, found[key], f"{path}.{key}")
    elif expected is None:
        assert found is None, path
    else:
        assert found == pytest.approx(expected, abs=1e-9), path


@pytest.mark.parametrize("case", sorted(path.stem for path in CASES.glob("*.csv")))
def test_cases_with_answers(case):
    found = report(read_score_table(CASES / f"{case}.csv"), replicates=0)
    assert_close(json.loads((CASES / f"{case}.expected.json").read_text()), found, case)


@pytest.mark.parametrize("case", ["missing", "one_class", "task_only"])
def test_names_are_the_contract_and_all_is_plain_json(case):
    found = report(read_score_table(CASES / f"{case}.csv"), replicates=100)
    assert set(found) >= CONTRACT
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for name, ends in found["ci95"].items():
        nested = ends if isinstance(found[name], dict) else {"": ends}
        for k, pair in nested.items():
            estimate = found[name][k] if k else found[name]
            assert (pair is None) == (estimate is None), (name, k)
            assert pair is None or pair[0] <= pair[1]
    assert set(found["ci95"]["rm_at_k"]) == set(found["rm_at_k"])


def test_intervals_hold_the_estimate_of_a_plain_table(make_scores):
    found = report(make_scores(0, tasks=60, ties=False))
    for name in (
        "auc_pooled",
        "auc_within_task",
        "auc_between_tasks",
        "brier",
        "log_loss",
        "resolved_rate",
        "advantage_cosine",
    ):
        low, high = found["ci95"][name]
        assert low < found[name] < high, name


@pytest.mark.parametrize("policies", [1, 3])
def test_no_number_depends_on_the_order_of_rows(make_scores, policies):
    scores = make_scores(1, policies=policies, tasks=20)
    shuffled = scores.select(np.random.default_rng(0).permutation(len(scores)))
    assert report(shuffled, replicates=50) == report(scores, replicates=50)


def test_no_estimate_depends_on_the_names_of_tasks(make_scores):
    scores = make_scores(2, tasks=20)
    renamed = Scores.of([name[::-1] for name in scores.task_id], scores.score, scores.resolved)
    drawn = {
        "replicates",
        "clusters",
        "ci95",
        "ece_less_floor",
        "ece_noise_floor",
        "ece_noise_floor_p95",
        "ece_noise_floor_task",
        "ece_noise_floor_task_p95",
    }
    before, after = report(scores, replicates=0), report(renamed, replicates=0)
    for name in set(before) - drawn:
        assert_close(before[name], after[name], name)


def test_unlabelled_rows_are_counted_and_in_nothing_else(make_scores):
    scores = make_scores(3, policies=2)
    n = len(scores)
    more = Scores.of(
        [*scores.task_id, "task-000", "other"],
        [*scores.score, 0.7, 0.2],
        [*scores.resolved, np.nan, np.nan],
        policy=[*scores.policy, "policy-0", "policy-9"],
        cluster=[*scores.cluster, "cluster-000", "elsewhere"],
    )
    before, after = report(scores, replicates=50), report(more, replicates=50)
    assert (before.pop("unlabelled"), after.pop("unlabelled")) == (0, 2)
    assert before == after
    assert before["trajectories"] == n


def test_several_policies_by_hand():
    # a: .9 resolved over .1 not: RM@2 1, pass@1 1/2. b: the other way round: RM@2 0. Among all four, .9 wins: a tie of
    # a's resolved and b's unresolved.
    scores = Scores.of(["t"] * 4, [0.9, 0.1, 0.9, 0.1], [1, 0, 0, 1], policy=["a", "a", "b", "b"])
    found = report(scores, replicates=0)
    assert found["rm_at_k"] == pytest.approx({"1": 0.5, "2": 0.5})
    assert found["rm_at_k_across"] == pytest.approx({"1": 0.5, "2": 0.5, "4": 0.5})
    assert found["tasks_at_k"] == {"1": 2, "2": 2}
    assert found["mixed_tasks"] == 2
    assert found["auc_within_task"] == 0.5
    assert found["advantage_cosine"] == pytest.approx(0.0)
    assert (found["tasks"], found["policies"], found["trajectories"]) == (1, 2, 4)


def test_one_attempt_of_each_policy_has_an_auc_across_policies_with_its_interval():
    # Of 40 tasks the better policy's attempt is resolved, the other's not, and scored above it at 30.
    score = [value for t in range(40) for value in ((0.7, 0.3) if t % 4 else (0.2, 0.6))]
    table = Scores.of(np.repeat([f"t{t}" for t in range(40)], 2), score, [1, 0] * 40, policy=["a", "b"] * 40)
    found = report(table, replicates=500)
    assert found["auc_within_task"] is None
    assert found["auc_within_task_across"] == 0.75
    low, high = found["ci95"]["auc_within_task_across"]
    # 40 tasks, each right with 0.75: a standard error of 0.068.
    assert (low, high) == (pytest.approx(0.75 - 1.96 * 0.068, abs=0.03), pytest.approx(0.75 + 1.96 * 0.068, abs=0.03))
    found["baselines"] = table_baselines(table)
    page = report_page("two agents", found, table)
    for shown in ("the same, across policies", "RM@2 across policies", "AUC within task across policies", "0.7500"):
        assert shown in page


def test_prior_correction_needs_both_priors(make_scores):
    scores, validation = make_scores(4), make_scores(5)
    assert report(scores, replicates=0)["ece_prior_corrected"] is None
    assert report(scores, replicates=0, validation=validation)["ece_prior_corrected"] is None
    same = report(scores, replicates=20, validation=validation, training_prior=float(validation.resolved.mean()))
    assert same["ece_prior_corrected"] == pytest.approx(same["ece_width_10"], abs=0.02)  # clipping aside
    assert same["ci95"]["ece_prior_corrected"] is not None
    other = report(scores, replicates=0, validation=validation, training_prior=0.05)
    assert other["ece_prior_corrected"] != pytest.approx(same["ece_width_10"], abs=0.02)


def test_one_cluster_has_estimates_and_no_intervals():
    found = report(Scores.of(["t"] * 3, [0.1, 0.5, 0.9], [0, 0, 1]))
    assert found["auc_pooled"] == 1.0
    assert found["ci95"]["auc_pooled"] is None
    assert found["ci95"]["rm_at_k"] == {"1": None, "2": None, "3": None}


def test_miscalibrated_is_said_above_the_task_floor_only():
    rng = np.random.default_rng(0)
    score = rng.random(2000)
    task = [f"t{i % 200}" for i in range(2000)]
    assert is_miscalibrated(report(Scores.of(task, score, rng.random(2000) < score), replicates=0)) is False
    assert is_miscalibrated(report(Scores.of(task, score, rng.random(2000) < score**2), replicates=0)) is True
    assert is_miscalibrated(report(Scores.of(["t"], [np.nan], [1]), replicates=0)) is None


def test_every_ece_stands_less_a_floor_of_its_own(make_scores):
    scores, validation = make_scores(6, tasks=40), make_scores(7, tasks=40)
    found = report(scores, replicates=300, validation=validation, training_prior=0.1)
    floor = found["ece_noise_floor_task"]
    assert found["ece_less_floor"] == pytest.approx(found["ece_width_10"] - floor)
    low, high = found["ci95"]["ece_less_floor"]
    assert low < found["ece_less_floor"] < found["ece_width_10"] < high, "it reaches up to the error without bias"
    corrected = prior_corrected(scores.score, 0.1, float(validation.resolved.mean()))
    alone = report(Scores.of(scores.task_id, corrected, scores.resolved, cluster=scores.cluster), replicates=0)
    assert found["ece_prior_corrected"] == pytest.approx(alone["ece_width_10"])
    assert found["ece_prior_corrected_noise_floor_task"] == pytest.approx(alone["ece_noise_floor_task"])
    assert found["ece_prior_corrected_less_floor"] == pytest.approx(alone["ece_less_floor"])
    assert found["ece_prior_corrected_noise_floor_task"] != pytest.approx(floor, rel=0.01)
    for after in found["post_hoc"].values():
        assert 0 < after["ece_width_10"] - after["ece_less_floor"] != pytest.approx(floor, rel=0.001)
        assert after["ci95"]["ece_less_floor"][0] < after["ece_less_floor"] < after["ci95"]["ece_less_floor"][1]


def test_only_unlabelled_rows_leave_all_undefined():
    found = report(Scores.of(["t"], [0.5], [np.nan]))
    assert (found["trajectories"], found["unlabelled"], found["resolved_rate"], found["rm_at_k"]) == (0, 1, None, {})


def test_bad_tables_say_what_is_wrong():
    with pytest.raises(DataError, match="no rows"):
        report(Scores.of([], [], []))
    with pytest.raises(DataError, match="task t lies in cluster a and in cluster b"):
        report(Scores.of(["t", "t"], [0.1, 0.2], [1, 0], cluster=["a", "b"]))


def test_what_rests_on_one_cluster_has_no_interval(make_scores):
    """One policy's attempts at one task are mixed; the other tasks still move what they take part in."""
    scores = Scores.of(
        ["a", "a", "a", *"bbccdd"],
        [0.2, 0.6, 0.4, *np.linspace(0.1, 0.8, 6)],
        [1, 0, 1, 1, 1, 0, 0, 1, 1],
        patch=list("123456789"),
    )
    found = report(scores, replicates=200)
    for name in ("auc_within_task", "auc_within_task_patches", "advantage_cosine", "advantage_cosine_all"):
        assert found[name] is not None
        assert found["ci95"][name] is None, name
    assert np.ptp(found["ci95"]["advantage_noise_share"]) > 0
    assert np.ptp(found["ci95"]["auc_pooled"]) > 0
    text = report_page("table", found, scores)
    assert "rests on 1 mixed task" in text
    assert "4 pairs" not in text
    assert "2 pairs in 1 task with both labels" in text
    assert "rests on" not in report_page(
        "table", report(make_scores(3, tasks=60), replicates=0), make_scores(3, tasks=60)
    )


def test_one_mixed_task_in_each_of_two_clusters_has_an_interval():
    scores = Scores.of([*"aabbcc"], [0.2, 0.6, 0.7, 0.3, 0.5, 0.5], [1, 0, 1, 0, 1, 1])
    found = report(scores, replicates=200)
    assert (found["auc_within_task"], found["ci95"]["auc_within_task"]) == (0.5, [0.0, 1.0])


def test_values_across_policies_stand_beside_where_few_tasks_are_mixed_within_one():
    """As above, and a third attempt of policy a at the first task: the only task that is mixed within a policy."""
    score = [value for t in range(40) for value in ((0.7, 0.3) if t % 4 else (0.2, 0.6))]
    tasks, policies = [*np.repeat([f"t{t}" for t in range(40)], 2), "t0"], [*["a", "b"] * 40, "a"]
    table = Scores.of(tasks, [*score, 0.1], [*[1, 0] * 40, 0], policy=policies)
    found = report(table, replicates=50)
    found["baselines"] = table_baselines(table)
    header, (own, *rules) = beside_baselines(found)
    assert header[1:5] == [
        "RM@2",
        "AUC within task (1 mixed task)",
        "RM@3 across policies",
        "AUC within task across policies",
    ]
    assert own[2] == "1.0000"
    assert own[4].startswith("0.7561 [")  # 31 of 41 pairs
    assert {rule[0]: rule[4] for rule in rules}["random"] == "0.5000"
