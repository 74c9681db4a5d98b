"""Figures from a real store: score tables of known quality, tracked as a verifier run tracks them."""

import csv
import json

import numpy as np
import pytest

from analysis import registry
from analysis.presentation import style
from analysis.summaries.summary_runs import summarise_imported
from analysis.sweep.tracked import group_runs
from analysis.verifiers import discrimination_calibration, score_distributions, sweep_table
from rmlab.commands.figures import draw_figures
from rmlab.commands.runs import import_runs
from rmlab.errors import RmlabError, UsageError
from rmlab.metrics.report import report
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

FIGURES = ("rm_at_k", "discrimination_calibration", "reliability", "score_distributions")


def score_table(quality, seed, patches=False):
    """20 tasks × 4 attempts; a higher quality parts resolved from unresolved further. patches: all resolved attempts have one."""
    rng = np.random.default_rng(seed)
    label = rng.random(80) < 0.5
    logit = quality * (label - 0.5) + rng.normal(size=80)
    patch = np.where(label, "right", [f"wrong {i % 3}" for i in range(80)]) if patches else None
    return Scores.of(np.repeat([f"t{i}" for i in range(20)], 4), 1 / (1 + np.exp(-logit)), label, patch=patch)


def track(store, folder, level, seed, quality, *, arm="", control="c0", commit="a", patches=False, rule=1.0):
    """rule: quality of the rule `last_value` on the attempts as this level shows them."""
    scores = score_table(quality, seed, patches)
    write_score_table(folder / "scores.parquet", scores)
    tags = {
        "sweep": "data_scale",
        "preset": "smoke",
        "factor": "data_scale",
        "level": level,
        "arm": arm,
        "config_hash": f"{level}{seed}{arm}",
        "control_hash": control,
        "commit": commit,
    }
    with RunLogger.start(
        store, "data_scale", f"data_scale={level} s{seed}", kind="verifier", tags=tags, params={"seed": seed}
    ) as run:
        run.json("report.json", report(scores, replicates=100))
        run.json(
            "baselines.json", {"last_value": report(score_table(rule, 99), replicates=0), "shape": {"reason": "none"}}
        )
        run.artifact(folder / "scores.parquet")


@pytest.mark.slow
def test_every_figure_is_drawn_with_its_data_and_twice_alike(store, tmp_path):
    for seed in (0, 1):
        track(store, tmp_path, "100", seed, 0.5)
        track(store, tmp_path, "1000", seed, 3.0)
    draw = draw_figures
    paths = draw(["data_scale"])
    folder = tmp_path / "runs" / "figures" / "data_scale" / "smoke-c0"
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        [*(f"{n}.{e}" for n in FIGURES for e in ("pdf", "png", "csv")), "table.csv", "table.md"]
    ), "a new figure that these runs give: add its name to FIGURES above"
    first = {p.name: p.read_bytes() for p in paths}
    again = draw(
        ["rm_at_k", "score_distributions"], out=tmp_path / "again"
    )  # a bundle's test draws all a second time, small
    assert {p.name: p.read_bytes() for p in again} == {p.name: first[p.name] for p in again}
    assert len(again) == 6

    found = {
        run.name: json.loads(run.artifact("report.json").read_text()) for run in runs(store, tags={"kind": "verifier"})
    }
    drawn = [
        row
        for row in csv.DictReader((folder / "rm_at_k.csv").open())
        if row["line"] == "level 1000" and row["seed"] == "1"
    ]
    assert [float(row["value"]) for row in drawn] == pytest.approx(
        list(found["data_scale=1000 s1"]["rm_at_k"].values())
    )
    counted = [row for row in csv.DictReader((folder / "reliability.csv").open()) if row["level"] == "100"]
    assert sum(int(row["count"]) for row in counted if row["seed"] == "all") == 2 * 80
    assert sum(int(row["count"]) for row in counted if row["seed"] == "1") == 80, "each seed by itself too"


@pytest.mark.slow
@pytest.mark.usefixtures("small_pictures")
def test_a_bundle_draws_what_its_store_draws(store, tmp_path):
    for level, seed in (("100", 0), ("100", 1), ("1000", 0)):
        track(store, tmp_path, level, seed, 1.0)
    export_runs(store, tmp_path / "b.zip", show=False)
    draw = draw_figures
    from_store, from_bundle = (
        draw(out=tmp_path / "store"),
        draw(source=str(tmp_path / "b.zip"), out=tmp_path / "bundle"),
    )
    assert [p.name for p in from_bundle] == [p.name for p in from_store]
    assert [p.read_bytes() for p in from_bundle] == [p.read_bytes() for p in from_store]
    with pytest.raises(UsageError, match=r"'data_scal' \(did you mean data_scale\?\) is neither a sweep in .*b\.zip"):
        draw(["data_scal"], source=str(tmp_path / "b.zip"))


