"""Which runs the study of which metric foretells RL takes, and why it leaves others out."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.foretelling import plan
from analysis.foretelling.answering import answer
from analysis.foretelling.plan import settings
from analysis.foretelling.runs import beside, by_end, read_study
from analysis.foretelling.tables import markdown
from analysis.rl.policies import PolicyRun, policy_runs
from rmlab.tracking.run_index import RunInfo
from tests.analysis.foretelling.made_study import ALL_CELLS, CELLS, PLAN, MadeRun, about, configured, files, made_runs


def test_what_is_missing_or_not_the_plans_is_named(tmp_path: Path) -> None:
    runs = made_runs(tmp_path, 0.8)
    by_name = {run.run.name: run for run in runs}
    wrong = {
        "execution_free_balanced-250_a_s0": ("seed is 7, the plan's 0", lambda run: run.params.update(seed="7")),
        "execution_free_balanced-430_b_s0": (
            "start is a, the plan's b",
            lambda run: run.tags.update(start="runs/policies/a"),
        ),
        "execution_free_balanced-1000_a_s0": (
            "it has 20 steps, the plan 60",
            lambda run: run.params.update(steps="20"),
        ),
        "execution_free_balanced-2400_b_s0": (
            "but those of two bugs",
            lambda run: run.files["outcome.json"].update(without=[]),
        ),
        "execution_free_balanced-3800_a_s0": (
            "what its verifier is worth",
            lambda run: run.files.pop("verifier_report.json"),
        ),
        "execution_free_overconfident-430_a_s0": (
            "with its scores as they are paid",
            lambda run: run.files.pop("paid_report.json"),
        ),
    }
    for name, (_, change) in wrong.items():
        change(by_name[name].run)
    runs = [run for run in runs if run.run.name != "hybrid_balanced-250_a_s0"]
    tags, params = about(next(cell for cell in CELLS if cell["name"] == "execution_a_s0"))
    later = MadeRun("execution_a_s0", "f" * 32, tags, params, files(0.3, None, 0, {}), tmp_path, start_time=9)
    later.files["config.yaml"] = configured(next(cell for cell in CELLS if cell["name"] == "execution_a_s0"))
    study = read_study([*runs, PolicyRun(later)], PLAN)  # type: ignore[arg-type]
    reasons = dict(study.left_out)
    for name, (words, _) in wrong.items():
        assert words in reasons[name]
    assert reasons["hybrid_balanced-250_a_s0"] == "no finished run"
    assert reasons["execution_a_s0"] == "run ffffffff: an earlier run of the cell is taken"
    assert study.taken["execution_a_s0"].policy is by_name["execution_a_s0"]
    assert len(study.left_out) == 8
    assert "sets of weights" not in markdown(study, answer(study))
    by_name["hybrid_balanced-430_b_s0"].run.tags.update(start_fingerprint="made anew")
    text = markdown(study, answer(study))
    assert "The runs of hybrid begin from 2 sets of weights of start b, which are ranked apart." in text
    assert "- left out: 1 of 24 hybrid: no finished run: hybrid_balanced-250_a_s0\n" in text


def test_a_run_again_takes_no_result_away(tmp_path: Path) -> None:
    """Two runs of one cell, as a store has them: the first is taken; it is not taken where it is not the plan's."""
    cell = next(cell for cell in CELLS if cell["name"] == "execution_a_s0")

    def made(name: str, outcome: float, start_time: int, status: str = "finished") -> MadeRun:
        tags, params = about(cell)
        own = files(outcome, None, 0, {}) | {"config.yaml": configured(cell)}
        return MadeRun(cell["name"], name * 32, tags | {"status": status}, params, own, tmp_path, start_time)

    first, again = made("1", 0.2, 1, "replaced"), made("2", 0.3, 2)
    study = read_study(policy_runs([again, first]), PLAN)  # type: ignore[list-item]
    assert study.taken[cell["name"]].outcome == 0.2
    assert (cell["name"], "run 22222222: an earlier run of the cell is taken") in study.left_out
    first.files["config.yaml"]["algorithm"]["scale"] = "none"
    study = read_study(policy_runs([again, first]), PLAN)  # type: ignore[list-item]
    assert study.taken[cell["name"]].outcome == 0.3
    assert (cell["name"], "run 11111111: its algorithm.scale is none, the plan's std") in study.left_out


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("distortion_good_shifted_up_a_s0", "reward.transform.slope", 1.0),
        ("distortion_good_shifted_up_a_s0", "reward.transform.shift", 0.0),
        ("difficulty_good_with_a_s0", "reward.transform.between", 1.0),
        ("difficulty_good_with_a_s0", "reward.transform.difficulty", 0.0),
        ("unnormalised_good_recalibrated_a_s0", "algorithm.scale", "std"),
        ("affine_good_recalibrated_a_s0", "reward.offset", 0.0),
        ("affine_good_recalibrated_a_s0", "reward.factor", 1.0),
        ("affine_good_recalibrated_a_s0", "algorithm.std_floor", 0.25),
        ("execution_free_balanced-250_a_s0", "reward.transform.slope", 3.0),
        ("execution_free_overconfident-430_a_s0", "reward.transform.slope", 1.0),
        # what no cell varies
        ("execution_free_balanced-250_a_s0", "rl.groups", 64),
        ("execution_free_balanced-250_a_s0", "optimizer.learning_rate", 1e-5),
        ("hybrid_balanced-250_a_s0", "watch.held_out_attempts", 2),
        ("hybrid_balanced-250_a_s0", "reward.weight", 0.5),
        ("execution_a_s0", "environment.edits", "stay"),
        ("execution_a_s0", "start", "runs/policies/b"),
    ],
)
def test_a_run_that_varies_something_else_is_not_taken(tmp_path: Path, name: str, key: str, value: Any) -> None:
    run = next(run for run in made_runs(tmp_path, 0.8) if run.run.name == name)
    assert name in read_study([run], PLAN).taken
    *path, last = key.split(".")
    place = run.run.files["config.yaml"]  # type: ignore[union-attr]
    for part in path:
        place = place[part]
    place[last] = value
    study = read_study([run], PLAN)
    assert name not in study.taken
    assert f": its {key} is {value}, the plan's " in dict(study.left_out)[name]


