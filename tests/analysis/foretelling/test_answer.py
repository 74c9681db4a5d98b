"""What the study of which metric foretells RL concludes, on made-up runs whose answer is known."""

import csv
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from analysis.foretelling import answering, estimates
from analysis.foretelling import runs as foretelling_runs
from analysis.foretelling.answer import Answer
from analysis.foretelling.answering import answer
from analysis.foretelling.causal import causal, moved, unpaired
from analysis.foretelling.estimates import ANY, METRICS, PRIMARY, RIVAL
from analysis.foretelling.plan import Plan
from analysis.foretelling.runs import Study, read_study
from analysis.foretelling.tables import markdown
from analysis.publication import foretelling
from analysis.rl.policies import PolicyRun
from analysis.rl.rank_statistics import relation, unit_weights
from rmlab.commands.figures import draw_figures
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from tests.analysis.foretelling.made_study import PLAN, made_runs


def test_a_known_answer_is_found(tmp_path: Path) -> None:
    study = read_study(made_runs(tmp_path, 0.8, lowered=0.06), PLAN)
    assert (len(study.taken), study.left_out) == (114, [])
    found = answer(study)
    primary = found.relations["execution_free"]["auc_within_task"]
    assert primary.rho is not None
    assert primary.rho > 0.7
    assert primary.p is not None
    assert primary.p <= 0.01
    assert found.over["execution_free"].low > 0
    auc, ece = found.given["execution_free"]
    assert auc.low > 0
    assert ece.low < 0 < ece.high
    for block in ("execution_free", "hybrid"):
        lost = found.regret[block]
        assert lost[PRIMARY].value < lost[RIVAL].value
        assert lost[PRIMARY].value < lost[ANY].value
        assert lost[PRIMARY].low >= 0
        by_start = [found.regret_by_start[block][start][PRIMARY].value for start in "ab"]
        assert np.mean(by_start) == pytest.approx(lost[PRIMARY].value)  # both have as many sets of four
    assert found.shown("execution_free", PRIMARY)
    assert not found.shown("execution_free", RIVAL)
    afterwards = found.exploratory["execution_free"]
    by_start = [afterwards[f"AUC within task and pass@1, start {start}"] for start in "ab"]
    assert [n for _, n in by_start] == [12, 12]
    assert np.mean([rho for rho, _ in by_start if rho is not None]) == pytest.approx(primary.rho, abs=0.1)
    good = [afterwards[f"AUC within task and pass@1, start {start}, AUC 0.70 or more"][1] for start in "ab"]
    assert sum(good) == sum(run.verifier[PRIMARY] >= 0.7 for run in study.of("execution_free"))
    assert sum(n for name, (_, n) in afterwards.items() if name.startswith("ECE")) == 24
    assert found.causal["calibration: shifted_down"].words.startswith("differs")
    assert found.causal["calibration: shifted_down"].difference == pytest.approx(-0.06, abs=0.02)
    assert found.causal["calibration: flattened"].words == "alike"
    assert found.causal["control: -1 + 4 r"].words == "alike"
    assert set(found.causal) == {
        *(f"calibration: {name}" for name in ("flattened", "shifted_up", "shifted_far_up", "shifted_down")),
        "unnormalised: shifted_far_up",
        "control: -1 + 4 r",
        "within task: good less poor",
        "difficulty: with less without",
    }
    assert found.repeated[1] == found.voluntary[1] == 8
    assert found.repeated[0] is not None
    assert found.repeated[0] > 0.8
    assert found.mean_of_seeds is not None
    assert found.mean_of_seeds.rho == pytest.approx(primary.rho, abs=0.1)
    assert "With voluntary evidence ρ is +" in " ".join(found.sentences)
    assert found.faults == []
    said = " ".join(found.sentences)
    assert "AUC within task foretells pass@1 after RL" in said
    assert "AUC rather than ECE orders the outcomes" in said
    assert {row["kind"] for row in found.rows()} == {
        *(
            "rho",
            "over",
            "given_auc",
            "given_ece",
            "regret",
            "regret_by_start",
            "with_auc",
            "ends_below",
            "ends_above",
            "collapsed",
            "policies",
            "exploratory",
            "rho_untested",
        ),
        *("two_seeds", "mean_of_seeds", "causal", "runs"),
        *("beside_execution", "beside_execution_below", "beside_execution_above"),
    }
    by_kind = {row["kind"]: row for row in found.rows()}
    assert (by_kind["two_seeds"]["value"], by_kind["two_seeds"]["n"]) == found.repeated
    assert by_kind["mean_of_seeds"]["value"] == found.mean_of_seeds.rho


