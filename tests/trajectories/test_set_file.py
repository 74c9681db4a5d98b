"""A folder where a set is wanted is called a folder, in every command, with what helps."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmlab.errors import DataError
from rmlab.microswe.task import read_tasks
from rmlab.paths import STARTER
from rmlab.planning.assumed import read_texts
from rmlab.selection.pool import read_index
from rmlab.trajectories.set_file import check_set_file, unreadable
from rmlab.trajectories.store import read_count, read_trajectories
from rmlab.verifiers.dataset import validated_pool
from tests.command_line import rmlab_here


@pytest.mark.parametrize("read", [read_trajectories, read_count, read_index, validated_pool, read_texts])
def test_a_folder_is_called_a_folder_wherever_a_set_is_read(read: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        read(tmp_path)
    assert str(refused.value) == (
        f"{tmp_path} is a folder, not a file. `rmlab import auto {tmp_path} -o set.parquet` makes a set of the attempts in it."
    )
    with pytest.raises(DataError, match=r"nowhere: there is no such file\. `rmlab collect`"):
        read(tmp_path / "nowhere")


def test_a_set_in_the_folder_is_named_and_tasks_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "set.parquet").touch()
    with pytest.raises(DataError, match=r"is a folder, not a file\. Name a set in it, e\.g\. .*/set\.parquet\.$"):
        check_set_file(tmp_path)
    with pytest.raises(DataError, match=r"is a folder, not a file\. Name the tasks file in it\.$"):
        read_tasks(tmp_path)


def test_a_file_that_cannot_be_read_is_no_other_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set.jsonl"
    assert str(unreadable(path, FileNotFoundError(errno.ENOENT, "No such file or directory"))) == (
        f"{path} cannot be read: No such file or directory."
    )
    path.write_text("{}")
    assert (
        str(unreadable(path, OSError(errno.EIO, "Input/output error"))) == f"{path} cannot be read: Input/output error."
    )
    assert "in another format" in str(unreadable(path, OSError("Parquet magic bytes not found")))

    def refused(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    assert str(unreadable(path, OSError("it is damaged"))) == f"{path} cannot be read: Permission denied."


@pytest.mark.parametrize(
    "command",
    [
        ("train", "preset=smoke", "data.path={folder}"),
        ("score", "--model", STARTER / "base", "-o", "{folder}/scores.parquet", "{folder}"),
        ("browse", "{folder}/t.csv", "{folder}", "-o", "{folder}/page.html"),
        ("evaluate", "{folder}/t.csv", "--trajectories", "{folder}"),
    ],
    ids=lambda command: command[0],
)
def test_the_commands_say_it_too(command: tuple[str | Path, ...], tmp_path: Path, runs_folder: Path) -> None:
    (tmp_path / "t.csv").write_text("trajectory_id,score\na,0.5\n")
    code, _, err = rmlab_here(*(str(word).format(folder=tmp_path) for word in command))
    assert code == 1
    assert f"{tmp_path} is a folder, not a file. `rmlab import auto {tmp_path} -o set.parquet`" in err
