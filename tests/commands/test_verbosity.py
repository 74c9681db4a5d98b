"""-q and -v, and a word on a terminal while a command imports."""

import io
import sys
import threading
from collections.abc import Callable

import pytest

from rmlab.cli import SHOW_PROGRESS
from rmlab.commands.verbosity import ERASE, WORD, tells_progress, word_while_starting
from rmlab.errors import UsageError
from rmlab.progress import is_quiet, is_verbose, progress, set_verbosity


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Timer:
    """Stands for threading.Timer: a test says when the time is up."""

    last: "Timer"

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self.is_up, Timer.last = work, self

    def start(self) -> None:
        """Waits for the test."""

    cancel = start


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> tuple[Terminal, Terminal]:
    """Output and errors of this process from now on; in the test itself, for pytest sets its own before each."""
    monkeypatch.setattr(threading, "Timer", Timer)
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    return out, err


def test_a_command_takes_how_much_it_tells() -> None:
    def command(name: str) -> tuple[str, bool, bool]:
        return name, is_quiet(), is_verbose()

    told = tells_progress(command)
    try:
        assert told("a") == ("a", False, False)
        assert told("a", quiet=True) == ("a", True, False)
        assert told("a", verbose=True) == ("a", False, True)
        with pytest.raises(UsageError, match="exclude each other"):
            told("a", quiet=True, verbose=True)
    finally:
        set_verbosity(0)


def test_every_command_that_shows_progress_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    from rmlab.cli import app

    for words in (["sweep"], ["train"], ["rl"], ["score"], ["import"], ["tasks", "build"], ["trajectories", "split"]):
        answer = CliRunner().invoke(app, [*words, "--help"])
        assert "--quiet" in answer.output, words
        assert "--verbose" in answer.output, words
    assert len(SHOW_PROGRESS) == 13


def test_quiet_draws_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = on_terminal(monkeypatch)
    set_verbosity(-1)
    try:
        with progress("training", 4, "steps") as advance:
            advance(4)
    finally:
        set_verbosity(0)
    assert err.getvalue() == ""


def test_a_word_stands_until_something_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = on_terminal(monkeypatch)
    with word_while_starting():
        assert err.getvalue() == ""
        Timer.last.is_up()
        assert err.getvalue() == WORD
        print("result")
        assert err.getvalue() == WORD + ERASE
        print("again")
    assert out.getvalue() == "result\nagain\n"
    assert err.getvalue() == WORD + ERASE


def test_a_quick_command_shows_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = on_terminal(monkeypatch)
    with word_while_starting():
        print("at once")
        Timer.last.is_up()  # it was under way when it was cancelled
    assert err.getvalue() == ""


def test_a_command_that_prints_nothing_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = on_terminal(monkeypatch)
    with word_while_starting():
        Timer.last.is_up()
    assert err.getvalue() == WORD + ERASE


def test_no_terminal_no_word(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Timer", lambda *_: pytest.fail("a word is to be shown"))
    with word_while_starting():
        pass
    assert capsys.readouterr().err == ""
