"""The table in words, the figures and the page of a study of two sweeps, from runs whose quality is known."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from analysis.pages.sources import check, marks_of, read_source, selected
from analysis.presentation import style
from analysis.studies import study_overview, study_table
from analysis.studies.effects import effects
from analysis.studies.planned_study import PlannedStudy, open_study
from analysis.sweep.tracked import FinishedCell, SweepRuns
from rmlab.commands.figures import draw_figures
from rmlab.commands.study import study as command
from rmlab.errors import UsageError
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.store import Store
from tests.analysis.studies.planned_runs import WHOLE, Fill, train

pytestmark = pytest.mark.usefixtures("no_pictures")


def told(folder: Path, **conditions: str) -> dict[str, str]:
    """The one row of the table's CSV that fits."""
    rows = csv.DictReader((folder / "study_table.csv").read_text().splitlines())
    [row] = [row for row in rows if conditions.items() <= row.items()]
    return row


def test_one_table_says_what_is_shown_what_is_not_and_with_which_power(folder: Path, fill: Fill) -> None:
    fill({"label_ratio": WHOLE})
    with open_study(folder) as study:
        study_table.draw(study, folder)
        group = study.groups["label_ratio"]
        tests = group.tests
    row = told(folder, sweep="label_ratio", pool="own", metric="auc_within_task")
    test = tests["", "1:4", "auc_within_task"]
    assert (row["level"], row["trainings"], row["planned"], row["failed"]) == ("1:4", "15", "15", "0")
    shown = ("difference", "low", "high", "p_holm")
    assert test.ci95
    assert [float(row[name]) for name in shown] == pytest.approx([test.difference, *test.ci95, test.p_holm])
    assert (row["verdict"], row["shown"], row["tests"]) == ("higher", "1", "4")
    hidden = [tests["", level, "auc_within_task"] for level in ("4:1", "2:1", "1:2")]
    assert float(row["detectable_holm"]) == pytest.approx(max(one.detectable_holm or 0.0 for one in hidden))
    by_seed = np.array([tests["", level, "auc_within_task"].by_seed for level in ("4:1", "2:1", "1:2", "1:4")])
    assert float(row["spread"]) == pytest.approx(by_seed.var(axis=1, ddof=1).mean() ** 0.5)
    assert row["reported"] == "RM@32 .620 at 2:1 and .608 at 1:1, Qwen3-Coder-Flash", "its source stands once, above"
    pool = told(folder, sweep="label_ratio", pool="hard", metric="auc_within_task")
    assert (pool["level"], pool["p_holm"]) == ("1:4", "")
    assert float(pool["at_level"]) - float(pool["at_baseline"]) == pytest.approx(float(pool["difference"]))
    beside = told(folder, sweep="label_ratio", pool="own", metric="ece_less_floor")
    [ece] = [effect for effect in effects(group) if effect.metric == "ece_width_10"]
    assert ece.largest == ("", beside["level"])
    excess = {
        level: np.mean([one.report["ece_less_floor"] for one in group.at(level, "")])
        for level in ("1:1", beside["level"])
    }
    assert float(beside["difference"]) == pytest.approx(excess[beside["level"]] - excess["1:1"])
    assert beside["p"] == "", "it is no part of the family"
    assert told(folder, sweep="evidence")["trainings"] == "3", "its baseline was trained in the other sweep"

    text = (folder / "study_table.md").read_text()
    found = f"; AUC within task is higher at 1:4 (by {test.difference:.3f}). No other difference is shown. Each test"
    assert "Compared with 1:1: RM@4 is higher at 1:4 (by " in text
    assert found in text
    assert f"{float(row['detectable_holm']):.3f} in AUC within task and " in text
    assert f" ({float(row['at_baseline']):.3f}) |" in text, "the baseline's value stands beside"
    assert "SWE-RM, arXiv 2512.21919, values by public notes" in text
    assert "| none of its own trainings is finished yet |" in text
    assert "| evidence | 3 of 6 |  |  |  |" in text
    assert "So far" not in text
    assert (
        f"| label_ratio | 12 | {float(told(folder, sweep='label_ratio', pool='own', metric='rm_at_k')['spread']):.3f}, "
        in text
    )


