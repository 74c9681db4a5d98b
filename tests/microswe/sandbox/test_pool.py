"""Batches: order, workers that die, time that is over, the parent's end."""

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from rmlab.microswe.sandbox import Limits, Program, Sandbox, importable
from rmlab.microswe.sandbox.isolation import MODULES
from rmlab.microswe.sandbox.process import Worker
from rmlab.paths import REPOSITORY
from tests.waiting import PATIENCE, until

SLOW = "import time\ndef f(n):\n    time.sleep(n % 5 / 100)\n    return n"


def alive(process: psutil.Process) -> bool:
    """Neither gone nor a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end(process: psutil.Process) -> None:
    """Kills it and waits until it is gone or a zombie."""
    process.kill()
    until(lambda: not alive(process))


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2, limits=Limits(call_seconds=1.0, memory_mb=128)) as opened:
        yield opened


def shown(sandbox, code, *inputs, context="", entry="f"):
    (outcome,) = sandbox.run([Program(context, code, entry, inputs)])
    return [result.show() for result in outcome.results]


def test_outcomes_keep_the_order_of_the_programs(sandbox):
    outcomes = sandbox.run([Program("", SLOW, "f", (f"({n},)", f"({n + 1},)")) for n in range(60)])
    assert [[r.value for r in outcome.results] for outcome in outcomes] == [[str(n), str(n + 1)] for n in range(60)]
    assert sandbox.run([]) == []


@pytest.mark.slow
def test_an_endless_program_holds_up_its_own_batch_alone():
    endless = Program("", "def f():\n    while True: pass", "f", ("()",))
    found = []
    with Sandbox(workers=2, limits=Limits(call_seconds=2.0, program_seconds=2.0)) as sandbox:
        other = threading.Thread(target=lambda: found.extend(sandbox.run([endless])))
        other.start()
        until(lambda: len(sandbox.pool._idle) < 2)
        outcomes = sandbox.run([Program("", SLOW, "f", (f"({n},)",)) for n in range(10)])
        assert not found, "it is endless still"
        other.join()
        assert [outcome.results[0].value for outcome in outcomes] == [str(n) for n in range(10)]
        assert [slow.results[0].kind for slow in found] == ["timeout"]
        assert len(sandbox.pool._idle) == 2


def test_a_long_batch_does_not_use_up_the_time_of_a_short_one():
    slow = [
        Program("", f"import time\ndef f():\n    time.sleep(0.05)\n    return {n}", "f", ("()",)) for n in range(30)
    ]
    with Sandbox(workers=1, limits=Limits(batch_seconds=PATIENCE)) as one:
        ended: dict[str, float] = {}

        def play(name: str, programs: list[Program]) -> None:
            outcomes = one.run(programs)
            ended[name] = time.monotonic()
            assert [outcome.results[0].value for outcome in outcomes] == [p.code.rsplit(" ", 1)[1] for p in programs]

        batches = [threading.Thread(target=play, args=(f"batch {n}", slow[: 30 if n == 0 else 2])) for n in range(4)]
        for batch in batches:
            batch.start()
            time.sleep(0.01)
        for batch in batches:
            batch.join()
        assert len(ended) == 4
        assert max(ended, key=lambda name: ended[name]) == "batch 0"
        assert len(one.pool._idle) == 1


def test_programs_that_cannot_be_called(sandbox):
    codes = ["def f(:", "x = 1", "f = 1", "raise KeyError", "def f(): return 1", "import no_such_module\ndef f(): pass"]
    outcomes = sandbox.run([Program("", code, "f", ("()", "()")) for code in codes])
    assert [o.error for o in outcomes] == [
        "SyntaxError: line 1: invalid syntax", "no function `f`", "no function `f`", "KeyError", None, "ModuleNotFoundError",
    ]  # fmt: skip
    assert [r.kind for r in outcomes[0].results] == ["invalid", "invalid"]
    assert not any(outcome.broken for outcome in outcomes)
    assert sandbox.run([Program("", "def f(): return 1", "f", ())])[0].results == ()


def test_calls_do_not_see_what_another_call_left(sandbox):
    code = """
seen = []
def f(x, kept=[]):
    seen.append(x)
    kept.append(x)
    x.append(0)
    return seen, kept, random.random(), hash('a')
