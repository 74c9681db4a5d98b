"""After many programs, hostile ones among them, nothing is left: no process, no descriptor, no file."""

from pathlib import Path

import psutil
import pytest

from rmlab.microswe.sandbox import Limits, Program, Sandbox
from tests.waiting import until

CODES = [
    "def f(n): return n * 2",
    "def f(n): raise ValueError",
    "def f(n): open('left-over', 'w').write('x')",
    "import os\ndef f(n): os.mkdir('d'); os.chdir('d'); os.mkdir('e', 0)",
    "import os\ndef f(n): os._exit(n % 256)",
    "import threading\ndef f(n): threading.Thread(target=input).start()",
    "import os\ndef f(n): [os.pipe() for _ in range(99)]",
    "import os\ndef f(n): os.fork()",
    "def f(n):",
    "import os, signal\ndef f(n): os.kill(os.getpid(), signal.SIGSEGV)",
    "def f(n): return list({'a', 'b', n}) and [n]",
]


def descriptors(process: psutil.Process) -> int | None:
    try:
        return process.num_fds()
    except psutil.AccessDenied:  # an ordinary user may not look into a process that is not dumpable
        return None


@pytest.mark.parametrize("count", [150, pytest.param(800, marks=pytest.mark.slow)])
def test_nothing_is_left(count):
    programs = [Program("", CODES[n % len(CODES)], "f", (f"({n},)",)) for n in range(count)]
    if count > 150:
        programs[100::200] = [Program("", "def f(n):\n    while True: pass", "f", ("(1,)",))] * 4
    listing = Program("", "import os\ndef f():\n    return os.listdir('/')", "f", ("()",))
    with Sandbox(workers=2, limits=Limits(call_seconds=0.5)) as sandbox:
        sandbox.run(programs[:20])
        me, workers = psutil.Process(), [psutil.Process(worker.process.pid) for worker in sandbox.workers]
        family = [process for worker in workers for process in (worker, *worker.children(recursive=True))]
        before = [descriptors(process) for process in (me, *family)]
        here = set(Path.cwd().iterdir())
        outcomes = sandbox.run(programs)
        for n, (program, outcome) in enumerate(zip(programs, outcomes, strict=True)):
            if program.code == CODES[0]:
                assert outcome.passed((str(2 * n),))
            if program.code == CODES[-1]:
                assert outcome.passed((f"[{n}]",))
        until(lambda: family == [p for worker in workers for p in (worker, *worker.children(recursive=True))])
        assert [descriptors(process) for process in (me, *family)] == before
        assert set(Path.cwd().iterdir()) == here
        if sandbox.isolation.name == "namespaces":
            assert [outcome.results[0].value for outcome in sandbox.run([listing] * 4)] == ["[]"] * 4
    assert not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