def test_while_it_runs_the_table_says_so_and_takes_shared_cells_from_elsewhere(folder: Path, fill: Fill) -> None:
    fill({"label_ratio": {"1:1": 1.0, "1:4": 2.0}, "evidence": {"voluntary": 0.0}})
    with open_study(folder) as study:
        text = study_table.as_marked(study).text
        assert study.groups["evidence"].levels == ["final", "voluntary"]
        assert [effect.words for effect in effects(study.groups["evidence"])] == ["RM@4", "AUC within task", "ECE"]
        assert study.groups["evidence"].tests["", "voluntary", "auc_within_task"].difference is not None
        caption = study_overview.caption(study)
        tests = [test for group in study.groups.values() for test in group.tests.values()]
    assert "| 6 of 15 |" in text
    assert text.count("So far, and only for orientation") == 1, "of evidence every cell is there"
    assert "9 trainings of 18 are still missing, so nothing here is final." in caption
    assert ("Filled: " in caption) == any(test.shown for test in tests)
    assert ("Hollow: " in caption) == any(test.p is not None and not test.shown for test in tests)
    assert ("Bars: " in caption) == any(test.p is not None for test in tests)


def test_the_caption_of_the_overview_names_the_marks_that_are_drawn(folder: Path, fill: Fill) -> None:
    fill({"label_ratio": {"1:1": 1.0, "1:4": 2.0}, "evidence": {"voluntary": 0.0}})
    with open_study(folder) as study:
        groups = dict(study.groups)
        for kept, marks in (
            ({"shown": True}, {"Filled", "Bars"}),
            ({"shown": False}, {"Hollow", "Bars"}),
            ({"p": None}, {"Cross"}),
        ):
            for group in groups.values():
                tests = {key: SimpleNamespace(**dict(_about(test), **kept)) for key, test in group.tests.items()}
                group.__dict__["tests"] = tests
            said = study_overview.caption(study)
            assert {word for word in ("Filled", "Hollow", "Bars", "Cross") if f"{word}: " in said} == marks
            assert "Higher is better for RM@4 and AUC, lower for ECE." in said


def _about(test: Any) -> dict[str, Any]:
    return {"seeds": test.seeds, "ci95": (0.0, 0.1), "p": 0.5, "shown": False}


def test_the_figures_of_each_sweep_are_drawn_from_the_folder_of_bundles(
    runs_folder: Path, folder: Path, tmp_path: Path, fill: Fill
) -> None:
    fill({"label_ratio": {"1:1": 1.0, "1:4": 2.0}, "evidence": {"final": 1.0, "voluntary": 0.0}})
    drawn = draw_figures(["differences"], str(folder), tmp_path / "drawn")
    assert sorted({path.relative_to(tmp_path / "drawn").parts[0] for path in drawn}) == ["evidence", "label_ratio"]
    assert all((path.parent / "differences.csv").is_file() for path in drawn)


def test_two_seeds_are_no_test(folder: Path, fill: Fill) -> None:
    fill({"evidence": {"final": 1.0, "voluntary": 3.0}}, seeds=2)
    with open_study(folder) as study:
        text = study_table.as_marked(study).text
    assert "no test, fewer than 3 seeds that a level and the baseline share." in text
    assert "| voluntary: +" in text


@pytest.mark.usefixtures("small_pictures")
def test_the_overview_is_one_page_in_grey_with_small_letters(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: Fill
) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.text import Text

    fill({"label_ratio": WHOLE, "evidence": {"voluntary": 0.0}})
    seen: list[Any] = []
    save = style.save

    def look(drawn: Any, *rest: Any) -> list[Path]:
        drawn.canvas.draw()
        seen.append([(text.get_text(), text.get_fontsize()) for text in drawn.findobj(Text) if text.get_text().strip()])
        seen.append({to_rgb(line.get_color()) for axis in drawn.axes for line in axis.lines})
        return save(drawn, *rest)

    monkeypatch.setattr(style, "save", look)
    with open_study(folder) as study:
        paths = study_overview.draw(study, tmp_path / "drawn")
        again = study_overview.draw(study, tmp_path / "again")
    assert [path.name for path in paths] == [
        *(f"study_overview.{kind}" for kind in ("pdf", "png", "csv")),
        "study_overview_caption.md",
        "study_overview_caption.tex",
    ]
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]
    assert {size for _, size in seen[0]} <= {7, 8, 9}
    assert all(red == green == blue for red, green, blue in seen[1]), "nothing is told by colour"
    words = [text for text, _ in seen[0]]
    assert "label_ratio (from 1:1)" in words
    assert "evidence (from final)" in words
    rows = list(csv.DictReader(paths[2].read_text().splitlines()))
    assert len(rows) == 3 * (4 + 1)
    told = {(row["level"], row["metric"]): row["verdict"] for row in rows}
    assert told["1:4", "auc_within_task"] == "higher"
    assert told["4:1", "auc_within_task"] == "no difference shown"
    tex = paths[4].read_text()
    assert tex.startswith("\\caption{Difference of every level")
    assert "95\\,\\% t intervals" in tex
    assert tex.endswith("\\label{fig:two-sweeps}\n")


