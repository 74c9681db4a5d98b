"""`rmlab sweep` as a user meets it, with a real store: what runs, what fails, what is refused."""

import re
import shutil
from pathlib import Path

import pytest

from rmlab.files import exclusive
from rmlab.sweep import scheduler
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from tests.sweeping import TOY, cells_that_said, launch, ledger, sweep_here
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("runs_folder")


def test_a_sweep_runs_each_cell_once_and_a_second_launch_runs_none(runs_folder: Path) -> None:
    shutil.rmtree(runs_folder)
    code, out, _ = sweep_here(TOY, "--dry-run")
    assert code == 0
    assert "12 cells, 0 of 10 runs finished, 10 to run" in out
    assert "the same run as data_scale=2 s0" in out
    assert not runs_folder.exists(), "a dry run makes nothing"

    code, out, err = sweep_here(TOY, "--workers", "2")
    assert code == 0, err
    assert sorted(cells_that_said("end").values()) == [1] * 10
    assert ("prepared", "10") in ledger()
    found = runs(Store.open(), ["toy_scale"])
    assert len(found) == 12, "one run a cell, no siblings"
    assert {run.status for run in found} == {"finished"}
    reused = {run.name: run for run in found if "source_run" in run.tags}
    assert set(reused) == {"data_scale=2 steps s0", "data_scale=2 steps s1"}
    assert reused["data_scale=2 steps s1"].metrics["eval/auc_pooled"] == pytest.approx(0.6)
    assert reused["data_scale=2 steps s1"].tags["arm"] == "steps"
    assert len({run.tags["control_hash"] for run in found}) == 1
    assert all(len(run.series("train/loss")) == 10 for run in found)

    code, _, err = sweep_here(TOY)
    assert code == 0, err
    assert "every cell was already finished: nothing was trained" in err
    assert sorted(cells_that_said("end").values()) == [1] * 10
    assert len(runs(Store.open(), ["toy_scale"])) == 12
    code, out, _ = sweep_here(TOY, "--dry-run")
    assert "10 of 10 runs finished, 0 to run" in out

    # Another sweep of another name that asks for a finished cell reuses it.
    other = runs_folder / "other_name.yaml"
    other.write_text(Path(TOY).read_text().replace("toy.py", str(Path(TOY).parent / "toy.py")))
    code, _, err = sweep_here(other, "preset=one_arm", "levels=[1]", "baseline=1")
    assert code == 0, err
    assert sorted(cells_that_said("end").values()) == [1] * 10
    [zero, one] = sorted(runs(Store.open(), ["other_name"]), key=lambda run: run.name)
    assert (zero.name, one.name) == ("data_scale=1 s0", "data_scale=1 s1")
    assert {"source_run", "config_hash"} <= set(zero.tags)
    assert zero.tags["sweep"] == "other_name"


@pytest.mark.slow
def test_a_level_that_means_something_else_and_then_the_first_again(runs_folder: Path) -> None:
    """The newest run of a level stands for it in tables and figures: it is the one of the file as it is."""
    import yaml

    path, shown = runs_folder / "named.yaml", []
    for meaning in ("2:1", "4:1", "2:1"):
        raw = {
            "question": "q?",
            "program": str(Path(TOY).with_name("toy.py")),
            "factor": "label_ratio",
            "seeds": [0],
            "presets": {"demo": None},
        }
        raw |= {"levels": ["few"], "baseline": "few", "named": {"few": [f"data.label_ratio={meaning}"]}}
        path.write_text(yaml.safe_dump(raw))
        code, _, err = sweep_here(path)
        assert code == 0, err
        newest = max((run for run in runs(Store.open()) if run.tags["kind"] == "toy"), key=lambda run: run.start_time)
        shown.append(newest.tags["config_hash"])
    assert shown[0] == shown[2] != shown[1]


@pytest.mark.slow
def test_failed_cells_are_shown_and_tracked_and_fail_alone(runs_folder: Path) -> None:
    troubles = {
        2: "RuntimeError: this cell has no luck",
        3: "DataError: this cell has no data. Get some.",
        4: "the process ended with exit code 7 before its work was done",
        5: "the process was killed (signal 9): out of memory, or by hand",
    }
    code, _, err = sweep_here(
        TOY,
        "preset=one_arm",
        "levels=[1,2,3,4,5]",
        "seeds=[0]",
        "trouble={2:error,3:data,4:exit,5:kill}",
        "--on-error",
        "continue",
    )
    assert code == 1
    last = err.strip().splitlines()[-1]
    assert last.startswith("rmlab: 4 of 5 cells failed (")
    assert last.endswith("--on-error continue --retry-failed")
    by_name = {run.name: run for run in runs(Store.open(), ["toy_scale"])}
    assert by_name.pop("data_scale=1 s0").status == "finished"
    for level, words in troubles.items():
        run = by_name[f"data_scale={level} s0"]
        assert (run.status, run.tags["error"]) == ("failed", words)
        assert words.removeprefix("DataError: ") in err
        assert run.end_time is not None
    assert err.count("Traceback (most recent call last)") == 1, "what says it in one line needs no traceback"
    assert "no luck" in by_name["data_scale=2 s0"].artifact("traceback.txt").read_text()


