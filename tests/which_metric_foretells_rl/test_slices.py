"""A slice of the study: commands beside each other on cards, what ends it, and what counts as a failure of a cell."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.foretelling.runs import read_study
from experiments.studies.which_metric_foretells_rl import records, study
from experiments.studies.which_metric_foretells_rl.side_by_side import SideBySide
from rmlab.errors import DataError
from rmlab.paths import REPOSITORY
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from tests.which_metric_foretells_rl.planned import BALANCED, cells, named


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test starts ends at once."""
    monkeypatch.setattr(study, "LOOK_SECONDS", 0.05)


def test_a_slice_runs_cells_side_by_side_and_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(cell: records.Cell, state: records.State, minutes: float | None = None) -> list[str]:
        return [
            sys.executable,
            "-c",
            f"import sys; print('{cell['name']}'); sys.exit({int(cell['name'] == 'mostly_resolved-250')})",
        ]

    monkeypatch.setattr(study, "command", command)
    monkeypatch.setattr(study, "tracked_failure", lambda name, since: "ValueError: not finite")
    assert study.run_slice(named("mostly_unresolved-3800", "mostly_unresolved-6000", "mostly_resolved-250"), 5, 2) == [
        "mostly_resolved-250"
    ]
    logs = runs_folder / records.EXPERIMENT
    assert sorted(path.stem for path in logs.iterdir()) == [
        "mostly_resolved-250",
        "mostly_unresolved-3800",
        "mostly_unresolved-6000",
    ]
    assert "mostly_resolved-250 failed: mostly_resolved-250 (" in capsys.readouterr().out, "the last line of its log"
    assert study.run_slice(named(*BALANCED[:3]), 0.5, 2) == [], "too little time is left to begin one"


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