def test_a_hybrid_of_fewer_than_16_verifiers_concludes_nothing_of_the_hybrid(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8, blocks="execution_free hybrid")
    for hybrids, holm in ((15, 7), (16, 15)):
        found = answer(read_study(runs[: 24 + hybrids], PLAN))
        said = " ".join(found.sentences)
        lacking = f"Where a verifier and execution pay nothing can be concluded: {hybrids} of 24 verifiers have an outcome, 16 are needed."
        assert (lacking in said) == (hybrids < 16)
        assert ("hybrid" in found.regret) == ("hybrid" in found.exploratory) == (hybrids == 16)
        assert len(found.p_holm) == holm, "of the primary test's block all but that test, of the other one all"
        design = "Where a verifier and execution pay: 16 of 24 verifiers have an outcome."
        assert (design in found.faults) == (hybrids == 16)
        assert ("pass@1 after RL: ρ = " in said.partition("Where a verifier and execution pay,")[2]) == (hybrids == 16)
        assert (" after Holm's correction, 16 of 24 verifiers." in said) == (hybrids == 16)


def test_verifiers_of_voluntary_evidence_are_a_block_of_their_own(tmp_path: Path) -> None:
    """Their correlation is shown, without a test, and no other number rests on them."""
    blocks = "execution_free hybrid execution"
    without, found = (
        answer(read_study(made_runs(tmp_path, 0.8, blocks=own), PLAN)) for own in (blocks, f"{blocks} voluntary")
    )

    def rows(one: Answer) -> list[dict[str, Any]]:
        return [row for row in one.rows() if row.get("block") not in ("voluntary", "all")]

    assert rows(found) == rows(without)
    [row] = [row for row in found.rows() if row["kind"] == "rho_untested"]
    assert (row["block"], row["metric"], row["n"]) == ("voluntary", PRIMARY, 8)
    assert (row["value"], 8) == found.voluntary
    assert "p" not in row
    said = " ".join(found.sentences)
    assert f"With voluntary evidence ρ is {row['value']:+.2f} over 8 verifiers, without a test." in said
    assert "Of 8 policies that a verifier of voluntary evidence alone pays, " in said


def test_what_is_shown_and_not_tested_stands_in_table_and_rows(tmp_path: Path) -> None:
    study = read_study(made_runs(tmp_path, 0.8, blocks="execution_free execution hybrid"), PLAN)
    made: Any = study.taken["hybrid_balanced-250_a_s0"].policy.run
    made.files["outcome.json"]["held_out"]["all"]["greedy"] |= {"after": 0.9}
    made.files["outcome.json"]["hacking_gap"] = 0.6
    study = read_study([PolicyRun(run.policy.run) for run in study.taken.values()], PLAN)
    found = answer(study)
    hybrid = study.of("hybrid")
    greedy = [run.policy.outcome["held_out"]["all"]["greedy"]["after"] for run in hybrid if run.cell["start"] == "a"]
    assert 0.9 in greedy
    assert found.ends["hybrid", "a"].means["greedy"] == pytest.approx(np.mean(greedy))
    assert found.ends["hybrid", ""].means["hacking_gap"] == pytest.approx(0.6 / 24)
    assert "hacking_gap" not in found.ends["execution", ""].means
    assert found.ends["hybrid", ""].collapsed == sum(run.outcome < 0.2 for run in hybrid)
    rows = {
        (row["metric"], row["start"]): row
        for row in found.rows()
        if row["kind"] == "policies" and row["block"] == "hybrid"
    }
    assert rows["pass_at_1", "both"]["value"] == pytest.approx(np.mean([run.outcome for run in hybrid]))
    assert rows["pass_at_1", "b"]["n"] == 12
    assert f"| hybrid | both | 24 | 0.200 | {rows['pass_at_1', 'both']['value']:.3f} | " in markdown(study, found)


def test_blocks_whose_start_was_trained_again_are_named(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8, blocks="execution_free hybrid distortion")
    assert "weights" not in markdown(study := read_study(runs, PLAN), answer(study)).rpartition("**Runs.**")[2]
    for run in runs:
        if run.run.name.startswith("hybrid") and "_a_" in run.run.name:
            run.run.tags["start_fingerprint"] = "start a again" if "balanced" in run.run.name else "start a"
    said = markdown(study := read_study(runs, PLAN), answer(study))
    assert "The runs of hybrid begin from 2 sets of weights of start a, which are ranked apart." in said
    assert "From other weights of their start than execution_free begin runs of hybrid (a): " in said
    assert len({run.start for run in study.of("hybrid")}) == 3


