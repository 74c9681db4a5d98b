"""What Ctrl-C and SIGTERM end at once, and what they wait for."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from rmlab.stopping import Stopped, ask_to_stop, end_at_once, interrupt_asks_to_stop, stop_asked, uncut


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
