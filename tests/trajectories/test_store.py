from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmlab.errors import DataError
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import TrajectorySet, read_trajectories, write_trajectories


def trajectory(attempt=0, **changes):
    base = Trajectory(
        task_id="t1",
        cluster="c1",
        source="stdlib",
        policy="sweeper",
        attempt=attempt,
        messages=(Message("user", "f(1) should return 2 but got 3"), Message("assistant", "submit")),
        patch="-    return x\n+    return x + 1\n",
        exit_status="submitted",
        resolved=True,
        label_source="hidden tests",
        split="verifier",
        extra={"lines": [2]},
    )
    return replace(base, **changes)


def test_round_trip_keeps_every_field_and_three_kinds_of_label(tmp_path):
    pool = [
        trajectory(0),
        trajectory(1, resolved=None, label_source=None),
        trajectory(2, resolved=False, patch=None, exit_status="unfinished"),
    ]
    written = write_trajectories(tmp_path / "set.parquet", pool, {"command": "rmlab collect", "seed": "0"})
    read = read_trajectories(tmp_path / "set.parquet")
    assert read.trajectories == tuple(pool)
    assert [t.resolved for t in read.trajectories] == [True, None, False]
    assert read.metadata == {"command": "rmlab collect", "seed": "0"}
    assert read.fingerprint == written.fingerprint


def test_identity_is_what_was_done_not_how_it_ended():
    assert trajectory(resolved=False).trajectory_id == trajectory().trajectory_id
    assert trajectory(attempt=1).trajectory_id != trajectory().trajectory_id
    assert trajectory(attempt=1).content_id == trajectory().content_id
    assert trajectory(patch=None).trajectory_id != trajectory().trajectory_id


def test_fingerprint_of_a_pool_ignores_order_and_sees_labels():
    a, b = trajectory(0), trajectory(1)
    assert TrajectorySet((a, b), {}).fingerprint == TrajectorySet((b, a), {}).fingerprint
    assert TrajectorySet((a, b), {}).fingerprint != TrajectorySet((a, replace(b, resolved=False)), {}).fingerprint


def test_only_the_parts_asked_for(tmp_path):
    write_trajectories(tmp_path / "set.parquet", [trajectory(0), trajectory(1, split="evaluation")])
    assert [t.split for t in read_trajectories(tmp_path / "set.parquet", ["evaluation"]).trajectories] == ["evaluation"]


def test_a_repeated_attempt_is_refused(tmp_path):
    with pytest.raises(DataError, match="occurs 2 times"):
        write_trajectories(tmp_path / "set.parquet", [trajectory(), trajectory()])
    assert not list(tmp_path.iterdir())


def test_an_altered_label_is_seen(tmp_path):
    path = tmp_path / "set.parquet"
    write_trajectories(path, [trajectory()])
    table = pq.read_table(path)
    flipped = table.set_column(table.column_names.index("resolved"), "resolved", [[False]])
    pq.write_table(flipped, path)
    with pytest.raises(DataError, match="labels or parts were modified"):
        read_trajectories(path)


def test_an_altered_message_is_seen(tmp_path):
    path = tmp_path / "set.parquet"
    write_trajectories(path, [trajectory()])
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("patch"), "patch", [["+ other"]]), path)
    with pytest.raises(DataError, match="is not the hash of its content"):
        read_trajectories(path)


def test_what_many_attempts_say_is_held_once(tmp_path):
    path = tmp_path / "set.parquet"
    written = write_trajectories(path, [trajectory(i) for i in range(3)])
    read = read_trajectories(path)
    assert read.trajectories == written.trajectories
    assert len({id(t.messages[0]) for t in read.trajectories}) == 1 < len({id(t) for t in read.trajectories})


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense PAR1", b"task_id,score\n"])
def test_a_file_that_is_no_parquet_is_named(tmp_path, content):
    path = tmp_path / "broken.parquet"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"broken.parquet is not a readable Parquet file"):
        read_trajectories(path)


def test_a_cut_off_file_is_named(tmp_path):
    path = tmp_path / "set.parquet"
    write_trajectories(path, [trajectory(i) for i in range(50)])
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_trajectories(path)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("messages", [None], "row 1: messages is null"),
        ("messages", [[None]], "row 1: "),
        ("extra", ["{"], "row 1: Expecting property name"),
        ("split", ["train"], "row 1: split 'train'"),
    ],
)
def test_a_row_that_is_no_trajectory_is_named(tmp_path, column, values, words):
    path = tmp_path / "set.parquet"
    write_trajectories(path, [trajectory()])
    table = pq.read_table(path)
    index = table.column_names.index(column)
    pq.write_table(
        table.set_column(index, table.schema.field(index), pa.array(values, table.schema.field(index).type)), path
    )
    with pytest.raises(DataError, match=words):
        read_trajectories(path)


@pytest.mark.parametrize(("field", "value"), [("exit_status", "done"), ("split", "train")])
def test_words_outside_the_vocabulary_are_refused(field, value):
    with pytest.raises(DataError, match=f"{field} '{value}'"):
        trajectory(**{field: value})
