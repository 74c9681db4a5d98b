"""Limits count the processor's time: other work on the machine ends no program that computes, and the clock ends one that waits."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from rmlab.configuration import load_program
from rmlab.microswe.build import trial
from rmlab.microswe.sandbox import Limits, Program, Sandbox

BURN = """
import time
def f(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds
"""


@pytest.fixture
def busy():
    """Four other processes for every processor: a program gets a fifth of one, or less."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4 * (os.cpu_count() or 1))]
    yield
    for other in others:
        other.send_signal(signal.SIGKILL)
        other.wait()


def kinds(outcome):
    return [result.kind for result in outcome.results]


def test_on_a_busy_machine_a_call_has_the_same_processor_time(busy):
    limits = Limits(call_seconds=0.4, program_seconds=8.0, patience=1000.0)
    with Sandbox(1, limits) as sandbox:
        [within] = sandbox.run([Program("", BURN, "f", ("(0.2,)",))])
        [over] = sandbox.run([Program("", BURN, "f", ("(60,)",))])
    assert kinds(within) == ["value"]
    assert kinds(over) == ["timeout"]


def test_calls_share_the_time_of_their_program_also_across_processes():
    limits = Limits(call_seconds=0.2, program_seconds=0.5, patience=1000.0, timeouts=99)
    with Sandbox(1, limits) as sandbox:
        [short, long, stopped] = sandbox.run(
            [
                Program("", BURN, "f", ("(0.05,)",) * 3),
                Program("", BURN, "f", ("(0.1,)",) * 9),
                Program("", BURN, "f", ("(9,)",) * 9),
            ]
        )
    assert kinds(short) == ["value"] * 3
    assert kinds(long)[:2] == ["value"] * 2
    assert kinds(long)[-1] == "timeout"
    assert kinds(stopped) == ["timeout"] * 9
    assert stopped.results[-1].value == "not run"


@pytest.mark.parametrize("wait", ["time.sleep(60)", "signal.pause()", "threading.Event().wait()"])
def test_what_waits_is_ended_by_the_clock(wait):
    with Sandbox(1, Limits(call_seconds=0.1, patience=3.0)) as sandbox:
        [outcome] = sandbox.run([Program("import signal, threading, time", f"def f():\n    {wait}", "f", ("()",))])
    assert kinds(outcome) == ["timeout"]


def test_bytes_that_drip_do_not_put_the_look_at_the_time_off():
    code = "import os\ndef f():\n    while True:\n        os.write(3, b'V')\n        time.sleep(0.01)"
    with Sandbox(1, Limits(call_seconds=0.1, patience=5.0, output_chars=10**6)) as sandbox:
        [outcome] = sandbox.run([Program("import time", code, "f", ("()",))])
    assert kinds(outcome) == ["timeout"]


def test_policy_training_and_the_builder_have_no_limits_of_their_own(monkeypatch):
    rl = load_program("rl")
    assert rl.limits(rl.LimitsConfig(batch_seconds=7.0)) == replace(Limits(), batch_seconds=7.0)
    used: list[Limits] = []
    monkeypatch.setattr(
        trial,
        "Sandbox",
        lambda workers, *limits, **options: used.extend(limits) or Sandbox(workers, *limits, **options),
    )
    trial.run_edits([], 1, "nothing", show=False)
    assert used == []
