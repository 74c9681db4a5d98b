"""Several searches on one study: the total stays a total, and no proposal is made twice."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY
from rmlab.sweep.search_spec import SearchSpec
from rmlab.sweep.study import Study
from tests.waiting import PATIENCE

RANGE = {"low": 1e-4, "high": 1e-1, "log": True}
ASKS = """
import json
from rmlab.sweep.study import Study
from tests.sweep.test_study import spec

study, asked = Study("s", spec(7)), []
print("ready", flush=True)
input()
while study.is_open() and study.wants_more():
    if (trial := study.ask()) is not None:
        asked.append(trial)
for number, _ in asked:
    study.tell(number, [1.0], [])
print(json.dumps(asked))
"""


def spec(trials: int, sampler: str = "TPESampler") -> SearchSpec:
    return SearchSpec(
        trials,
        {"validation/auc_pooled": "maximize"},
        {"learning_rate": RANGE},
        sampler={"_target_": f"optuna.samplers.{sampler}", "seed": 0},
    )


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))


@pytest.mark.slow
def test_searches_that_ask_at_once_make_the_total_and_no_more() -> None:
    Study("s", spec(7))
    ask = [
        subprocess.Popen(
            [sys.executable, "-c", ASKS],
            cwd=REPOSITORY,
            env=dict(os.environ),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    for process in ask:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    asked = [trial for process in ask for trial in json.loads(process.communicate("\n", timeout=PATIENCE)[0])]
    assert len(asked) == 7
    assert len({settings["learning_rate"] for _, settings in asked}) == 7, (
        "no two searches start with the same proposals"
    )
    study = Study("s", spec(7))
    assert not study.is_open()
    assert Counter(trial.state for trial in study.tried())["complete"] == 7


@pytest.mark.parametrize("sampler", ["TPESampler", "RandomSampler", "QMCSampler"])
def test_what_is_proposed_follows_from_the_number_of_the_trial(sampler: str) -> None:
    def proposals(name: str, searches: int) -> list[float]:
        made = [Study(name, spec(6, sampler)) for _ in range(searches)]
        asked = [made[i % searches].ask() for i in range(6)]
        assert made[0].ask() is None, "one too many is given back"
        assert made[-1].ask() is None
        return [trial[1]["learning_rate"] for trial in asked if trial is not None]

    alone = proposals("alone", 1)
    assert len(set(alone)) == 6
    assert proposals("two", 2) == alone


def test_failures_of_this_launch_count_also_when_earlier_ones_are_tried_again() -> None:
    def fail_all(retry: bool) -> int:
        study, failed = Study("s", spec(3), retry), 0
        while study.is_open() and (trial := study.ask()) is not None:
            study.tell_failed(trial[0], "no luck")
            failed += 1
        return failed

    assert [fail_all(False), fail_all(False), fail_all(True)] == [3, 0, 3]


def test_a_search_that_was_taken_for_dead_tells_its_trial_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    """As after a long stand-still: another search on another machine has counted the trial as cut off."""
    study, other = Study("s", spec(2)), Study("s", spec(2))
    asked = [study.ask(), study.ask()]
    [(lost, _), (kept, _)] = [one for one in asked if one is not None]
    other._fail(lost, "its search was cut off", lost=True)
    study.refresh()
    assert f"trial {lost} was given up by another search" in capsys.readouterr().err
    assert study.tell(lost, [0.5], []), "nothing is wrong with its values"
    study.tell_failed(lost, "too late")
    study.tell_pruned(lost)
    other._fail(kept, "its search was cut off", lost=True)
    assert study.tell(kept, [0.5], []), "found out when it is told"
    assert [trial.state for trial in study.tried()] == ["fail", "fail"]
    study.refresh()
    assert study.wants_more(), "others are made in their place"
