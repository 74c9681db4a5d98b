"""Held-out benchmarks, paired differences, collapse and the summary of a training, on numbers worked out by hand."""

from dataclasses import replace

import pytest

from rmlab.rl.evaluation import benchmarks, rates_by_task
from rmlab.rl.learner import State
from rmlab.rl.outcome import area, outcome, timed
from rmlab.trajectories.record import Trajectory
from tests.rl.easy_family import easy_task

RL = easy_task("rl", "a", 2)
NEW, WITHHELD = easy_task("evaluation", "b", 2), easy_task("evaluation", "c", 2, "human_eval")
TWO = replace(easy_task("evaluation", "d", 2, "human_eval"), lines=(1, 2))
LONG = replace(easy_task("evaluation", "e", 2), code="def e(x):" + "\n    x = x" * 14)
SHORT = replace(easy_task("evaluation", "f", 2), code="def f(x):" + "\n    x = x" * 13)


def test_each_held_out_task_stands_in_one_benchmark() -> None:
    """15 lines are long, 14 are not; two bugs count before where a task comes from."""
    found = benchmarks([RL, NEW, WITHHELD, TWO, LONG, SHORT], None, long_lines=15)
    assert {name: {t.task_id for t in own} for name, own in found.items()} == {
        "new": {NEW.task_id, SHORT.task_id},
        "withheld": {WITHHELD.task_id},
        "two_bugs": {TWO.task_id},
        "long": {LONG.task_id},
    }
    assert {name: len(own) for name, own in benchmarks([RL, NEW, SHORT], 1, 15).items()} == {"new": 1}


def test_rates_are_over_labelled_attempts() -> None:
    def attempt(resolved: bool | None, number: int) -> Trajectory:
        return Trajectory(
            "t", "c", "s", "p", number, (), None, "submitted" if resolved is not None else "error", resolved
        )

    assert rates_by_task([attempt(True, 0), attempt(False, 1), attempt(None, 2), attempt(False, 3)]) == {
        "t": pytest.approx(1 / 3)
    }


def test_the_area_by_hand() -> None:
    """0.2 at 0, 0.4 at 10, 0.4 at 30: (0.3 · 10 + 0.4 · 20) / 30 - 0.2."""
    curve = [{"step": step, "pass_at_1": value} for step, value in ((0.0, 0.2), (10.0, 0.4), (30.0, 0.4))]
    assert area(curve) == pytest.approx(11 / 30 - 0.2)
    assert area(curve[:1]) is None


def test_the_outcome_pools_benchmarks_and_says_what_the_verifier_was_worth() -> None:
    curve = [
        {"step": 0.0, "pass_at_1": 0.5, "hacking_gap": 0.0, "verifier_brier": 0.2},
        {"step": 4.0, "pass_at_1": 0.3, "hacking_gap": 0.4, "verifier_brier": 0.3},
    ]
    before = {
        "new": {"sampled": {NEW.task_id: 1.0}, "greedy": {NEW.task_id: 1.0}},
        "withheld": {"sampled": {WITHHELD.task_id: 1.0}, "greedy": {WITHHELD.task_id: 0.0}},
    }
    after = {
        "new": {"sampled": {NEW.task_id: 0.5}, "greedy": {NEW.task_id: 1.0}},
        "withheld": {"sampled": {WITHHELD.task_id: 0.0}, "greedy": {WITHHELD.task_id: 1.0}},
    }
    found = outcome(State(step=4, held_out_before=before, curve=curve), after, {"new": [NEW], "withheld": [WITHHELD]})
    assert found["held_out"]["all"]["sampled"]["difference"] == pytest.approx(-0.75)
    assert found["held_out"]["all"]["greedy"]["difference"] == pytest.approx(0.5)
    assert (found["collapse"], found["hacking_gap"]) == (True, 0.4)
    assert (found["verifier_first"], found["verifier_last"]) == ({"brier": 0.2}, {"brier": 0.3})
    assert found["area"] == pytest.approx(-0.1)
    chosen = outcome(
        State(step=4, best_step=0, held_out_before=before, curve=curve),
        after,
        {"new": [NEW], "withheld": [WITHHELD]},
        before,
    )
    assert (chosen["chosen"]["step"], chosen["chosen"]["held_out"]["all"]["sampled"]["difference"]) == (0, 0)
    nothing = outcome(State(), {}, {})
    assert (nothing["collapse"], nothing["area"], nothing["hacking_gap"], nothing["held_out"]) == (None, None, None, {})


def test_where_the_time_went() -> None:
    history = [
        ["rl/seconds_step", 4.0, 1, 0],
        ["rl/seconds_rollout", 3.0, 1, 0],
        ["rl/seconds_update", 1.0, 1, 0],
        ["rl/seconds_step", 6.0, 2, 0],
        ["rl/seconds_rollout", 4.0, 2, 0],
        ["rl/seconds_update", 2.0, 2, 0],
        ["rl/seconds_decoding", 2.0, 2, 0],
        ["rl/reward", 9.0, 2, 0],
        ["held_out/seconds", 20.0, 0, 0],
        ["held_out/seconds_prefill", 5.0, 0, 0],
    ]
    assert timed(history) == [
        "  a step 5.0 s (99 %: 6.0): rollout 3.5, update 1.5; of the rollout decoding 2.0",
        "  the held-out benchmarks 20.0 s: prefill 5.0",
    ]
