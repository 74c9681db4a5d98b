"""Sets of rows, one attempt a row: JSON lines, Parquet, Arrow. Every row is an attempt or is counted with its reason."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rmlab.trajectories.ingest.drafts import Spool
from rmlab.trajectories.ingest.reading import Importer, ImportOptions


def test_rows_that_name_no_task_are_told_apart_by_their_issue(tmp_path: Path, importing) -> None:
    talks = [
        [{"role": "user", "content": issue}, {"role": "assistant", "content": f"ok {n}"}]
        for n, issue in enumerate("aab")
    ]
    rows = [{"messages": talk} for talk in talks]
    (tmp_path / "sft.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = importing(tmp_path / "sft.jsonl")
    assert (found.summary["trajectories"], found.summary["tasks"]) == (3, 2)


def test_nested_columns_may_be_texts_and_a_saved_data_set_is_arrow(tmp_path: Path, importing) -> None:
    talk = [
        {"role": "user", "content": "Fix x."},
        {"role": "assistant", "content": "ok"},
        {"role": "alien", "content": "?"},
    ]
    row = {
        "instance_id": "o__n-1",
        "messages": json.dumps(talk),
        "eval_logs": "SECRET",
        "input_ids": [1, 2],
        "resolved": 1,
    }
    row |= {"metadata": json.dumps({"teacher_model": "m", "model_patch": "d", "reference_patch": "SECRET"})}
    other = {"instance_id": "o__n-2", "messages": json.dumps([*talk, talk[1]]), "resolved": -1}
    table = pa.Table.from_pylist([row, {**row, **other}])
    with (
        pa.OSFile(str(tmp_path / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=1)
    found = importing(tmp_path)
    assert [(t.policy, t.patch, t.resolved) for t in found.trajectories] == [("m", "d", True), ("m", "d", None)]
    assert found.summary["removed"] == {"turn of an unknown role": 2, "column reference_patch": 2}
    (tmp_path / "cut.arrow").write_bytes((tmp_path / "data-00000-of-00001.arrow").read_bytes()[:900])
    assert importing(tmp_path).summary["skipped"] == {"not readable Arrow": 1}


def test_a_table_without_rows_counts_as_an_empty_file(tmp_path: Path, importing) -> None:
    pq.write_table(pa.table({"messages": pa.array([], pa.string())}), tmp_path / "set.parquet")
    assert importing(tmp_path).summary["skipped"] == {"empty file": 1}


def test_no_altered_byte_of_a_footer_hides_rows(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "Fix x."}, {"role": "assistant", "content": "ok"}]
    path = tmp_path / "set.parquet"
    rows = [{"messages": json.dumps(talk), "instance_id": f"o__n-{n}", "patch": str(n)} for n in range(3)]
    pq.write_table(pa.Table.from_pylist(rows), path, store_schema=False)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    for at in range(len(whole) - 8 - footer, len(whole)):
        for flip in (1, 0x80):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            importer = Importer(ImportOptions(), Spool())
            importer.read(path)
            importer.imported.spool.close()
            assert len(importer.imported.drafts) == 3 or sum(importer.imported.skipped.values()), (at, flip)


def test_every_row_of_no_format_counts(tmp_path: Path, importing) -> None:
    good = {
        "instance_id": "o__n-1",
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "ok"}],
    }
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in (good, {"a": 1}, {"a": 2}, {"a": 3})))
    found = importing(tmp_path / "rows.jsonl").summary
    assert (found["trajectories"], found["skipped"]) == (1, {"no known format": 3})
    assert found["places"]["skipped"] == ["rows.jsonl:2: no known format"]
