"""Figures of RL runs: the correlation by hand, the verdict that few verifiers allow, and both figures from a real store."""

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from analysis.rl.policies import policy_runs
from analysis.rl.relation import NOTHING, spearman
from analysis.summaries import conclusions
from rmlab.commands.compare import compare
from rmlab.commands.figures import draw_figures
from rmlab.errors import DataError, RmlabError
from rmlab.fingerprint import fingerprint
from rmlab.metrics import uncertainty
from rmlab.metrics.uncertainty import cluster_weights
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_spearman_by_hand() -> None:
    """Ranks 1 2 3 4 and 2 1 4 3: Σd² = 4, ρ = 1 - 6·4 / (4·15) = 0.6. With a tie: ranks 1 2.5 2.5 and 1 2 3, ρ = 1.5 / √3."""
    assert spearman([1, 2, 3, 4], [20, 10, 40, 30]).rho == pytest.approx(0.6)
    assert spearman([1, 5, 5], [1, 2, 3]).rho == pytest.approx(1.5 / np.sqrt(3))
    undefined = spearman([1, 1, 1], [1, 2, 3])
    assert (undefined.rho, undefined.n, undefined.verdict) == (None, 3, NOTHING)


def test_what_may_be_said() -> None:
    rising = list(range(12))
    found = spearman(rising, [x**2 for x in rising])
    assert (found.rho, found.verdict) == (1.0, "rises with it")
    assert spearman(rising, [-x for x in rising]).verdict == "falls with it"
    few = spearman(rising[:9], rising[:9])
    assert few.rho == 1.0
    assert few.verdict == NOTHING
    noise = np.random.default_rng(0).random(12).tolist()
    assert spearman(rising, noise).verdict == NOTHING
    assert f"n = 12: {NOTHING}" in str(spearman(rising, noise))


def test_verifiers_of_one_training_are_one_unit() -> None:
    """Repeating every verifier changes neither coefficient nor interval; and a resample by weights is the resample itself."""
    rng = np.random.default_rng(0)
    x, y = rng.random(12).round(1), rng.random(12)
    alone = spearman(x.tolist(), y.tolist())
    names = [f"training {i:02d}" for i in range(12)]
    thrice = spearman([*x, *x, *x], [*y, *y, *y], names * 3)
    assert (thrice.rho, thrice.low, thrice.high, thrice.n) == pytest.approx((alone.rho, alone.low, alone.high, 12))
    assert (alone.n, spearman([*x, *x], [*y, *y]).n) == (12, 24)
    weights = np.vstack(list(cluster_weights(12, 200, 0)))
    by_hand = [spearmanr(np.repeat(x, w), np.repeat(y, w)).statistic for w in weights.astype(int)]
    found = spearman(x.tolist(), y.tolist(), replicates=200)
    assert (found.low, found.high) == pytest.approx(np.quantile(by_hand, [0.025, 0.975]))


@pytest.mark.slow
@pytest.mark.parametrize("trainings", [10, 16, 24])
def test_families_of_verifiers_foretell_nothing_by_chance(trainings: int) -> None:
    """Three verifiers a training, without a relation: 0.03 to 0.07 of the intervals leave 0 out, give or take the simulation's error;
    with every verifier as a unit of its own more than 0.13."""
    rng, draws = np.random.default_rng(0), 500
    names = [f"training {i:02d}" for i in range(trainings)] * 3
    said = np.zeros(2)
    for _ in range(draws):
        x, y = (
            np.tile(rng.normal(size=trainings), 3) + spread * rng.normal(size=3 * trainings) for spread in (0.3, 0.5)
        )
        found = (spearman(x, y, units, replicates=300) for units in (names, None))
        said += [each.low > 0 or each.high < 0 for each in found]
    assert 0.02 <= said[0] / draws <= 0.08, said
    assert said[1] / draws > 0.13, said


