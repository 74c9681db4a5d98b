"""The plan's cells, the program that runs them, and what is fitted before the first run of RL."""

import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from analysis.foretelling_plan import PLAN, STUDY, read_rows, shared, value_at
from analysis.foretelling_runs import read_study
from analysis.style import csv_text
from experiments.studies.which_metric_foretells_rl import check, design, landed, records, study
from experiments.studies.which_metric_foretells_rl.side_by_side import SideBySide
from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, UsageError
from rmlab.metrics.report import report
from rmlab.paths import REPOSITORY
from rmlab.rl.config import Scale, TransformConfig
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.bundles import exporting
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.store import Store


def cells() -> list[records.Cell]:
    return read_rows(STUDY / "cells.csv")


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of its own with the plan of the page, of which nothing has been done."""
    folder = tmp_path / "plan"
    folder.mkdir()
    for name in ("cells.csv", "common.yaml"):
        shutil.copy(STUDY / name, folder)
    monkeypatch.setenv(PLAN, str(folder))
    return folder


def test_the_cells_are_those_of_the_design() -> None:
    planned = [{name: str(value) for name, value in cell.items()} for cell in design.cells()]
    assert cells() == planned
    assert Counter(cell["block"] for cell in planned) == {
        "verifiers": 24,
        "voluntary_verifiers": 8,
        "execution_free": 24,
        "second_seed": 8,
        "hybrid": 24,
        "execution": 4,
        "voluntary": 8,
        "distortion": 25,
        "unnormalised": 6,
        "affine": 3,
        "difficulty": 12,
    }
    assert len({cell["name"] for cell in planned}) == len(planned)
    final = [cell for cell in planned if cell["block"] == "verifiers"]
    assert set(Counter((c["start"], c["column"]) for c in final).values()) == {3}
    assert set(Counter((c["start"], c["amount"]) for c in final).values()) == {2}
    assert len({cell["seed"] for cell in planned if cell["kind"] == "verifier"}) == 32
    again = [cell for cell in planned if cell["block"] == "second_seed"]
    assert set(Counter((c["start"], c["column"]) for c in again).values()) == {1}
    doubled = [cell for cell in design.cells(2) if cell["block"] == "verifiers"]
    assert {cell["amount"] for cell in doubled} == {2 * amount for amount in design.AMOUNTS}
    assert {cell["seed"] for cell in doubled}.isdisjoint(int(cell["seed"]) for cell in final)


def state(**fitted: str) -> records.State:
    values = dict.fromkeys((f"{kind}_{name}" for kind in ("SHIFT", "SLOPE") for name in design.DISTORTIONS), "1.5")
    values |= {"SLOPE_within_good": "0.5", "SLOPE_within_poor": "0.7"}
    roles = {"good": "balanced-4000", "poor": "balanced-500"}
    return records.State({}, {}, values | roles | fitted, dict.fromkeys(roles, "1"))


def test_every_kind_of_run_composes_with_what_it_varies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records.State, "weights", lambda self, verifier: "1")
    programs = {"verifier": "train_verifier", "rl": "rl"}
    one_a_block = {cell["block"]: cell for cell in cells()}
    found = {}
    for block, cell in one_a_block.items():
        load_program(programs[cell["kind"]])
        found[block] = compose(programs[cell["kind"]], study.command(cell, state())[4:])
    assert (found["verifiers"].data.label_ratio, found["verifiers"].data.scale, found["verifiers"].seed) == (
        "1:1",
        4000,
        1023,
    )
    assert found["verifiers"].evaluation.policies[-1] == "b_paid_badly"
    assert (
        found["voluntary_verifiers"].prompt.evidence.value
        == found["voluntary"].environment.evidence.value
        == "voluntary"
    )
    assert found["hybrid"].reward.transform.slope == 3
    assert (found["execution_free"].verifier, found["execution"].verifier) == ("1", "")
    assert found["execution_free"].start == "runs/policies/a"
    assert (found["execution_free"].watch.outcome_without, found["execution_free"].rl.groups) == (["two_bugs"], 40)
    assert (found["distortion"].reward.transform.slope, found["distortion"].reward.transform.shift) == (1.5, 1.5)
    assert found["unnormalised"].algorithm.scale is Scale.none
    assert (
        found["affine"].algorithm.std_floor == found["affine"].reward.factor * found["distortion"].algorithm.std_floor
    )
    assert (found["difficulty"].reward.transform.difficulty, found["difficulty"].reward.transform.between) == (1, 0)
    assert found["difficulty"].tracking.name == "difficulty_poor_with_a_s2"
    [without] = [cell for cell in cells() if cell["name"] == "difficulty_poor_without_a_s2"]
    level = compose("rl", study.command(without, state())[4:]).reward.transform
    assert (level.difficulty, level.between, level.same_difficulty, level.shift) == (1, 0, True, 0), (
        "the same mean logit"
    )
    assert found["difficulty"].reward.transform == {**level, "same_difficulty": False}


def test_what_a_cell_waits_for_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    by_name = {cell["name"]: cell for cell in cells()}
    paid, bent = by_name["execution_free_balanced-300_a_s0"], by_name["distortion_good_shifted_up_a_s0"]
    with pytest.raises(DataError, match="the weights of balanced-300 are not here"):
        study.command(paid, state())
    monkeypatch.setattr(records.State, "weights", lambda self, verifier: "2")
    with pytest.raises(DataError, match="belongs to another training of balanced-4000"):
        study.command(bent, state())
    nothing = records.State({}, {}, {}, {})
    with pytest.raises(DataError, match="SLOPE_shifted_up is not fitted yet"):
        study.command(bent, nothing)
    with pytest.raises(DataError, match="which verifier is good is not known yet"):
        nothing.verifier_of(bent)
    with pytest.raises(UsageError, match="hybird is neither a block nor a cell; blocks are verifiers"):
        study.main(["hybird"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--together 0", "--together: 0 is no number from 1 up"),
        ("--cards 0", "--cards: 0 is no number from 1 up"),
        ("--minutes nan", "--minutes: nan is no number from 0 up"),
        ("--minutes inf", "--minutes: inf is no number from 0 up"),
        ("--minutes=-1", "--minutes: -1 is no number from 0 up"),
        ("--together some", "--together: invalid int value: 'some'"),
    ],
)
def test_numbers_with_which_nothing_can_run_are_refused(
    words: str, said: str, runs_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a dry run too, so that it says what the run would."""
    for more in ([], ["--dry-run"]):
        with pytest.raises(SystemExit, match="2"):
            study.main(["execution", *words.split(), *more])
        assert said in capsys.readouterr().err


