"""The evaluation of a start is made once for all runs that begin alike, and says what each would have found."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rmlab.rl.loop as loop_module
from rmlab.files import exclusive
from rmlab.fingerprint import fingerprint
from rmlab.rl.before import once
from rmlab.rl.held_out import RATES
from rmlab.stopping import Stopped, ask_to_stop
from rmlab.tracking.query import TrackedRun
from tests.rl.small_training import trained


def test_of_twelve_that_begin_at_once_one_measures(runs_folder: Path) -> None:
    calls = list[int]()

    def measure() -> dict[str, float]:
        calls.append(1)
        time.sleep(0.1)
        return {"b": 0.1, "a": 1 / 3}

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: once(["weights", 0], measure), range(12)))
    assert len(calls) == 1
    assert [value for value, _ in found] == [{"b": 0.1, "a": 1 / 3}] * 12
    assert list(found[0][0]) == ["b", "a"]
    assert sum(not kept for _, kept in found) == 1
    assert once(["weights", 1], measure) == ({"b": 0.1, "a": 1 / 3}, False), "another seed measures itself"


def test_who_waits_takes_over_from_one_that_died_and_stops_when_it_is_told_to(
    runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rmlab.files.LOOK_SECONDS", 0.05)

    def dies() -> int:
        raise ValueError("out of memory")

    with pytest.raises(ValueError, match="out of memory"):
        once(["x"], dies)
    assert once(["x"], lambda: 7) == (7, False)
    lock = runs_folder / "cache" / f".before-{fingerprint(['y'])}.json.lock"
    try:
        with exclusive(lock, "held"):
            threading.Timer(0.1, ask_to_stop, ["the lease could not be renewed"]).start()
            with pytest.raises(Stopped, match="the lease could not be renewed"):
                once(["y"], lambda: 7)
    finally:
        ask_to_stop(None)


@pytest.mark.slow
def test_runs_of_one_start_and_seed_share_what_each_would_have_found(
    easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, evaluate = list[int](), loop_module.evaluate_held_out
    monkeypatch.setattr(loop_module, "evaluate_held_out", lambda *given: (asked.append(1), evaluate(*given))[1])
    few = [
        "rl.steps=1",
        "rl.groups=2",
        "rl.attempts=2",
        "watch.tasks=2",
        "watch.episodes=0",
        "watch.held_out_tasks=8",
        "watch.held_out_attempts=4",
    ]

    def run(where: str, *more: str) -> tuple[TrackedRun, int]:
        asked.clear()
        return trained(easy, tmp_path / where, monkeypatch, *few, *more), len(asked)

    def before(run: TrackedRun) -> object:
        return json.loads(run.artifact(RATES).read_text())["before"]

    first, evaluations = run("shared")
    assert evaluations == 2, "before, and after the last step"
    second, evaluations = run("shared", "reward.unfinished=-0.25")
    assert evaluations == 1
    alone, evaluations = run("alone", "reward.unfinished=-0.25")
    assert evaluations == 2
    assert before(first) == before(second) == before(alone)
    assert second.tags["config_hash"] == alone.tags["config_hash"]
    for name in ("held_out/new/pass_at_1", "held_out/new/pass_at_1_low", "held_out/withheld/pass_at_1_greedy"):
        assert second.series(name) == alone.series(name)
        assert second.series(name)[0] == first.series(name)[0]
    assert any(first.series(f"held_out/{name}/pass_at_1")[0][1] > 0 for name in ("new", "withheld"))
    steps = [[step for step, _ in one.series("held_out/seconds")] for one in (first, second)]
    assert steps == [[0, 1], [1]], "time that was spent is told"
    for more in ("seed=1", "watch.held_out_attempts=1"):
        assert run("shared", more)[1] == 2, "other attempts"
