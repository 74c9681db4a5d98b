"""What do a policy's attempts tell without a verifier? One row a policy, from a collected set, as Markdown.

    rmlab collect output=runs/all.parquet parts.supervised.tasks=0 parts.verifier.tasks=0 \\
        parts.validation.policies=[] parts.evaluation.policies=[]
    python experiments/benchmarks/policies.py runs/all.parquet

Judged on the evaluation part; shape and length are fitted on the validation attempts of the same policy.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rmlab.baselines.rules import majority_at_k, score_baselines
from rmlab.baselines.shape import pattern
from rmlab.benchmark import BenchmarkRow, run_script
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import TrajectorySet, read_trajectories

HEAD = (
    "policy",
    "resolved",
    "pass@8",
    "last value AUC",
    "last value RM@8",
    "majority@8",
    "shape AUC",
    "length AUC",
    "unresolved passing the call",
    "unfinished",
    "turns",
    "distinct",
)


def row(judged: TrajectorySet, fitted_on: TrajectorySet) -> list[str]:
    """The numbers of one policy's attempts, without its name. AUCs within task; shares of rows."""
    scores = score_baselines(judged, fitted_on)

    def found(name: str) -> dict[str, dict[str, float]]:
        value = scores[name]
        assert isinstance(value, Scores), value
        return report(value, replicates=0)

    rows: tuple[Trajectory, ...] = judged.trajectories
    majority, _ = majority_at_k(
        [(t.task_id, t.policy) for t in rows], [str(t.patch) for t in rows], [bool(t.resolved) for t in rows], [8]
    )
    last = found("last_value")
    values = [
        found("random")["resolved_rate"],
        last["pass_at_k"]["8"],
        last["auc_within_task"],
        last["rm_at_k"]["8"],
        majority["8"],
        found("shape")["auc_within_task"],
        found("length")["auc_within_task"],
        np.mean([bool(t.extra["public_passed"]) for t in rows if not t.resolved]),
        np.mean([t.exit_status == "unfinished" for t in rows]),
    ]
    distinct = len({(t.task_id, t.policy, t.content_id) for t in rows}) / len(rows)
    return [*(f"{value:.3f}" for value in values), f"{np.mean([len(pattern(t)) for t in rows]):.1f}", f"{distinct:.2f}"]


def main(arguments: Sequence[str]) -> list[BenchmarkRow]:
    """Prints the table: each policy, then all together. In its rows: the last value's AUC within task, of each policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path, help="a set that rmlab collect wrote")
    pool = read_trajectories(parser.parse_args(arguments).set)
    found: list[BenchmarkRow] = []
    judged, fitted_on = pool.part("evaluation").trajectories, pool.part("validation").trajectories
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for policy in [*sorted({t.policy for t in judged}), "all"]:
        of_policy = (
            TrajectorySet(tuple(t for t in part if policy in (t.policy, "all")), {}) for part in (judged, fitted_on)
        )
        values = row(*of_policy)
        print("| " + " | ".join([policy, *values]) + " |", flush=True)
        found.append(BenchmarkRow(f"last value, {policy}", "AUC", float(values[HEAD.index("last value AUC") - 1])))
    return found


if __name__ == "__main__":
    run_script(main)