def test_the_design_refuses_amounts_and_slopes_that_are_none() -> None:
    number = design.at_least(0.1)
    assert number("0.9") == 0.9
    for text in ("0", "nan", "-1", "inf"):
        with pytest.raises(ArgumentTypeError, match=f"{text} is no number from 0.1 up"):
            number(text)


def test_finished_cells_are_not_run_again_but_verifiers_that_are_needed_are(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = cells()
    done = {cell["name"]: {"run_id": "9"} for cell in planned}
    everything = records.State({}, done, {}, {})
    assert study.to_do(planned, everything) == []
    del done["hybrid_mostly_unresolved-500_a_s0"]
    assert [cell["name"] for cell in study.to_do(planned, everything)] == [
        "mostly_unresolved-500",
        "hybrid_mostly_unresolved-500_a_s0",
    ]
    monkeypatch.setattr(records.State, "weights", lambda self, verifier: "1")
    assert [cell["name"] for cell in study.to_do(planned, everything)] == ["hybrid_mostly_unresolved-500_a_s0"]
    retrained = RunInfo("1", "0", "mostly_unresolved-500", {}, 0, 1)
    assert "--force" in study.command(planned[7], records.State({"mostly_unresolved-500": retrained}, {}, {}, {}))


def test_a_dry_run_lists_every_cell(capsys: pytest.CaptureFixture[str], runs_folder: Path) -> None:
    assert study.main(["--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 146 + 2
    assert lines[1].startswith("every rl: rmlab rl rl_preset=small rl.groups=40 ")
    assert lines[-2].startswith("146 cells: 24 verifiers, 8 voluntary_verifiers, 24 execution_free, 8 second_seed")
    assert lines[-1].endswith("some 3 h 26 min of one card, 1 h 43 min of two, 52 min of four, as guessed")
    assert sum(line.startswith("to do     ") for line in lines) == 32 + 4, "verifiers, and what execution pays"
    assert sum(line.startswith("waits     ") for line in lines) == 110


def test_a_slice_runs_cells_side_by_side_and_ends_in_time(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(cell: records.Cell, state: records.State, minutes: float | None = None) -> list[str]:
        return [
            sys.executable,
            "-c",
            f"import sys; print('{cell['name']}'); sys.exit({int(cell['name'] == 'mostly_resolved-300')})",
        ]

    monkeypatch.setattr(study, "command", command)
    monkeypatch.setattr(study, "tracked_as_failed", lambda name, since: True)
    assert study.run_slice(cells()[10:13], 5, 2) == ["mostly_resolved-300"]
    logs = runs_folder / records.EXPERIMENT
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


def test_the_ledger_gets_every_finished_run_once(runs_folder: Path, plan: Path) -> None:
    run = RunInfo("1", "0", "mostly_unresolved-500", {"config_hash": "c", "device": "NVIDIA H200"}, 0, 90_000)
    carried = RunInfo("2", "0", "mostly_unresolved-500", {"imported_run": "1"}, 0, 90_000)
    for one in (run, run, carried):
        records.note(records.State({}, {}, {}, {}, [one]))
    [row] = read_rows(plan / "ledger.csv")
    told = (row["name"], row["run_id"], row["ended"], row["minutes"])
    assert told == ("mostly_unresolved-500", "1", "finished", "1.5")
    assert (row["config_hash"], row["device"]) == ("c", "NVIDIA H200")


def test_a_bundle_holds_the_runs_of_the_cells_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, plan: Path, tmp_path: Path
) -> None:
    """Every run that a store has would be more than some machines send home in one file."""
    taken = list[str]()
    monkeypatch.setattr(exporting, "export_runs", lambda store, path, ids, **options: taken.extend(ids))
    monkeypatch.setattr(Store, "open", lambda uri: None)
    runs = [
        RunInfo(str(i), "0", name, {}, 0, 1) for i, name in enumerate(("balanced-300", "balanced-500", "balanced-300"))
    ]
    study.export(tmp_path / "runs.zip", records.State({}, {}, {}, {}, runs), {"balanced-300"})
    assert taken == ["0", "2"]


def test_the_last_command_of_the_page_writes_beside_the_ledger(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, tmp_path: Path
) -> None:
    """The bundle that travels with the page lies in the study's own folder, where ledger.csv is already."""
    [line] = re.findall(r"python \$S/study\.py (.*--page)", (STUDY / "README.md").read_text(encoding="utf-8"))
    own = tmp_path / "own"
    shutil.copytree(STUDY, own)
    monkeypatch.setenv(PLAN, str(own))
    before = (own / "ledger.csv").read_bytes()
    assert study.main(line.replace("$P", str(own)).split()) == 0
    assert (own / "ledger.csv").read_bytes() == before
    assert study.main(line.replace("$P", str(tmp_path)).split()) == 0
    assert (tmp_path / "ledger.csv").read_bytes() == before, "beside a bundle elsewhere they are copied"


def test_two_that_note_at_a_time_lose_no_line(runs_folder: Path, plan: Path) -> None:
    infos = [RunInfo(str(i), "0", "mostly_unresolved-500", {}, 0, 1) for i in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda info: records.note(records.State({}, {}, {}, {}, [info])), infos))
    assert len(read_rows(plan / "ledger.csv")) == 12


def test_a_cell_that_failed_twice_is_given_up(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(cell: records.Cell, *given: object) -> list[str]:
        RunLogger.start(Store.open(None), "x", cell["name"], kind="verifier").fail(ValueError("not finite"))
        return [sys.executable, "-c", "raise SystemExit(1)"]

    monkeypatch.setattr(study, "command", command)
    one = cells()[:1]
    for _ in range(2):
        assert study.to_do(one, records.look()) == one
        assert study.run_slice(one, 5, 1) == ["balanced-300"]
    assert "balanced-300 is given up: it failed 2 times\n" in capsys.readouterr().out
    assert records.look().ended == {("balanced-300", "failed"): 2}
    assert records.look().done == {}
    assert study.to_do(one, records.look()) == []
    assert "given up  balanced-300  it failed 2 times" in study.said(one, records.look())


def test_a_cell_that_was_killed_three_times_is_given_up_with_all_that_it_would_pay(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a machine that has too little memory, say: the next slice would start it again, and lose its time again."""
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(study, "command", lambda *given: [sys.executable, "-c", killed])
    two = cells()[:2]
    assert study.run_slice(two, 5, 1) == ["balanced-300", "balanced-500"], "the next ones may be spared"
    said = capsys.readouterr().out
    assert "balanced-300 was killed (signal 9): it said nothing (" in said
    assert "given up" not in said
    interrupted = "import sys; print('a lease was lost'); sys.exit(130)"
    for program in (killed, interrupted):
        monkeypatch.setattr(study, "command", lambda *given, program=program: [sys.executable, "-c", program])
        assert study.to_do(two[:1], records.look()) == two[:1]
        study.run_slice(two[:1], 5, 1)
    said = capsys.readouterr().out
    assert "balanced-300 was interrupted: a lease was lost (" in said
    assert "balanced-300 is given up: it was killed 3 times\n" in said
    known = records.look()
    assert known.ended == {("balanced-300", "killed"): 3, ("balanced-500", "killed"): 1}
    waits = [cell for cell in cells() if cell["verifier"] == "balanced-300"]
    assert {cell["block"] for cell in waits} == {"verifiers", "execution_free", "second_seed", "hybrid"}
    assert study.to_do(waits, known) == []
    line = "given up  hybrid_balanced-300_a_s0  its verifier balanced-300 is given up: it was killed 3 times"
    assert line in study.said(waits, known)
    assert study.main(["balanced-300", "hybrid", "--minutes", "0"]) == 0
    assert capsys.readouterr().out == "23 cells of 25 to do, 2 given up\n"
    [left] = [reason for name, reason in read_study([]).left_out if name == "hybrid_balanced-300_a_s0"]
    assert left == "no finished run"


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
    programs = {"balanced-300": hears, "balanced-500": deaf}
    monkeypatch.setattr(study, "command", lambda cell, *given: [sys.executable, "-c", programs[cell["name"]]])
    for seconds, ended in ((90, {}), (1, {("balanced-500", "killed"): 1})):
        monkeypatch.setattr(study, "SECONDS", {"verifier": seconds})
        began = time.monotonic()
        assert study.run_slice(cells()[:2], 0.1, 2) == [name for name, _ in ended]
        assert time.monotonic() - began < 12
        assert records.look().ended == ended
    assert "balanced-500 did not stop when it was told to and was killed: deaf (" in capsys.readouterr().out


def test_mistakes_of_set_up_are_no_failures_of_cells_and_end_the_slice(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start that is not there, a word that the program does not know: the next cells would end alike, and the ledger travels. One
    alone may be a mistake of its cell, which keeps the others from nothing."""
    refused = "import sys; print('runs/policies/a: there is no such file or folder'); sys.exit({})"
    for code in (1, 2):
        monkeypatch.setattr(study, "command", lambda *given, code=code: [sys.executable, "-c", refused.format(code)])
        assert study.run_slice(cells()[:4], 5, 1) == ["balanced-300", "balanced-500"]
        said = capsys.readouterr().out
        words = f"ended with {code} without a failed run, which is not counted"
        assert f"balanced-300 {words}: runs/policies/a: there is no such file or folder (" in said
        assert f"balanced-500 {words}; no further cell begins: runs/policies/a" in said
    assert records.look().ended == {}
    assert len(study.to_do(cells()[:3], records.look())) == 3


def test_an_earlier_failure_says_nothing_of_this_time(runs_folder: Path) -> None:
    RunLogger.start(Store.open(None), "x", "balanced-300", kind="verifier").fail(ValueError("not finite"))
    assert records.tracked_as_failed("balanced-300", time.time() - 60)
    assert not records.tracked_as_failed("balanced-300", time.time() + 60)
    assert not records.tracked_as_failed("balanced-500", time.time() - 60)


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


def test_the_run_that_finished_first_is_a_cells_result(monkeypatch: pytest.MonkeyPatch, runs_folder: Path) -> None:
    """As the figure takes it: `study.py --page` exports the run that the figure of the store shows."""
    [name] = [cell["name"] for cell in cells() if cell["name"] == "execution_a_s0"]
    late, early = (
        RunInfo("1", "0", name, {"status": "finished"}, 1, 9),
        RunInfo("2", "0", name, {"status": "finished"}, 5, 8),
    )
    monkeypatch.setattr(records, "run_infos", lambda store: [late, early])
    monkeypatch.setattr(records, "is_of_cell", lambda *given: True)
    assert records.look().finished[name] is early


def test_a_run_that_has_a_cells_name_alone_is_none_of_it(runs_folder: Path, plan: Path) -> None:
    wrong = {"tracking.experiment": "other", "preset": "demo", "data.scale": 600, "prompt.max_tokens": 512}
    for key, value in wrong.items():
        made_run("balanced-300", {key: value})
    right = made_run("balanced-300")
    assert [run.run_id for run in records.look().runs] == [right]
    assert records.look().finished["balanced-300"].run_id == right


def test_a_run_that_another_verifier_paid_is_none_of_its_cell(
    runs_folder: Path, plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = made_run("balanced-300"), made_run("balanced-500", {"data.scale": 500, "seed": 1001})
    paid, unpaid = "execution_free_balanced-300_a_s0", "execution_a_s0"
    wrong = [made_run(paid, verifier=other), made_run(paid, verifier="elsewhere"), made_run(unpaid, verifier=own)]
    assert {run.run_id for run in records.look().runs} == {own, other}
    said = capsys.readouterr().err
    reasons = (
        f"what paid it (run {other[:8]}) is balanced-500, the plan's balanced-300",
        "what paid it (run elsewher) is neither here nor in the ledger, the plan's balanced-300",
        f"a verifier paid it (run {own[:8]}), the plan's run has none",
    )
    for run, reason in zip(wrong, reasons, strict=True):
        assert f"run {run[:8]} is passed over: {reason}\n" in said
    right = [made_run(paid, verifier=own), made_run(unpaid)]
    records.note(records.look())
    assert [records.look().done[name]["run_id"] for name in (paid, unpaid)] == right
    elsewhere = {
        "name": "balanced-300",
        "run_id": "elsewhere",
        "ended": "finished",
    }  # that was trained on another machine
    (plan / "ledger.csv").write_text(
        csv_text([*read_rows(plan / "ledger.csv"), dict.fromkeys(records.COLUMNS, "") | elsewhere])
    )
    assert [run.run_id for run in records.look().runs if run.name == paid] == [wrong[1], right[0]]


def made_run(name: str, changed: Mapping[str, object] = MappingProxyType({}), verifier: str = "") -> str:
    """A finished run in the store as the plan has it, but for what is changed; returns its id. verifier: the run that paid it."""
    [cell] = [cell for cell in cells() if cell["name"] == name]
    config = deepcopy(shared(cell))
    own = {"tracking.experiment": records.EXPERIMENT, "seed": int(cell["seed"])}
    own |= {"start": f"runs/policies/{cell['start']}"} if cell["kind"] == "rl" else {"data.scale": int(cell["amount"])}
    preset = {"preset": "small"}
    for key, value in (own | dict(changed)).items():
        if key == "preset":
            preset = {key: str(value)}
            continue
        *path, last = key.split(".")
        value_at(config, ".".join(path))[last] = value
    tags = preset | ({"verifier_run": verifier} if verifier else {})
    with RunLogger.start(Store.open(None), "x", name, kind=cell["kind"], tags=tags) as logger:
        logger.json("config.yaml", config)
    return logger.run_id


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
    assert landed.page_rows(r"good: [^|]*\| final ")[0][2][0] == 0.909
    assert [row[2][1] for row in landed.page_rows(r"\d \| \d+ ")] == [0.286, 0.300, 0.281]
    with pytest.raises(DataError, match="no row of a table begins with 'nobody: '"):
        landed.page_rows("nobody: ")


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
    assert check.remedy(rows, pools).startswith("`design.py --slopes 1.5 2 3 4 6 8` mends the correlation: -0.")
    sloped = {
        c["name"]: c["overrides"].split()[1] for c in design.cells(slopes=design.RISING[0]) if c["block"] == "hybrid"
    }
    assert sloped["hybrid_overconfident-300_b_s0"] == "reward.transform.slope=1.5"
    assert sloped["hybrid_overconfident-4000_a_s0"] == "reward.transform.slope=8"
    assert sum(value.startswith("reward.transform") for value in sloped.values()) == 6
    lost = [row | {"ece_width_10": 1 - float(str(row["auc_within_task"]))} for row in rows]
    assert check.remedy(lost, pools).startswith("none of the other slopes mends the correlation")


def test_the_check_writes_what_it_found_and_what_it_fitted(
    monkeypatch: pytest.MonkeyPatch, plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four verifiers are there, a good one and poorer ones: the design is not met, and the causal experiments can be run."""
    trained = {"balanced-300": 0.3, "balanced-500": 0.7, "balanced-4000": 2.0, "overconfident-300": 0.5}
    for number, (name, skill) in enumerate(trained.items()):
        write_score_table(plan / f"{name}.parquet", pool(number, skill).scores)
    infos = {name: RunInfo(name, "0", name, {}, 0, 1) for name in trained}
    ended = {("balanced-840", "failed"): 2, ("balanced-1400", "killed"): 3}
    monkeypatch.setattr(check, "look", lambda: records.State(infos, {}, {}, {}, ended=ended))
    monkeypatch.setattr(check.Store, "open", lambda uri: None)
    tables = {name: SimpleNamespace(artifact=lambda path, name=name: plan / f"{name}.parquet") for name in trained}
    monkeypatch.setattr(check, "get_run", lambda store, run_id: tables[run_id])
    with pytest.raises(
        DataError, match="chosen once all of the column balanced are trained: balanced-2400 are not yet"
    ):
        check.main()
    ended["balanced-2400", "failed"] = 2
    capsys.readouterr()
    assert check.main() == 1
    said = capsys.readouterr().out
    assert "not trained here: balanced-840, balanced-1400, balanced-2400, mostly_unresolved-300" in said
    assert "4 of 24 verifiers are there." in said
    rows = {row["name"]: row for row in read_rows(plan / "design.csv")}
    assert list(rows) == list(trained)
    alone = report(pool(3, 0.5).scores, replicates=0)
    assert float(rows["overconfident-300"]["auc_within_task"]) == pytest.approx(alone["auc_within_task"])
    assert float(rows["overconfident-300"]["ece_width_10"]) > alone["ece_width_10"], "as it is paid"
    fitted = {row["name"]: (row["value"], row["run_id"]) for row in read_rows(plan / "fitted.csv")}
    assert fitted["good"] == ("balanced-4000", "balanced-4000")
    assert fitted["poor"][0] in ("balanced-300", "balanced-500")
    again = [{**row, "run_id": "lost"} for row in read_rows(plan / "fitted.csv")]
    (plan / "fitted.csv").write_text(
        csv_text([{**row, "value": "balanced-500"} if row["name"] == "good" else row for row in again])
    )
    check.main()
    kept = [row for row in read_rows(plan / "fitted.csv") if row["name"] == "good"]
    assert [(row["value"], row["run_id"]) for row in kept] == [
        ("balanced-500", "lost"),
        ("balanced-500", "balanced-500"),
    ], "its role stays"
    assert {row["run_id"] for row in read_rows(plan / "fitted.csv") if row["name"] == "SLOPE_flattened"} == {
        "lost",
        "balanced-500",
    }
    del infos["overconfident-300"]
    check.main()
    assert [row["name"] for row in read_rows(plan / "design.csv")] == list(trained), "what was known of it stays"
    del infos["balanced-500"]
    with pytest.raises(DataError, match=r"not trained here: good \(balanced-500\)"):
        check.main()
    named = {found for cell in cells() for found in re.findall(r"\b(?:SHIFT|SLOPE)_\w+", cell["overrides"])}
    assert named <= fitted.keys(), "every value that a cell names is fitted"