"""
    first, second = shown(sandbox, code, "([1],)", "([1],)", context="import random")
    assert first == second
    assert first.startswith("([[1, 0]], [[1, 0]], 0.8444218515250481, ")


def test_what_a_call_leaves_in_an_imported_module_only_its_own_programs_calls_find(sandbox):
    code = "import math\ndef f():\n    math.calls = getattr(math, 'calls', 0) + 1\n    return math.calls"
    outcomes = sandbox.run([Program("", code, "f", ("()", "()"))] * 4)
    assert [[result.value for result in outcome.results] for outcome in outcomes] == [["1", "2"]] * 4


def test_string_hashes_and_so_the_order_of_sets_are_the_same_in_every_worker(sandbox):
    outcomes = sandbox.run([Program("", "def f():\n    return list({'a', 'b', 'c', 'd', 'e'})", "f", ("()",))] * 20)
    assert len({outcome.results[0].value for outcome in outcomes}) == 1


def test_inputs_see_the_context_but_not_the_code(sandbox):
    context = "class Point:\n    def __init__(self, x): self.x = x\nsize = 3"
    assert shown(sandbox, "size = 4\ndef f(p, n): return p.x, n, size", "(Point(2), size)", context=context) == [
        "(2, 3, 4)"
    ]
    assert shown(sandbox, "def f(*xs): return list(xs)", "(nan, -inf, Fraction(1, 2), deque([1]))") == [
        "[nan, -inf, Fraction(1, 2), deque([1])]"
    ]
    assert shown(sandbox, "def f(x): return x", "(no_such_name,)") == ["raised NameError"]


def test_decorators_that_look_their_module_up(sandbox):
    context = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int = 1"
    )
    assert shown(sandbox, "def f(): return P(3).x", "()", context=context) == ["3"]


def test_what_the_context_takes_from_the_future_holds_for_the_code(sandbox):
    assert shown(sandbox, "def f(x: no_such_name): return x", "(1,)", context="from __future__ import annotations") == [
        "1"
    ]
    assert shown(sandbox, "def f(x: no_such_name): return x", "(1,)") == ["no value (invalid)"]


def test_every_module_that_is_promised_can_be_imported_and_used(sandbox):
    here = [name for name in MODULES if name.partition(".")[0] in sys.stdlib_module_names]
    lines = "\n".join(f"import {name}" for name in here if not name.startswith("encodings"))
    code = """
def f():
    year = datetime.datetime.strptime('2020', '%Y').year
    sys.set_int_max_str_digits(0)
    return 'é'.encode('utf-16-be'), 'a'.encode('idna'), year, statistics.mean([1, 2]), int('9' * 9000) % 10
