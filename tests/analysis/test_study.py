"""A study of two sweeps, from runs whose quality is known: its ledger, its table in words, its figure, its page with marked numbers."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from analysis import study_overview, study_page, study_table, style
from analysis.page_numbers import check, marks_of, read_source, selected
from analysis.planned_cells import PlannedCell
from analysis.planned_study import PlannedStudy, ledger_lines, open_study
from analysis.study_effects import effects
from rmlab.commands.figures import draw_figures
from rmlab.commands.figures import study as command
from rmlab.commands.runs import list_runs
from rmlab.errors import DataError, StoreError, UsageError
from rmlab.metrics.report import report
from rmlab.paths import REPOSITORY
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.sweep.spec import read_sweep
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

pytestmark = pytest.mark.usefixtures("small_pictures")
TASKS = 24
SHIPPED = REPOSITORY / "experiments" / "studies" / "language_verifiers"


def scored(quality: float, noise: int) -> Scores:
    """Attempts whose labels and luck are those of all runs; noise and quality are their own."""
    rng = np.random.default_rng(0)
    label, shared = rng.random(TASKS * 4) < 0.5, rng.normal(size=TASKS * 4)
    own = np.random.default_rng(noise).normal(0, 0.3, TASKS * 4)
    names = np.repeat([f"t{i}" for i in range(TASKS)], 4)
    return Scores.of(names, 1 / (1 + np.exp(-(quality * (label - 0.5) + shared + own))), label)


def train(
    store: Store,
    folder: Path,
    cell: PlannedCell,
    quality: float,
    *,
    fails: bool = False,
    hashed: str = "",
    control: str = "",
    pool: str = "the pool",
    change: tuple[str, Any] | None = None,
) -> None:
    """One verifier's run of a planned cell, with a further pool on which it is worth nothing."""
    spec = read_sweep(cell.sweep, "demo")
    tags = {
        "sweep": cell.sweep,
        "preset": "demo",
        "factor": spec.factor,
        "level": cell.level,
        "arm": cell.arm,
        "baseline": str(spec.baseline),
        "place": str([str(level) for level in spec.levels].index(cell.level)),
        "config_hash": hashed or cell.key,
        "control_hash": f"control of {cell.sweep}{control}",
        "dataset": pool,
    }
    config = cell.config.copy()
    if change is not None:
        OmegaConf.update(config, *change)
    place = int(tags["place"])
    with RunLogger.start(store, cell.sweep, cell.name, kind="verifier", tags=tags, params={"seed": cell.seed}) as run:
        run.configuration(config)
        if fails:
            raise ArithmeticError("loss is not finite")
        scores, hard = scored(quality, 10 * cell.seed + place), report(scored(0.0, cell.seed + place), replicates=0)
        write_score_table(folder / "scores.parquet", scores)
        run.json("report.json", report(scores, replicates=0))
        run.json("baselines.json", {})
        run.json("hard_report.json", hard)
        run.metric("eval_hard/auc_within_task", hard["auc_within_task"])
        run.artifact(folder / "scores.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a study of two sweeps at preset demo, whose baselines are one configuration, with a plan."""
    made = tmp_path / "two_sweeps"
    made.mkdir()
    (made / "study.yaml").write_text("preset: demo\nsweeps: [label_ratio, evidence]\n")
    (made / "README.md").write_text(f"# A plan\n\n{study_page.NOTHING_YET} Levels: many.\n")
    return made


@pytest.fixture
def store(runs_folder: Path) -> Store:
    return Store.open(None)


def fill(store: Store, folder: Path, scratch: Path, sweeps: dict[str, dict[str, float]], seeds: int = 3) -> None:
    """Trains the levels of sweeps (level -> quality) and puts a bundle of each sweep into a study's folder."""
    planned = PlannedStudy.read(folder, []).planned
    for sweep, levels in sweeps.items():
        for cell in planned[sweep]:
            if cell.level in levels and cell.seed < seeds:
                train(store, scratch, cell, levels[cell.level])
        export_runs(store, folder / "bundles" / f"{sweep}.zip", sweep=sweep, preset="demo", study=True, show=False)


WHOLE = {"4:1": 1.0, "2:1": 1.0, "1:1": 1.0, "1:2": 1.0, "1:4": 6.0}


def test_the_ledger_says_what_is_finished_shared_failed_and_next(
    store: Store, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_study(folder) as planned:
        assert planned.trainings == (18, 0), "15 and 6 cells, 3 of them the same"
        assert "  evidence             0 of 6 finished; not begun" in ledger_lines(planned)
        cells = {cell.name: cell for cell in planned.planned["evidence"]}
    for _ in range(2):
        with pytest.raises(ArithmeticError):
            train(store, tmp_path, cells["evidence=voluntary s1"], 1.0, fails=True)
    with pytest.raises(ArithmeticError):
        train(store, tmp_path, cells["evidence=voluntary s2"], 1.0, fails=True)
    train(store, tmp_path, cells["evidence=voluntary s0"], 1.0)
    export_runs(store, folder / "evidence.zip", sweep="evidence", study=True, show=False)
    fill(store, folder, tmp_path, {"label_ratio": {"1:1": 1.0, "4:1": 2.0}})
    with open_study(folder) as planned:
        assert planned.trainings == (18, 7)
        states = {one.cell.name: (one.state, one.failures) for one in planned.of("evidence")}
        text = "\n".join(ledger_lines(planned))
        rows = [one.row for one in planned.cells]
    assert states == {
        **{f"evidence=final s{seed}": ("elsewhere", 0) for seed in range(3)},
        "evidence=voluntary s0": ("finished", 0),
        "evidence=voluntary s1": ("failed", 2),
        "evidence=voluntary s2": ("failed", 1),
    }
    assert "label_ratio          6 of 15 finished; missing: 2:1, 1:2, 1:4" in text
    assert "evidence             4 of 6 finished (3 of them in another sweep); missing: voluntary s1 s2" in text
    assert "failed 2 times: evidence: evidence=voluntary s1: ArithmeticError: loss is not finite; not repeated" in text
    assert "evidence=voluntary s2: ArithmeticError: loss is not finite; to be repeated" in text
    assert text.endswith(
        "Next:\n  rmlab sweep label_ratio preset=demo --on-error continue\n"
        "  rmlab sweep evidence preset=demo --on-error continue --retry-failed"
    )
    assert len(rows) == 21
    assert {row["control_hash"] for row in rows if row["state"] == "finished"} == {
        "control of label_ratio",
        "control of evidence",
    }

    command(folder, ledger=True)
    assert capsys.readouterr().out.startswith("two_sweeps: 7 of 18 trainings finished, preset demo\n")
    assert not (folder / "ledger.csv").exists()
    command(folder, ledger=True, page=True)
    assert len(list(csv.DictReader((folder / "ledger.csv").read_text().splitlines()))) == 21
    assert (folder / study_page.PAGE).is_file(), "all that --page writes"


def test_a_run_that_lies_in_two_bundles_is_one(store: Store, folder: Path, tmp_path: Path) -> None:
    planned = PlannedStudy.read(folder, []).planned["evidence"]
    train(store, tmp_path, planned[0], 1.0)
    with pytest.raises(ArithmeticError):
        train(store, tmp_path, planned[-1], 1.0, fails=True)
    for name in ("first", "second"):
        export_runs(store, folder / f"{name}.zip", sweep="evidence", study=True, show=False)
    with open_study(folder) as study:
        assert [(one.state, one.failures) for one in study.cells if one.cell == planned[-1]] == [("failed", 1)]
        assert any(line.endswith("to be repeated once") for line in ledger_lines(study))


def test_a_run_that_ended_before_it_said_which_cell_it_is_is_counted(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    with (
        pytest.raises(ArithmeticError),
        RunLogger.start(store, "evidence", "x", kind="verifier", tags={"sweep": "evidence", "preset": "demo"}),
    ):
        raise ArithmeticError("no memory")
    with open_study(folder, source=str(tmp_path / "runs" / "mlflow.db")) as study:
        assert study.left_aside() == [
            "evidence: not counted: 1 run that ended before its seed and its control hash were tracked"
        ]


def test_a_source_that_was_named_and_is_not_there_is_an_error(runs_folder: Path, folder: Path) -> None:
    nowhere = f"sqlite:///{runs_folder}/nowhere.db"
    for read in (
        lambda: command(folder, source=nowhere, ledger=True),
        lambda: draw_figures(source=nowhere),
        lambda: list_runs(store=nowhere),
    ):
        with pytest.raises(StoreError, match=r"nowhere\.db: there is no such store: name one by its URL or file"):
            read()


def test_what_was_trained_under_other_code_or_data_is_named(store: Store, folder: Path, tmp_path: Path) -> None:
    planned = PlannedStudy.read(folder, []).planned
    train(store, tmp_path, planned["label_ratio"][6], 1.0)
    [same] = [cell for cell in planned["evidence"] if cell.key == planned["label_ratio"][6].key]
    train(store, tmp_path, same, 1.0, hashed="another")
    with open_study(folder, source=str(tmp_path / "runs" / "mlflow.db")) as study:
        [text] = study.contradictions()
    assert re.fullmatch(
        r"one configuration, but different inputs or code: label_ratio: label_ratio=1:1 s0 \(\w+\), evidence: evidence=final s0 "
        r"\(another\)",
        text,
    )


def ledger(folder: Path, tmp_path: Path) -> str:
    with open_study(folder, source=str(tmp_path / "runs" / "mlflow.db")) as study:
        return "\n".join(ledger_lines(study))


def test_a_run_of_another_configuration_is_not_the_planned_cell(store: Store, folder: Path, tmp_path: Path) -> None:
    cells = PlannedStudy.read(folder, []).planned["label_ratio"]
    train(store, tmp_path, cells[0], 1.0, change=("optimizer.learning_rate", 0.01))
    train(store, tmp_path, cells[1], 1.0, change=("runtime.checkpoint_seconds", 1.0))  # changes no result
    with pytest.raises(ArithmeticError):
        train(store, tmp_path, cells[0], 1.0, fails=True, change=("optimizer.learning_rate", 0.01))
    text = ledger(folder, tmp_path)
    assert text.startswith("two_sweeps: 1 of 18 trainings finished"), text
    assert "label_ratio: not counted: 2 runs of another configuration, by the plan in optimizer.learning_rate" in text
    assert "rmlab sweep label_ratio preset=demo --on-error continue\n" in text, "what failed was another training"
    train(store, tmp_path, cells[0], 1.0)
    assert ledger(folder, tmp_path).startswith("two_sweeps: 2 of 18 trainings finished")


def test_a_finished_run_that_shows_no_configuration_is_not_counted(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = PlannedStudy.read(folder, []).planned["label_ratio"]
    monkeypatch.setattr(RunLogger, "configuration", lambda *_: None)
    train(store, tmp_path, cells[0], 1.0)
    with pytest.raises(ArithmeticError):
        train(store, tmp_path, cells[1], 1.0, fails=True)
    text = ledger(folder, tmp_path)
    assert "1 run of another configuration, by the plan in config.yaml (the run has none)" in text
    assert "failed 1 time: label_ratio: label_ratio=4:1 s1: ArithmeticError" in text


def test_runs_from_another_pool_are_not_mixed_into_a_sweep(store: Store, folder: Path, tmp_path: Path) -> None:
    planned = PlannedStudy.read(folder, []).planned
    other = {"control": ", another pool", "pool": "another pool"}
    for cell in planned["label_ratio"][:2]:
        train(store, tmp_path, cell, 1.0, **other)  # type: ignore[arg-type]
    for cell in planned["label_ratio"][6:9]:
        train(store, tmp_path, cell, 1.0)
    train(store, tmp_path, planned["evidence"][-1], 1.0, **other)  # type: ignore[arg-type]
    with open_study(folder, source=str(tmp_path / "runs" / "mlflow.db")) as study:
        assert {name: group.control_hash for name, group in study.groups.items()} == {
            "label_ratio": "control of label_ratio",
            "evidence": "control of evidence, another pool",
        }
        assert [len(group.cells) for group in study.groups.values()] == [3, 1]
        assert study.trainings == (18, 1), "the 3 that both sweeps plan are missing in one of them"
        assert study.unplanned == 2
        assert study.left_aside() == [
            "label_ratio: not counted: 2 runs of control hash control of label_ratio, another pool, other than control of label_ratio "
            "of most cells: pool, tokenizer or code",
            "evidence: not counted: 3 cells that another sweep finished, with another pool or tokenizer",
        ]


def test_a_damaged_bundle_is_named(store: Store, folder: Path, tmp_path: Path) -> None:
    fill(store, folder, tmp_path, {"evidence": {"voluntary": 0.0}}, seeds=1)
    whole = (folder / "bundles" / "evidence.zip").read_bytes()
    (folder / "bundles" / "cut.zip").write_bytes(whole[: len(whole) // 2])
    (folder / "words.zip").write_text("no archive")
    with pytest.raises(
        DataError, match=r"no bundle, or cut short on its way: .*/bundles/cut\.zip, .*/words\.zip\. Get it"
    ):
        command(folder, ledger=True)


def told(folder: Path, **conditions: str) -> dict[str, str]:
    """The one row of the table's CSV that fits."""
    rows = csv.DictReader((folder / "study_table.csv").read_text().splitlines())
    [row] = [row for row in rows if conditions.items() <= row.items()]
    return row


def test_one_table_says_what_is_shown_what_is_not_and_with_which_power(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    fill(store, folder, tmp_path, {"label_ratio": WHOLE})
    with open_study(folder) as study:
        study_table.draw(study, folder)
        group = study.groups["label_ratio"]
        tests = group.tests
    row = told(folder, sweep="label_ratio", pool="own", metric="auc_within_task")
    test = tests["", "1:4", "auc_within_task"]
    assert (row["level"], row["trainings"], row["planned"], row["failed"]) == ("1:4", "15", "15", "0")
    assert float(row["difference"]) == test.difference
    assert (float(row["low"]), float(row["high"])) == test.ci95
    assert float(row["p_holm"]) == test.p_holm
    assert (row["verdict"], row["shown"], row["tests"]) == ("higher", "1", "4")
    hidden = [tests["", level, "auc_within_task"] for level in ("4:1", "2:1", "1:2")]
    assert float(row["detectable_holm"]) == max(one.detectable_holm or 0.0 for one in hidden)
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
    assert (
        f"shown to raise AUC within task by {test.difference:.3f} at label_ratio=1:4; no other difference shown" in text
    )
    assert "with 80 % power tests would have shown one of" in text
    assert "SWE-RM, arXiv 2512.21919, values by public notes" in text
    assert "| 3 of 6 |  |  |  | none of its own yet |" in text
    assert "So far" not in text
    assert (
        f"| label_ratio | 12 | {float(told(folder, sweep='label_ratio', pool='own', metric='rm_at_k')['spread']):.3f}, "
        in text
    )


def test_while_it_runs_the_table_says_so_and_takes_shared_cells_from_elsewhere(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    fill(store, folder, tmp_path, {"label_ratio": {"1:1": 1.0, "1:4": 6.0}, "evidence": {"voluntary": 0.0}})
    with open_study(folder) as study:
        text = study_table.as_marked(study).text
        assert study.groups["evidence"].levels == ["final", "voluntary"]
        assert [effect.words for effect in effects(study.groups["evidence"])] == ["RM@4", "AUC within task", "ECE"]
        assert study.groups["evidence"].tests["", "voluntary", "auc_within_task"].difference is not None
        caption = study_overview.caption(study)
    assert "| 6 of 15 |" in text
    assert text.count("So far, and only for orientation") == 1, "of evidence every cell is there"
    assert "9 trainings of 18 are still missing, so nothing here is final." in caption


def test_the_figures_of_each_sweep_are_drawn_from_the_folder_of_bundles(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    fill(
        store, folder, tmp_path, {"label_ratio": {"1:1": 1.0, "1:4": 6.0}, "evidence": {"final": 1.0, "voluntary": 0.0}}
    )
    drawn = draw_figures(["differences"], str(folder), tmp_path / "drawn")
    assert sorted({path.relative_to(tmp_path / "drawn").parts[0] for path in drawn}) == ["evidence", "label_ratio"]
    assert all((path.parent / "differences.csv").is_file() for path in drawn)


def test_two_seeds_are_no_test(store: Store, folder: Path, tmp_path: Path) -> None:
    fill(store, folder, tmp_path, {"evidence": {"final": 1.0, "voluntary": 3.0}}, seeds=2)
    with open_study(folder) as study:
        text = study_table.as_marked(study).text
    assert "no test, fewer than 3 seeds that a level and the baseline share." in text
    assert "| voluntary: +" in text


def test_the_overview_is_one_page_in_grey_with_small_letters(
    store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.text import Text

    fill(store, folder, tmp_path, {"label_ratio": WHOLE, "evidence": {"voluntary": 0.0}})
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
    store: Store, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = replace(PlannedStudy.read(folder, []).planned["label_ratio"][0], seed=7, key="unplanned")
    train(store, tmp_path, extra, 1.0)
    fill(store, folder, tmp_path, {"label_ratio": WHOLE})
    (folder / "numbers.yaml").write_text("README.md:\n  Levels:\n  - design: '5'\n")
    written = command(folder, page=True)
    assert sorted(path.name for path in written) == [
        *("ledger.csv", "numbers.yaml", "results.md", "study_counts.json", "study_overview.csv", "study_overview.png"),
        "study_table.csv",
    ], "another page would need marks of its own"
    text = (folder / "results.md").read_text()
    assert "15 of 18 trainings are finished and 1 of 2 sweeps are whole; 0 trainings failed" in text
    assert "and stand in no table here: 1. [README.md]" in text
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("preset: [\n", "is not readable YAML: while parsing"),
        ("preset: demo\nsweeps: []\n", "sweeps is empty"),
        ("preset: demo\nsweeps: [evidence, evidence]\n", "names a sweep twice: evidence$"),
        ("preset: demo\nsweeps: [[evidence]]\n", "sweeps is a list of names"),
        ("preset:\nsweeps: [evidence]\n", "preset is the name of one"),
    ],
)
def test_a_plan_that_says_nothing_clear_is_refused(folder: Path, text: str, words: str) -> None:
    (folder / "study.yaml").write_text(text)
    with pytest.raises(UsageError, match=rf"study\.yaml:? ?.*{words}") as raised:
        command(folder, ledger=True)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_the_shipped_study_is_planned_as_its_plan_says() -> None:
    rows = csv.DictReader((SHIPPED / "power.csv").read_text().splitlines())
    study = PlannedStudy.read(SHIPPED, [])
    assert {row["sweep"]: int(row["cells"]) for row in rows} == {name: len(of) for name, of in study.planned.items()}
    assert tuple(study.planned) == study.sweeps
