"""The figures of RL for a paper: two verifiers side by side, and curves by reward."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import foretelling_runs, rl_by_reward, two_verifiers
from analysis.policies import PolicyRun
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from tests.analysis.test_foretelling import PLAN, MadeRun, made_runs


def scores(skill: float, seed: int = 0) -> Scores:
    """30 tasks, 16 attempts each."""
    rng = np.random.default_rng(seed)
    task = np.repeat([f"t{i:02d}" for i in range(30)], 16)
    label = rng.random(480) < 0.3
    score = 1 / (1 + np.exp(-(skill * (label - 0.5) + rng.normal(0, 1, 480)))).round(2)
    return Scores.of(task.tolist(), score, label.tolist(), policy=["p"] * 480)


class Trained(MadeRun):
    """A verifier's run with its score table."""

    def artifact(self, path: str) -> Path:
        target = self.folder / self.run_id / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_score_table(target, self.files[path])
        return target


def test_the_roc_curve_within_tasks_has_the_auc_as_its_area() -> None:
    found = scores(1.5)
    x, y = two_verifiers.roc_within(found)
    area = float((np.diff(x) * y[:-1]).sum())
    assert area == pytest.approx(report(found, replicates=0)["auc_within_task"])
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    assert (np.diff(x) >= 0).all()


def paying(folder: Path) -> list[PolicyRun]:
    """Three verifiers of one start with their tables: two alike in best of k, of which one's policy does well."""
    runs = [run for run in made_runs(folder, 0.8, blocks="execution_free") if run.run.tags["start"].endswith("/a")][:3]
    found = []
    for run, best, outcome, skill in zip(runs, (0.40, 0.41, 0.50), (0.30, 0.15, 0.05), (2.0, 1.0, 2.0), strict=True):
        made: Any = run.run
        made.files["verifier_report.json"]["rm_at_k"] = {"1": 0.2, "4": 0.3, "16": best}
        made.files["outcome.json"]["held_out"]["all"]["sampled"]["after"] = outcome
        made.tags["verifier_name"] = f"verifier {outcome}"
        trained: Any = Trained("v", f"{best}", {}, {}, {"scores.parquet": scores(skill)}, folder)
        found.append(PolicyRun(made, trained))
    return found


def test_the_pair_is_alike_in_best_of_k_and_as_unlike_as_can_be_in_rl(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = paying(tmp_path)
    pair = two_verifiers.chosen(runs)
    assert pair is not None
    assert [one.run.run_id for one in pair] == [runs[0].run.run_id, runs[1].run.run_id]
    paths = two_verifiers.draw(runs, tmp_path / "out")
    ends = (".pdf", ".png", ".csv", "_one_column.pdf", ".caption.md", ".caption.tex")
    assert {path.name for path in paths} == {f"two_verifiers{end}" for end in ends}
    with next(path for path in paths if path.suffix == ".csv").open() as file:
        rows = list(csv.DictReader(file))
    panels = {"rm_at_k", "roc", "reliability", "resolved", "unresolved", "pass_at_1"}
    assert {row["panel"] for row in rows} == panels
    assert {row["verifier"] for row in rows} == {"verifier 0.3", "verifier 0.15"}
    text = next(path for path in paths if path.name.endswith("caption.md")).read_text()
    assert "verifier 0.3 (0.300 after RL) and verifier 0.15 (0.150 after RL)" in text
    assert "n = 480 attempts at 30 tasks; one training and one RL seed (0) each." in text
    assert two_verifiers.draw([replace(run, paid_by=None) for run in runs], tmp_path) == []
    assert "no two verifiers that paid alone" in capsys.readouterr().err


def test_curves_by_reward_are_means_over_verifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foretelling_runs, "read_plan", lambda: PLAN)
    runs = made_runs(tmp_path, 0.8, blocks="execution execution_free hybrid voluntary distortion")
    for run in runs:
        made: Any = run.run
        made.series = lambda name: [(1, 0.3), (2, 0.5)]
    arms = rl_by_reward.by_reward(runs)
    assert {arm: len(own) for arm, own in arms.items()} == {
        "execution": 4,
        "execution_free": 24,
        "execution_free, voluntary evidence": 8,
        "hybrid": 24,
    }
    paths = rl_by_reward.draw(runs, tmp_path / "out")
    with next(path for path in paths if path.suffix == ".csv").open() as file:
        rows = {(row["panel"], row["arm"], row["step"]): row for row in csv.DictReader(file)}
    outcomes = [run.outcome["curve"][-1]["pass_at_1"] for run in arms["hybrid"]]
    last = rows["pass_at_1", "hybrid", "60"]
    assert float(last["mean"]) == pytest.approx(np.mean(outcomes))
    half = 2.0687 * np.std(outcomes, ddof=1) / np.sqrt(24)  # t of 23 degrees of freedom
    assert float(last["high"]) - float(last["mean"]) == pytest.approx(half, rel=1e-3)
    assert rows["ran_share", "hybrid", "2"]["mean"] == "0.5"
    text = next(path for path in paths if path.name.endswith("caption.md")).read_text()
    assert "n = 4 execution, 24 execution_free, 8 execution_free, voluntary evidence, 24 hybrid; 2 starts" in text
    assert rl_by_reward.draw([], tmp_path) == []
