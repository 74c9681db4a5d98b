"""`evaluation.pools`: a verifier is judged on further sets of attempts, each with a report of its own."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, UsageError
from rmlab.metrics.report import report
from rmlab.scores.table import read_score_table
from rmlab.trajectories.store import write_trajectories
from tests.verifiers.examples import episodes
from tests.verifiers.test_programs import overrides, trained

STARTS = episodes(12, "evaluation", 3000, 4)
HACKED = [replace(t, policy="hacked", resolved=not t.resolved) for t in STARTS]
MAIN = "evaluation.policies=[hand]"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "two.parquet"
    own = [
        replace(t, policy="hand") for t in (*episodes(30, "supervised", 0, 1), *episodes(80, "verifier", 1000), *STARTS)
    ]
    write_trajectories(path, [*own, *HACKED], {"command": "by hand"})
    return path


@pytest.mark.slow
def test_each_pool_has_scores_and_a_report_of_its_own(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained(pool, tmp_path, monkeypatch, MAIN, "evaluation.pools={after_rl: [hacked], both: [hand, hacked]}")
    own = read_score_table(run.artifact("scores.parquet"))
    hacked = read_score_table(run.artifact("after_rl_scores.parquet"))
    assert set(own.policy) == {"hand"}
    assert set(hacked.policy) == {"hacked"}
    assert len(hacked.score) == 48
    said = json.loads(run.artifact("after_rl_report.json").read_text())
    assert said["auc_within_task"] == pytest.approx(report(hacked, replicates=0)["auc_within_task"])
    assert said["auc_within_task"] == pytest.approx(1 - run.metrics["eval/auc_within_task"]), (
        "labels are the other way round"
    )
    assert run.metrics["eval_after_rl/auc_within_task"] == pytest.approx(said["auc_within_task"])
    assert run.metrics["eval_both/trajectories"] == 96
    assert "oracle" in json.loads(run.artifact("both_baselines.json").read_text())


def test_no_pool_changes_no_hash_and_a_pool_does(pool: Path) -> None:
    identity = load_program("train_verifier").identity
    plain = identity(compose("train_verifier", overrides(pool, MAIN)))
    assert "pools" not in plain.parts["config"]["evaluation"]
    more = identity(compose("train_verifier", overrides(pool, MAIN, "evaluation.pools={after_rl: [hacked]}")))
    assert plain.config_hash != more.config_hash


@pytest.mark.parametrize(
    ("pools", "error", "words"),
    [
        ("{after_rl: [nobody]}", DataError, "evaluation.pools.after_rl.*no attempts of nobody.*hacked, hand"),
        ("{after_rl: []}", UsageError, "evaluation.pools.after_rl names no policy"),
        ("{After_RL: [hacked]}", UsageError, "lower-case letters, digits and underscores"),
        ("{validation: [hacked]}", UsageError, "and not validation, the name of the validation part"),
    ],
)
def test_a_pool_that_cannot_be(
    pool: Path, pools: str, error: type[Exception], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error, match=words):
        trained(pool, tmp_path, monkeypatch, MAIN, f"evaluation.pools={pools}")
