"""A verifier on the policy's own attempts: the hacking gap with its interval, and no AUC of a handful of tasks."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.looks import FEWEST_MIXED, Looks
from analysis.policies import policy_runs
from rmlab.configuration import load_program
from rmlab.metrics.scores import Scores
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.verifiers.score_table import write_score_table

TASKS, ATTEMPTS = 20, 4
START, END = 12, 3  # tasks with attempts of both labels at the two looks


def look(mixed: int, score: float) -> Scores:
    """Of the first `mixed` tasks one attempt of four is resolved, and scored above the others; the other tasks are never solved."""
    task = [f"t{i:02d}" for i in range(TASKS) for _ in range(ATTEMPTS)]
    won = np.array([i < mixed and a == 0 for i in range(TASKS) for a in range(ATTEMPTS)])
    return Scores.of(task, np.where(won, score + 0.1, score), won.tolist(), cluster=[f"c{name}" for name in task])


def gap(scores: Scores) -> float:
    return float((scores.score - scores.resolved).mean())


def track(store: Store, evidence: str, folder: Path, tables: bool = True) -> None:
    """An RL run as the program leaves it, with a look before training and one after it."""
    looks = {0: look(START, 0.3), 10: look(END, 0.5)}
    curve = [{"step": float(step), "pass_at_1": float(scores.resolved.mean()), "hacking_gap": gap(scores) - gap(looks[0]),
              "verifier_auc_within_task": 1.0, "verifier_ece_width_10": 0.2, "verifier_mean_score": float(scores.score.mean())}
             for step, scores in looks.items()]
    tags = {"config_hash": evidence, "start_fingerprint": "s0", "evidence": evidence, "verifier_fingerprint": "v", "verifier_name": "good"}
    with RunLogger.start(store, "policies", f"free {evidence}", kind="rl", tags=tags,
                         params={"seed": 0, "reward": "execution_free", "steps": 10}) as run:
        run.json("outcome.json", {"held_out": {}, "collapse": None, "area": 0.0, "hacking_gap": curve[-1]["hacking_gap"], "curve": curve,
                                  "verifier_first": {}, "verifier_last": {"auc_within_task": 1.0, "advantage_cosine_all": None}})
        for step, scores in looks.items() if tables else ():
            write_score_table(folder / f"look_{step:05d}.parquet", scores)
            run.artifact(folder / f"look_{step:05d}.parquet", "attempts")


@pytest.fixture
def store(runs_folder: Path) -> Store:
    return Store.open(None)


def looks_of(store: Store) -> Looks:
    return policy_runs(runs(store))[0].looks


def test_the_hacking_gap_has_an_interval_and_is_the_run_s_own(store: Store, tmp_path: Path) -> None:
    track(store, "final", tmp_path)
    found = looks_of(store)
    assert found.mixed == {0: START, 10: END}
    last = found.gaps[10]
    assert last.difference == pytest.approx(found.outcome["hacking_gap"])
    assert last.low < last.difference < last.high
    assert (found.gaps[0].low, found.gaps[0].high) == (0, 0)


def test_an_auc_of_few_tasks_is_the_last_one_of_enough(store: Store, tmp_path: Path) -> None:
    track(store, "final", tmp_path)
    found = looks_of(store)
    assert found.shows("verifier_auc_within_task", 0)
    assert not found.shows("verifier_auc_within_task", 10)
    assert found.shows("verifier_ece_width_10", 10)
    assert FEWEST_MIXED in range(END + 1, START + 1)
    shifted = found.shifted
    assert (shifted["auc_step"], shifted["auc_within_task"]) == (0, 1.0)
    won = END / (TASKS * ATTEMPTS)  # one bin for the lost (0.5), one for the won (0.6)
    assert shifted["ece_width_10"] == pytest.approx(won * 0.4 + (1 - won) * 0.5)
    assert shifted["ece_width_10_low"] <= shifted["ece_width_10"] <= shifted["ece_width_10_high"]


def test_without_tables_it_is_what_the_run_said(store: Store, tmp_path: Path) -> None:
    track(store, "final", tmp_path, tables=False)
    found = looks_of(store)
    assert (found.mixed, found.gaps, found.shifted) == ({}, {}, {"auc_within_task": 1.0})
    assert found.shows("verifier_auc_within_task", 10)


def test_curves_have_rows_for_each_evidence_and_leave_out_what_is_not_shown(store: Store, tmp_path: Path) -> None:
    for evidence in ("final", "voluntary"):
        track(store, evidence, tmp_path)
    paths = load_program("figures").main(["rl_curves"])
    with next(p for p in paths if p.suffix == ".csv").open(newline="", encoding="utf-8") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for arm in ("execution_free, good", "execution_free, good (voluntary evidence)"):
        own = [row for row in rows if row["arm"] == arm]
        assert [row["step"] for row in own if row["panel"] == "verifier_auc_within_task"] == ["0"]
        gaps = [row for row in own if row["panel"] == "hacking_gap"]
        assert [row["step"] for row in gaps] == ["0", "10"]
        assert float(gaps[1]["low"]) < float(gaps[1]["value"]) < float(gaps[1]["high"])


def test_the_table_has_a_row_for_each_run(store: Store, tmp_path: Path) -> None:
    for evidence in ("final", "voluntary"):
        track(store, evidence, tmp_path)
    paths = {p.name: p for p in load_program("figures").main(["rl_table"])}
    with paths["rl_table.csv"].open(newline="", encoding="utf-8") as file:
        first, second = csv.DictReader(file)
    assert (first["arm"], second["arm"]) == ("execution_free, good", "execution_free, good (voluntary evidence)")
    assert float(first["hacking_gap_low"]) < float(first["hacking_gap"]) < float(first["hacking_gap_high"])
    assert (first["greedy_after"], first["ran_share_last"], first["collapse"]) == ("", "", "")
    [line] = [line for line in paths["rl_table.md"].read_text().splitlines() if line.startswith("| execution_free, good |")]
    assert line.split(" | ")[2:4] == ["-", "-"]
    assert "2 runs, seeds 0, 10 steps each" in paths["rl_table.md"].read_text()
