"""The figures of RL for a paper: verifiers side by side, and curves by reward."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.foretelling import runs as foretelling_runs
from analysis.presentation import style
from analysis.publication import rl_by_reward, two_verifiers, verifier_panels
from analysis.rl.policies import PolicyRun
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from tests.analysis.foretelling.made_study import PLAN, MadeRun, made_runs

pytestmark = pytest.mark.usefixtures("small_pictures")


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
    x, y = verifier_panels.roc_within(found)
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
    with style.figure(2, 3, 2, 2) as (_, axes):
        two_verifiers._panels(axes.flat, pair, [verifier_panels.table_of(run) for run in pair])
        best, roc, _, *distributions, _ = axes.flat
        assert best.get_ylim()[0] == 0
        assert [text.get_text() for text in best.texts] == ["k = 16:\n0.400 and 0.410"]
        assert (roc.get_xlabel(), roc.get_ylabel()) == ("false positive rate", "true positive rate")
        names = [text.partition(":")[0] for text in best.get_legend_handles_labels()[1]]
        assert [axis.get_title() for axis in distributions] == names == [run.verifier for run in pair]
        assert all(axis.get_legend() for axis in distributions)
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
    banded = any("pass_at_1_low" in row for run in pair for row in run.outcome["curve"])
    assert ("bands are 95 %" in text) == banded
    for run in pair:
        for row in run.outcome["curve"]:
            row |= {"pass_at_1_low": 0.1, "pass_at_1_high": 0.4}
    assert (
        "of which there are fewer; bands are 95 % intervals"
        in two_verifiers.caption(pair, [verifier_panels.table_of(run) for run in pair]).shown
    )
    assert "from one start, with final evidence and with their scores as they are" in text
    for run in runs[:2]:
        run.run.tags["evidence"] = "voluntary"
    assert two_verifiers.chosen(runs) == pair, "where no two with final evidence fit"
    alike: Any = runs[2].run
    alike.files["verifier_report.json"]["rm_at_k"]["16"] = 0.40
    fourth = replace(
        runs[2], run=replace(alike, run_id="f" * 32, tags={**alike.tags, "verifier_fingerprint": "fourth"}, written={})
    )
    both = two_verifiers.chosen([*runs[:2], PolicyRun(alike, runs[2].paid_by), fourth])
    assert both is not None
    assert {run.evidence for run in both} == {"final"}, "though the other pair differs more"
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
    ends = [(run.run.tags["start"], run.outcome["curve"][-1]["pass_at_1"]) for run in arms["hybrid"]]
    last = rows["pass_at_1", "hybrid", "60"]
    assert float(last["mean"]) == pytest.approx(np.mean([end for _, end in ends]))
    starts = [[end for start, end in ends if start.endswith(name)] for name in ("/a", "/b")]
    within = sum(np.var(own, ddof=1) * (len(own) - 1) for own in starts) / 22
    half = 2.0739 * np.sqrt(within / 24)  # t of 22 degrees of freedom: two starts
    assert float(last["high"]) - float(last["mean"]) == pytest.approx(half, rel=1e-3)
    assert rows["ran_share", "hybrid", "2"]["mean"] == "0.5"
    text = next(path for path in paths if path.name.endswith("caption.md")).read_text()
    assert (
        "n = execution alone pays: 4 runs, a verifier alone pays: 24 runs, a verifier alone pays, voluntary evidence: 8 runs, "
        "a verifier and execution pay: 24" in text
    )
    assert "; 2 starts, RL seeds" in text
    for run in arms["hybrid"]:
        run.run.tags["start_fingerprint"] += " again"
    assert "; 2 starts (trained again: 4 sets of weights), RL seeds" in rl_by_reward.caption(arms, []).counts
    assert "thin: single runs; of the share of episodes no mean is drawn." in text
    assert "mean is taken first; what execution alone pays: over runs); band: its 95 % interval" in text
    assert rl_by_reward.draw([], tmp_path) == []


def test_panels_of_curves_by_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of episodes is drawn run by run; the hacking gap says why an arm has none; a known reward keeps its look."""
    monkeypatch.setattr(foretelling_runs, "read_plan", lambda: PLAN)
    runs = made_runs(tmp_path, 0.8, blocks="execution execution_free")
    for run in runs:
        made: Any = run.run
        made.series = lambda name: [(1, 0.3), (2, 0.5)]
        if made.params["reward"] == "execution_free":
            made.tags["verifier_name"] = "one"
    arms = rl_by_reward.by_reward(runs)
    with style.figure(1, 3, 2, 2) as (_, [axes]):
        found = {
            name: rl_by_reward._panel(axis, name, arms, rl_by_reward.KNOWN)
            for axis, name in zip(axes, rl_by_reward.PANELS, strict=True)
        }
        assert [len(axis.lines) for axis in axes] == [28 + 2 * len(arms), 28 + 1, 28]
        assert {line.get_linestyle() for line in axes[2].lines[:4]} == {"--"}, "of what execution alone pays"
        assert {line.get_linestyle() for line in axes[2].lines[4:]} == {"-"}
        assert [text.get_text() for text in axes[1].texts] == ["execution alone pays:\nno verifier, so no gap"]
        assert not [*axes[0].texts, *axes[2].texts]
    assert {row["arm"] for row in found["ran_share"]} == set(arms), "the CSV has the means"