def test_latex_takes_what_markdown_says() -> None:
    assert study_overview.latex("at 5 % of label_ratio & #1") == r"at 5\,\% of label\_ratio \& \#1"


def test_the_page_is_written_with_its_marks_and_another_digit_is_found(
    store: Store, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fill: Fill
) -> None:
    extra = replace(PlannedStudy.read(folder, []).planned["label_ratio"][0], seed=7, key="unplanned")
    train(store, tmp_path, extra, 1.0)
    fill({"label_ratio": WHOLE})
    export_runs(store, folder / "bundles" / "extra.zip", sweep="label_ratio", preset="demo", study=True, show=False)
    (folder / "numbers.yaml").write_text("README.md:\n  Levels:\n  - design: '5'\n")
    written = command(folder, page=True)
    assert sorted(path.name for path in written) == [
        *("ledger.csv", "numbers.yaml", "results.md", "study_counts.json", "study_overview.csv", "study_overview.png"),
        *("study_references.csv", "study_table.csv"),
    ], "another page would need marks of its own"
    text = (folder / "results.md").read_text()
    assert "15 of 18 trainings are finished and 1 of 2 sweeps are complete. [README.md]" in text
    assert "Trainings that failed: 0; cells" in text
    row = told(folder, sweep="label_ratio", pool="own", metric="auc_within_task")
    answer = f"- **AUC within task**: {float(row['difference']):+.3f} in label_ratio at 1:4.\n"
    assert answer in text[: text.index("## ")]
    assert "or a later run took their place: 1.\n" in text
    assert "![All sweeps](study_overview.png)" in text
    _, marks = marks_of(folder / "results.md")
    assert marks["README.md"] == {"Levels": [{"design": "5"}]}, "the plan's marks stay"
    found = check(folder, text, marks["results.md"])
    assert [one for one in found if one.wrong] == []
    assert sum(one.value is not None for one in found) > 40, "most numbers have a source that is compared"
    assert (folder / "README.md").read_text() == (
        "# A plan\n\n**What came out stands in [results.md](results.md).** Levels: many.\n"
    )
    before = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    command(folder, page=True)
    assert {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()} == before

    table = folder / "study_table.csv"
    row = told(folder, sweep="label_ratio", pool="own", metric="auc_within_task")
    table.write_text(table.read_text().replace(row["difference"], "0.999"))
    read_source.cache_clear()
    selected.cache_clear()
    wrong = [one.wrong for one in check(folder, text, marks["results.md"]) if one.wrong]
    assert wrong
    assert all("is 0.999" in one for one in wrong)
    assert json.loads((folder / "study_counts.json").read_text())["finished"] == 15
    capsys.readouterr()


def test_what_is_no_study_or_not_comparable_is_refused(store: Store, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"study\.yaml is not there: it names the preset and the sweeps"):
        command(tmp_path / "nowhere")
    (tmp_path / "study.yaml").write_text("preset: demo\n")
    with pytest.raises(UsageError, match="must have two keys: preset, and the list sweeps"):
        command(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no bundle lies below .*/empty: name a folder with bundles"):
        command(folder, source=str(tmp_path / "empty"))
    with pytest.raises(UsageError, match=r"README\.md is no folder: name the folder of a study"):
        command(folder / "README.md")
    with pytest.raises(UsageError, match="name --page or --out, not both"):
        command(folder, page=True, out=tmp_path)


def test_levels_that_score_a_part_of_the_attempts_are_named() -> None:
    shares = {("256", "rank_last"): 0.37, ("768", "rank_last"): 1.0, ("256", "cut"): 1.0, ("768", "cut"): 1.0}
    cells = tuple(
        FinishedCell(SimpleNamespace(run_id=""), level, arm, 0)  # type: ignore[arg-type]
        for level, arm in shares
    )
    for cell in cells:
        cell.__dict__["report"] = {"score_rate": shares[cell.level, cell.arm]}
    for cell in cells:
        cell.run.tags = {}  # type: ignore[misc]
    group = SweepRuns("context_length", "small", "c", "context_length", cells, "768")
    text = study_table._unscored(group)
    assert text.text.startswith(
        " Of the attempts only a share of 0.37 at 256 is scored under rank_last; AUC within task"
    )
