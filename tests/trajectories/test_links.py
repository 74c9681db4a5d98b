"""Links in archives and in folders: those to files inside are followed, others are refused with a reason."""

import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from rmlab.errors import DataError
from rmlab.trajectories.ingest.containers import batches
from rmlab.trajectories.ingest.entries import ImportLimits, SourceFile
from rmlab.trajectories.ingest.locations import roots
from rmlab.trajectories.ingest.skipped import Skipped
from tests.trajectories.archives import folder, listed

NO_MEMBER = "link (to no file in the archive)"


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
            "file.json": f"link (leads outside the named folder, to {Path('/etc/passwd').resolve()}: name that too)",
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
        "out.json": f"link (leads outside the named folder, to {(tmp_path / 'here2' / 'c.json').resolve()}: name that too)",
        "nowhere.json": "link (leads nowhere)",
        "self.json": "link (leads nowhere)",
        "device.json": "link (not to a regular file)",
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