@pytest.mark.usefixtures("no_pictures")
def test_runs_under_other_control_never_share_a_figure(store, tmp_path):
    track(store, tmp_path, "100", 0, 1.0)
    track(store, tmp_path, "100", 1, 1.0, control="c1")
    draw_figures(["rm_at_k"])
    folder = tmp_path / "runs" / "figures" / "data_scale"
    assert sorted(p.name for p in folder.iterdir()) == ["smoke-c0", "smoke-c1"]
    assert [p.name for p in (folder / "smoke-c0").iterdir() if p.suffix == ".csv"] == ["rm_at_k.csv"]


@pytest.mark.usefixtures("no_pictures")
def test_arms_levels_and_commits_are_told_apart(store, tmp_path):
    track(store, tmp_path, "1000", 0, 1.0, arm="epochs")
    track(store, tmp_path, "200", 0, 1.0, arm="steps", commit="b")
    [group] = group_runs(runs(store, tags={"kind": "verifier"}))
    assert group.levels == ["200", "1000"]  # by size, not as words
    assert group.arms == ["epochs", "steps"]
    assert "2 commits" in group.note()
    assert discrimination_calibration.draw(group, tmp_path / "out")
    assert [row["arm"] for row in sweep_table.rows(group)] == ["epochs", "steps"]


@pytest.mark.usefixtures("no_pictures")
def test_identical_patches_stand_together_in_figures_and_table(store, tmp_path):
    for seed in (0, 1):
        track(store, tmp_path, "100", seed, 1.0, patches=True)
    draw_figures(["rm_at_k", "discrimination_calibration"])
    [group] = group_runs(runs(store, tags={"kind": "verifier"}))
    folder = group.folder(tmp_path / "runs" / "figures")
    drawn = list(csv.DictReader((folder / "rm_at_k.csv").open()))
    for cell in group.cells:
        for panel in ("rm_at_k", "rm_at_k_weighted", "rm_at_k_patches"):
            line = [float(row["value"]) for row in drawn if (row["panel"], row["seed"]) == (panel, str(cell.seed))]
            assert line == pytest.approx(list(cell.report[panel].values())), panel
    aucs = [row for row in csv.DictReader((folder / "discrimination_calibration.csv").open()) if row["seed"]]
    of_patches = {int(row["seed"]): float(row["value"]) for row in aucs if row["panel"] == "auc_within_task_patches"}
    assert of_patches == pytest.approx({cell.seed: cell.report["auc_within_task_patches"] for cell in group.cells})
    [row] = sweep_table.rows(group)
    assert row["rm_at_4_weighted"] == pytest.approx(
        np.mean([cell.report["rm_at_k_weighted"]["4"] for cell in group.cells])
    )
    assert "| RM@4 by sum of scores |" in sweep_table.as_markdown(group)


@pytest.mark.usefixtures("no_pictures")
def test_runs_without_patches_have_one_panel(store, tmp_path):
    track(store, tmp_path, "100", 0, 1.0)
    draw_figures(["rm_at_k"])
    [group] = group_runs(runs(store, tags={"kind": "verifier"}))
    drawn = csv.DictReader((group.folder(tmp_path / "runs" / "figures") / "rm_at_k.csv").open())
    assert {row["panel"] for row in drawn} == {"rm_at_k"}
    assert "sum of scores" not in sweep_table.as_markdown(group)
    assert not [name for name in sweep_table.rows(group)[0] if "patch" in name]


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("levels", [("final", "voluntary", "other"), ("100", "200", "1000")])
def test_a_rule_that_is_worth_less_at_a_level_is_shown_at_each(store, tmp_path, monkeypatch, levels):
    """A line across the levels would say that the rule is worth the same at all of them."""
    legends = []
    whole = style.save
    monkeypatch.setattr(style, "save", lambda drawn, *rest: (legends.append(said(drawn)), whole(drawn, *rest))[1])
    worth = dict(zip(levels, (4.0, 0.0, 4.0), strict=True))
    for level, rule in worth.items():
        track(store, tmp_path, level, 0, 3.0, rule=rule)
    [group] = group_runs(runs(store, tags={"kind": "verifier"}))
    auc = {level: group.at(level, "")[0].baselines["last_value"]["auc_within_task"] for level in levels}
    assert auc[levels[0]] == auc[levels[2]] != auc[levels[1]]
    apart = {f"{at}": levels[i] for i, at in ((0, f"{levels[0]} and {levels[2]}"), (1, levels[1]))}

    draw_figures(["rm_at_k", "discrimination_calibration"])
    folder = group.folder(tmp_path / "runs" / "figures")
    drawn = list(csv.DictReader((folder / "discrimination_calibration.csv").open()))
    of_rule = {row["level"]: float(row["value"]) for row in drawn if "last_value" in row["level"]}
    assert of_rule == pytest.approx({f"baseline last_value at {at}": auc[level] for at, level in apart.items()})
    lines = {row["line"] for row in csv.DictReader((folder / "rm_at_k.csv").open()) if "level" not in row["line"]}
    assert lines == {"pass@k", *(f"baseline last_value at {at}" for at in apart)}
    assert legends[0] >= {f"rule: last value at {at}" for at in apart}
    assert "within task: last value, at each level" in legends[1]

    rows = {row["level"]: row for row in sweep_table.baseline_rows(group)}
    assert {name: row["auc_within_task"] for name, row in rows.items()} == pytest.approx(
        {f"last_value at {at}": auc[level] for at, level in apart.items()}
    )


