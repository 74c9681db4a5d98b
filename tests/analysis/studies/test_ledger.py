"""The ledger of a study of two sweeps: which runs are those of the planned cells, and what is left to do."""

import csv
import re
from pathlib import Path

import pytest

from analysis.studies.ledger import first_sentence, ledger_lines
from analysis.studies.page import PAGE
from analysis.studies.planned_study import PlannedStudy, open_study
from rmlab.commands.figures import draw_figures
from rmlab.commands.runs import list_runs
from rmlab.commands.study import study as command
from rmlab.errors import DataError, StoreError, UsageError
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from tests.analysis.studies.planned_runs import SHIPPED, Fill, train

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_the_ledger_says_what_is_finished_shared_failed_and_next(
    store: Store, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], fill: Fill
) -> None:
    with open_study(folder) as planned:
        assert planned.trainings == (18, 0), "15 and 6 cells, 3 of them the same"
        assert "  evidence             0 of 6 finished; not begun" in ledger_lines(planned)
        cells = {cell.name: cell for cell in planned.planned["evidence"]}
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="loss is not finite"):
            train(store, tmp_path, cells["evidence=voluntary s1"], 1.0, fails=True)
    with pytest.raises(ArithmeticError, match="loss is not finite"):
        train(store, tmp_path, cells["evidence=voluntary s2"], 1.0, fails=True)
    train(store, tmp_path, cells["evidence=voluntary s0"], 1.0)
    export_runs(store, folder / "evidence.zip", sweep="evidence", study=True, show=False)
    fill({"label_ratio": {"1:1": 1.0, "1:4": 2.0}})
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
    assert "label_ratio          6 of 15 finished; missing: 4:1, 2:1, 1:2" in text
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
    page = folder / PAGE
    assert page.is_file(), "all that --page writes"
    gallery = folder / "figures" / "README.md"
    assert not gallery.exists()
    assert "figures/README.md" not in page.read_text()
    picture = folder / "figures" / "evidence" / "rm_at_k.png"
    picture.parent.mkdir(parents=True)
    picture.touch()
    command(folder, ledger=True, page=True)
    assert "![Best of k, by evidence](evidence/rm_at_k.png)" in gallery.read_text()
    assert "discrimination_calibration.png" not in gallery.read_text(), "only what is there"
    assert "(figures/README.md)" in page.read_text()


def test_a_run_that_lies_in_two_bundles_is_one(store: Store, folder: Path, tmp_path: Path) -> None:
    planned = PlannedStudy.read(folder, []).planned["evidence"]
    train(store, tmp_path, planned[0], 1.0)
    with pytest.raises(ArithmeticError, match="loss is not finite"):
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
        pytest.raises(ArithmeticError, match="no memory"),
        RunLogger.start(store, "evidence", "x", kind="verifier", tags={"sweep": "evidence", "preset": "demo"}),
    ):
        raise ArithmeticError("no memory")
    with open_study(folder, source=str(tmp_path / "runs" / "mlflow.db")) as study:
        assert study.left_aside() == [
            "evidence: not counted: 1 run that ended before its seed and its control hash were tracked"
        ]


def test_an_error_is_told_by_its_first_sentence() -> None:
    long = "AcceleratorError: CUDA error: out of memory. CUDA kernel errors might be reported later.\nCompile with ..."
    assert first_sentence(long) == "AcceleratorError: CUDA error: out of memory"
    assert first_sentence("OutOfMemoryError: tried 2.50 GiB of 80 GiB") == "OutOfMemoryError: tried 2.50 GiB of 80 GiB"
    assert len(first_sentence("word " * 100)) == 160


def test_a_source_that_was_named_and_is_not_there_is_an_error(runs_folder: Path, folder: Path) -> None:
    nowhere = f"sqlite:///{runs_folder}/nowhere.db"
    for read in (
        lambda: command(folder, source=nowhere, ledger=True),
        lambda: draw_figures(source=nowhere),
        lambda: list_runs(store=nowhere),
    ):
        with pytest.raises(StoreError, match=r"nowhere\.db: there is no such store\. Name the URL or file of a store"):
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
    with pytest.raises(ArithmeticError, match="loss is not finite"):
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
    with pytest.raises(ArithmeticError, match="loss is not finite"):
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


def test_a_damaged_bundle_is_named(folder: Path, fill: Fill) -> None:
    fill({"evidence": {"voluntary": 0.0}}, seeds=1)
    whole = (folder / "bundles" / "evidence.zip").read_bytes()
    (folder / "bundles" / "cut.zip").write_bytes(whole[: len(whole) // 2])
    (folder / "words.zip").write_text("no archive")
    with pytest.raises(
        DataError, match=r"no bundle, or cut short on its way: .*/bundles/cut\.zip, .*/words\.zip\. Get it"
    ):
        command(folder, ledger=True)


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


def test_the_shipped_study_is_planned_as_its_plan_says() -> None:
    """By its sweep files alone: tests of shipped sweeps make their cells at this preset."""
    rows = csv.DictReader((SHIPPED / "power.csv").read_text().splitlines())
    study = PlannedStudy.read(SHIPPED, [])
    planned = {name: len(spec.combinations) * len(spec.seeds) for name, spec in study.specs.items()}
    assert {row["sweep"]: int(row["cells"]) for row in rows} == planned
    assert study.preset == "small"
