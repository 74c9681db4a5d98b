"""Where few files may be open, and where nobody but this process reaps what is left: a container whose first process it is."""

import subprocess
import sys

import pytest

from rmlab.microswe.sandbox import LEVELS, linux
from rmlab.paths import REPOSITORY

BEGIN = r"""
import os, resource, signal, threading
import psutil
from rmlab.errors import RmlabError
from rmlab.microswe.sandbox import Limits, Program, Sandbox, linux

def program(code):
    return Program("", code, "f", ("()",))

def values(sandbox, *codes):
    return [outcome.results[0].value for outcome in sandbox.run([program(code) for code in codes])]

def orphans_come_here():
    linux.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: as they come to process 1

def children(deep):
    return [child.status() for child in psutil.Process().children(recursive=deep)]

def few_files(number):
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))

FINE = "def f(): return 1"
ENDLESS = "def f():\n    while True: pass"
SLOW = "import time\ndef f():\n    time.sleep(2)\n    return 1"
DEEP = "import os\ndef f():\n    for n in range(200):\n        os.mkdir('d')\n        os.chdir('d')\n    return n"
SHUT = "import os\ndef f():\n    os.mkdir('a')\n    os.mkdir('a/b', 0)\n    open('a/x', 'w').close()"
LISTING = "import os\ndef f(): return os.listdir('/')"
"""


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", BEGIN + code], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not linux.IS_LINUX, reason="only Linux lets a process inherit orphans")
@pytest.mark.parametrize("level", LEVELS)
def test_no_zombie_is_left_where_orphans_come_to_this_process(level):
    code = f"""
orphans_come_here()
limits = Limits(call_seconds=9, program_seconds=9, batch_seconds=0.3)
with Sandbox(workers=1, limits=limits, at_most={level!r}) as sandbox:
    assert sandbox.run([program(ENDLESS)])[0].broken
with Sandbox(workers=2, at_most={level!r}) as sandbox:
    os.kill(sandbox.workers[0].process.pid, signal.SIGKILL)
    assert values(sandbox, *[FINE] * 4) == ["1"] * 4
    print(len(children(deep=False)))
print(children(deep=True))
"""
    assert said(code) == "2\n[]\n"


@pytest.mark.skipif(not linux.IS_LINUX, reason="only Linux lets a process inherit orphans")
@pytest.mark.parametrize("level", LEVELS)
def test_no_zombie_is_left_of_a_worker_that_is_killed_while_its_program_runs(level):
    code = f"""
orphans_come_here()
with Sandbox(workers=1, at_most={level!r}) as sandbox:
    worker = sandbox.workers[0].process.pid
    threading.Timer(0.3, lambda: os.kill(worker, signal.SIGKILL)).start()
    assert values(sandbox, SLOW) == ["1"]
    assert sandbox.workers[0].process.pid != worker
print(children(deep=True))
"""
    assert said(code) == "[]\n"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("files", [16, 32])
def test_programs_run_where_few_files_may_be_open_and_their_deep_folders_are_removed(level, files):
    code = f"""
few_files({files})
with Sandbox(workers=1, at_most={level!r}) as sandbox:
    print(sandbox.isolation.name, *values(sandbox, DEEP, SHUT, LISTING, FINE), sep="; ")
"""
    name, *found = said(code).rstrip("\n").split("; ")
    assert found[3] == "1", "a plain function runs at every level"
    if name == "namespaces":  # the others have no folder of their own to write in
        assert found == ["199", "null", "[]", "1"]


@pytest.mark.parametrize(("files", "workers"), [(8, 1), (32, 40)])
def test_too_few_files_is_one_line_that_says_what_to_do(files, workers):
    code = f"""
few_files({files})
try:
    Sandbox(workers={workers})
except RmlabError as error:
    print(error)
"""
    assert said(code) == (
        "A sandbox worker cannot be started: Too many open files; raise `ulimit -n`, or use fewer workers.\n"
    )
