"""The whole study in miniature, on a CPU, by the commands of its page."""

import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from analysis.foretelling.plan import PLAN, STUDY, read_rows
from analysis.foretelling.runs import read_study
from analysis.presentation.style import csv_text
from analysis.rl.policies import policy_runs
from analysis.sweep.tracked import source_runs
from experiments.studies.which_metric_foretells_rl import check, design, side_by_side, study
from rmlab.commands.figures import draw_figures
from rmlab.metrics.report import report
from rmlab.paths import STARTER
from rmlab.scores.table import read_score_table
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.store import Store
from rmlab.trajectories.store import read_trajectories, write_trajectories
from tests.forked_command import ForkedCommand
from tests.rl.easy_family import write_easy_policy, write_easy_tasks

EASY = [  # beside the rehearsal's settings of RL: tasks and a policy of one changed digit
    "engine.capacity=224",
    "rl.max_action_tokens=20",
    "rl.groups=3",
    "watch.tasks=2",
    "watch.held_out_tasks=2",
    "watch.held_out_attempts=1",
    "optimizer.learning_rate=1e-3",
]
FEW = ("balanced-250", "balanced-430", "overconfident-430")
BLOCKS = ("execution_free", "execution", "distortion")
"""One of each way in which a run is paid: by a verifier, by execution, by scores that are moved."""


