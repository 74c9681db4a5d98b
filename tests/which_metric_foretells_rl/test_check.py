"""What is checked and fitted between the verifiers and the first run of RL, on pools whose answer is known."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from analysis.foretelling.plan import STUDY, read_rows
from analysis.presentation.style import csv_text
from analysis.sweep.tracked import group_runs, source_runs
from experiments.studies.which_metric_foretells_rl import check, design, landed, measured, records
from experiments.studies.which_metric_foretells_rl.measured import Measured
from rmlab.errors import DataError
from rmlab.metrics.report import report
from rmlab.rl.config import TransformConfig
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.run_index import RunInfo
from tests.which_metric_foretells_rl.planned import cells


def pool(seed: int = 0, skill: float = 2.0) -> check.Pool:
    """120 tasks, eight attempts each of two policies, some with one patch; a verifier that knows something and is overconfident."""
    rng = np.random.default_rng(seed)
    task = np.repeat([f"t{i:03d}" for i in range(120)], 16)
    policy = np.tile(np.repeat(["a_plain", "hacked"], 8), 120)
    truth = np.repeat(rng.normal(-1.3, 1.0, 120), 16)
    label = (rng.random(len(task)) < 1 / (1 + np.exp(-truth))).astype(float)
    logit = 2 * (skill * (label - 0.5) + 0.5 * truth + rng.normal(0, 1, len(task)) - 0.5)
    score = (1 / (1 + np.exp(-logit))).astype(np.float32).astype(float)
    patch = [f"{right:.0f} {copy}" for right, copy in zip(label, rng.integers(3, size=len(task)), strict=True)]
    return check.Pool.of(
        Scores.of(task.tolist(), score, label.astype(bool).tolist(), policy=policy.tolist(), patch=patch)
    )


def test_what_is_fitted_moves_calibration_alone() -> None:
    good, poor = pool(), pool(1, skill=0.3)
    values = check.fitted(good, poor)
    reports = {}
    for name in design.DISTORTIONS:
        config = TransformConfig(slope=values[f"SLOPE_{name}"], shift=values[f"SHIFT_{name}"])
        reports[name] = report(good.bent(config), replicates=0)
        if name in check.TARGETS:
            assert reports[name]["ece_width_10"] == pytest.approx(check.TARGETS[name], abs=0.002)
    assert reports["recalibrated"]["ece_width_10"] < 0.05
    assert len({reports[name]["auc_within_task"] for name in reports}) == 1
    assert len({str(reports[name]["rm_at_k"]) for name in reports}) == 1
    assert len({str(reports[name]["rm_at_k_patches"]) for name in reports}) > 1, "means of scores change places"
    for name, one in (("good", good), ("poor", poor)):
        scaled = one.bent(TransformConfig(slope=values[f"SLOPE_within_{name}"], between=0.0))
        assert check.within(check.Pool(scaled, one.group_N)) == pytest.approx(1.5, abs=0.01)
    with pytest.raises(DataError, match=r"an ECE of 0\.9 cannot be reached on the pool"):
        check.solved(good, lambda by: TransformConfig(shift=by), 0.9, (0.0, 12.0))
    with pytest.raises(DataError, match="slope3 changed auc_within_task on the pool"):
        check.assert_ranks(good, {"slope3": TransformConfig(slope=-3.0)})


def test_a_verifier_that_is_sure_of_most_wrong_attempts_is_moved_as_far_as_the_plan_wants() -> None:
    """Much as those of a verifier of the preset small: seven of ten lie at a logit of about -15."""
    rng = np.random.default_rng(3)
    sure = np.arange(2000) % 10 > 2
    logit = np.where(sure, rng.normal(-15, 1, 2000), rng.normal(1, 1.5, 2000))
    label = rng.random(2000) < 1 / (1 + np.exp(-logit))
    task = [f"t{i // 10:03d}" for i in range(2000)]
    certain = check.Pool.of(Scores.of(task, 1 / (1 + np.exp(-logit)), label.tolist(), policy=["a"] * 2000))
    values = check.fitted(certain, certain)
    assert 12 < values["SHIFT_shifted_far_up"] - values["SHIFT_recalibrated"] < 16
    assert certain.ece(
        TransformConfig(values["SLOPE_shifted_far_up"], values["SHIFT_shifted_far_up"])
    ) == pytest.approx(0.4, abs=1e-3)


def test_the_power_rests_on_what_the_pages_say() -> None:
    """power.csv is of the numbers that the page and the tables of policy_rl have now; where they change it has to be made anew."""
    kept = {row["test"]: row["share"] for row in read_rows(STUDY / "power.csv") if row["scenario"] == "landed"}
    assert {name: f"{value:.4f}" for name, value in landed.landed().items()} == {
        name: f"{float(value):.4f}" for name, value in kept.items()
    }
    found = Measured.read()
    kept = {row["test"]: row["share"] for row in read_rows(STUDY / "power.csv") if row["scenario"] == "measured"}
    for amount, slope in zip(design.AMOUNTS, design.SLOPES, strict=True):
        assert f"{found.auc('balanced', amount):.4f}" == f"{float(kept[f'auc_{amount}']):.4f}"
        of_column = f"ece_overconfident_{amount}"
        assert f"{found.ece('overconfident', amount, slope):.4f}" == f"{float(kept[of_column]):.4f}"
    assert f"{found.spread_auc():.4f}" == f"{float(kept['spread_auc']):.4f}"
    assert landed.page_rows(r"good: [^|]*\| final ")[0][2][0] == 0.909
    assert [row[2][1] for row in landed.page_rows(r"\d \| \d+ ")] == [0.286, 0.300, 0.281]
    with pytest.raises(DataError, match="no row of a table begins with 'nobody: '"):
        landed.page_rows("nobody: ")


def test_between_measured_amounts_lies_a_line_and_a_ratio_adds_what_it_adds_at_8000() -> None:
    table = pd.DataFrame(
        [
            {
                "sweep": "data_scale",
                "level": "1000",
                "seed": 0,
                "auc_within_task": 0.6,
                "slope_1": 0.1,
                "ratio_4:1": 0.3,
            },
            {
                "sweep": "data_scale",
                "level": "1000",
                "seed": 1,
                "auc_within_task": 0.8,
                "slope_1": 0.3,
                "ratio_4:1": 0.3,
            },
            {
                "sweep": "data_scale",
                "level": "8000",
                "seed": 0,
                "auc_within_task": 0.8,
                "slope_1": 0.1,
                "ratio_4:1": 0.2,
            },
            {
                "sweep": "data_scale",
                "level": "8000",
                "seed": 1,
                "auc_within_task": 1.0,
                "slope_1": 0.1,
                "ratio_4:1": 0.2,
            },
            {"sweep": "label_ratio", "level": "4:1", "seed": 0, "auc_within_task": 0.85},
        ]
    )
    found = Measured(table)
    assert found.auc("balanced", 2000) == pytest.approx(0.7 + 0.2 / 3), "a third of the way in the logarithm"
    assert found.auc("mostly_resolved", 1000) == pytest.approx(0.65), "0.05 less, as at 8,000"
    assert found.ece("mostly_resolved", 4000) == pytest.approx(0.3 - 0.2 / 3)
    assert found.ece("balanced", 500) == pytest.approx(0.2), "below the least that was measured it stays"
    assert found.spread_auc() == pytest.approx(np.sqrt(0.02))
    assert found.spread_ece("balanced") == pytest.approx(0.1)


@pytest.mark.slow
def test_what_was_measured_is_in_the_bundles() -> None:
    with source_runs(str(measured.BUNDLES / "data_scale.zip"), ("verifier",)) as (_, runs):
        [group] = group_runs(runs)
        [cell] = [cell for cell in group.at("4000", "epochs") if cell.seed == 1]
        found = measured.row(cell, "data_scale", {"log_ratio_4:1": float(np.log(4))})
    [kept] = [
        r
        for r in read_rows(STUDY / "measured.csv")
        if (r["sweep"], r["level"], r["seed"]) == ("data_scale", "4000", "1")
    ]
    assert found["slope_1"] == pytest.approx(found["ece_width_10"], abs=1e-6)
    assert all(
        float(kept[name]) == pytest.approx(value, abs=1e-5)
        for name, value in found.items()
        if name not in ("sweep", "level")
    )
    with source_runs(str(measured.BUNDLES / "label_ratio.zip"), ("verifier",)) as (_, runs):
        [ratios] = group_runs(runs)
        by = measured.shift(ratios.at("1:1", "")[:2], ratios.at("4:1", "")[:2])
        moved = [expit(measured.logits(one.scores.score) + by).mean() for one in ratios.at("1:1", "")[:2]]
        target = np.mean([one.scores.score.mean() for one in ratios.at("4:1", "")[:2]])
    assert np.mean(moved) == pytest.approx(target)


def test_roles() -> None:
    rows = [
        {"name": name, "block": "verifiers", "column": column, "auc_within_task": auc}
        for name, column, auc in (
            ("a", "balanced", 0.9),
            ("b", "balanced", 0.72),
            ("c", "balanced", 0.6),
            ("d", "mostly_unresolved", 0.95),
        )
    ]
    assert check.roles(rows) == {"good": "a", "poor": "b"}
    with pytest.raises(DataError, match="fewer than two verifiers"):
        check.roles(rows[3:])


def test_the_check_says_which_slopes_take_the_correlation_out() -> None:
    """ECE falls where AUC rises; once the multiplied logits miss by more at the larger amounts, they are correlated no longer."""
    planned = [cell for cell in cells() if cell["block"] == "verifiers"]
    pools = {cell["name"]: pool(i, 1.0) for i, cell in enumerate(planned)}
    rank = {amount: place for place, amount in enumerate(design.AMOUNTS)}
    base = {"balanced": 0.07, "mostly_unresolved": 0.15, "mostly_resolved": 0.32, "overconfident": 0.2}
    rows = [
        {**cell, "auc_within_task": 0.6 + 0.05 * rank[int(cell["amount"])], "mixed_tasks": 300}
        | {"ece_width_10": base[cell["column"]] - 0.012 * rank[int(cell["amount"])]}
        for cell in planned
    ]
    assert check.correlation(rows) < -0.2
    assert check.remedy(rows, pools).startswith("`design.py --slopes 1.2 1.5 3 5 8 12` mends the correlation: -0.")
    sloped = {c["name"]: c["overrides"].split()[1] for c in design.cells() if c["block"] == "hybrid"}
    assert sloped["hybrid_overconfident-250_b_s0"] == "reward.transform.slope=1.5"
    assert sloped["hybrid_overconfident-6000_a_s0"] == "reward.transform.slope=8"
    assert sum(value.startswith("reward.transform") for value in sloped.values()) == 6
    lost = [row | {"ece_width_10": 1 - float(str(row["auc_within_task"]))} for row in rows]
    assert check.remedy(lost, pools).startswith("none of the other slopes mends the correlation")


@pytest.mark.slow
def test_the_check_writes_what_it_found_and_what_it_fitted(
    monkeypatch: pytest.MonkeyPatch, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four verifiers are there, a good one and poorer ones: the design is not met, and the causal experiments can be run."""
    trained = {"balanced-250": 0.3, "balanced-430": 0.7, "balanced-6000": 2.0, "overconfident-250": 0.5}
    for number, (name, skill) in enumerate(trained.items()):
        write_score_table(plan / f"{name}.parquet", pool(number, skill).scores)
    infos = {name: RunInfo(name, "0", name, {}, 0, 1) for name in trained}
    ended = {("balanced-1000", "failed"): 2, ("balanced-2400", "killed"): 3}
    monkeypatch.setattr(check, "look", lambda: records.State(infos, {}, {}, {}, ended=ended))
    monkeypatch.setattr(check.Store, "open", lambda uri: None)
    tables = {name: SimpleNamespace(artifact=lambda path, name=name: plan / f"{name}.parquet") for name in trained}
    monkeypatch.setattr(check, "get_run", lambda store, run_id: tables[run_id])
    with pytest.raises(
        DataError, match="chosen once all of the column balanced are trained: balanced-3800 are not yet"
    ):
        check.main()
    ended["balanced-3800", "failed"] = 2
    capsys.readouterr()
    assert check.main() == 1
    said = capsys.readouterr().out
    assert "not trained here: mostly_unresolved-6000, mostly_resolved-6000, overconfident-6000, balanced-3800" in said
    assert "4 of 24 verifiers are trained." in said
    rows = {row["name"]: row for row in read_rows(plan / "design.csv")}
    assert set(rows) == set(trained)
    alone = report(pool(3, 0.5).scores, replicates=0)
    assert float(rows["overconfident-250"]["auc_within_task"]) == pytest.approx(alone["auc_within_task"])
    assert float(rows["overconfident-250"]["ece_width_10"]) > alone["ece_width_10"], "as it is paid"
    fitted = {row["name"]: (row["value"], row["run_id"]) for row in read_rows(plan / "fitted.csv")}
    assert fitted["good"] == ("balanced-6000", "balanced-6000")
    assert fitted["poor"][0] in ("balanced-250", "balanced-430")
    again = [{**row, "run_id": "lost"} for row in read_rows(plan / "fitted.csv")]
    (plan / "fitted.csv").write_text(
        csv_text([{**row, "value": "balanced-430"} if row["name"] == "good" else row for row in again])
    )
    check.main()
    kept = [row for row in read_rows(plan / "fitted.csv") if row["name"] == "good"]
    assert [(row["value"], row["run_id"]) for row in kept] == [
        ("balanced-430", "lost"),
        ("balanced-430", "balanced-430"),
    ], "its role stays"
    assert {row["run_id"] for row in read_rows(plan / "fitted.csv") if row["name"] == "SLOPE_flattened"} == {
        "lost",
        "balanced-430",
    }
    del infos["overconfident-250"]
    check.main()
    assert {row["name"] for row in read_rows(plan / "design.csv")} == set(trained), "what was known of it stays"
    del infos["balanced-430"]
    with pytest.raises(DataError, match=r"not trained here: good \(balanced-430\)"):
        check.main()
    named = {found for cell in cells() for found in re.findall(r"\b(?:SHIFT|SLOPE)_\w+", cell["overrides"])}
    assert named <= fitted.keys(), "every value that a cell names is fitted"
