"""A temporary folder is gone with its process, at the latest when the next one begins, and never while somebody uses it."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rmlab.scratch import BEGUN, LOCKED, _remove_left, scratch_folder

USES = """
import sys, time
from pathlib import Path
from rmlab.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    (folder / "inner").mkdir()
    (folder / "inner" / "file").write_text("used")
    print(folder, flush=True)
    time.sleep(3600)
"""


def test_it_is_empty_and_gone_with_the_block(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        assert list(folder.iterdir()) == []
        (folder / "file").touch()
    with pytest.raises(RuntimeError, match="half way"), scratch_folder(tmp_path) as folder:
        raise RuntimeError("half way")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    others = [
        subprocess.Popen([sys.executable, "-c", USES, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    dead = others[0]
    try:
        left, used = (Path(other.stdout.readline().strip()) for other in others if other.stdout is not None)
        dead.kill()
        dead.wait()
        assert left.is_dir()
        _remove_left.cache_clear()
        with scratch_folder(tmp_path) as own:
            assert {*tmp_path.iterdir()} == {used, own}
            _remove_left.cache_clear()
            with scratch_folder(tmp_path) as another:
                assert {*tmp_path.iterdir()} == {used, own, another}, "this process' own is in use as well"
        assert (used / "inner" / "file").read_text() == "used"
    finally:
        for other in others:
            other.kill()
            other.communicate()


def test_a_forked_process_holds_it_too(tmp_path: Path) -> None:
    """A command may end before the processes that it forked."""
    waits, ends = os.pipe()
    with scratch_folder(tmp_path) as folder:
        child = os.fork()
        if not child:
            os.close(ends)
            os.read(waits, 1)
            os._exit(0)
        kept = tmp_path / f"{LOCKED}moved"
        folder.rename(kept)  # as if its process had ended at once
    _remove_left.cache_clear()
    with scratch_folder(tmp_path):
        assert kept.is_dir()
    os.close(waits)
    os.close(ends)
    os.waitpid(child, 0)
    _remove_left.cache_clear()
    with scratch_folder(tmp_path):
        assert not kept.exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").touch()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / f"{LOCKED}x").symlink_to(tmp_path / "own")
    with scratch_folder(tmp_path / "there"):
        pass
    assert (tmp_path / "own" / "file").exists()


def test_folders_of_other_users_and_machines_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of their locks: some file systems that machines share tell only their own."""
    theirs, longer = tmp_path / "rmlab-scratch-elsewhere-x", tmp_path / f"{LOCKED}1-x"
    own = tmp_path / f"{LOCKED}x"
    for folder in (theirs, longer, own):
        folder.mkdir()
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with scratch_folder(tmp_path):
        assert own.is_dir()
    monkeypatch.undo()
    _remove_left.cache_clear()
    with scratch_folder(tmp_path):
        assert not own.exists()
    assert {*tmp_path.iterdir()} == {theirs, longer}


def test_without_locks_it_is_used_and_removed_by_its_own_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")  # as NFS says of a folder

    monkeypatch.setattr(fcntl, "flock", unsupported)
    (tmp_path / f"{LOCKED}x").mkdir()
    with scratch_folder(tmp_path) as folder:
        assert folder.name.startswith(BEGUN)
        assert folder.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == [f"{LOCKED}x"]
