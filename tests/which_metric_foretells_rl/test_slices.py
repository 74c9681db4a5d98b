"""A slice of the study: commands beside each other on cards, what ends it, and what counts as a failure of a cell."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from analysis.foretelling_plan import COMMON, read_plan, read_rows
from analysis.foretelling_runs import PaidRun, refusal
from analysis.policies import policy_runs
from analysis.tracked import source_runs
from experiments.studies.which_metric_foretells_rl import records, study
from experiments.studies.which_metric_foretells_rl.side_by_side import SideBySide
from rmlab.errors import DataError
from rmlab.metrics.report import report
from rmlab.paths import REPOSITORY
from rmlab.scores.table import read_score_table
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from tests.rl.easy_family import write_easy_policy, write_easy_tasks
from tests.rl.small_training import SMALL
from tests.which_metric_foretells_rl.planned import cells


def test_a_slice_runs_cells_side_by_side_and_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(cell: records.Cell, state: records.State, minutes: float | None = None) -> list[str]:
        return [
            sys.executable,
            "-c",
            f"import sys; print('{cell['name']}'); sys.exit({int(cell['name'] == 'mostly_resolved-300')})",
        ]

    monkeypatch.setattr(study, "command", command)
    monkeypatch.setattr(records, "LEDGER", tmp_path / "ledger.csv")
    monkeypatch.setattr(study, "tracked_as_failed", lambda name, since: True)
    assert study.run_slice(cells()[10:13], 5, 2) == ["mostly_resolved-300"]
    logs = runs_folder / records.STUDY
    assert sorted(path.stem for path in logs.iterdir()) == [
        "mostly_resolved-300",
        "mostly_unresolved-2400",
        "mostly_unresolved-4000",
    ]
    assert "mostly_resolved-300 failed: mostly_resolved-300 (" in capsys.readouterr().out, "the last line of its log"
    assert study.run_slice(cells()[:3], 0.5, 2) == [], "too little time is left to begin one"


def test_cards_are_filled_evenly_and_each_command_sees_its_own(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path
) -> None:
    """The names of cards are those that this process may use, and no card gets more commands than it should."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-x,GPU-y,GPU-z")
    tell = [
        sys.executable,
        "-c",
        "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True); time.sleep(60)",
    ]
    running = SideBySide(runs_folder / "logs", 2, cards=2)
    assert [running.start(name, tell) for name in "abcde"] == [True] * 4 + [False]
    other = SideBySide(runs_folder / "other", 1, cards=1)
    assert not other.start("whole", tell), "the card is shared: nobody has it whole"
    while not all((running.logs / f"{name}.txt").read_text() for name in "abcd"):
        time.sleep(0.05)
    running.stop()
    while len(running):
        assert all(code == -signal.SIGTERM for _, code in running.ended())
    assert [(running.logs / f"{name}.txt").read_text() for name in "abcd"] == ["GPU-x\n", "GPU-y\n"] * 2
    assert other.start("whole", [sys.executable, "-c", ""])
    while len(other):
        other.ended()