def test_a_run_that_another_verifier_paid_is_not_taken(tmp_path: Path) -> None:
    by_name = {run.run.name: run for run in made_runs(tmp_path, 0.8)}

    def reason(name: str, paid_by: Any = None, **tags: str) -> str:
        run = by_name[name]
        changed = replace(run.run, tags=run.run.tags | tags)  # type: ignore[type-var]
        study = read_study([PolicyRun(changed, paid_by)], PLAN)
        return dict(study.left_out).get(name, "")

    paid, bent = "execution_free_balanced-250_a_s0", "distortion_good_shifted_up_a_s0"
    assert reason(paid) == reason(bent) == ""
    assert reason(paid, verifier_run="balanced-430").endswith(
        "what paid it (run balanced) is balanced-430, the plan's balanced-250"
    )
    assert "is neither here nor in the ledger, the plan's balanced-250" in reason(paid, verifier_run="elsewhere")
    cell = next(dict(cell) for cell in ALL_CELLS if cell["name"] == "balanced-250")
    for key, value in (("scale", 600), ("label_ratio", "4:1"), ("refilter", True)):
        own = configured(cell)
        there = MadeRun("balanced-250", "e" * 32, {}, {}, {"config.yaml": own}, tmp_path)
        assert reason(paid, there) == ""
        own["data"][key] = value
        assert f"what paid it is not balanced-250: its data.{key} is {value}, the plan's" in reason(paid, there)
    unpaid = "execution_a_s0"
    assert reason(unpaid) == ""
    assert "a verifier paid it (run balanced), the plan's run has none" in reason(unpaid, verifier_run="balanced-250")
    assert "fitted.csv has no SLOPE_shifted_up for the verifier that paid (run another)" in reason(
        bent, verifier_run="another"
    )


def test_why_a_cell_has_no_run_is_said() -> None:
    """It failed, was killed, or its run, which the ledger has, was not brought home."""
    names = ("execution_a_s0", "execution_b_s0", "hybrid_balanced-250_a_s0")
    ended = {(names[0], "failed"): 1, (names[0], "killed"): 3}
    reasons = dict(read_study([], replace(PLAN, ended=ended, trained={"0123456789": names[1]})).left_out)
    assert [reasons[name] for name in names] == [
        "no finished run, it failed 1 time, it was killed 3 times",
        "no finished run, run 01234567 of the ledger is not there",
        "no finished run",
    ]


def test_what_changes_no_result_is_no_departure() -> None:
    cell = next(cell for cell in CELLS if cell["name"] == "execution_a_s0")
    own = configured(cell)
    own["workers"], own["tasks"], own["start"] = 60, "elsewhere/tasks.parquet", "/elsewhere/a"
    own["runtime"]["device"] = own["tracking"]["name"] = "other"
    assert PLAN.departure(own, cell) == ""


def test_the_first_of_two_runs_is_the_one_that_finished_first(tmp_path: Path) -> None:
    """They overlap, on two machines: the one that began first ended last. Brought home, a run is known by where it was made."""
    first, second = (MadeRun("x", name, {}, {}, {}, tmp_path, *times) for name, times in (("1", (5, 8)), ("2", (1, 9))))
    assert sorted([second, first], key=by_end) == [first, second]  # type: ignore[arg-type]
    infos = [RunInfo("1", "0", "x", {"imported_run": "9"}, 5, 8), RunInfo("2", "0", "x", {}, 1, 8)]
    assert sorted(infos, key=by_end) == infos[::-1]


def test_the_plan_is_parsed_once_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 114 runs is held against everything that any cell varies: parsing all cells for each took most of the analysis' time."""
    parsed = list[str]()

    def counted(cell: Mapping[str, str]) -> dict[str, str]:
        parsed.append(cell["name"])
        return settings(cell)

    runs = made_runs(tmp_path, 0.8, blocks="execution_free")
    monkeypatch.setattr(plan, "settings", counted)
    read_study(runs, replace(PLAN))
    assert len(parsed) <= len(ALL_CELLS) + len(runs)


def test_outcomes_stand_beside_the_start_and_what_execution_alone_does(tmp_path: Path) -> None:
    """Of each start by itself; a start that no verifier of the block paid does not count."""
    study = read_study(made_runs(tmp_path, 0.8, blocks="execution_free execution"), PLAN)
    free, paid = study.of("execution_free"), study.of("execution")
    found = beside(free, paid)
    assert found["before RL"] == dict.fromkeys(sorted({run.start for run in free}), pytest.approx(0.2))
    assert len(found["before RL"]) == 2
    for start, level in found["execution alone pays"].items():
        assert level == pytest.approx(np.mean([run.outcome for run in paid if run.start == start]))
    of_a = [run for run in free if run.cell["start"] == "a"]
    assert len(beside(of_a, paid)["execution alone pays"]) == 1
    assert beside(free, [])["execution alone pays"] == {}
