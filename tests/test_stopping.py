"""What Ctrl-C and SIGTERM end at once, and what they wait for."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmlab.stopping import (
    Stopped,
    ask_to_stop,
    end_at_once,
    interrupt_asks_to_stop,
    interrupt_stops_at_once,
    stop_asked,
    uncut,
)


def press(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture
def on_term(request: pytest.FixtureRequest) -> Iterator[None]:
    """SIGTERM has the handler of the parameter."""
    before = signal.signal(signal.SIGTERM, request.param)
    yield
    assert signal.signal(signal.SIGTERM, before) is request.param


@pytest.mark.usefixtures("on_term")
@pytest.mark.parametrize(
    ("on_term", "number", "ended"),
    [
        (signal.SIG_IGN, signal.SIGINT, KeyboardInterrupt),
        (signal.default_int_handler, signal.SIGTERM, KeyboardInterrupt),
        (end_at_once, signal.SIGTERM, SystemExit),
    ],
    indirect=["on_term"],
)
def test_a_signal_waits_for_the_end_of_what_must_not_be_cut(number: int, ended: type[BaseException]) -> None:
    done = []
    with pytest.raises(ended):
        with uncut():
            with uncut():
                press(number)
                done.append("inner")
            done.append("outer")
        done.append("after")
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with uncut():
        done.append("again")


def test_a_second_ctrl_c_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt), uncut():
        press()
        press()
        pytest.fail("it waited")


def test_ctrl_c_ends_what_failed_meanwhile() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, uncut():
        press()
        raise ValueError("busy")
    assert isinstance(caught.value.__context__, ValueError)


def test_a_request_within_a_training_leaves_the_signal_to_its_next_step(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), interrupt_asks_to_stop():
        with uncut():
            press()
        assert isinstance(stop_asked(), KeyboardInterrupt)
    assert "Stopping after this step" in capfd.readouterr().err
    assert stop_asked() is None


@pytest.mark.usefixtures("on_term")
@pytest.mark.parametrize(
    ("on_term", "reason", "steps"),
    [
        (signal.default_int_handler, None, 2),
        (signal.default_int_handler, "the lease is lost", 1),
        (end_at_once, None, 1),
    ],
    indirect=["on_term"],
)
def test_sigterm_asks_a_training_to_stop_where_there_is_time_for_it(reason: str | None, steps: int) -> None:
    done = 0
    with pytest.raises((KeyboardInterrupt, SystemExit)), interrupt_asks_to_stop():
        done = 1
        ask_to_stop(reason)
        try:
            press(signal.SIGTERM)
            press(signal.SIGTERM)  # the group had it, and the parent sends it again
            done = 2
        finally:
            ask_to_stop(None)
    assert done == steps


@pytest.mark.usefixtures("on_term")
@pytest.mark.parametrize("on_term", [signal.default_int_handler], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("pressed", ["before", "within", "after"])
def test_what_can_be_made_again_is_cut_and_what_surrounds_it_is_not(
    number: int, pressed: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done, asked = [], []

    def moment(name: str) -> None:
        if name == pressed:
            press(number)
        done.append(name)

    with pytest.raises(KeyboardInterrupt), interrupt_asks_to_stop():
        moment("before")
        try:
            with interrupt_stops_at_once():
                moment("within")
        except KeyboardInterrupt:
            asked.append(stop_asked())
            raise
        moment("after")
    assert done == {"before": ["before"], "within": ["before"], "after": ["before", "within", "after"]}[pressed]
    assert asked == ([] if pressed == "after" else [None]), "one request ends one work"
    assert ("Stopping after this step" in capfd.readouterr().err) == (pressed != "within" and number == signal.SIGINT)
    assert stop_asked() is None
    with interrupt_stops_at_once():
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "by itself it changes nothing"


LOST = """
import os, signal, time
from rmlab.stopping import end_on_sigterm
class Callback:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
end_on_sigterm()
Callback()
print("it was lost", flush=True)
try:
    time.sleep(900)
except KeyboardInterrupt:
    print("and came again")
"""


def test_a_signal_that_comes_where_nothing_can_be_raised_comes_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("it was lost\nand came again\n", "")


TWICE = """
import os, signal, sys
from rmlab.stopping import end_on_sigterm, interrupt_asks_to_stop, stop_asked
def press():
    os.kill(os.getpid(), signal.SIGTERM)
def train():
    with interrupt_asks_to_stop():
        press()
        raise stop_asked()
end_on_sigterm(once=True)
try:
    train() if sys.argv[1] == "training" else press()
except KeyboardInterrupt:
    press()
    print("it said how it ended")
"""


@pytest.mark.parametrize("where", ["training", "elsewhere"])
def test_a_second_sigterm_does_not_cut_what_the_first_one_began(where: str) -> None:
    """A cell whose group was asked to end hears it twice: the second time from its parent, perhaps before its run says how it ended."""
    done = subprocess.run([sys.executable, "-c", TWICE, where], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "it said how it ended\n", "")


IMPORTS = """
import sys, time
from rmlab.stopping import end_on_sigterm
end_on_sigterm()
sys.path.insert(0, sys.argv[1])
try:
    import pressing
    time.sleep(900)
except KeyboardInterrupt:
    print(sys.modules["pressing"].whole)
"""
PRESS = "os.kill(os.getpid(), signal.SIG{})"


@pytest.mark.parametrize(
    ("signals", "code", "out", "err"),
    [(["INT"], 0, "True", ""), (["TERM", "TERM"], 0, "True", ""), (["INT", "INT"], 130, "", "rmlab: interrupted")],
)
def test_a_signal_waits_for_the_end_of_an_import_and_a_second_ctrl_c_does_not(
    tmp_path: Path, signals: list[str], code: int, out: str, err: str
) -> None:
    lines = ["import os, signal, time", *map(PRESS.format, signals), "time.sleep(0.1)", "whole = True"]
    (tmp_path / "pressing.py").write_text("\n".join(lines))
    done = subprocess.run([sys.executable, "-c", IMPORTS, str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (code, out, err)


COUNTS = """
import atexit, os, signal, sys
left = int(sys.argv.pop(1))
class Counts:
    def find_spec(self, name, path, target=None):
        global left
        left -= 1
        if left == 0:
            press()
def press():
    os.kill(os.getpid(), signal.SIGINT)
if left:
    sys.meta_path.insert(0, Counts())
else:
    atexit.register(press)
sys.argv[0] = "rmlab"
from rmlab.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("imported", [25, 50, 100, 200, 300, 400, 600, 800, 1000, 0])
def test_ctrl_c_is_one_line_from_the_first_moment_to_the_last(tmp_path: Path, imported: int) -> None:
    """It comes when so many modules were asked for: at first those of the command line, then those of the command, 0 = at the end."""
    table = tmp_path / "scores.csv"
    table.write_text("task_id,score,resolved\na,0.9,1\na,0.1,0\nb,0.4,1\nb,0.6,0\n")
    arguments = [str(imported), "evaluate", str(table), "--json"]
    done = subprocess.run([sys.executable, "-c", COUNTS, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "rmlab: interrupted\n")
    assert bool(done.stdout) == (imported == 0), "what was printed is not lost"


def test_ctrl_c_before_there_is_a_word_for_it_is_no_traceback() -> None:
    """It comes when the first module is asked for that the console script needs to say one."""
    done = subprocess.run([sys.executable, "-c", COUNTS, "3", "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_another_thread_has_nothing_to_wait_for() -> None:
    def within() -> None:
        with uncut(), interrupt_asks_to_stop():
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=within)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
    assert not isinstance(stop_asked(), Stopped)
