"""The sweep over real trajectories, from the zips of its policies to its figure, on a small part of them."""

import csv
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from rmlab.commands.figures import draw_figures
from rmlab.commands.import_trajectories import import_trajectories
from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, UsageError
from rmlab.paths import REPOSITORY
from rmlab.scores.table import read_score_table
from rmlab.sweep.plan import expand
from rmlab.sweep.spec import read_sweep
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from rmlab.trajectories.store import read_trajectories, write_trajectories

REAL = REPOSITORY.parent / "shared" / "data" / "real"
NEVER_SEEN = "google/gemini-3-pro-preview"
SMALL = ["evaluation.replicates=20", "evaluation.attempts=1", "runtime.progress=false"]


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """At most 7 tasks a repository of both Moatless runs, and the 6 shortest attempts of the mini-SWE-agent run, imported."""
    if not REAL.is_dir():
        pytest.skip(f"{REAL} is not there: real trajectories are kept beside the repository, not in it")
    out = tmp_path / "real.parquet"
    zips = [str(REAL / f"{name}.zip") for name in ("moatless_v0_lite", "mini_v1_gemini3_verified")]
    import_trajectories("auto", zips, out, as_json=True)
    whole = read_trajectories(out).trajectories
    unseen = sorted((t for t in whole if t.policy == NEVER_SEEN), key=lambda t: sum(len(m.content) for m in t.messages))
    seen = [t for t in whole if t.policy != NEVER_SEEN]
    few = {
        task
        for name in {t.cluster for t in seen}
        for task in sorted({t.task_id for t in seen if t.cluster == name})[:7]
    }
    write_trajectories(out, [*unseen[:6], *(t for t in seen if t.task_id in few)])
    return out


def test_without_data_it_says_where_the_runs_are() -> None:
    program = load_program("cross_validate")
    with pytest.raises(
        UsageError, match=r"data\.path has to be given.*aorwall/moatless-tools at f188761f, evaluations/20240623"
    ) as caught:
        program.identity(compose("cross_validate"))
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=r"data\.hidden_tests only applies to micro-SWE"):
        program.identity(compose("cross_validate", ["data.path=x", "data.hidden_tests=3"]))


@pytest.mark.slow
def test_it_runs_at_smoke_and_its_figure_stands_beside_always_the_better_policy(
    pool: Path, runs_folder: Path, tmp_path: Path
) -> None:
    spec = read_sweep("real_policy_mixture", "smoke", {"levels": ["both"]})
    program = load_program(spec.program)
    [cell] = expand(spec, [f"data.path={pool}", *SMALL], compose, program.identity)
    program.prepare([cell.config])
    program.run(cell.config)
    assert program.identity(cell.config).config_hash == cell.identity.config_hash, "the same hash cold and warm"
    [run] = runs(Store.open(None), ["real_policy_mixture"])

    scores, unseen = (read_score_table(run.artifact(f"{name}.parquet")) for name in ("scores", "unseen_scores"))
    whole = read_trajectories(pool).trajectories
    assert sorted([*scores.trajectory_id, *unseen.trajectory_id]) == sorted(t.trajectory_id for t in whole), (
        "every attempt is judged once"
    )
    assert set(unseen.policy) == {NEVER_SEEN}
    assert NEVER_SEEN not in scores.policy
    folds = json.loads(run.artifact("folds.json").read_text())
    assert sorted(name for fold in folds for name in fold["evaluation"]) == sorted({*scores.cluster, *unseen.cluster})
    for fold in folds:
        assert not set(fold["evaluation"]) & {*fold["verifier"], *fold["validation"]}
        chosen = json.loads(run.artifact(f"folds/{fold['fold']}/selection.json").read_text())
        assert (chosen["taken"], chosen["resolved"]) == (8, 4)
        assert {row["policy"]: row["taken"] for row in chosen["strata"] if row["label"] == "resolved"} == {
            "20240609_moatless_gpt4o": 2,
            "20240623_moatless_claude-3.5-sonnet": 2,
        }

    report, baselines = (json.loads(run.artifact(f"{name}.json").read_text()) for name in ("report", "baselines"))
    resolved = {(str(t), str(p)): r for t, p, r in zip(scores.task_id, scores.policy, scores.resolved, strict=True)}
    pairs = [
        [r for (task, _), r in resolved.items() if task == name and not np.isnan(r)]
        for name in sorted(set(scores.task_id))
    ]
    assert baselines["oracle"]["rm_at_k_across"]["2"] == pytest.approx(np.mean([max(pair) for pair in pairs]))
    assert set(report["rm_at_k_across"]) == {"1", "2"}
    assert run.metrics["unseen/auc_pooled"] is not None
    assert baselines["policy_identity"]["rm_at_k_across"]["2"] <= baselines["oracle"]["rm_at_k_across"]["2"]

    draw_figures(["rm_at_k", "across_policies"], out=tmp_path / "figures")
    [drawn] = (tmp_path / "figures").rglob("across_policies.csv")
    groups = {row["group"] for row in csv.DictReader(drawn.open())}
    assert {"verifier", "baseline policy_identity", "together", f"{NEVER_SEEN} (never seen)"} <= groups
    assert not list((tmp_path / "figures").rglob("rm_at_k.*")), "no policy has two attempts at a task"

    larger = compose(
        "cross_validate", [f"data.path={pool}", "model=tiny", "data.scale=80", f"folds.unseen=[{NEVER_SEEN}]", *SMALL]
    )
    with pytest.raises(DataError, match=r"fold 1 \(without .*\): data\.scale=80 cannot be filled"):
        program.prepare([larger])


@pytest.mark.slow
def test_the_tables_of_the_page_are_computed_from_its_runs(tmp_path: Path) -> None:
    page = REPOSITORY / "experiments" / "studies" / "real_policy_mixture"
    runpy.run_path(str(page / "runs.py"))["main"](tmp_path)
    for name in ("runs.csv", "picks.csv"):
        with (tmp_path / name).open() as fresh, (page / name).open() as shipped:
            for row, other in zip(csv.DictReader(fresh), csv.DictReader(shipped), strict=True):
                for column, text in row.items():
                    same = text == other[column] or float(text) == pytest.approx(float(other[column]), rel=1e-4)
                    assert same, (name, column)
    picks = {(row["level"], row["seed"]): float(row["right"]) for row in csv.DictReader((page / "picks.csv").open())}
    assert picks["oracle", ""] == 49
    assert picks["random", ""] == pytest.approx(24.5), "half of them"
    assert picks["policy_identity", ""] == 29, "Claude resolved 29 of them alone, GPT-4o 20"
