"""Archives, kind and hostile: everything is read or refused with a reason, and nothing is written anywhere."""

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from rmlab.errors import DataError
from rmlab.trajectories.ingest.containers import batches
from rmlab.trajectories.ingest.entries import ImportLimits, SourceFile
from rmlab.trajectories.ingest.locations import roots
from rmlab.trajectories.ingest.skipped import Skipped

FILES = {"run/a.json": b'{"a": 1}', "run/b/c.jsonl": b'{"b": 1}\n{"b": 2}\n', "é ü.txt": "ä".encode()}


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tarred(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def zst(path: Path, files: dict[str, bytes]) -> Path:
    plain = tarred(path.with_suffix(".plain"), files).read_bytes()
    with pa.OSFile(str(path), "wb") as raw, pa.CompressedOutputStream(raw, "zstd") as stream:
        stream.write(plain)
    return path


def folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


MAKERS: dict[str, Callable[[Path], Path]] = {
    "x.zip": lambda p: zipped(p, FILES),
    "x.tar": lambda p: tarred(p, FILES),
    "x.tar.gz": lambda p: tarred(p, FILES, "w:gz"),
    "x.tgz": lambda p: tarred(p, FILES, "w:gz"),
    "x.tar.zst": lambda p: zst(p, FILES),
    "x.tar.bz2": lambda p: tarred(p, FILES, "w:bz2"),
    "x.tar.xz": lambda p: tarred(p, FILES, "w:xz"),
    "folder": lambda p: folder(p, FILES),
}


def listed(path: Path, limits: ImportLimits | None = None) -> tuple[dict[str, bytes], dict[str, str]]:
    """Contents of what can be read, and reasons of what cannot."""
    read, refused = {}, {}
    for batch in batches(path, limits):
        for one in batch:
            if isinstance(one, Skipped):
                refused[one.location.path or str(one.location)] = one.reason
            else:
                try:
                    read[one.location.path] = one.read()
                except Skipped as reason:
                    refused[one.location.path] = str(reason)
    return read, refused


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


NO_MEMBER = "link (leads to no file of the archive)"


def test_links_and_devices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        for kind, name in (
            (tarfile.SYMTYPE, "s"),
            (tarfile.LNKTYPE, "l"),
            (tarfile.CHRTYPE, "c"),
            (tarfile.FIFOTYPE, "f"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
    assert listed(path) == ({}, {"c": "not a plain file", "f": "not a plain file", "l": NO_MEMBER, "s": NO_MEMBER})
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        info = zipfile.ZipInfo("s")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    assert listed(tmp_path / "x.zip") == ({}, {"s": NO_MEMBER})
    here = folder(tmp_path / "here", {"a.json": b"{}"})
    (here / "file.json").symlink_to("/etc/passwd")
    (here / "folder").symlink_to(tmp_path)
    (here / "round").symlink_to(here)
    os.mkfifo(here / "pipe")
    assert listed(here) == (
        {"a.json": b"{}"},
        {
            "file.json": f"link (leads out of the folder that was named, to {Path('/etc/passwd').resolve()}: name that too)",
            "folder": "link (to a folder: name that folder to read it)",
            "round": "link (to a folder: name that folder to read it)",
            "pipe": "not a plain file",
        },
    )


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_links_to_members_are_followed_and_others_named(tmp_path: Path, kind: str) -> None:
    files = {"run/a.json": b"{}", "hub/blobs/9f": b"[]", "hub/blobs/8e": b"1"}
    links = {
        "hub/snapshots/0/train.json": "../../blobs/9f",
        "run/again.json": "./a.json",
        "run/twice.json": "again.json",
        "run/out.json": "../../a.json",
        "run/whole.json": "/run/a.json",
        "run/gone.json": "b.json",
        "run/self.json": "self.json",
        "run/ping.json": "pong.json",
        "run/pong.json": "ping.json",
    }
    path = tmp_path / f"x.{kind}"
    if kind == "tar":
        with tarfile.open(path, "w") as archive:
            for name, target in links.items():
                info = tarfile.TarInfo(name)
                info.type, info.linkname = tarfile.SYMTYPE, target
                archive.addfile(info)
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
            info = tarfile.TarInfo("run/hard.json")
            info.type, info.linkname = tarfile.LNKTYPE, "run/a.json"
            archive.addfile(info)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
            for name, target in links.items():
                info = zipfile.ZipInfo(name)
                info.external_attr = 0o120777 << 16
                archive.writestr(info, target)
    read = {"run/a.json": b"{}", "run/again.json": b"{}", "run/twice.json": b"{}"}
    read |= {"hub/snapshots/0/train.json": b"[]", "hub/blobs/8e": b"1"}
    read |= {"run/hard.json": b"{}"} if kind == "tar" else {}
    named = ("out", "whole", "gone", "self", "ping", "pong")
    with_links = []
    for batch in batches(path):
        with_links += [(one.location.path, one.read()) for one in batch if isinstance(one, SourceFile)]
        assert {one.location.path: one.reason for one in batch if isinstance(one, Skipped)} == {
            f"run/{name}.json": NO_MEMBER for name in named
        }
    assert with_links == sorted(read.items())


def test_what_links_repeat_counts_as_what_is_unpacked_does(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        info = tarfile.TarInfo("a.json")
        info.size = 100
        archive.addfile(info, io.BytesIO(b" " * 100))
        for number in range(4):
            info = tarfile.TarInfo(f"l{number}.json")
            info.type, info.linkname = tarfile.SYMTYPE, "a.json"
            archive.addfile(info)
    read, refused = listed(tmp_path / "x.tar", ImportLimits(total=300))
    assert sorted(read) == ["a.json", "l0.json", "l1.json"]
    assert {reason[:14] for reason in refused.values()} == {"over the limit"}


def test_links_to_files_inside_are_followed_and_others_named(tmp_path: Path) -> None:
    here = folder(tmp_path / "here", {"a.json": b"{}", "deep/b.json": b"[]"})
    (tmp_path / "here2").mkdir()  # begins like the folder that is named
    (tmp_path / "here2" / "c.json").write_bytes(b"1")
    for name, target in (
        ("whole.json", here / "deep" / "b.json"),
        ("relative.json", "deep/../a.json"),
        ("twice.json", "whole.json"),
        ("out.json", "../here2/c.json"),
        ("nowhere.json", "gone.json"),
        ("self.json", "self.json"),
        ("device.json", "/dev/zero"),
    ):
        (here / name).symlink_to(target)
    read, refused = listed(here)
    assert read == {
        "a.json": b"{}",
        "deep/b.json": b"[]",
        "whole.json": b"[]",
        "relative.json": b"{}",
        "twice.json": b"[]",
    }
    assert refused == {
        "out.json": f"link (leads out of the folder that was named, to {(tmp_path / 'here2' / 'c.json').resolve()}: name that too)",
        "nowhere.json": "link (leads nowhere)",
        "self.json": "link (leads nowhere)",
        "device.json": "link (to no plain file)",
    }


def test_the_cache_of_a_hub_is_read_once_by_the_names_of_its_links(tmp_path: Path, importing) -> None:
    cache = tmp_path / "hub" / "datasets--o--n"
    snapshot = cache / "snapshots" / "0123abc" / "data"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0123abc")
    for number in range(2):
        said = [{"role": "user", "content": f"Fix {number}."}, {"role": "assistant", "content": "ok"}]
        row = {"instance_id": f"o__n-{number}", "model": "m", "messages": said}
        (cache / "blobs" / f"9f{number}").write_text(json.dumps(row))
        (snapshot / f"train-{number}.jsonl").symlink_to(f"../../../blobs/9f{number}")
    for named in (tmp_path / "hub", cache, snapshot.parent, snapshot):
        found = importing(named).summary
        assert (found["trajectories"], found["duplicates"], found["tasks"]) == (2, 0, 2), named
        assert "link" not in found["skipped"]
    link = tmp_path / "link"
    link.symlink_to(snapshot.parent)
    assert importing(link).summary["trajectories"] == 2


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
            "an earlier member of a name that stands again in the archive",
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


def test_a_ring_of_links_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert roots([tmp_path / "a", tmp_path / "c"]) == ["a", "c"]
    with pytest.raises(DataError, match="there is no such file or folder"):
        list(batches(tmp_path / "a"))


def test_a_link_goes_by_its_own_name(tmp_path: Path, importing) -> None:
    (tmp_path / "blobs").mkdir()
    document = {
        "info": {"mini_version": "1"},
        "messages": [{"role": "user", "content": "Fix it."}, {"role": "assistant", "content": "ok"}],
    }
    (tmp_path / "blobs" / "9f3c").write_text(json.dumps(document))
    link = tmp_path / "o__n-1.traj.json"
    link.symlink_to(tmp_path / "blobs" / "9f3c")
    assert [t.task_id for t in importing(link).trajectories] == ["o__n-1"]
    assert roots([link, tmp_path / "x" / "o__n-1.traj.json"]) == [
        f"{tmp_path.name}/o__n-1.traj.json",
        "x/o__n-1.traj.json",
    ]


def test_nothing_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        listed(tmp_path / "nope")