@pytest.mark.slow
def test_a_whole_study_in_miniature(
    monkeypatch: pytest.MonkeyPatch, runs_folder: Path, plan: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """On a CPU, by the commands of the page: verifiers, the check, runs of three blocks (one is killed on its way), bundles, and all of it
    read again elsewhere."""
    few = [cell for cell in design.rehearsal(design.cells()) if cell["verifier"] in (*FEW, "", "good", "poor")]
    by_block = {cell["block"]: cell for cell in few if cell["block"] in BLOCKS and cell["start"] == "a"}
    [sloped] = [c for c in few if c["block"] == "execution_free" and c["column"] == "overconfident"]
    own = [*(cell for cell in few if cell["kind"] == "verifier"), *(by_block | {"execution_free": sloped}).values()]
    (plan / "cells.csv").write_text(csv_text(own))
    write_easy_tasks(tmp_path / "tasks.parquet")
    settings = yaml.safe_load((STUDY / "rehearsal" / "common.yaml").read_text())
    settings["verifier"] += [
        f"data.path={small_pool(tmp_path / 'pool.parquet')}",
        "training.epochs=0.1",
        "evaluation.tasks=80",
    ]
    settings["rl"] += [f"tasks={tmp_path / 'tasks.parquet'}", "runtime.checkpoint_seconds=0", *EASY]
    (plan / "common.yaml").write_text(yaml.safe_dump(settings))
    write_easy_policy(tmp_path / "runs" / "policies" / "a", steps=4)
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    begun: list[tuple[Sequence[str], ForkedCommand]] = []

    def fork(words: Sequence[str], stdout: Any, env: Mapping[str, str], **_: Any) -> ForkedCommand:
        """The same command, of a process that has imported everything already: seven of them would do little else."""
        begun.append((words, ForkedCommand(*words[3:], environment=env, log=Path(stdout.name))))
        return begun[-1][1]

    monkeypatch.setattr(side_by_side, "subprocess", SimpleNamespace(Popen=fork, STDOUT=None))
    slice_of = ["--minutes", "60", "--together", "2", "--bundle"]

    assert study.main(["verifiers", *slice_of, str(out / "verifiers.zip")]) == 0
    assert check.main() == 1, "three verifiers are no design"
    assert {row["name"] for row in read_rows(plan / "design.csv")} == set(FEW)
    capfd.readouterr()

    blocks = list(by_block)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(killed_after_a_step, runs_folder, begun)
        assert study.main([*blocks, *slice_of, str(out / "rl.zip")]) == 1
        killed = first.result(timeout=1)
    said = capfd.readouterr().out
    assert f"{killed} was killed (signal 9)" in said
    assert said.endswith("1 cell of 3 to do, 0 given up; 1 failed in this slice\n")
    assert study.main([*blocks, *slice_of, str(out / "rl.zip")]) == 0
    said = capfd.readouterr().out
    assert [line.split()[0] for line in said.splitlines() if " begins, " in line] == [killed], "all others are finished"
    assert said.endswith("0 cells of 3 to do, 0 given up\n")

    ledger = read_rows(out / "ledger.csv")
    assert Counter(row["ended"] for row in ledger) == {"finished": 6, "killed": 1}
    home = tmp_path / "home"
    monkeypatch.setenv("RMLAB_RUNS", str(home / "runs"))
    monkeypatch.setenv(PLAN, str(home / "plan"))
    shutil.copytree(plan, home / "plan", ignore=shutil.ignore_patterns("ledger.csv", "fitted.csv", "design.csv"))
    for name in ("ledger.csv", "fitted.csv", "design.csv"):
        shutil.copy(out / name, home / "plan")
    for name in ("rl.zip", "verifiers.zip"):
        import_bundle(out / name, Store.open(None), show=False)
    assert study.main(["--dry-run"]) == 0
    assert capfd.readouterr().out.count("finished  ") == 6
    assert study.main(["--minutes", "0", "--bundle", str(home / "plan" / "runs.zip"), "--page"]) == 0
    assert capfd.readouterr().out.endswith(
        "6 runs in {}\n0 cells of 6 to do, 0 given up\n".format(home / "plan" / "runs.zip")
    )
    assert read_rows(home / "plan" / "ledger.csv") == ledger, "what came home is known by the ledger"
    figures = ["foretelling", "two_verifiers", "equal_ranks", "rl_by_reward", "rl_benchmarks"]
    drawn = [
        draw_figures(figures, source, tmp_path / name)
        for source, name in ((str(home / "plan" / "runs.zip"), "page"), (None, "store"))
    ]
    answers = [next(path for path in paths if path.name == "foretelling.md").read_text() for paths in drawn]
    assert answers[0] == answers[1]
    assert "**Runs.** 1 of 1 execution_free" in answers[0]
    assert answers[0].endswith("Nothing was left out.\n")

    with source_runs(str(home / "plan" / "runs.zip"), ("verifier", "rl")) as (_, runs):
        [paid] = [run for run in policy_runs(runs) if run.run.name == sloped["name"]]
        assert paid.paid_by is not None
        plain = report(read_score_table(paid.paid_by.artifact("scores.parquet")), replicates=0)
        assert paid.verifier_report["auc_within_task"] == pytest.approx(plain["auc_within_task"])
        assert paid.verifier_report["ece_width_10"] != pytest.approx(plain["ece_width_10"])
        one = read_study([paid]).taken[sloped["name"]]
        assert np.mean(list(one.rates.values())) == pytest.approx(one.outcome)
        [row] = [row for row in read_rows(plan / "design.csv") if row["name"] == sloped["verifier"]]
        assert one.verifier["ece_width_10"] == pytest.approx(float(row["ece_width_10"])), "the check saw what was paid"
        assert one.verifier["run_id"] == paid.run.run_id


def small_pool(path: Path) -> Path:
    """Some tasks of each part of the shipped attempts with all of their attempts: each verifier would read 26,000."""
    whole, few = read_trajectories(STARTER / "trajectories.parquet"), set[str]()
    for part, number in (("supervised", 40), ("verifier", 120), ("validation", 8), ("evaluation", 80)):
        few.update(sorted({t.task_id for t in whole.trajectories if t.split == part})[:number])
    write_trajectories(path, [t for t in whole.trajectories if t.task_id in few], whole.metadata)
    return path


def killed_after_a_step(runs_folder: Path, begun: Sequence[tuple[Sequence[str], ForkedCommand]]) -> str:
    """Kills the first run of RL that has a state; returns its name."""
    while not list(runs_folder.glob("cells/*/state.safetensors")):
        time.sleep(0.05)
    for words, process in begun:
        if "rl" in words and process.poll() is None:
            process.kill()
            return next(word.partition("=")[2] for word in words if word.startswith("tracking.name="))
    raise AssertionError("no run of RL is under way")
