"""What the study keeps: which run is a cell's, the ledger, and the bundle of the page."""

import re
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType

import pytest

from analysis.foretelling.plan import PLAN, STUDY, read_rows, shared, value_at
from analysis.presentation.style import csv_text
from experiments.studies.which_metric_foretells_rl import records, study
from rmlab.tracking.bundles import exporting
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.store import Store
from tests.which_metric_foretells_rl.planned import cells


def test_the_ledger_gets_every_finished_run_once(runs_folder: Path, plan: Path) -> None:
    run = RunInfo("1", "0", "mostly_unresolved-430", {"config_hash": "c", "device": "NVIDIA H200"}, 0, 90_000)
    carried = RunInfo("2", "0", "mostly_unresolved-430", {"imported_run": "1"}, 0, 90_000)
    for one in (run, run, carried):
        records.note(records.State({}, {}, {}, {}, [one]))
    [row] = read_rows(plan / "ledger.csv")
    told = (row["name"], row["run_id"], row["ended"], row["minutes"])
    assert told == ("mostly_unresolved-430", "1", "finished", "1.5")
    assert (row["config_hash"], row["device"]) == ("c", "NVIDIA H200")


def test_a_bundle_holds_the_runs_of_the_cells_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, plan: Path, tmp_path: Path
) -> None:
    """Every run that a store has would be more than some machines send home in one file."""
    taken = list[str]()
    monkeypatch.setattr(exporting, "export_runs", lambda store, path, ids, **options: taken.extend(ids))
    monkeypatch.setattr(Store, "open", lambda uri: None)
    runs = [
        RunInfo(str(i), "0", name, {}, 0, 1) for i, name in enumerate(("balanced-250", "balanced-430", "balanced-250"))
    ]
    study.export(tmp_path / "runs.zip", records.State({}, {}, {}, {}, runs), {"balanced-250"})
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
    infos = [RunInfo(str(i), "0", "mostly_unresolved-430", {}, 0, 1) for i in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda info: records.note(records.State({}, {}, {}, {}, [info])), infos))
    assert len(read_rows(plan / "ledger.csv")) == 12


def test_an_earlier_failure_says_nothing_of_this_time(runs_folder: Path) -> None:
    RunLogger.start(Store.open(None), "x", "balanced-250", kind="verifier").fail(ValueError("not finite"))
    assert records.tracked_failure("balanced-250", time.time() - 60) == "ValueError: not finite"
    assert records.tracked_failure("balanced-250", time.time() + 60) is None
    assert records.tracked_failure("balanced-430", time.time() - 60) is None


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
        made_run("balanced-250", {key: value})
    right = made_run("balanced-250")
    assert [run.run_id for run in records.look().runs] == [right]
    assert records.look().finished["balanced-250"].run_id == right


def test_a_run_that_another_verifier_paid_is_none_of_its_cell(
    runs_folder: Path, plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = made_run("balanced-250"), made_run("balanced-430", {"data.scale": 430, "seed": 1001})
    paid, unpaid = "execution_free_balanced-250_a_s0", "execution_a_s0"
    wrong = [made_run(paid, verifier=other), made_run(paid, verifier="elsewhere"), made_run(unpaid, verifier=own)]
    assert {run.run_id for run in records.look().runs} == {own, other}
    said = capsys.readouterr().err
    reasons = (
        f"what paid it (run {other[:8]}) is balanced-430, the plan's balanced-250",
        "what paid it (run elsewher) is neither here nor in the ledger, the plan's balanced-250",
        f"a verifier paid it (run {own[:8]}), the plan's run has none",
    )
    for run, reason in zip(wrong, reasons, strict=True):
        assert f"run {run[:8]} is passed over: {reason}\n" in said
    right = [made_run(paid, verifier=own), made_run(unpaid)]
    records.note(records.look())
    assert [records.look().done[name]["run_id"] for name in (paid, unpaid)] == right
    elsewhere = {
        "name": "balanced-250",
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
