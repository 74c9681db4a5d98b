"""Archives, folders and files that are packed by themselves give the same files, and say what is damaged."""

import bz2
import gzip
import json
import lzma
import os
from pathlib import Path

import pyarrow as pa
import pytest

from rmlab.errors import DataError
from rmlab.trajectories.ingest.containers import batches
from rmlab.trajectories.ingest.entries import SourceFile
from tests.trajectories.archives import FILES, MAKERS, folder, listed, tarred, zipped


@pytest.mark.parametrize("name", MAKERS)
def test_every_container_gives_the_same_files(name: str, tmp_path: Path) -> None:
    path = MAKERS[name](tmp_path / name)
    assert listed(path) == (FILES, {})
    for batch in batches(path):
        for one in batch:
            assert isinstance(one, SourceFile)
            with one.seekable() as stream:
                assert stream.read() == FILES[one.location.path] == b"".join(one.lines())
            assert (one.head(3), str(one.location)) == (FILES[one.location.path][:3], f"{name}/{one.location.path}")


def test_names_in_utf8_that_a_zip_does_not_mark_as_such(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"é ü.txt": b"x"})
    data = bytearray(path.read_bytes())
    for sign, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(sign) + flags
        assert data[at + 1] & 0x08
        data[at + 1] ^= 0x08
    path.write_bytes(bytes(data))
    assert listed(path) == ({"é ü.txt": b"x"}, {})


@pytest.mark.parametrize("ending", ["gz", "zst", "bz2", "xz"])
def test_files_that_are_packed_by_themselves(ending: str, tmp_path: Path, importing) -> None:
    talk = [{"role": "user", "content": "Fix x."}, {"role": "assistant", "content": "ok"}]
    rows = "".join(
        json.dumps({"messages": talk, "instance_id": f"o__n-{n}", "patch": str(n)}) + "\n" for n in range(3)
    ).encode()
    path = tmp_path / f"run.jsonl.{ending}"
    packed = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": lambda b: pa.Codec("zstd").compress(b, asbytes=True),
    }
    path.write_bytes(packed[ending](rows))
    found = importing(path)
    assert [(t.task_id, t.policy) for t in found.trajectories] == [
        ("o__n-0", "run"),
        ("o__n-1", "run"),
        ("o__n-2", "run"),
    ]
    whole = path.read_bytes()
    for cut in range(6, len(whole) - 1, 7):
        path.write_bytes(whole[:cut])
        damaged = importing(path).summary
        assert sum(damaged["skipped"].values()) == 1, (cut, damaged)


def test_archives_in_a_folder_are_opened_and_those_in_archives_are_not(tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", FILES).read_bytes()
    folder(
        tmp_path / "all",
        {
            "plain.json": b"{}",
            "b.zip": inner,
            "a.tar": tarred(tmp_path / "a.tar", {"deep.zip": inner, "x.json": b"[]"}).read_bytes(),
        },
    )
    read, refused = listed(tmp_path / "all")
    assert list(read) == ["plain.json", "a.tar/x.json", *(f"b.zip/{name}" for name in sorted(FILES))]
    assert refused == {"a.tar/deep.zip": "archive in an archive: unpack it and import the folder"}


def test_a_folder_that_cannot_be_read_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = folder(tmp_path / "here", {"a.json": b"{}", "shut/b.json": b"[]"})
    scan = os.scandir

    def scandir(path):
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert listed(here) == ({"a.json": b"{}"}, {"shut": "folder cannot be read (Permission denied)"})
    assert listed(here / "shut") == ({}, {"shut": "folder cannot be read (Permission denied)"})


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        listed(tmp_path / "nope")
