"""Programs that take too much: each costs itself, at every level of isolation."""

import pytest

from rmlab.microswe.sandbox import Program


def kinds(outcome):
    return [result.kind for result in outcome.results]


def test_endless_loop_in_python(attack):
    assert kinds(attack("def f():\n    while True:\n        pass")) == ["timeout"]


@pytest.mark.parametrize(
    "loop", ["sum(range(10**12))", "7 ** 10**9", "re.match('(a+)+$', 'a' * 60 + 'b')", "1 in itertools.repeat(2)"]
)
def test_endless_loop_in_c(attack, loop):
    assert kinds(attack(f"def f():\n    return {loop}", context="import itertools, re"))[0] in {"timeout", "memory"}


def test_endless_loop_while_loading(attack):
    outcome = attack("while True:\n    pass\ndef f(): return 1", "()", "()")
    assert kinds(outcome) == ["timeout", "timeout"]
    assert outcome.error == "timeout while the program was loaded"
    assert not outcome.broken


def test_one_endless_call_leaves_the_other_calls_their_results(attack):
    outcome = attack("def f(n):\n    while n == 0:\n        pass\n    return n", "(1,)", "(0,)", "(2,)")
    assert kinds(outcome)[:2] == ["value", "timeout"]
    assert outcome.results[2].value == "not run"  # one timeout is all that these limits allow


def test_sleeping_is_no_way_around_the_limit(attack):
    assert kinds(attack("import time\ndef f():\n    time.sleep(60)")) == ["timeout"]


def test_a_timeout_that_is_caught_is_one_all_the_same(attack):
    code = "def f():\n    while True:\n        try:\n            while True: pass\n        except BaseException:\n            pass"
    assert kinds(attack(code)) == ["timeout"]


def test_signal_handlers_that_swallow(attack):
    code = """
import signal
def f():
    for number in signal.valid_signals():
        try:
            signal.signal(number, lambda *a: None)
        except (OSError, ValueError):
            pass
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    except OSError:
        pass
    while True:
        pass
"""
    assert kinds(attack(code)) == ["timeout"]


def test_memory_hog(attack):
    assert kinds(attack("def f():\n    return len([0] * 10**9)")) == ["memory"]
    growing = attack("def f():\n    x = []\n    while True:\n        x.append(bytearray(10**6))")
    assert kinds(growing)[0] in {"memory", "timeout"}, "on a busy machine the clock may be first"
    assert kinds(attack("x = bytearray(10**10)\ndef f(): return 1")) == ["memory"]


def test_memory_hog_in_many_small_pieces(attack):
    assert kinds(attack("def f():\n    x = ()\n    while True:\n        x = (x,)"))[0] in {
        "memory",
        "timeout",
        "killed",
    }


def test_recursion(attack):
    assert attack("def f():\n    return f()").results[0].show() == "raised RecursionError"


def test_recursion_past_the_stack(attack):
    code = (
        "import sys\ndef g(x):\n    return [*map(g, [x])]\ndef f():\n    sys.setrecursionlimit(10**9)\n    return g(1)"
    )
    assert kinds(attack(code))[0] in {"killed", "memory", "raised"}


def test_fork_bomb(attack):
    assert kinds(attack("import os\ndef f():\n    while True:\n        os.fork()")) == ["raised"]
    code = "import os\ndef f():\n    while True:\n        try:\n            os.fork()\n        except OSError:\n            pass"
    assert kinds(attack(code)) == ["timeout"]


def test_threads_left_running(attack):
    code = "import threading\ndef g():\n    while True: pass\ndef f():\n    threading.Thread(target=g).start()\n    return 1"
    assert attack(code).results[0].show() == "raised RuntimeError"


def test_huge_output(attack):
    outcome = attack("def f(n):\n    return 'x' * n", "(10**7,)", "(19_000,)", "(21_000,)")
    assert kinds(outcome) == ["unencodable", "value", "unencodable"]
    assert kinds(attack("def f():\n    return [[0] * 1000] * 1000")) == ["unencodable"]
    assert kinds(attack("def f():\n    x = []\n    x.append(x)\n    return x")) == ["unencodable"]


def test_huge_printing_goes_nowhere(attack):
    code = """
import sys
def f():
    for _ in range(2000):
        print('x' * 10_000)
        print('y' * 1000, file=sys.stderr)
    return 1
"""
    assert attack(code).results[0].value == "1"


def test_a_flood_in_the_result_channel(attack):
    code = "import os\ndef f():\n    while True:\n        os.write(3, b'V' + b'x' * 10**5)"
    assert kinds(attack(code)) == ["invalid"]


def test_many_descriptors(attack):
    assert (
        attack("import os\ndef f():\n    for _ in range(1000):\n        os.pipe()").results[0].show()
        == "raised OSError"
    )


def test_finalisers_and_exit_functions_do_not_run_on(attack):
    code = """
import atexit
class Late:
    def __del__(self):
        while True:
            pass
late = []
def f():
    late.append(Late())
    late.append(late)
    atexit.register(Late)
    return 1
"""
    assert attack(code).results[0].value == "1"


def test_leaving_early_costs_the_call(attack):
    code = "import os, sys\ndef f(n):\n    if n == 1: os._exit(0)\n    if n == 2: sys.exit()\n    return n"
    outcome = attack(code, "(1,)", "(2,)", "(3,)")
    assert kinds(outcome) == ["killed", "raised", "value"]
    assert outcome.results[1].value == "SystemExit"


def test_a_crash_costs_the_call(attack):
    outcome = attack("import ctypes\ndef f(n):\n    return ctypes.string_at(n) if n else n", "(1,)", "(0,)")
    assert kinds(outcome) == ["killed", "value"]


@pytest.mark.parametrize("box", ["limits"], indirect=True, scope="session")  # at the others it may not even ask
def test_the_limits_are_those_that_were_asked_for(box):
    names = ["CPU", "FSIZE", "NOFILE", "NPROC", "CORE"]
    code = (
        f"import resource\ndef f():\n    return [resource.getrlimit(getattr(resource, 'RLIMIT_' + n)) for n in {names}]"
    )
    assert (
        box.run([Program("", code, "f", ("()",))])[0].results[0].show()
        == "[(1, 2), (1048576, 1048576), (16, 16), (0, 0), (0, 0)]"
    )
