"""Hostile archives: everything is read or refused with a reason, and nothing is written anywhere."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rmlab.errors import DataError
from rmlab.trajectories.ingest.containers import batches
from rmlab.trajectories.ingest.entries import ImportLimits
from rmlab.trajectories.ingest.skipped import Skipped
from tests.trajectories.archives import FILES, MAKERS, folder, listed, tarred, zipped

HOSTILE = ["../out.json", "/etc/passwd", "a/../../out.json", "..\\out.json", "C:\\x.json"]


@pytest.mark.parametrize("maker", [zipped, tarred], ids=["zip", "tar"])
def test_names_that_leave_the_archive_are_refused(maker: Callable[..., Path], tmp_path: Path) -> None:
    path = maker(
        tmp_path / ("x.zip" if maker is zipped else "x.tar"), {**dict.fromkeys(HOSTILE, b"{}"), "ok.json": b"{}"}
    )
    before = sorted(tmp_path.rglob("*"))
    read, refused = listed(path)
    assert list(read) == ["ok.json"]
    assert set(refused.values()) == {"path leaves the archive"}
    assert len(refused) == len({name.replace("\\", "/") for name in HOSTILE})
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_members_of_one_name_the_last_is_read_and_the_other_counted(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for text in ("1", "2"):
            archive.writestr("a.json", text)
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for text in (b"1", b"2"):
            info = tarfile.TarInfo("a.json")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    for name in ("x.zip", "x.tar"):
        (batch,) = batches(tmp_path / name)
        kinds = [one.reason if isinstance(one, Skipped) else "read" for one in batch]
        assert [kind.split(" (")[0] for kind in kinds] == [
            "an earlier member whose name occurs again in the archive",
            "read",
        ]
        assert listed(tmp_path / name)[0] == {"a.json": b"2"}


def test_bombs_are_refused_and_the_reason_says_what_to_do(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"bomb.json": bytes(3_000_000), "ok.json": b"{}", "z.json": b"[]"})
    small = ImportLimits(ratio_from=1_000_000)
    read, refused = listed(path, small)
    assert list(read) == ["ok.json", "z.json"]
    assert refused == {
        "bomb.json": "unpacks to over 300 times its size: unpack it yourself and import the folder if it is meant"
    }
    assert "1 MB for one document" in listed(path, ImportLimits(document=1 << 20))[1]["bomb.json"]
    assert "unpack it yourself" in listed(path, ImportLimits(member=1 << 20))[1]["bomb.json"]
    assert set(listed(path, ImportLimits(total=3_000_001))[1]) == {"ok.json", "z.json"}
    assert set(listed(path, ImportLimits(members=1))[1]) == {"ok.json", "z.json"}
    tar = tarred(tmp_path / "x.tar.gz", {"bomb.json": bytes(3_000_000), "ok.json": b"{}"}, "w:gz")
    assert "unpack it yourself" in listed(tar, ImportLimits(member=1 << 20))[1]["bomb.json"]
    assert set(listed(tar, ImportLimits(total=1 << 20))[1]) == {"bomb.json"}


def test_a_zip_that_lies_about_a_size_gives_no_more_than_it_says(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.zip", {"a.json": b"x" * 5000})
    data = bytearray(path.read_bytes())
    for size in (i for i in range(len(data)) if data[i : i + 4] == (5000).to_bytes(4, "little")):
        data[size : size + 4] = (100).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    read, refused = listed(path)
    assert (read, list(refused)) == ({}, ["a.json"])


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz", "x.tar.zst", "x.tar.bz2", "x.tar.xz"])
def test_a_cut_archive_says_so_and_gives_what_stands_before(name: str, tmp_path: Path) -> None:
    path = MAKERS[name](tmp_path / name)
    whole = path.read_bytes()
    for cut in (0, 1, 10, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:cut])
        try:
            read, refused = listed(path)
        except DataError as error:
            read, refused = {}, {name: str(error)}
        assert read.items() <= FILES.items()
        assert read == FILES or any(
            "not a readable archive" in reason or "archive ends early" in reason for reason in refused.values()
        )


def test_a_damaged_archive_in_a_folder_does_not_stop_the_rest(tmp_path: Path) -> None:
    here = folder(tmp_path / "here", {"a.zip": b"PK nothing", "b.json": b"{}"})
    read, refused = listed(here)
    assert read == {"b.json": b"{}"}
    assert refused["a.zip"].startswith("not a readable archive")