def said(drawn):
    """The words of a figure's legends."""
    return {text.get_text() for legend in drawn.legends for text in legend.get_texts()}


def test_the_table_says_which_baselines_are_not_beaten(store, tmp_path):
    track(store, tmp_path, "100", 0, 0.0)
    [group] = group_runs(runs(store, tags={"kind": "verifier"}))
    text = sweep_table.as_markdown(group)
    assert "- AUC within task: not shown to lie above last value (" in text
    assert "| *last_value* |" in text


def test_what_cannot_be_drawn_is_named(store, tmp_path):
    with pytest.raises(RmlabError, match="no finished run of a sweep"):
        draw_figures()
    track(store, tmp_path, "100", 0, 1.0)
    with pytest.raises(UsageError, match=r"'data_scal' \(did you mean data_scale\?\) is neither a sweep"):
        draw_figures(["data_scal"])
    for name, words in (
        ("pareto", "the trials of a search: `rmlab sweep`"),
        ("study_table", "the sweeps of a study: `rmlab study`"),
    ):
        with pytest.raises(UsageError, match=f"^{name} is drawn from {words} draws it$"):
            draw_figures([name], out=tmp_path / "out")
    with pytest.raises(UsageError, match=r"'reliabilty' \(did you mean reliability\?\) is neither"):
        draw_figures(["reliabilty"])


@pytest.mark.usefixtures("no_pictures")
def test_a_summary_run_has_table_answer_and_figures_once(store, tmp_path, monkeypatch):
    for level, quality in (("100", 0.5), ("1000", 3.0)):
        track(store, tmp_path, level, 0, quality)
    monkeypatch.setattr(registry, "draw_sweep", score_distributions.draw)  # one figure of several
    assert summarise_imported(store, ["data_scale", "not_shipped"]) == ["data_scale, smoke"]
    [summary] = runs(store, tags={"kind": "summary"})
    assert (summary.tags["sweep"], summary.tags["factor"], summary.tags["cells"]) == ("data_scale", "data_scale", "2")
    note = store.client.get_run(summary.run_id).data.tags["mlflow.note.content"]
    assert note.startswith("**How much data does a verifier need")
    assert "`rmlab figures data_scale`" in note
    drawn = list(csv.DictReader(summary.artifact("figures/score_distributions.csv").open()))
    for level, quality in (("100", 0.5), ("1000", 3.0)):
        label = score_table(quality, 0).resolved
        for name, attempts in (("resolved", np.sum(label == 1)), ("unresolved", np.sum(label == 0))):
            bins = [row for row in drawn if (row["level"], row["label"]) == (level, name)]
            area = sum(float(b["density"]) * (float(b["bin_to"]) - float(b["bin_from"])) for b in bins)
            assert area == pytest.approx(1.0, abs=1e-4)
            assert {int(b["attempts"]) for b in bins} == {attempts}
    assert summarise_imported(store, ["data_scale"]) == [], "the same runs are summarised once"


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_sweep_that_comes_without_its_summary_gets_one(store, tmp_path, capsys):
    track(store, tmp_path, "100", 0, 0.5)
    track(store, tmp_path, "1000", 0, 3.0)
    export_runs(store, tmp_path / "b.zip", show=False)
    track(store, tmp_path, "1000", 1, 3.0)
    export_runs(store, tmp_path / "more.zip", show=False)
    uri = f"sqlite:///{tmp_path / 'other' / 'mlflow.db'}"

    def summaries():
        return runs(Store.open(uri), tags={"kind": "summary"})

    import_runs([tmp_path / "b.zip"], uri)
    [summary] = summaries()
    assert (summary.name, summary.tags["sweep"], summary.tags["control_hash"]) == ("summary smoke", "data_scale", "c0")
    assert summary.artifact("figures/rm_at_k.png").is_file()
    assert summary.artifact("table.csv").is_file()
    note = Store.open(uri).client.get_run(summary.run_id).data.tags["mlflow.note.content"]
    assert note.startswith("**How much data does a verifier need")
    assert "summary run with table and figures: data_scale, smoke" in capsys.readouterr().out
    import_runs([tmp_path / "b.zip"], uri)
    assert [run.tags for run in summaries()] == [summary.tags], "the same runs are summarised once"
    import_runs([tmp_path / "more.zip"], uri)
    [later] = summaries()
    assert (later.run_id, later.tags["cells"]) == (summary.run_id, "3"), "a cell more is in the same summary"
    assert not (tmp_path / "runs" / "figures").exists(), "figures of another store are its artifacts alone"
