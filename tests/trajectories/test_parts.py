"""A set in the making: files of finished attempts, and the set that they are in the end."""

import random
from collections import Counter

import pytest

from rmlab.errors import DataError
from rmlab.trajectories import parts as module
from rmlab.trajectories.parts import TrajectoryParts
from rmlab.trajectories.record import SPLITS, Message, Trajectory
from rmlab.trajectories.store import read_trajectories, write_trajectories


def trajectory(n: int, label: bool | None = True) -> Trajectory:
    return Trajectory(
        task_id=f"task {n // 4 % 7}",
        cluster=f"c{n % 3}",
        source="stdlib",
        policy=("sweeper", "b")[n % 2],
        attempt=n,
        messages=(Message("user", f"f({n}) should return 2 but got 3"), Message("assistant", "submit")),
        patch=None if n % 5 == 0 else "1- a\n1+ b",
        exit_status="submitted",
        resolved=label,
        label_source=None if label is None else "hidden tests",
        split=SPLITS[n % 4],
        extra={"lines": [n]},
    )


MADE = [trajectory(n, (True, False, None)[n % 3]) for n in range(60)]


@pytest.mark.parametrize("rows", [7, 2048])
def test_the_set_is_the_one_that_would_be_written_at_once(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(module, "MOST", rows)
    monkeypatch.setattr(module, "OPEN", 2)
    whole = write_trajectories(tmp_path / "whole.parquet", MADE, {"seed": "0"})
    made = random.Random(0).sample(MADE, len(MADE))
    for writer, own in (("a", made[:20]), ("b", made[20:])):
        kept = TrajectoryParts(tmp_path / "kept", writer)
        for one in own:
            kept.add(one)
        kept.flush()
    assert len(kept) == 60
    written = kept.write(tmp_path / "set.parquet", {"seed": "0"})
    assert (tmp_path / "set.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert (written.fingerprint, len(written), written.resolved_rate) == (whole.fingerprint, 60, 0.5)
    assert written.counts == Counter((t.split, t.policy, t.resolved) for t in MADE)


def test_nothing_is_lost_between_processes(tmp_path):
    first = TrajectoryParts(tmp_path)
    first.add(MADE[0])
    first.flush()
    second = TrajectoryParts(tmp_path)
    second.add(MADE[1])
    second.flush()
    assert TrajectoryParts(tmp_path).finished() == {("task 0", "sweeper"): {0}, ("task 0", "b"): {1}}
    assert [len(read_trajectories(path)) for path in second.files()] == [1, 1]


def test_what_cannot_be_a_set_is_refused(tmp_path):
    kept = TrajectoryParts(tmp_path / "kept")
    for one in (MADE[0], MADE[1], MADE[0]):
        kept.add(one)
        kept.flush()
    with pytest.raises(DataError, match="1 attempts are stored twice"):
        kept.write(tmp_path / "set.parquet", {})
    kept.files()[0].write_bytes(b"no")
    with pytest.raises(DataError, match=r"damaged .* the same command collects its attempts again"):
        kept.finished()
    assert not (tmp_path / "set.parquet").exists()
