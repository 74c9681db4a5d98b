"""The lines in which a trained verifier is summed up."""

import numpy as np

from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.training.loop import Trained
from rmlab.verifiers.encoding import cut_counts
from rmlab.verifiers.evaluation import Results, summary


def test_the_summary_of_one_attempt_a_policy_has_the_auc_across_policies() -> None:
    table = Scores.of(["t1", "t1", "t2", "t2"], [0.9, 0.1, 0.2, 0.8], [1, 0, 1, 0], policy=["a", "b", "a", "b"])
    results = Results(table, report(table, replicates=50) | cut_counts([]), None, None, {})
    said = summary("name", "run", Trained(1, 2, 2, 0.1, 0.1, 20.0, 0, ()), results, "4 attempts at 2 tasks")
    assert "across policies: AUC within task 0.500 [" in said


def test_the_summary_of_few_mixed_tasks_says_how_few_and_has_the_values_across_policies() -> None:
    tasks, policies = [*np.repeat([f"t{t}" for t in range(20)], 2), "t0"], [*["a", "b"] * 20, "a"]
    table = Scores.of(tasks, np.linspace(0, 1, 41), [*[1, 0] * 20, 0], policy=policies)
    measured = report(table, replicates=50)
    results = Results(table, measured | cut_counts([]), None, None, {"random": measured})
    said = summary("name", "run", Trained(1, 2, 2, 0.1, 0.1, 20.0, 0, ()), results, "41 attempts at 20 tasks")
    across = f"{measured['auc_within_task_across']:.3f}"
    assert "AUC within task 0.000 (1 mixed task), pooled" in said
    assert f"\n  across policies: AUC within task {across} [" in said
    assert f"; across policies: AUC within task {across}, RM@3 {measured['rm_at_k_across']['3']:.3f}\n" in said
    assert "RM@2: 1 of 40 (task, policy) groups has 2 attempts; the others use all they have." in said
