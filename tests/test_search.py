"""Searches as a user meets them: killed and gone on with, failing trials, repeated settings, pruning."""

from collections import Counter
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY
from rmlab.sweep.request import make_plan
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from tests.sweeping import cells_that_said, kill_again_and_again, sweep_here
from tests.verifiers.examples import write_pool

TOY = REPOSITORY / "tests" / "sweep" / "toy"

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(autouse=True)
def where(runs_folder: Path) -> Path:
    return runs_folder


def trials(where: Path):
    import optuna

    [name] = optuna.get_all_study_names(f"sqlite:///{where / 'optuna.db'}")
    return optuna.load_study(study_name=name, storage=f"sqlite:///{where / 'optuna.db'}").trials


def of(where: Path, **parts) -> str:
    """The toy's search with other parts."""
    import yaml

    raw = yaml.safe_load((TOY / "toy_search.yaml").read_text())
    raw["program"] = str(TOY / "toy.py")
    raw["search"] |= parts
    path = where / "toy_search.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    return str(path)


@pytest.mark.slow
def test_a_killed_search_goes_on_and_its_total_is_a_total(where: Path) -> None:
    file = of(where, trials=5)
    assert kill_again_and_again(file, "seconds=0.8", "--workers", "2", times=2, longest=0.5, seed=0) == 2
    code, out, err = sweep_here(file, "seconds=0.8", "--workers", "2")
    assert code == 0, err
    states = Counter(trial.state.name for trial in trials(where))
    assert states["COMPLETE"] == 5
    assert set(states) <= {"COMPLETE", "FAIL"}, "what the kill left running is failed"
    assert all(trial.user_attrs.get("lost") for trial in trials(where) if trial.state.name == "FAIL")
    assert "5 complete" in out
    before = cells_that_said("end")
    code, _, _ = sweep_here(file, "seconds=0.8", "--workers", "2")
    assert code == 0
    assert cells_that_said("end") == before, "the total is reached: nothing is tried"
    assert "5 trials in all" in sweep_here(file, "seconds=0.8", "--dry-run")[1]
    assert not [run for run in runs(Store.open()) if run.tags["kind"] == "toy" and run.end_time is None]


@pytest.mark.slow
def test_trials_that_fail_do_not_fail_the_study_and_settings_are_not_run_twice(where: Path) -> None:
    objectives = {"eval_of/score": "maximize", "eval_of/cost": "minimize"}
    file = of(where, trials=10, space={"data_scale": {"choices": [1, 2, 3]}}, objectives=objectives)
    code, _, err = sweep_here(file, "trouble={1:nan,2:error}", "--workers", "1")
    assert code == 0, err
    found = trials(where)
    by_level = {level: {t.state.name for t in found if t.params["data_scale"] == level} for level in (1, 2, 3)}
    assert by_level == {1: {"FAIL"}, 2: {"FAIL"}, 3: {"COMPLETE"}}
    assert len(found) == 10
    assert {t.user_attrs["why"] for t in found if t.params["data_scale"] == 2} == {
        "RuntimeError: this cell has no luck"
    }
    assert all("eval_of/score is" in t.user_attrs["why"] for t in found if t.params["data_scale"] == 1)
    assert max(cells_that_said("end").values()) == 1, "a repeated configuration is answered from the finished run"
    assert {t.values[0] for t in found if t.state.name == "COMPLETE"} == {-4.0}
    for name in ("pareto.pdf", "pareto.png", "pareto.csv", "trials.csv"):
        assert list((where / "figures").rglob(name)), name
    assert [run.name for run in runs(Store.open()) if run.tags["kind"] == "summary"] == ["summary demo"]


@pytest.mark.slow
def test_a_full_disk_ends_a_search(where: Path) -> None:
    code, _, err = sweep_here(of(where, space={"data_scale": {"choices": [1]}}), "trouble={1:full}", "--workers", "1")
    assert code == 1
    assert err.splitlines()[-1].startswith("rmlab: the disk is full, so nothing more was started.")
    assert [trial.state.name for trial in trials(where)] == ["RUNNING"], "the next launch makes another in its place"


@pytest.mark.slow
def test_a_single_objective_may_prune(where: Path) -> None:
    pruner = {"_target_": "optuna.pruners.ThresholdPruner", "lower": -2.5}
    pruning = {"metric": "train/score", "goal": "maximize", "pruner": pruner}
    file = of(where, trials=4, space={"data_scale": {"choices": [7, 30]}}, pruning=pruning)
    code, _, err = sweep_here(file, "seconds=1", "trouble={30:endless}", "--workers", "4")
    assert code == 0, err
    assert {t.params["data_scale"]: t.state.name for t in trials(where)} == {7: "COMPLETE", 30: "PRUNED"}
    assert {run.name.split()[0]: run.status for run in runs(Store.open()) if run.tags["kind"] == "toy"} == {
        "data_scale=7": "finished",
        "data_scale=30": "stopped",
    }