def test_what_was_started_stops_with_its_parent(runs_folder: Path) -> None:
    """The program of a slice is killed: what it started is told to stop, and does not hold the card beside the next slice."""
    logs = runs_folder / "logs"
    child = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(60)"
    parent = f"""
import sys, time
from pathlib import Path
from experiments.studies.which_metric_foretells_rl.side_by_side import SideBySide
SideBySide(Path({str(logs)!r}), 1).start("a", [sys.executable, "-c", {child!r}])
time.sleep(60)
"""
    program = subprocess.Popen([sys.executable, "-c", parent], cwd=REPOSITORY)
    while not (logs / "a.txt").exists() or not (logs / "a.txt").read_text():
        time.sleep(0.05)
        assert program.poll() is None
    pid = int((logs / "a.txt").read_text())
    program.kill()
    program.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_a_cell_that_failed_twice_is_not_run_again(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(records, "LEDGER", tmp_path / "ledger.csv")

    def command(cell: records.Cell, *given: object) -> list[str]:
        RunLogger.start(Store.open(None), "x", cell["name"], kind="verifier").fail(ValueError("not finite"))
        return [sys.executable, "-c", "raise SystemExit(1)"]

    monkeypatch.setattr(study, "command", command)
    one = cells()[:1]
    for _ in range(2):
        assert study.to_do(one, records.look()) == one
        assert study.run_slice(one, 5, 1) == ["balanced-300"]
    assert records.look().failures == {"balanced-300": 2}
    assert records.look().done == {}
    assert study.to_do(one, records.look()) == []
    assert "failed    balanced-300  2 times: it is not run again" in study.said(one, records.look())


def test_a_mistake_of_set_up_is_no_failure_of_a_cell_and_ends_the_slice(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start that is not there, a word that the program does not know: the next cells would end alike, and the ledger travels."""
    monkeypatch.setattr(records, "LEDGER", tmp_path / "ledger.csv")
    refused = "import sys; print('runs/policies/a: there is no such file or folder'); sys.exit({})"
    for code in (1, 2):
        monkeypatch.setattr(study, "command", lambda *given, code=code: [sys.executable, "-c", refused.format(code)])
        assert study.run_slice(cells()[:3], 5, 1) == ["balanced-300"]
        said = capsys.readouterr().out
        words = f"balanced-300 ended with {code} without a failed run, which is not counted; no further cell begins: "
        assert words + "runs/policies/a: there is no such file or folder (" in said
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(study, "command", lambda *given: [sys.executable, "-c", killed])
    assert study.run_slice(cells()[:2], 5, 1) == ["balanced-300", "balanced-500"], "the next ones may be spared"
    assert "balanced-300 was killed (signal 9), which is not counted: it said nothing (" in capsys.readouterr().out
    assert records.look().failures == {}
    assert len(study.to_do(cells()[:3], records.look())) == 3


def test_what_cells_begin_from_is_there_before_the_first_begins(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(records, "LEDGER", tmp_path / "ledger.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "command", lambda *given: pytest.fail("a cell begins"))
    with pytest.raises(DataError, match=r"models/smollm2_8000: not on this machine\. README\.md says"):
        study.main(["verifiers", "--minutes", "4"])
    with pytest.raises(DataError, match=r"^runs/policies/a and runs/policies/b: not on this machine"):
        study.main(["execution", "--minutes", "4"])
    assert study.main(["execution", "--minutes", "0"]) == 0, "where nothing begins nothing has to be there"


@pytest.mark.slow
def test_a_verifier_is_trained_and_pays_and_both_come_home(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """On a CPU with a tiny policy and verifier: two commands, a ledger, a bundle; then nothing is left to do."""
    write_easy_tasks(tmp_path / "tasks.parquet")
    write_easy_policy(tmp_path / "runs" / "policies" / "a", steps=4)
    verifier = ["preset=smoke", "training.epochs=0.1", "evaluation.replicates=2"]
    rl = [
        *SMALL,
        f"tasks={tmp_path / 'tasks.parquet'}",
        "over_length=truncate_middle",
        "watch.outcome_without=[two_bugs]",
    ]
    rl += [
        "rl.steps=1",
        "rl.groups=2",
        "rl.attempts=2",
        "watch.tasks=2",
        "watch.held_out_tasks=2",
        "watch.held_out_attempts=1",
    ]
    for kind, words in (("verifier", verifier), ("rl", rl)):
        monkeypatch.setitem(COMMON, kind, words)
    monkeypatch.setattr(records, "LEDGER", tmp_path / "kept" / "ledger.csv")
    monkeypatch.setattr(study, "LEAST_SECONDS", {"verifier": 0, "rl": 0})
    monkeypatch.chdir(tmp_path)
    (runs_folder / "models" / "smollm2_8000").mkdir(parents=True)  # the preset smoke does not read it
    names = ["overconfident-500", "execution_free_overconfident-500_a_s0"]
    assert study.main([names[0], "--minutes", "8", "--bundle", str(tmp_path / "one.zip")]) == 0
    assert study.main([*names, "--minutes", "8", "--bundle", str(tmp_path / "two.zip")]) == 0
    assert "0 cells of 2 to do, 0 failed" in capfd.readouterr().out
    ledger = read_rows(tmp_path / "ledger.csv")  # the copy beside the bundle
    assert [row["name"] for row in ledger] == names
    assert ledger[1]["verifier_run"] == ledger[0]["run_id"]
    assert study.main([*names, "--dry-run"]) == 0
    assert capfd.readouterr().out.count("finished  ") == 2
    with source_runs(str(tmp_path / "two.zip"), ("verifier", "rl")) as (_, runs):
        [paid] = policy_runs(runs)
        assert paid.paid_by is not None
        plain = report(read_score_table(paid.paid_by.artifact("scores.parquet")), replicates=0)
        assert paid.verifier_report["auc_within_task"] == pytest.approx(plain["auc_within_task"])
        assert paid.verifier_report["ece_width_10"] != pytest.approx(plain["ece_width_10"])
        cell = next(cell for cell in cells() if cell["name"] == names[1])
        assert refusal(paid, cell, read_plan()) == "it has 1 steps, the plan 60"
        one = PaidRun(cell, paid)
        assert set(one.rates) <= set(one.clusters)
        assert np.mean(list(one.rates.values())) == pytest.approx(one.outcome)
        assert one.verifier["ece_width_10"] == paid.verifier_report["ece_width_10"]