def track(store: Store, number: int, reward: str, seed: int, quality: float, start: str = "s0") -> None:
    """An RL run as the program leaves it; a better verifier gains more and is hacked less."""
    curve = [
        {
            "step": float(step),
            "pass_at_1": 0.2 + quality * step / 100,
            "pass_at_1_low": 0.1,
            "pass_at_1_high": 0.5,
            "pass_at_1_greedy": 0.3,
            "hacking_gap": (1 - quality) * step / 100,
            "verifier_auc_within_task": quality,
            "verifier_mixed_tasks": 20,
            "verifier_ece_width_10": 1 - quality,
        }
        for step in (0, 10, 20)
    ]
    tags = {"config_hash": fingerprint([number, reward, seed, start]), "start_fingerprint": start, "evidence": "final"}
    if reward != "execution":
        tags |= {"verifier_fingerprint": f"v{number}", "verifier_name": f"verifier {number}", "verifier": f"v{number}"}
    with RunLogger.start(
        store,
        "policies",
        f"{reward} {number} s{seed}",
        kind="rl",
        tags=tags,
        params={"seed": seed, "reward": reward, "reward_weight": 1.0, "steps": 20},
    ) as run:
        for step in range(1, 21):
            run.metrics({"rl/ran_share": 0.9}, step)
        difference = {
            "before": 0.2,
            "after": 0.2 + quality,
            "difference": quality,
            "low": quality - 0.1,
            "high": quality + 0.1,
            "tasks": 9,
        }
        run.json(
            "outcome.json",
            {
                "held_out": {"all": {"sampled": difference, "greedy": difference}},
                "collapse": quality < 0.3,
                "area": quality / 2,
                "hacking_gap": curve[-1]["hacking_gap"],
                "verifier_first": {},
                "verifier_last": {},
                "curve": curve,
            },
        )
        if reward != "execution":
            run.json(
                "verifier_report.json",
                {
                    "auc_within_task": quality,
                    "rm_at_k": {"1": 0.2, "8": quality},
                    "ece_width_10": None,
                    "ci95": {"auc_within_task": [quality - 0.05, quality + 0.05]},
                },
            )


