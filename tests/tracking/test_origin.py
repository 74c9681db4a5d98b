import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rmlab.sweep.launch import plan_to_launch
from rmlab.sweep.request import SweepOptions
from rmlab.tracking import tags as origin
from rmlab.tracking.ui import ui_command


def test_a_tree_without_history_is_told_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "REPOSITORY", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("RMLAB_COMMIT", raising=False)
    assert origin.commit.__wrapped__() == "unknown"
    monkeypatch.setenv("RMLAB_COMMIT", "859a760\n")
    assert origin.commit.__wrapped__() == "859a760"


def test_a_process_is_known_again_after_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        known = f"{origin._process(process.pid)} {origin.machine()}"
        own, start = origin.this_process(), psutil.Process(process.pid).create_time()
        if sys.platform == "linux":  # psutil adds the time of the boot, and that moves with the clock
            real = psutil._pslinux.boot_time
            monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: real() + 3600)
            assert psutil.Process(process.pid).create_time() == pytest.approx(start + 3600)
        assert origin.is_alive(platform.node(), known) is True
        assert origin.is_alive(platform.node(), own) is True
        process.communicate(b"")
    assert origin.is_alive(platform.node(), known) is False


def test_of_a_process_that_is_hidden_from_this_user_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As /proc with hidepid hides those of others: they look as if they were gone, but for the answer to a signal."""

    def hidden(pid: int) -> str:
        raise psutil.NoSuchProcess(pid)

    def refused(pid: int, number: int) -> None:
        raise PermissionError

    own = origin.this_process()
    monkeypatch.setattr(origin, "_process", hidden)
    assert origin.is_alive(platform.node(), f"999999999@1 {origin.machine()}") is False
    monkeypatch.setattr(origin.os, "kill", refused)
    assert origin.is_alive(platform.node(), own) is None


def test_of_another_machine_or_another_boot_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    own = origin.this_process()
    monkeypatch.setattr(origin, "machine", lambda: f"{platform.node()}/another boot")
    assert origin.is_alive(platform.node(), own) is None


def test_a_command_to_type_again_has_the_path_where_the_search_path_has_no_rmlab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/rmlab", "train", "seed=1"])
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = plan_to_launch("data_scale", ["preset=smoke"], SweepOptions())
    assert plan.command == ".venv/bin/rmlab sweep data_scale preset=smoke"
    assert origin.command_line(as_called=True) == ".venv/bin/rmlab train seed=1"
    assert origin.command_line() == "rmlab train seed=1", "a run keeps no path of one machine"
    (tmp_path / "rmlab").touch(0o755)
    assert plan_to_launch("data_scale", ["preset=smoke"], SweepOptions()).command.startswith("rmlab sweep ")
    monkeypatch.setattr("sys.argv", ["/somewhere/rmlab/__main__.py", "ui"])
    monkeypatch.setattr("sys.orig_argv", [".venv/bin/python", "-m", "rmlab", "ui"])
    assert origin.command_line(as_called=True) == ui_command() == "rmlab ui"
    (tmp_path / "rmlab").unlink()
    assert origin.command_line(as_called=True) == ui_command() == ".venv/bin/python -m rmlab ui"
    assert origin.command_line() == "rmlab ui"
    monkeypatch.setattr("sys.argv", ["/somewhere/pytest/__main__.py"])
    assert origin.rmlab_as_called() == ["rmlab"]
