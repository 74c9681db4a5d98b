import errno
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from rmlab.errors import RmlabError, UsageError
from rmlab.files import MODEL, PAGE, PARQUET, atomic_folder, atomic_path, check_folder, check_output, write_text
from rmlab.fingerprint import canonical_json, fingerprint


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(RuntimeError, match="half way"), atomic_path(tmp_path / "a.txt") as path:
        path.write_text("new, but")
        raise RuntimeError("half way")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_killed_writer_leaves_no_folder_that_looks_whole(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from rmlab.files import atomic_folder\n"
        f"with atomic_folder(Path({str(tmp_path / 'checkpoint')!r})) as f:\n"
        "    (f / 'half').write_text('x'); print('ready', flush=True); time.sleep(3600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "checkpoint").exists()


def test_a_folder_is_replaced_whole(tmp_path):
    for text in ("first", "second"):
        with atomic_folder(tmp_path / "model") as folder:
            (folder / "weights").write_text(text)
    assert (tmp_path / "model" / "weights").read_text() == "second"
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RmlabError, match="cannot be written"):
        write_text(tmp_path / "file" / "below.txt", "x")


def test_fingerprints_are_the_same_in_another_process_and_folder(tmp_path):
    value = {"b": [1, 2.5, None, "ü"], "a": {"x": True}}
    code = f"from rmlab.fingerprint import fingerprint; print(fingerprint({value!r}))"
    environment = {**os.environ, "PYTHONHASHSEED": str(int(time.time()) % 1000)}
    other = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == fingerprint(dict(reversed(value.items())))
    assert len(fingerprint(value)) == 16


def test_a_value_that_json_cannot_hold_has_no_fingerprint():
    with pytest.raises(ValueError, match="Out of range"):
        canonical_json(float("nan"))


def test_a_name_that_no_file_can_have_is_one_error(tmp_path):
    with pytest.raises(RmlabError, match="cannot be written: File name too long"):
        write_text(tmp_path / ("x" * 300), "text")
    with (
        pytest.raises(RmlabError, match="cannot be written: File name too long"),
        atomic_folder(tmp_path / ("x" * 300)),
    ):
        pass


def after(error: Exception, behind: Exception) -> Exception:
    """The error that a writer meets when it tidies up after another."""
    error.__context__ = behind
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Not enough free space to write 80 bytes after offset 9"),
        after(zlib.error("inconsistent stream state"), OSError(errno.ENOSPC, "No space left on device")),
    ],
)
def test_a_full_disk_asks_for_room_and_leaves_nothing(tmp_path, error):
    for writing in (atomic_folder, atomic_path):
        with (
            pytest.raises(RmlabError, match=r"model cannot be written: N.*\. Free some space or"),
            writing(tmp_path / "model"),
        ):
            raise error
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_things_in_it_is_not_replaced(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    with (
        pytest.raises(
            UsageError, match=r"home is a folder with other things in it \(no config.json and tokenizer.json\)"
        ),
        atomic_folder(home, MODEL),
    ):
        raise AssertionError("nothing is begun")
    assert (home / "thesis.tex").read_text() == "years of work"
    for name in MODEL:
        (home / name).write_text("{}")
    with atomic_folder(home, MODEL) as folder:
        (folder / "config.json").write_text("new")
    assert (home / "config.json").read_text() == "new"
    for path, words in ((Path(), "empty"), (home / "config.json", "is a file")):
        with pytest.raises(UsageError, match=words):
            check_folder(path, MODEL)


def test_a_file_to_write_is_not_one_that_is_read(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("x")
    (tmp_path / "link.csv").symlink_to(table)
    check_output(tmp_path / "new" / "page.html", [table])
    check_output(table)
    check_output(tmp_path / "set.PARQUET", endings=PARQUET)
    for name in ("set", "set.v2"):
        check_output(tmp_path / name, endings=PARQUET)
        with pytest.raises(UsageError, match=rf"the file to write must end in .html, e.g. .*/{name}\.html"):
            check_output(tmp_path / name, endings=PAGE)
    with pytest.raises(
        UsageError, match=r"set.csv ends in .csv: the file to write must end in .parquet, e.g. .*/set\.p"
    ):
        check_output(tmp_path / "set.csv", endings=PARQUET)
    with pytest.raises(UsageError, match="is also an input"):
        check_output(tmp_path / "link.csv", [table])
    with pytest.raises(UsageError, match="is empty"):
        check_output(Path())
    for path, words in ((tmp_path, "it is a folder"), (table / "below.html", "table.csv is not a folder")):
        with pytest.raises(RmlabError, match=words):
            check_output(path)


def test_a_writer_in_rust_that_the_machine_refuses_is_the_same_error(tmp_path):
    from safetensors.numpy import save_file

    for writing in (atomic_folder, atomic_path):
        with (
            pytest.raises(RmlabError, match="model cannot be written: No such file or directory"),
            writing(tmp_path / "model"),
        ):
            save_file({"weights": np.zeros(10)}, str(tmp_path / "nowhere" / "weights"))
    assert not list(tmp_path.iterdir())


def test_what_is_no_file_and_no_folder_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for write in (
        lambda: write_text(pipe, "x"),
        lambda: check_output(pipe),
        lambda: check_folder(pipe, MODEL),
        lambda: make_folder(pipe),
    ):
        with pytest.raises(UsageError, match="pipe is a device or a pipe: name a"):
            write()
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def make_folder(path):
    with atomic_folder(path):
        pass