@pytest.mark.slow
def test_a_failed_cell_stops_the_sweep_and_is_retried_only_when_asked(runs_folder: Path) -> None:
    arguments = (TOY, "preset=one_arm", "seeds=[0]", "trouble={3:error}", "--workers", "1")
    code, _, err = sweep_here(*arguments)
    assert code == 1
    assert "1 of 3 cells failed (data_scale=3 s0), 2 not started" in err
    code, out, _ = sweep_here(*arguments, "--dry-run")
    assert "failed: RuntimeError: this cell has no luck" in out
    code, _, err = sweep_here(*arguments)
    assert code == 1, "what failed is still not there"
    starts = cells_that_said("start")
    assert sorted(starts.values()) == [1, 1, 1], "the other two ran, the failed one did not again"
    code, _, err = sweep_here(*arguments, "--retry-failed")
    assert code == 1
    starts = cells_that_said("start")
    assert sorted(starts.values()) == [1, 1, 2]


@pytest.mark.slow
def test_nothing_starts_when_what_all_share_is_wrong(runs_folder: Path) -> None:
    code, _, err = sweep_here(TOY, "trouble={0:broken}")
    assert code == 1
    assert err.strip().splitlines()[-1] == "rmlab: data.scale=3 cannot be filled: two are there. Lower data.scale."
    assert not ledger()


@pytest.mark.slow
def test_a_cell_that_became_another_run_since_the_plan_does_not_start(runs_folder: Path) -> None:
    arguments = (TOY, "preset=one_arm", "levels=[1,2]", "seeds=[0]", "trouble={0:change}", "--on-error", "continue")
    code, _, err = sweep_here(*arguments)
    assert code == 1
    assert err.count("code or data changed since. Give the command again") == 2
    assert not [word for word, _ in ledger() if word == "start"]
    code, _, err = sweep_here(*arguments)
    assert code == 0, err
    assert sorted(word for word, _ in ledger()) == ["end", "end", "prepared", "start", "start"]


def test_a_sweep_that_runs_already_is_refused_before_anything_is_begun(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(scheduler, "begin", lambda *given: begun.append(given))
    with exclusive(runs_folder / "locks" / "sweep-toy_scale-one_arm.lock", "the sweep"):
        code, _, err = sweep_here(TOY, "preset=one_arm", "seeds=[0]")
    assert code == 1
    assert "rmlab: sweep toy_scale at preset one_arm is held by process" in err
    assert not begun


@pytest.mark.slow
def test_two_launches_of_one_sweep(runs_folder: Path) -> None:
    (runs_folder / "hold").touch()
    first = launch(TOY, "preset=one_arm", "seeds=[0]", "--workers", "1")
    until(lambda: any(word == "start" for word, _ in ledger()), first)
    code, _, err = sweep_here(TOY, "preset=one_arm", "seeds=[0]")
    (runs_folder / "hold").unlink()
    assert code == 1
    assert re.search(
        r"rmlab: sweep toy_scale at preset one_arm is held by process \d+ on \S+ since .*\. Wait until it ends", err
    )
    _, err = first.communicate(timeout=PATIENCE)
    assert first.returncode == 0, err
    assert sorted(cells_that_said("end").values()) == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nope"], 2, "there is no sweep 'nope'"),
        ([TOY, "preset=nope"], 2, "has no preset 'nope'"),
        ([TOY, "data.scal=1"], 2, "no key 'data.scal' (did you mean data.scale?)"),
        ([TOY, "data.scale=1"], 2, "this sweep varies data.scale (factor data_scale)"),
        ([TOY, "seconds=long"], 2, "seconds=long"),
        ([TOY, "levels=[9"], 2, "levels must be a value, or a list"),
        ([TOY, "levels=[]"], 2, "levels=[] must be a list"),
        ([TOY, "+extra=1"], 2, "no key 'extra'"),
        ([TOY, "just_a_word"], 2, "is not an override"),
        ([TOY, "--workers", "0"], 2, "Invalid value for '--workers'"),
        ([TOY, "tracking.uri=sqlite:////proc/x/mlflow.db"], 1, "cannot be written"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], code: int, words: str) -> None:
    found, _, err = sweep_here(*arguments)
    assert found == code
    assert words in err
    assert err.startswith("rmlab: ")
    assert len(err.strip().splitlines()) == 1