def test_values_are_means_over_the_seeds(where: Path) -> None:
    file = of(where, space={"data_scale": {"choices": [7]}})
    code, _, err = sweep_here(file, "trials=1", "seeds=[0,1]")
    assert code == 0, err
    [trial] = trials(where)
    assert trial.values == [0.5], "0 with seed 0, 1 with seed 1"
    assert len(trial.user_attrs["runs"]) == 2
    found = {run.run_id: run for run in runs(Store.open()) if run.tags["kind"] == "toy"}
    assert set(trial.user_attrs["runs"]) == set(found)
    for run_id, address in zip(trial.user_attrs["runs"], trial.user_attrs["addresses"], strict=True):
        assert address.startswith(f"http://127.0.0.1:5000/#/experiments/{found[run_id].experiment_id}/runs/{run_id}?")
        assert found[run_id].tags["trial"] == "0"
        assert found[run_id].tags["trial_address"].endswith("/trials?numbers=0")
    experiment = Store.open().client.get_experiment_by_name("toy_search")
    views = [key for key in experiment.tags if key.startswith("mlflow.sharedViewState.")]
    assert experiment.tags["mlflow.note.content"].endswith("?"), "its question"
    assert views == ["mlflow.sharedViewState.rmlab-table"], "a search has no levels to draw"


@pytest.mark.slow
def test_the_search_for_a_verifier(where: Path, tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "hand.parquet", attempts=8)
    code, out, err = sweep_here(
        "search_verifier", "preset=smoke", "data.scale=64", f"data.path={pool}", "--workers", "2"
    )
    assert code == 0, err
    assert "3 complete" in out
    assert "optuna-dashboard sqlite:///" in out
    assert all(len(trial.values) == 3 for trial in trials(where))


def planned(file: str, *arguments: str):
    """The study that `rmlab sweep` would go on with, and what a dry run says of it."""
    from rmlab.sweep.dry_run import search_description
    from rmlab.sweep.study_identity import study_name

    cells = make_plan(file, list(arguments), "").cells
    return str(study_name(cells)), search_description(cells)


@pytest.mark.slow
def test_an_edited_search_is_another_study_and_says_so(where: Path) -> None:
    """Values of another objective, space or baseline would stand beside the new ones and be called best."""
    import csv

    import optuna

    space = {"data_scale": {"choices": [1, 7]}}
    code, _, err = sweep_here(of(where, trials=2, space=space), "--workers", "1")
    assert code == 0, err
    code, out, err = sweep_here(
        of(where, trials=3, space=space, objectives={"eval_of/cost": "minimize"}), "--workers", "1"
    )
    assert code == 0, err
    assert "which differs in objectives: its 2 trials stay" in out
    assert "3 complete" in out
    studies = optuna.get_all_study_summaries(f"sqlite:///{where / 'optuna.db'}")
    assert sorted(study.n_trials for study in studies) == [2, 3]
    assert len([run for run in runs(Store.open()) if run.tags["kind"] == "summary"]) == 2, "each study has its own"
    heads = {tuple(next(csv.reader(path.open()))) for path in (where / "figures").rglob("trials.csv")}
    assert {name for head in heads for name in head if name.startswith("eval_of/")} == {"eval_of/score", "eval_of/cost"}
    assert len(heads) == 2, "no table has both"


def test_what_makes_trials_comparable_is_in_the_name_of_their_study(where: Path) -> None:
    pruner = {"_target_": "optuna.pruners.MedianPruner"}
    space = {"data_scale": {"choices": [1, 7]}}
    first, said = planned(of(where, space=space))
    assert "0 made" in said
    assert "another study" not in said
    same = [{"trials": 9}, {"sampler": {"_target_": "optuna.samplers.TPESampler", "seed": 1}}]
    assert {planned(of(where, space=space, **parts))[0] for parts in same} == {first}
    others = [
        {"objectives": {"eval_of/cost": "maximize"}},
        {"objectives": {"eval_of/score": "minimize"}},
        {"objectives": {"eval_of/score": "maximize", "eval_of/cost": "minimize"}},
        {"space": {"data_scale": {"choices": [1, 7, 9]}}},
        {"space": {"data_scale": {"low": 1, "high": 7}}},
        {"pruning": {"metric": "train/loss", "goal": "minimize", "pruner": pruner}},
    ]
    names = [planned(of(where, **{"space": space, **parts}))[0] for parts in others]
    file = of(where, space=space)
    names += [planned(file, *given)[0] for given in (["seeds=[1]"], ["optimizer.learning_rate=0.5"], ["seeds=[0,1]"])]
    assert len({first, *names}) == 10


def test_a_choice_that_means_something_else_is_another_search(where: Path) -> None:
    import yaml

    path, found = where / "named.yaml", set()
    for meaning in ("2:1", "4:1"):
        raw = yaml.safe_load(Path(of(where, space={"label_ratio": {"choices": ["few", "1:1"]}})).read_text())
        path.write_text(yaml.safe_dump(raw | {"named": {"few": [f"data.label_ratio={meaning}"]}}, sort_keys=False))
        found.add(planned(str(path))[0])
    assert len(found) == 2