def rows(path: Path) -> list[dict[str, Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_few_verifiers_conclude_nothing_and_the_curves_hold_every_look(store: Store, tmp_path: Path) -> None:
    track(store, 0, "execution", 0, 0.5)
    for number, quality in enumerate((0.2, 0.6, 0.8), 1):
        for seed in (0, 1):
            track(store, number, "hybrid", seed, quality)
    paths = draw_figures(["relation", "rl_curves"])
    folder = tmp_path / "runs" / "figures" / "rl" / "start-s0-20-steps"
    assert {p.name for p in paths} == {f"{n}.{e}" for n in ("relation", "rl_curves") for e in ("pdf", "png", "csv")} | {
        "relation.md",
        "relation_rho.csv",
    }
    points = rows(folder / "relation.csv")
    assert [(p["verifier"], p["runs"], p["pass@1 gained"], p["collapse"]) for p in points] == [
        ("verifier 1", "2", "0.2", "1.0"),
        ("verifier 2", "2", "0.6", "0.0"),
        ("verifier 3", "2", "0.8", "0.0"),
    ]
    rho = {(r["offline"], r["outcome"]): r for r in rows(folder / "relation_rho.csv")}
    assert float(rho["AUC within task", "pass@1 gained"]["rho"]) == pytest.approx(1)
    assert float(rho["ECE, shifted", "hacking gap"]["rho"]) == pytest.approx(1)
    assert rho["ECE", "hacking gap"]["n"] == "0"
    assert {r["verdict"] for r in rho.values()} == {NOTHING}
    assert "3 verifier trainings at most in an arm: nothing can be concluded" in (folder / "relation.md").read_text()
    curves = rows(folder / "rl_curves.csv")
    assert {r["arm"] for r in curves} == {"execution", "hybrid, verifier 1", "hybrid, verifier 2", "hybrid, verifier 3"}
    assert sum(r["panel"] == "hacking_gap" for r in curves) == 7 * 3
    assert all((r["low"], r["high"]) == (("0.1", "0.5") if r["panel"] == "pass_at_1" else ("", "")) for r in curves)
    assert sum(r["panel"] == "ran_share" for r in curves) == 7 * 20
    bundle = tmp_path / "rl.zip"
    export_runs(store, bundle, kind="rl", show=False)
    again = draw_figures(["relation"], str(bundle), tmp_path / "again")
    assert next(p for p in again if p.name == "relation.csv").read_text() == (folder / "relation.csv").read_text()


def test_five_lines_on_rl_compare_each_run_with_its_own_start(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    track(store, 0, "execution", 0, 0.5)
    for seed, quality in ((0, 0.05), (1, 0.25)):
        track(store, 1, "hybrid", seed, quality)
    spec = SimpleNamespace(factor="reward")
    _, few, _ = conclusions.of_policies(spec, policy_runs(runs(store, tags={"kind": "rl"})))  # type: ignore[arg-type]
    assert "execution +0.500 (1 seed, too few tasks for an interval)" in few
    assert few.endswith("0 runs of 0 collapsed; of 3 that is not known, from so few tasks.")
    monkeypatch.setattr(uncertainty, "FEW_CLUSTERS", 1)
    varied, found, hidden = conclusions.of_policies(spec, policy_runs(runs(store, tags={"kind": "rl"})))  # type: ignore[arg-type]
    assert (
        varied
        == "Varied: reward = execution and hybrid, verifier 1; 1 to 2 seeds each, 3 runs; everything else was the same."
    )
    assert (
        "execution +0.500 (1 seed, its interval off 0 in 1); hybrid, verifier 1 +0.150 (2 seeds, its interval off 0 in 1)"
        in found
    )
    assert found.endswith("2 runs of 3 collapsed.")
    assert "whether these differ from each other" in hidden


def test_runs_that_kept_no_rates_by_task_are_not_compared(store: Store) -> None:
    for seed in (0, 1):
        track(store, 0, "execution", seed, 0.5)
    a, b = runs(store)
    with pytest.raises(DataError, match="kept no rates by task, so it cannot be compared in pairs"):
        compare(a.run_id, b.run_id)


@pytest.mark.slow
def test_many_verifiers_may_say_something(store: Store, tmp_path: Path) -> None:
    for number in range(10):
        track(store, number, "execution_free", 0, 0.1 * number)
    draw_figures(["relation"])
    folder = tmp_path / "runs" / "figures" / "rl" / "start-s0-20-steps"
    text = (folder / "relation.md").read_text()
    assert "pass@1 gained rises with it: AUC within task (execution_free)" in text
    assert "hacking gap falls with it: RM@most (execution_free)" in text
    assert "one in twenty would be by chance" in text


def test_a_group_of_one_verifier_has_no_relation(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for start, numbers in (("s0", (1,)), ("s1", (1, 2)), ("s2", (3,))):
        for number in numbers:
            for seed in (0, 1):
                track(store, number, "hybrid", seed, 0.1 * number, start)
    paths = draw_figures(["relation"])
    assert {path.parent.name for path in paths} == {"start-s1-20-steps"}
    assert (
        "relation of rl/start-s0-20-steps, rl/start-s2-20-steps is not drawn: a single verifier has nothing to be related to\n"
        in capsys.readouterr().err
    )


def test_a_store_without_rl_runs_says_so(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RmlabError, match="holds no finished RL run, which relation needs"):
        draw_figures(["relation"])
    track(store, 0, "execution", 0, 0.5)
    assert draw_figures(["relation"]) == []
    assert "no verifier has paid a policy yet in 1 RL runs" in capsys.readouterr().err
    assert json.loads(runs(store)[0].artifact("outcome.json").read_text())["collapse"] is False