def test_a_cell_that_failed_twice_is_given_up(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(cell: records.Cell, *given: object) -> list[str]:
        RunLogger.start(Store.open(None), "x", cell["name"], kind="verifier").fail(ValueError("not finite"))
        return [sys.executable, "-c", "raise SystemExit(1)"]

    monkeypatch.setattr(study, "command", command)
    one = named(*BALANCED[:1])
    for _ in range(2):
        assert study.to_do(one, records.look()) == one
        assert study.run_slice(one, 5, 1) == ["balanced-250"]
    assert "balanced-250 is given up: it failed 2 times\n" in capsys.readouterr().out
    assert records.look().ended == {("balanced-250", "failed"): 2}
    assert records.look().done == {}
    assert study.to_do(one, records.look()) == []
    assert "given up  balanced-250  it failed 2 times" in study.said(one, records.look())


def test_a_cell_that_was_killed_three_times_is_given_up_with_all_that_it_would_pay(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a machine that has too little memory, say: the next slice would start it again, and lose its time again."""
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(study, "command", lambda *given: [sys.executable, "-c", killed])
    two = named(*BALANCED[:2])
    assert study.run_slice(two, 5, 1) == ["balanced-250", "balanced-430"], "the next ones may be spared"
    said = capsys.readouterr().out
    assert "balanced-250 was killed (signal 9): it said nothing (" in said
    assert "given up" not in said
    interrupted = "import sys; print('a lease was lost'); sys.exit(130)"
    for program in (killed, interrupted):
        monkeypatch.setattr(study, "command", lambda *given, program=program: [sys.executable, "-c", program])
        assert study.to_do(two[:1], records.look()) == two[:1]
        study.run_slice(two[:1], 5, 1)
    said = capsys.readouterr().out
    assert "balanced-250 was interrupted: a lease was lost (" in said
    assert "balanced-250 is given up: it was killed 3 times\n" in said
    known = records.look()
    assert known.ended == {("balanced-250", "killed"): 3, ("balanced-430", "killed"): 1}
    waits = [cell for cell in cells() if cell["verifier"] == "balanced-250"]
    assert {cell["block"] for cell in waits} == {"verifiers", "execution_free", "second_seed", "hybrid"}
    assert study.to_do(waits, known) == []
    line = "given up  hybrid_balanced-250_a_s0  its verifier balanced-250 is given up: it was killed 3 times"
    assert line in study.said(waits, known)
    assert study.main(["balanced-250", "hybrid", "--minutes", "0"]) == 0
    assert capsys.readouterr().out == "23 cells of 25 to do, 2 given up\n"
    [left] = [reason for name, reason in read_study([]).left_out if name == "hybrid_balanced-250_a_s0"]
    assert left == "no finished run"


@pytest.mark.slow
def test_what_a_slice_cuts_short_has_not_been_killed_but_what_hangs_has(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slice has ended when its minutes are up, whatever its commands do when they are told to stop."""
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    hears = "import time; time.sleep(60)"
    for name, value in (("LEAST_SECONDS", {"verifier": 3}), ("STOP", 2.0), ("KILL", 1.0)):
        monkeypatch.setattr(study, name, value)
    programs = {"balanced-250": hears, "balanced-430": deaf}
    monkeypatch.setattr(study, "command", lambda cell, *given: [sys.executable, "-c", programs[cell["name"]]])
    for seconds, ended in ((90, {}), (1, {("balanced-430", "killed"): 1})):
        monkeypatch.setattr(study, "SECONDS", {"verifier": seconds})
        began = time.monotonic()
        assert study.run_slice(named(*BALANCED[:2]), 0.1, 2) == [name for name, _ in ended]
        assert time.monotonic() - began < 12
        assert records.look().ended == ended
    assert "balanced-430 did not stop when it was told to and was killed: deaf (" in capsys.readouterr().out


def test_what_finds_too_little_memory_beside_others_begins_again_with_fewer(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that the store tracks as failed for that, while another has the card; alone it is a failure of its cell."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-x")
    other, full = BALANCED[:2]
    tried, done = tmp_path / "tried", tmp_path / "done"
    crowded = f"""
import pathlib
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
tried, done = pathlib.Path({str(tried)!r}), pathlib.Path({str(done)!r})
if not tried.exists():
    tried.touch()
    try:
        with RunLogger.start(Store.open(None), "x", {full!r}, kind="verifier"):
            raise RuntimeError("CUDA out of memory. Tried to allocate 24.00 MiB.")
    finally:
        done.touch()
"""
    waits = f"import pathlib, time\nwhile not pathlib.Path({str(done)!r}).exists(): time.sleep(0.05)\ntime.sleep(2)"

    def command(cell: records.Cell, state: records.State, minutes: float | None = None) -> list[str]:
        return [sys.executable, "-c", crowded if cell["name"] == full else waits]

    monkeypatch.setattr(study, "command", command)
    assert study.run_slice(named(other, full), 5, 2) == []
    said = capsys.readouterr().out
    words = "found too little memory beside others, which is not counted: it begins again, with 1 on its card at most"
    assert f"{full} {words}" in said
    assert said.count(f"{full} begins") == 2
    assert records.look().ended == {}
    tried.unlink()
    assert study.run_slice(named(full), 5, 2) == [full]
    assert records.look().ended == {(full, "failed"): 1}


def test_mistakes_of_set_up_are_no_failures_of_cells_and_end_the_slice(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start that is not there, a word that the program does not know: the next cells would end alike, and the ledger travels. One
    alone may be a mistake of its cell, which keeps the others from nothing."""
    refused = "import sys; print('runs/policies/a: there is no such file or folder'); sys.exit({})"
    for code in (1, 2):
        monkeypatch.setattr(study, "command", lambda *given, code=code: [sys.executable, "-c", refused.format(code)])
        assert study.run_slice(named(*BALANCED[:4]), 5, 1) == ["balanced-250", "balanced-430"]
        said = capsys.readouterr().out
        words = f"ended with {code} without a failed run, which is not counted"
        assert f"balanced-250 {words}: runs/policies/a: there is no such file or folder (" in said
        assert f"balanced-430 {words}; no further cell begins: runs/policies/a" in said
    assert records.look().ended == {}
    assert len(study.to_do(named(*BALANCED[:3]), records.look())) == 3


def test_what_cells_begin_from_is_there_before_the_first_begins(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(study, "command", lambda *given: pytest.fail("a cell begins"))
    with pytest.raises(DataError, match=r"models/smollm2_8000: not on this machine\. README\.md says"):
        study.main(["verifiers", "--minutes", "4"])
    with pytest.raises(DataError, match=r"^runs/policies/a and runs/policies/b: not on this machine"):
        study.main(["execution", "--minutes", "4"])
    assert study.main(["execution", "--minutes", "0"]) == 0, "where nothing begins nothing has to be there"


def test_a_run_begins_once_its_verifier_is_trained_and_others_before_it(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order in which blocks are named; what nobody here makes is not waited for."""
    paid, unpaid, other = named(
        "execution_free_balanced-250_a_s0", "execution_a_s0", "execution_free_balanced-430_b_s0"
    )
    made = runs_folder / "weights"

    def command(cell: records.Cell, *given: object) -> list[str]:
        if cell is other or (cell is paid and not made.exists()):
            raise DataError(f"the weights of {cell['verifier']} are not here")
        program = f"import pathlib, time; time.sleep(0.5); pathlib.Path({str(made)!r}).touch()"
        return [sys.executable, "-c", program if cell["kind"] == "verifier" else ""]

    monkeypatch.setattr(study, "command", command)
    verifier = named("balanced-250")[0]
    assert study.run_slice([paid, verifier, other, unpaid], 5, 2) == [other["name"]]
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said if " begins, " in line] == [verifier["name"], unpaid["name"], paid["name"]]
    assert said[-1] == f"{other['name']}: the weights of balanced-430 are not here"
    assert study.main(["execution", "balanced-250", "--dry-run"]) == 0
    listed = [line.split()[2] for line in capsys.readouterr().out.splitlines() if line.startswith("to do     ")]
    assert [name.partition("_")[0] for name in listed] == ["execution"] * 4 + ["balanced-250"]
