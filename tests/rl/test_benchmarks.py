"""Held-out benchmarks, paired differences, collapse and the summary of a training, on numbers worked out by hand."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from rmlab.errors import UsageError
from rmlab.metrics.uncertainty import Difference, paired_difference
from rmlab.rl.evaluation import of_the_verifier, rates_by_task
from rmlab.rl.held_out import benchmarks, compare_policies, pooled_benchmarks
from rmlab.rl.learner import RLState
from rmlab.rl.outcome import GAP_PARTS, area, described, outcome, outcome_metrics, timed
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory
from tests.rl.easy_family import easy_task

if TYPE_CHECKING:
    from rmlab.tracking.query import TrackedRun

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
    found = outcome(RLState(step=4, held_out_before=before, curve=curve), after, {"new": [NEW], "withheld": [WITHHELD]})
    assert found["held_out"]["all"]["sampled"]["difference"] == pytest.approx(-0.75)
    assert found["held_out"]["all"]["greedy"]["difference"] == pytest.approx(0.5)
    assert (found["collapse"], found["hacking_gap"]) == (True, 0.4)
    low, high = (found["held_out"]["all"]["sampled"][end] for end in ("low", "high"))
    assert found["collapse_detectable"] == pytest.approx((high - low) / (2 * 1.95996) * (1.95996 + 0.84162), rel=1e-4)
    assert (found["verifier_first"], found["verifier_last"]) == ({"brier": 0.2}, {"brier": 0.3})
    assert found["area"] == pytest.approx(-0.1)
    chosen = outcome(
        RLState(step=4, best_step=0, held_out_before=before, curve=curve),
        after,
        {"new": [NEW], "withheld": [WITHHELD]},
        before,
    )
    assert (chosen["chosen"]["step"], chosen["chosen"]["held_out"]["all"]["sampled"]["difference"]) == (0, 0)
    part = outcome(
        RLState(step=4, held_out_before=before, curve=curve),
        after,
        {"new": [NEW], "withheld": [WITHHELD]},
        without=["withheld"],
    )
    assert part["held_out"]["all"] == found["held_out"]["new"], "what is left out is shown by itself alone"
    assert part["held_out"]["withheld"] == found["held_out"]["withheld"]
    assert part["without"] == ["withheld"]
    nothing = outcome(RLState(), {}, {})
    assert (nothing["collapse"], nothing["area"], nothing["hacking_gap"], nothing["held_out"]) == (None, None, None, {})


def test_the_hacking_gap_is_inflation_and_lost_skill() -> None:
    """The score rises from 0.5 to 0.7, the rate falls from 0.5 to 0.25: gap 0.45, of which 0.2 and 0.25."""
    task = ["t"] * 4
    first = of_the_verifier(Scores.of(task, [0.4, 0.6, 0.5, 0.5], [1, 0, 1, 0]), None)
    assert [first[name] for name in ("hacking_gap", *GAP_PARTS)] == [0, 0, 0]
    last = of_the_verifier(Scores.of(task, [0.6, 0.8, 0.7, 0.7], [1, 0, 0, 0]), first)
    assert [last[name] for name in ("hacking_gap", *GAP_PARTS)] == pytest.approx([0.45, 0.2, 0.25])
    curve = [{"step": float(step), "pass_at_1": 0.5, **row} for step, row in enumerate((first, last))]
    found = outcome(RLState(step=1, curve=curve), {}, {})
    assert [found[name] for name in GAP_PARTS] == pytest.approx([0.2, 0.25])
    assert "hacking gap +0.450 (inflation of the score +0.200, lost skill +0.250)" in described(found)[-1]
    assert outcome_metrics(found)["outcome/hacking_gap_lost_skill"] == pytest.approx(0.25)


def test_no_collapse_states_the_loss_that_it_would_have_shown() -> None:
    """100 tasks, each as good as before but for ±1: the standard error is 0.1, and 80 % power begins at 2.8 of it."""
    rates = {f"t{i}": 0.5 for i in range(100)}
    after = {task: 0.5 + (1 if i % 2 else -1) for i, task in enumerate(rates)}
    found = paired_difference(rates, after, {task: task for task in rates})
    assert not found.falls
    assert found.detectable == pytest.approx(0.28, rel=0.1)


@pytest.mark.parametrize(
    ("tasks", "clusters", "collapse", "all_sampled"),
    [
        (4, 4, "not known (4 tasks are too few for an interval)", "(+0.000, 4 tasks are too few for an interval)"),
        (
            20,
            5,
            "not known (20 tasks of 5 clusters are too few for an interval)",
            "(+0.000, 20 tasks of 5 clusters are too",
        ),
        (
            20,
            20,
            "no (pass@1 changed alike at all tasks, so nothing is known of smaller losses)",
            "(+0.000 [+0.000, +0.000], 20 tasks)",
        ),
    ],
)
def test_of_too_few_tasks_nothing_is_said_in_numbers(
    tasks: int, clusters: int, collapse: str, all_sampled: str
) -> None:
    rates = {f"t{i}": 0.5 for i in range(tasks)}
    found = asdict(paired_difference(rates, rates, {f"t{i}": f"c{i % clusters}" for i in range(tasks)}))
    nothing = outcome(RLState(), {}, {})
    shown = described(
        nothing | {"held_out": {"all": {"sampled": found}}, "collapse": False, "collapse_detectable": 0.0}
    )
    assert f"  collapse: {collapse}, hacking gap -" == shown[-1]
    assert shown[0].startswith(f"  all, sampled: pass@1 0.500 → 0.500 {all_sampled}")
    assert described(nothing) == ["  collapse: not known (no held-out task), hacking gap -"]


@pytest.mark.slow
def test_the_detectable_loss_is_called_a_collapse_in_four_of_five() -> None:
    rng, fell = np.random.default_rng(0), []
    names = [f"t{i}" for i in range(200)]
    own = {name: name for name in names}

    def look(loss: float, seed: int) -> Difference:
        before, after = rng.normal(0.4, 0.3, 200), rng.normal(0.4 - loss, 0.3, 200)
        sides = (dict(zip(names, side, strict=True)) for side in (before, after))
        return paired_difference(
            *sides, own, seed % 2
        )  # two bootstraps' clusters in turn: to draw new ones takes most of the time

    loss = float(np.mean([look(0.0, seed).detectable for seed in range(20)]))
    fell = [look(loss, seed).falls for seed in range(400)]
    assert 0.75 <= np.mean(fell) <= 0.85, np.mean(fell)


@dataclass
class Told:
    """A run as far as two are compared: its rates by task in a file."""

    run_id: str
    folder: Path

    @property
    def name(self) -> str:
        return self.run_id

    def artifact(self, name: str) -> Path:
        return self.folder / name


def test_two_runs_are_compared_without_a_benchmark(tmp_path: Path) -> None:
    told = []
    for name, one, two in (("a", 0.75, 0.0), ("b", 0.25, 0.5)):
        after = {"new": {"sampled": {"t": one, "u": one}}, "two_bugs": {"sampled": {"v": two}}}
        (tmp_path / name).mkdir()
        text = json.dumps({"before": {}, "after": after, "clusters": {task: task for task in "tuv"}})
        (tmp_path / name / "held_out.json").write_text(text)
        told.append(cast("TrackedRun", Told(name, tmp_path / name)))
    whole, part = (compare_policies(*told, without)["benchmarks"] for without in ((), ["two_bugs"]))
    assert whole["all"]["sampled"]["difference"] == pytest.approx((0.5 + 0.5 - 0.5) / 3)
    assert part["all"]["sampled"] == part["new"]["sampled"]
    assert part["two_bugs"] == whole["two_bugs"]


def test_a_benchmark_to_leave_out_is_one_of_them() -> None:
    assert pooled_benchmarks(["new", "two_bugs"], ["two_bugs"]) == ["new"]
    with pytest.raises(UsageError, match="tow_bugs is not a held-out benchmark"):
        pooled_benchmarks(["new"], ["tow_bugs"])
    with pytest.raises(UsageError, match=r"none of the held-out benchmarks .* is left"):
        pooled_benchmarks(["new"], ["new"])


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
        ["rl/gpu_gib", 17.0, 1, 0],
        ["rl/gpu_gib", 18.25, 2, 0],
        ["rl/gpu_tensors_gib", 14.0, 2, 0],
        ["held_out/seconds", 20.0, 0, 0],
        ["held_out/seconds_prefill", 5.0, 0, 0],
    ]
    assert timed(history) == [
        "  a step 5.0 s (99 %: 6.0): rollout 3.5, update 1.5; of the rollout decoding 2.0",
        "  the held-out benchmarks 20.0 s: prefill 5.0",
        "  18.2 GiB of the GPU at most, 14.0 GiB of it in tensors",
    ]


def test_to_compare_two_policies_loads_no_torch() -> None:
    code = (
        "import sys, rmlab.commands.compare, rmlab.rl.held_out, rmlab.tracking.query\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
