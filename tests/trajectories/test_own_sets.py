"""Sets that rmlab wrote are read again without a change, whatever they hold."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rmlab.commands.import_trajectories import import_trajectories
from rmlab.paths import STARTER
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import iterate_trajectories, read_metadata, read_trajectories, write_trajectories

SAID = (Message("user", "Fix x."), Message("assistant", "Done.\n```bash\nls\n```"), Message("user", ""))
ONE = Trajectory(
    task_id="o__n-1",
    cluster="a cluster",
    source="a source",
    policy="Vendor/Model A",
    attempt=0,
    messages=SAID,
    patch="+x",
    exit_status="unfinished",
    resolved=True,
    label_source="hidden tests",
    split="verifier",
    extra={"also": ["b"], "n": None},
)
# Each would be altered by a reader of other people's rows: copies, spellings, numbers, an empty end, names, fields of extra.
RECORDS = (
    ONE,
    replace(ONE, attempt=1),
    replace(ONE, attempt=7, resolved=False),
    replace(ONE, policy="vendor__model_a", split=None, extra={}),
    replace(ONE, task_id="o__n-2\n", patch=None, resolved=None, label_source=None, messages=SAID[:1]),
    replace(ONE, task_id="o__n-3", patch="", messages=(*SAID[:2], Message("tool", "+x")), exit_status="error"),
)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    write_trajectories(tmp_path / "own.parquet", RECORDS, {"command": "rmlab collect", "edits": "build_up"})
    return tmp_path / "own.parquet"


def test_nothing_changes(own: Path, importing) -> None:
    read, before = importing(own), read_trajectories(own)
    assert read.trajectories == before.trajectories  # in the same order, too
    assert [t.extra for t in read.trajectories] == [t.extra for t in before.trajectories]
    assert read.summary["formats"] == {"rmlab": 6}
    assert (read.summary["duplicates"], read.summary["conflicts"], read.summary["removed"]) == (0, 0, {})


def test_rows_as_json_lines_are_the_same_records(own: Path, tmp_path: Path, importing) -> None:
    rows = pq.read_table(own).to_pylist()
    rows[0]["extra"] = json.loads(rows[0]["extra"])
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert importing(tmp_path / "own.jsonl").trajectories == read_trajectories(own).trajectories


def test_the_shipped_trajectories_stay_as_they_are(tmp_path: Path, importing) -> None:
    records = [t for t, _ in zip(iterate_trajectories(STARTER / "trajectories.parquet"), range(300), strict=False)]
    pool = write_trajectories(tmp_path / "some.parquet", records)
    assert importing(tmp_path / "some.parquet").trajectories == pool.trajectories


def test_the_command_keeps_the_origin_and_the_fingerprint(own: Path, tmp_path: Path) -> None:
    import_trajectories("auto", [str(own)], tmp_path / "again.parquet")
    assert read_trajectories(tmp_path / "again.parquet").fingerprint == read_trajectories(own).fingerprint
    said = read_metadata(tmp_path / "again.parquet")
    assert said.pop("config_hash"), "of the import"
    assert said == {"command": "rmlab collect", "edits": "build_up"}


def test_sets_that_overlap_or_number_alike_are_joined(own: Path, tmp_path: Path, importing) -> None:
    other = replace(ONE, messages=(*SAID[:1], Message("assistant", "Otherwise.")))
    write_trajectories(tmp_path / "other.parquet", [ONE, other])
    row = {
        "instance_id": "o__n-1",
        "model": "Vendor/Model A",
        "messages": [asdict(m) for m in other.messages],
        "patch": "+x",
    }
    rows = [row, {**row, "messages": [{"role": "user", "content": "Fix x."}, {"role": "assistant", "content": "New."}]}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = importing(own, tmp_path / "other.parquet", tmp_path / "rows.jsonl")
    assert found.summary["duplicates"] == 2  # the record that both sets hold, and the row of which one was made
    same = [t for t in found.trajectories if (t.task_id, t.policy) == ("o__n-1", "Vendor/Model A")]
    assert sorted(t.attempt for t in same) == [0, 1, 2, 3, 7]
    assert {t.trajectory_id for t in RECORDS} < {t.trajectory_id for t in found.trajectories}


def test_an_altered_record_gets_the_identity_of_what_it_holds(own: Path, tmp_path: Path, importing) -> None:
    rows = pq.read_table(own).to_pylist()
    rows[0]["policy"] = "renamed"
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = importing(tmp_path / "own.jsonl")
    assert found.summary["policies"]["renamed"] == 1
    assert found.summary["removed"] == {"identity of an altered record": 1}
