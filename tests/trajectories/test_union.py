"""Sets that were collected in pieces become one; what does not belong together is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rmlab.commands.trajectories import join
from rmlab.errors import DataError, UsageError
from rmlab.trajectories.parts import union
from rmlab.trajectories.store import read_trajectories, write_trajectories
from tests.verifiers.examples import episodes

RULES = {"tasks_fingerprint": "f00d", "environment": "final", "edits": "start_over", "max_turns": "14"}


def written(path: Path, policy: str, part: str = "verifier", first: int = 0, **rules: str) -> Path:
    rows = [replace(t, policy=policy) for t in episodes(4, part, first, 2)]
    write_trajectories(path, rows, {**RULES, "command": f"rmlab collect {policy}", **rules})
    return path


def test_two_sets_become_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cool, hot = written(tmp_path / "cool.parquet", "cool"), written(tmp_path / "hot.parquet", "hot")
    join([cool, hot], tmp_path / "both.parquet")
    both, parts = read_trajectories(tmp_path / "both.parquet"), [read_trajectories(cool), read_trajectories(hot)]
    assert {t.trajectory_id for t in both.trajectories} == {
        t.trajectory_id for pool in parts for t in pool.trajectories
    }
    assert len(both) == 16
    assert {key: both.metadata[key] for key in RULES} == RULES
    assert [one["fingerprint"] for one in json.loads(both.metadata["sets"])] == [pool.fingerprint for pool in parts]
    assert "cool 8, hot 8" in capsys.readouterr().out


def test_an_attempt_that_stands_in_two_sets_is_refused(tmp_path: Path) -> None:
    one, again = written(tmp_path / "a.parquet", "cool"), written(tmp_path / "b.parquet", "cool")
    with pytest.raises(DataError, match="occurs 2 times"):
        union([one, again])


def test_no_set_that_is_read_is_written_over(tmp_path: Path) -> None:
    cool, hot = written(tmp_path / "cool.parquet", "cool"), written(tmp_path / "hot.parquet", "hot")
    with pytest.raises(UsageError, match=r"cool\.parquet is also an input"):
        join([cool, hot], cool)


@pytest.mark.parametrize("key", sorted(RULES))
def test_sets_of_other_tasks_or_rules_are_refused(key: str, tmp_path: Path) -> None:
    one, other = written(tmp_path / "a.parquet", "cool"), written(tmp_path / "b.parquet", "hot", **{key: "another"})
    with pytest.raises(DataError, match=f"differ in {key} .*a.parquet says {RULES[key]}, b.parquet says another"):
        union([one, other])


def test_parts_that_share_a_cluster_are_refused(tmp_path: Path) -> None:
    one, other = written(tmp_path / "a.parquet", "cool"), written(tmp_path / "b.parquet", "hot", part="evaluation")
    with pytest.raises(DataError, match="evaluation and verifier"):
        union([one, other])