def test_what_a_metric_shares_with_auc_is_over_the_verifiers_that_have_both(tmp_path: Path) -> None:
    """By the definition: the correlation of ranks as shares of their start, each less the mean of it."""
    runs = made_runs(tmp_path, 0.8, blocks="execution_free voluntary")
    blind = next(run for run in runs if run.run.name.startswith("voluntary"))
    lacking = [(run, "ece_width_10") for run in runs[:3]] + [(blind, "auc_within_task")]
    for run, metric in lacking:
        made: Any = run.run
        made.files["verifier_report.json"][metric] = None
    study = read_study([PolicyRun(run.run) for run in runs], PLAN)
    found = answer(study)
    free = [run for run in study.of("execution_free") if run.verifier["ece_width_10"] is not None]
    rank_2N = np.zeros((2, len(free)))
    for start in {run.start for run in free}:
        own = [i for i, run in enumerate(free) if run.start == start]
        for side, metric in enumerate(("auc_within_task", "ece_width_10")):
            rank_2N[side, own] = (rankdata([free[i].verifier[metric] for i in own]) - (len(own) + 1) / 2) / len(own)
    rho, verifiers = found.with_auc["ece_width_10"]
    assert (rho, verifiers) == (pytest.approx(np.corrcoef(rank_2N)[0, 1]), 21)
    assert found.with_auc["brier"][1] == 24
    assert found.voluntary[1] == 7
    assert f"| {rho:.2f} |\n" in markdown(study, found)


def test_what_the_conditions_moved_stands_beside_them(tmp_path: Path) -> None:
    study = read_study(made_runs(tmp_path, 0.8), PLAN)
    rows = {(row["block"], row["verifier"], row["condition"]): row for row in moved(study)}
    assert len(rows) == 5 + 2 + 1 + 4
    assert rows["distortion", "good", "shifted_up"]["runs"] == 5
    good = study.taken["distortion_good_shifted_up_a_s0"].policy.outcome["verifier_first"]
    assert rows["distortion", "good", "shifted_up"]["ece_width_10"] == pytest.approx(good["ece_width_10"])
    on_pool = study.taken["distortion_good_shifted_up_a_s0"].verifier
    for name in ("auc_within_task", "ece_width_10", "advantage_cosine"):
        assert rows["distortion", "good", "shifted_up"][f"pool_{name}"] == pytest.approx(on_pool[name])
    unknown = rows["difficulty", "good", "with"]["pool_advantage_cosine"]
    assert unknown is None  # the pool does not say what is paid there
    ended = [study.taken[f"distortion_good_shifted_up_a_s{seed}"].outcome for seed in range(5)]
    assert rows["distortion", "good", "shifted_up"]["pass_at_1"] == pytest.approx(np.mean(ended))
    text = markdown(study, answer(study))
    assert "| difficulty | poor | without | 3 | " in text
    assert "each run makes these attempts at validation tasks itself" in text


@pytest.mark.parametrize("tag", ["start_fingerprint", "verifier_fingerprint"])
def test_runs_of_a_seed_with_other_weights_are_not_compared(tag: str, tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8, blocks="distortion unnormalised affine difficulty")
    assert unpaired(read_study(runs, PLAN)) == []
    by_name = {run.run.name: run for run in runs}
    by_name["affine_good_recalibrated_a_s1"].run.tags[tag] = "made anew"
    study = read_study(runs, PLAN)
    lines = unpaired(study)
    assert len(lines) == 1
    assert lines[0].startswith("control: -1 + 4 r, seed 1: ")
    assert "control: -1 + 4 r" not in causal(study)  # two seeds are left
    assert len(causal(study)) == 7
    assert f"- not compared: {lines[0]}" in markdown(study, answer(study))


def test_few_runs_conclude_nothing(tmp_path: Path) -> None:
    runs = [run for run in made_runs(tmp_path, 0.8, blocks="execution_free") if "overconfident" not in run.run.name]
    some = answer(read_study(runs[:15], PLAN))
    assert some.relations == {"execution_free": {}, "hybrid": {}}
    assert (
        some.sentences[0]
        == "Where a verifier alone pays nothing can be concluded: 15 of 24 verifiers have an outcome, 16 are needed."
    )
    assert "no comparison has three seeds yet" in " ".join(some.sentences)
    assert foretelling.draw([], tmp_path) == []


