"""What the study keeps: which run is a cell's, the ledger, and the bundle of the page."""

import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import pytest

from analysis.foretelling_plan import read_rows, shared, value_at
from experiments.studies.which_metric_foretells_rl import records, study
from rmlab.tracking.bundles import exporting
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.store import Store
from tests.which_metric_foretells_rl.planned import cells


def test_the_ledger_gets_every_finished_run_once(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(records, "LEDGER", tmp_path / "ledger.csv")
    run = RunInfo("1", "0", "mostly_unresolved-500", {"config_hash": "c", "device": "NVIDIA H200"}, 0, 90_000)
    carried = RunInfo("2", "0", "mostly_unresolved-500", {"imported_run": "1"}, 0, 90_000)
    for one in (run, run, carried):
        records.note(records.State({}, {}, {}, {}, [one]))
    [row] = read_rows(tmp_path / "ledger.csv")
    assert (row["name"], row["run_id"], row["minutes"]) == ("mostly_unresolved-500", "1", "1.5")
    assert (row["config_hash"], row["device"]) == ("c", "NVIDIA H200")


def test_a_bundle_holds_the_runs_of_the_cells_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every run that a store has would be more than some machines send home in one file."""
    taken = list[str]()
    monkeypatch.setattr(records, "LEDGER", tmp_path / "ledger.csv")
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
    [line] = re.findall(r"python \$S/study\.py (.*--page)", (study.HERE / "README.md").read_text(encoding="utf-8"))
    own = tmp_path / "own"
    shutil.copytree(study.HERE, own)
    for name, place in (("HERE", own), ("LEDGER", own / "ledger.csv"), ("FITTED", own / "fitted.csv")):
        monkeypatch.setattr(records, name, place)
    monkeypatch.setattr(study, "HERE", own)
    before = (own / "ledger.csv").read_bytes()
    assert study.main(line.replace("$S", str(own)).split()) == 0
    assert (own / "ledger.csv").read_bytes() == before
    assert study.main(line.replace("$S", str(tmp_path)).split()) == 0
    assert (tmp_path / "ledger.csv").read_bytes() == before, "beside a bundle elsewhere they are copied"


def test_two_that_note_at_a_time_lose_no_line(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(records, "LEDGER", tmp_path / "ledger.csv")
    infos = [RunInfo(str(i), "0", "mostly_unresolved-500", {}, 0, 1) for i in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda info: records.note(records.State({}, {}, {}, {}, [info])), infos))
    assert len(read_rows(tmp_path / "ledger.csv")) == 12


def test_an_earlier_failure_says_nothing_of_this_time(runs_folder: Path) -> None:
    RunLogger.start(Store.open(None), "x", "balanced-300", kind="verifier").fail(ValueError("not finite"))
    assert records.tracked_as_failed("balanced-300", time.time() - 60)
    assert not records.tracked_as_failed("balanced-300", time.time() + 60)
    assert not records.tracked_as_failed("balanced-500", time.time() - 60)


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


def test_a_run_that_has_a_cells_name_alone_is_none_of_it(runs_folder: Path) -> None:
    right = {"tracking.experiment": records.STUDY, "preset": "small", "data.scale": 300, "prompt.max_tokens": 768}
    wrong = {"tracking.experiment": "other", "preset": "demo", "data.scale": 600, "prompt.max_tokens": 512}
    store = Store.open(None)
    for given in (*(right | {key: value} for key, value in wrong.items()), right):
        config = deepcopy(shared(cells()[0]))
        for key, value in (given | {"seed": 1000}).items():
            *path, last = key.split(".")
            value_at(config, ".".join(path))[last] = value
        preset = {"preset": str(config.pop("preset"))}
        with RunLogger.start(store, "x", "balanced-300", kind="verifier", tags=preset) as logger:
            logger.json("config.yaml", config)
    assert [run.run_id for run in records.look().runs] == [logger.run_id]
    assert records.look().finished["balanced-300"].run_id == logger.run_id