"""
    assert shown(sandbox, code, "()", context=lines) == ["(b'\\x00\\xe9', b'a', 2020, 1.5, 9)"]
    assert [importable(name) for name in ("collections.abc", "os.path", "urllib", "numpy")] == [True, True, True, False]


def test_nothing_of_the_parent_is_in_the_process(sandbox):
    torch = pytest.importorskip("torch")
    assert torch.ones(1).item() == 1.0
    with Sandbox(workers=1) as fresh:
        code = "import sys\ndef f():\n    return [n for n in ('torch', 'numpy', 'pytest', 'pyarrow') if n in sys.modules], sys.path"
        assert shown(fresh, code, "()") == ["([], [])"]


def test_a_worker_that_died_is_replaced():
    with Sandbox(workers=2) as sandbox:
        old = [worker.process.pid for worker in sandbox.workers]
        os.kill(old[0], signal.SIGKILL)
        outcomes = sandbox.run([Program("", SLOW, "f", (f"({n},)",)) for n in range(10)])
        assert [outcome.results[0].value for outcome in outcomes] == [str(n) for n in range(10)]
        assert [worker.process.pid == pid for worker, pid in zip(sandbox.workers, old, strict=True)] == [False, True]


def test_what_a_worker_says_when_it_fails_is_kept(capsys):
    with Sandbox(workers=1) as sandbox:
        (zygote,) = psutil.Process(sandbox.workers[0].process.pid).children()
        end(zygote)
        (outcome,) = sandbox.run([Program("", "def f(): return 1", "f", ("()",))])
        assert outcome.results[0].value == "1"
    said = capsys.readouterr().err
    assert said.startswith("A sandbox worker failed; another takes its place:\nTraceback (most recent call last):\n")
    assert 'sandbox/worker.py", line' in said

    worker = Worker("limits", Limits())
    worker.wait_until_ready()
    (zygote,) = psutil.Process(worker.process.pid).children()
    end(zygote)
    worker.send({"context": "", "code": "def f(): pass", "entry": "f", "inputs": ["()"], "chars": 100})
    assert worker.receive() is None
    worker.close()
    assert "Error" in worker.last_word
    assert worker.words.endswith(worker.last_word)


def test_a_result_longer_than_its_limit_is_no_value(sandbox):
    code = "import os\ndef f(n):\n    os.write(3, b'V' + b'7' * n + b'\\n')\n    os._exit(0)"
    assert shown(sandbox, code, "(70,)") == ["7" * 70]
    assert shown(sandbox, code, "(30000,)") == ["no value (invalid)"]


@pytest.mark.parametrize(("kills", "kind"), [(1, "value"), (2, "killed")])
def test_the_program_of_a_worker_that_dies_is_tried_once_more(kills, kind):
    first = Program("", "import time\ndef f():\n    time.sleep(1.5)\n    return 1", "f", ("()",))
    programs = [first, *[Program("", SLOW, "f", ("(1,)",))] * 5]
    with Sandbox(workers=1, limits=Limits(call_seconds=30.0, program_seconds=30.0)) as sandbox:

        def kill() -> None:
            gone: set[int] = set()
            while len(gone) < kills:
                pid = sandbox.workers[0].process.pid
                if pid not in gone and len(psutil.Process(pid).children(recursive=True)) == 2:  # a program is running
                    os.kill(pid, signal.SIGKILL)
                    gone.add(pid)
                time.sleep(0.01)

        thread = threading.Thread(target=kill)
        thread.start()
        outcomes = sandbox.run(programs)
        thread.join()
    assert outcomes[0].results[0].kind == kind
    assert outcomes[0].broken == (kind == "killed")
    assert [outcome.results[0].value for outcome in outcomes[1:]] == ["1"] * 5


def test_a_batch_that_is_out_of_time_ends():
    with Sandbox(workers=2, limits=Limits(call_seconds=900, program_seconds=900, batch_seconds=2.0)) as sandbox:
        fine = Program("", "def f(): return 1", "f", ("()",))
        outcomes = sandbox.run([fine, *[Program("", "import time\ndef f(): time.sleep(3600)", "f", ("()",))] * 4])
        assert [(o.results[0].kind, o.broken) for o in outcomes] == [("value", False)] + [("timeout", True)] * 4
        assert sandbox.run([fine])[0].results[0].value == "1"


def test_wrong_use_says_so():
    with pytest.raises(ValueError, match="workers=0: at least 1"):
        Sandbox(workers=0)
    with pytest.raises(ValueError, match="at_most='jail': one of namespaces, seccomp, limits"):
        Sandbox(at_most="jail")
    sandbox = Sandbox(workers=1)
    sandbox.close()
    sandbox.close()
    with pytest.raises(ValueError, match="closed"):
        sandbox.run([])


@pytest.mark.parametrize("end", ["kill -9", "exception"])
def test_the_parents_end_ends_workers_and_programs(end):
    code = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(REPOSITORY)!r})
from rmlab.microswe.sandbox import Limits, Program, Sandbox
sandbox = Sandbox(workers=2, limits=Limits(call_seconds=3600, program_seconds=3600))
print(*(worker.process.pid for worker in sandbox.workers), flush=True)
sys.stdin.readline()
sandbox.run([Program("", "def f():\\n    while True: pass", "f", ("()",))] * 2)
"""
    pipe = subprocess.PIPE
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )
    workers = [psutil.Process(int(word)) for word in parent.stdout.readline().split()]
    parent.stdin.write("go\n")
    parent.stdin.flush()
    until(lambda: all(len(worker.children(recursive=True)) == 2 for worker in workers), parent)  # both programs run
    family = workers + [process for worker in workers for process in worker.children(recursive=True)]
    if end == "kill -9":
        parent.kill()
    else:
        parent.send_signal(signal.SIGINT)
    assert parent.wait(PATIENCE) != 0
    until(lambda: not any(map(alive, family)))