@pytest.mark.slow
def test_a_bundle_gives_the_same_bytes_twice(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(foretelling_runs, "read_plan", lambda: PLAN)
    monkeypatch.setattr(estimates, "relation", partial(relation, replicates=200, permutations=2000))
    store = Store.open(None)
    for run in made_runs(tmp_path, 0.8, blocks="execution_free unnormalised"):
        with RunLogger.start(
            store, "study", run.run.name, kind="rl", tags=run.run.tags, params=run.run.params
        ) as logger:
            for name, content in run.run.files.items():
                logger.json(name, content)
    bundle = tmp_path / "runs.zip"
    export_runs(store, bundle, kind="rl", study=True, show=False)
    drawn = [draw_figures(["foretelling"], str(bundle), tmp_path / name) for name in ("one", "two")]
    names = {path.name for path in drawn[0]}
    assert names == {
        f"foretelling{end}"
        for end in (".pdf", "_one_column.pdf", ".png", ".csv", ".md", "_table.csv", ".caption.md", ".caption.tex")
    }
    for one, other in zip(*drawn, strict=True):
        assert one.read_bytes() == other.read_bytes()
    request.getfixturevalue("small_pictures")  # which files a page gets does not depend on their size
    page = draw_figures(["foretelling", "rl_by_reward"], str(bundle), page=tmp_path)
    names = {"foretelling.png", "foretelling.csv", "foretelling_table.csv", "rl_by_reward.png", "rl_by_reward.csv"}
    assert {path.name for path in page} == names
    with next(path for path in drawn[0] if path.name == "foretelling_table.csv").open() as file:
        table = {(row["kind"], row["block"], row["metric"]): row for row in csv.DictReader(file)}
    assert float(table["rho", "execution_free", "auc_within_task"]["p"]) < 0.05
    text = next(path for path in drawn[0] if path.suffix == ".md" and "caption" not in path.name).read_text()
    assert "- left out: 24 of 24 hybrid: no finished run\n" in text
    assert "24 of 24 execution_free, 0 of 8 second_seed, 0 of 24 hybrid" in text


@pytest.mark.slow
def test_rates_of_the_whole_study_without_a_relation_and_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 studies without a relation and 40 with one: the primary test is at its level, and finds what the plan expects."""
    for module in (estimates, answering):
        monkeypatch.setattr(module, "METRICS", {name: METRICS[name] for name in (PRIMARY, RIVAL)})
    for name, nothing in (("causal", {}), ("regrets", {}), ("regrets_by_start", {}), ("sentences", [])):
        monkeypatch.setattr(answering, name, lambda *_, nothing=nothing: nothing)
    # As many as the shares below need, which only ask on which side of 0.05, or of 0, something lies.
    monkeypatch.setattr(estimates, "relation", partial(relation, replicates=100, permutations=2000))
    monkeypatch.setattr(estimates, "unit_weights", partial(unit_weights, replicates=500))
    refusal, refused = foretelling_runs.refusal, dict[str, str]()

    def once(run: PolicyRun, cell: dict[str, str], plan: Plan) -> str:
        """The studies differ in outcomes alone, so that one look at the configuration of each cell is enough."""
        name = cell["name"]
        if name not in refused:
            refused[name] = refusal(run, cell, plan)
        return refused[name]

    monkeypatch.setattr(foretelling_runs, "refusal", once)

    def shown(of_auc: float, seed: int) -> tuple[bool, bool]:
        study: Study = read_study(made_runs(tmp_path / f"{of_auc}", of_auc, seed, blocks="execution_free"), PLAN)
        found: Answer = answer(study)
        p = found.relations["execution_free"]["auc_within_task"].p
        return p is not None and p <= 0.05, found.over["execution_free"].low > 0

    none = np.mean([shown(0.0, seed) for seed in range(200)], axis=0)
    strong = np.mean([shown(0.8, seed) for seed in range(40)], axis=0)
    # Of a test of twice its level, 0.10, a share of at most 0.075 is seen with a probability of 0.14 (binomial), at level 0.05 with 0.96.
    assert none[0] <= 0.075, none
    assert none[1] <= 0.05, none
    assert strong[0] >= 0.95, strong
    assert strong[1] >= 0.85, strong
