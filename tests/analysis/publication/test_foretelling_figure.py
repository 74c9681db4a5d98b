"""The figure of what foretells RL: its caption, its legends and the words at its rows name what is drawn."""

from pathlib import Path

from analysis.foretelling.answering import answer
from analysis.foretelling.causal import moved
from analysis.foretelling.runs import read_study
from analysis.presentation.captions import Caption, latex, write_captions
from analysis.publication import foretelling, foretelling_marks
from tests.analysis.foretelling.made_study import PLAN, made_runs


def _of(blocks: str, folder: Path, start: str = "") -> tuple[str, set[str]]:
    """What the caption says of the figure of these blocks, and what its legend names. start: of the policies, "" = both."""
    runs = made_runs(folder, 0.8, blocks=blocks)
    study = read_study([run for run in runs if run.run.tags["start"].endswith(start)], PLAN)
    found = answer(study)
    caption = foretelling.caption(study, found)
    legend = {*foretelling_marks.of_runs(study), *foretelling_marks.of_blocks(found)}
    return f"{caption.shown} {caption.counts}", legend


def test_the_caption_and_the_legend_name_what_is_drawn(tmp_path: Path) -> None:
    execution, band = "after RL that execution alone pays", "the band is the margin of equivalence"
    said, legend = _of("execution_free", tmp_path / "free")
    before = "dotted: pass@1 before RL (start a: 0.200, start b: 0.200)"
    assert f"; filled: start a, hollow: start b; {before}. Bottom left: Spearman's" in said
    assert execution not in said
    assert "filled: shown, AUC within task where a verifier alone pays by its p" in said
    assert f"Bottom right: no causal experiment has three RL seeds yet; {band}. n = 24 verifiers, one RL" in said
    assert legend == {"1:1", "1:4", "4:1", "1:1, overconfident", "before RL"}, "a verifier alone is beside nothing else"
    said, legend = _of("execution_free execution hybrid unnormalised", tmp_path / "all")
    assert f"{before}; dashed: pass@1 {execution} (start a: 0." in said
    assert "rows with an ECE (on the frozen pool): scores of one verifier, distorted" in said
    assert "(unnormalised: shifted far up against recalibrated, both with advantages not divided" in said
    assert "smaller and orange: a verifier and execution pay; dotted: " in said
    assert "trained again" not in said
    assert "control" not in said
    assert "n = 24 verifiers alone, 24 beside execution, one RL" in said
    assert {execution, "a verifier alone pays", "a verifier and execution pay"} <= legend
    said, legend = _of("execution_free distortion", tmp_path / "one start", "/a")
    assert "one of 12 separately trained verifiers" in said
    assert "hollow" not in said
    assert "Bottom left: too few runs yet for a correlation. Bottom right: how pass@1 changes" in said
    assert "unnormalised" not in said
    said, legend = _of("distortion", tmp_path / "causal")
    assert said.startswith("Top: no run yet that a verifier alone pays. ")
    assert legend == set()


def test_rows_of_causal_experiments_say_the_ece_and_what_they_are_compared_with(tmp_path: Path) -> None:
    study = read_study(made_runs(tmp_path, 0.8, blocks="distortion unnormalised affine difficulty"), PLAN)
    ece = foretelling._ece(moved(study))
    assert set(ece) == {
        *(
            f"calibration: {name}"
            for name in ("recalibrated", "flattened", "shifted_up", "shifted_far_up", "shifted_down")
        ),
        *("unnormalised: recalibrated", "unnormalised: shifted_far_up"),
    }
    row = next(row for row in moved(study) if (row["block"], row["condition"]) == ("distortion", "shifted_up"))
    assert ece["calibration: shifted_up"] == row["pool_ece_width_10"]
    given = {
        "calibration: shifted_far_up": 0.4,
        "unnormalised: shifted_far_up": 0.4,
        "calibration: recalibrated": 0.024,
    }
    control, difficulty = "control: -1 + 4 r", "difficulty: with less without"
    labels = [foretelling._cause(name, given) for name in (*list(given)[:2], control, difficulty)]
    assert labels == ["shifted far up (ECE 0.40)", "unnormalised (ECE 0.40)", control, difficulty]
    assert foretelling._reference([*list(given)[:1], control], given) == "against recalibrated (ECE 0.02)\n"
    assert foretelling._reference([control, difficulty], {}) == "against recalibrated\nor as rows say\n"
    both = foretelling._reference([*list(given)[:1], difficulty], given)
    assert both == "against recalibrated\n(ECE 0.02) or as rows say\n"
    assert foretelling._reference([difficulty], given) == ""


def test_the_outcomes_of_hybrids_are_drawn_beside_those_of_verifiers_alone(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    runs = made_runs(tmp_path, 0.8, blocks="execution_free execution hybrid voluntary affine")
    for run in runs:
        if run.run.name.startswith("hybrid"):
            run.run.tags["start_fingerprint"] += " again"
    study = read_study(runs, PLAN)
    axis = Figure().subplots()
    rows = [row for row in foretelling._points(axis, study, "auc_within_task") if "block" in row]
    assert [row["block"] for row in rows] == ["execution_free"] * 24 + ["hybrid"] * 24
    marks = {(line.get_color(), line.get_markersize()) for line in axis.get_lines() if line.get_linestyle() == "None"}
    assert len(marks) == 2, "a colour and a size for each block"
    lines = foretelling_marks.at_the_top(study).lines["before RL"]
    assert [start for start, _ in lines] == ["a", "b"], "of the weights where a verifier alone pays, and of no others"
    said = foretelling.caption(study, answer(study)).shown
    assert "; for runs in orange a start was trained again, and the lines are not of it. Bottom left" in said


def test_captions_say_the_same_in_both(tmp_path: Path) -> None:
    caption = Caption("AUC foretells.", "ρ within starts; 95 % intervals ± 3.", "n = 24, two_bugs left out.")
    md, tex = (path.read_text() for path in write_captions(tmp_path, "x", caption))
    assert md == "**AUC foretells.** ρ within starts; 95 % intervals ± 3. n = 24, two_bugs left out.\n"
    assert r"\textbf{AUC foretells.} $\rho$ within starts; 95 \% intervals $\pm$ 3. n = 24, two\_bugs" in tex
    assert latex(r"a\b{c}") == r"a\textbackslash{}b\{c\}"