def test_the_caption_of_curves_by_reward_names_what_is_drawn(tmp_path: Path) -> None:
    """Of single runs there is no band, without a verifier no hacking gap, and without execution no word of it."""
    one = {"panel": "pass_at_1", "low": float("nan"), "high": float("nan")}
    runs = made_runs(tmp_path, 0.8, blocks="execution execution_free")
    execution, free = (
        [run for run in runs if run.run.params["reward"] == name] for name in ("execution", "execution_free")
    )
    text = rl_by_reward.caption({"execution": execution}, [one]).shown
    assert text == (
        "pass@1 of sampled attempts at validation tasks; hacking gap: of no run; episodes that run the call: of no run. "
        "Thick: mean over runs; thin: single runs."
    )
    text = rl_by_reward.caption({"execution_free": free}, [one, {**one, "panel": "hacking_gap", "low": 0.1}]).shown
    assert "before training; episodes" in text
    assert "Thick: mean over trainings of verifiers (of the runs that one pays the mean is taken first); band: " in text


def test_other_rewards_are_other_arms_and_runs_of_one_training_are_one_unit(tmp_path: Path) -> None:
    """Outside the study: two seeds of one verifier, another verifier, a bent reward, two weights of a hybrid."""
    runs = made_runs(tmp_path, 0.8, blocks="execution_free")[:6]
    verifiers = ("one", "one", "two", "one", "one", "one")
    for place, (run, verifier) in enumerate(zip(runs, verifiers, strict=True)):
        made: Any = run.run
        made.name = f"mine {place}"
        made.tags |= {"verifier_training": verifier, "start_fingerprint": "s"}
        made.files["outcome.json"]["curve"][-1]["pass_at_1"] = (0.2, 0.4, 0.5, 0.9, 0.1, 0.1)[place]
    for run, tags, params in (
        (runs[3], {"reward_variant": "slope 3"}, {}),
        (runs[4], {}, {"reward": "hybrid", "reward_weight": "0.5"}),
        (runs[5], {}, {"reward": "hybrid", "reward_weight": "2"}),
    ):
        run.run.tags.update(tags)
        run.run.params.update(params)
    arms = rl_by_reward.by_reward(runs)
    counts = {"execution_free": 3, "execution_free (slope 3)": 1, "hybrid × 0.5": 1, "hybrid × 2": 1}
    assert {arm: len(own) for arm, own in arms.items()} == counts
    text = rl_by_reward.caption(arms, []).counts
    assert (
        "n = a verifier alone pays: 3 runs of 2 verifiers, a verifier alone pays (slope 3): 1 run, hybrid × 0.5: 1"
        in text
    )
    values = [(rl_by_reward.unit(run), run.outcome["curve"][-1]["pass_at_1"]) for run in arms["execution_free"]]
    mean, low, high = rl_by_reward.mean_over_units(values)
    assert mean == pytest.approx((0.3 + 0.5) / 2)
    assert np.isnan([low, high]).all(), "two units of one start: one degree of freedom"
    apart = [(("a", "1"), 0.2), (("a", "2"), 0.4), (("b", "3"), 0.7), (("b", "4"), 0.9)]
    assert rl_by_reward.mean_over_units(apart)[2] - 0.55 == pytest.approx(4.3027 * np.sqrt(0.02 / 4), rel=1e-4)
    assert np.isnan(rl_by_reward.mean_over_units(apart[1:3])[1]), "one unit of each start"


def test_what_execution_pays_is_a_unit_a_run_though_a_verifier_watches(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8, blocks="execution")
    for run in runs:
        run.run.tags.update(verifier_training="watches", verifier_fingerprint="w")
    assert len({rl_by_reward.unit(run) for run in runs}) == 4
