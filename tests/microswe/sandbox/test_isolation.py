"""Levels: what is reported is what is there, and what is refused is said."""

import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rmlab.commands import doctor
from rmlab.errors import RmlabError
from rmlab.microswe.sandbox import LEVELS, Limits, Program, Sandbox, isolation_level, seccomp, warn_if_weak
from rmlab.microswe.sandbox.isolation import NOBODY, IsolationLevel, start
from rmlab.paths import REPOSITORY
from tests.waiting import PATIENCE

ROOT = os.geteuid() == 0
PROBE = """
from rmlab.microswe.sandbox import Program, Sandbox
with Sandbox(workers=1, allow_weak=True) as sandbox:
    outcomes = sandbox.run([Program("", "def f(n): return n + 1", "f", ("(1,)",))] * 3)
    assert all(outcome.passed(("2",)) for outcome in outcomes), outcomes
    print(sandbox.isolation)
"""


def test_a_level_reads_as_one_line():
    level = IsolationLevel("seccomp", (), True, "nobody", ("namespaces (unshare: Operation not permitted)",))
    assert str(level) == "seccomp: seccomp + rlimits, as nobody; no namespaces (unshare: Operation not permitted)"
    assert str(isolation_level()).startswith(isolation_level().name)


@pytest.mark.parametrize("name", LEVELS)
def test_a_weaker_level_can_be_asked_for(name):
    with Sandbox(workers=1, at_most=name) as sandbox:
        level = sandbox.isolation
        assert LEVELS.index(level.name) >= LEVELS.index(name)
        assert level.name == name or level.reasons
        assert level.user == ("nobody" if ROOT else "the caller")
        code = "import os\ndef f():\n    return os.getuid(), os.getpid(), os.getppid()"
        (outcome,) = sandbox.run([Program("", code, "f", ("()",))])
        user, pid, parent = map(int, outcome.results[0].value.split("[")[1].strip("]}").split(","))
        assert user == (NOBODY if ROOT or "user" in level.namespaces else os.getuid())
        assert (pid < 10, parent == 1) == (("pid" in level.namespaces,) * 2)


@pytest.mark.skipif(not ROOT, reason="only root may read another process's namespaces once it is not dumpable")
def test_the_namespaces_that_are_reported_are_new():
    names = {"mount": "mnt", "pid": "pid", "network": "net", "ipc": "ipc", "host name": "uts", "user": "user"}
    with Sandbox(workers=1) as sandbox:
        (zygote,) = psutil.Process(sandbox.workers[0].process.pid).children()
        there, here = Path(f"/proc/{zygote.pid}/ns"), Path("/proc/self/ns")
        new = {name for name, file in names.items() if (there / file).readlink() != (here / file).readlink()}
        assert new == set(sandbox.isolation.namespaces)
        if "mount" in new:
            assert list(Path(f"/proc/{zygote.pid}/root").iterdir()) == []
            mounts = Path(f"/proc/{zygote.pid}/mounts").read_text().splitlines()
            assert [line.split()[1:3] for line in mounts] == [["/", "tmpfs"]]
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{zygote.pid}/status").read_text().splitlines())
        assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {0}
        assert status["NoNewPrivs"] == "1"


def refusing(*calls: tuple[int, int | None]) -> str:
    """Python source that lets this process and its children make every system call but these (number, first argument).

    As a container's rules do. x86-64 numbers; the level is chosen in earnest, under a kernel that says no.
    """

    def step(code: int, if_true: int, if_false: int, operand: int) -> bytes:
        return struct.pack("=HBBI", code, if_true, if_false, operand)

    program = b""
    for number, argument in calls:
        if argument is None:
            program += step(0x20, 0, 0, 0) + step(0x15, 0, 1, number)
        else:
            program += (
                step(0x20, 0, 0, 0) + step(0x15, 0, 3, number) + step(0x20, 0, 0, 16) + step(0x15, 0, 1, argument)
            )
        program += step(0x06, 0, 0, 0x00050001)
    program += step(0x06, 0, 0, 0x7FFF0000)
    return f"""
import ctypes
from rmlab.microswe.sandbox import linux, seccomp
code = {program!r}
program = seccomp._Program(len(code) // 8, code)
linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
linux.prctl(linux.PR_SET_SECCOMP, linux.SECCOMP_MODE_FILTER, ctypes.byref(program))
"""


UNSHARE, PRCTL, SET_SECCOMP = 272, 157, 22


@pytest.mark.skipif(seccomp.linux.MACHINE != "x86_64", reason="the refusals are written with x86-64 numbers")
@pytest.mark.parametrize(
    ("refused", "level", "reasons"),
    [
        ([(UNSHARE, None)], "seccomp", ["no namespaces (unshare: Operation not permitted)"]),
        ([(UNSHARE, None), (PRCTL, SET_SECCOMP)], "limits", ["no namespaces", "no seccomp (seccomp: "]),
        ([(PRCTL, SET_SECCOMP)], "namespaces", []),
    ],
)
def test_what_the_machine_refuses_lowers_the_level_and_is_said(refused, level, reasons):
    said = subprocess.run(
        [sys.executable, "-c", refusing(*refused) + PROBE], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(f"{level}: ") or (level == "namespaces" and isolation_level().name != level)
    assert all(reason in said.stdout for reason in reasons)
    assert ("seccomp +" in said.stdout) == (level == "seccomp")


@pytest.mark.parametrize("name", LEVELS[:2])
def test_where_there_is_no_linux_the_better_levels_are_refused(name, monkeypatch):
    monkeypatch.setattr(seccomp.linux, "IS_LINUX", False)
    with pytest.raises(OSError, match=f"{name}: only Linux has it"):
        start(name, Limits())


def test_the_weakest_level_is_taken_only_where_it_is_asked_for(weak_machine, capsys):
    with pytest.raises(RmlabError) as error:
        Sandbox(workers=1)
    assert str(error.value) == (
        "This machine offers no sandbox that isolates programs: no namespaces (not in this test); no seccomp (not in "
        "this test). sandbox.allow_weak=true runs model-written code with resource limits alone: it can read and change files, "
        "end processes and forge its label."
    )
    fine = Program("", "def f(n): return n + 1", "f", ("(1,)",))
    for asked in ({"allow_weak": True}, {"at_most": "limits"}):
        with Sandbox(workers=1, **asked) as sandbox:
            assert sandbox.isolation.weak
            assert sandbox.run([fine])[0].passed(("2",))
    assert capsys.readouterr().err == ""
    warn_if_weak(sandbox.isolation)
    assert capsys.readouterr().err.startswith(
        "warning: code runs with resource limits alone: it can read and change files"
    )
    warn_if_weak(IsolationLevel("seccomp", (), True, "nobody"))
    assert capsys.readouterr().err == ""


def test_doctor_tells_the_weakest_level_from_the_others(request):
    (found,) = doctor.sandbox()
    assert (found.verdict, isolation_level().weak) in (("ok", False), ("note", True))
    request.getfixturevalue("weak_machine")
    (found,) = doctor.sandbox()
    assert found.verdict == "note"
    assert "needs sandbox.allow_weak=true; isolation: limits: rlimits, as" in found.text


@pytest.mark.skipif(not ROOT, reason="this is an ordinary user already: every other test shows it")
def test_as_an_ordinary_user():
    run = {"cwd": REPOSITORY, "capture_output": True, "text": True, "user": NOBODY, "group": NOBODY, "extra_groups": []}
    for python in (
        sys.executable,
        shutil.which("python3", path="/usr/bin:/usr/local/bin"),
        shutil.which("python3.11", path="/usr/bin"),
    ):
        try:
            said = subprocess.run([python, "-c", PROBE], **run)
        except (PermissionError, TypeError):
            continue
        if "SyntaxError" not in said.stderr and "No module named" not in said.stderr:
            break
    else:
        pytest.skip("no Python of at least 3.11 that an ordinary user may start")
    assert said.returncode == 0, said.stderr
    assert "as the caller" in said.stdout
    assert said.stdout.startswith(LEVELS[:2])


def test_a_caller_with_tight_limits_of_its_own():
    code = "import resource\nfor name, n in (('FSIZE', 1000), ('NOFILE', 64), ('CPU', 3), ('AS', 2**31)):\n"
    code += "    resource.setrlimit(getattr(resource, 'RLIMIT_' + name), (n, n))\n"
    said = subprocess.run([sys.executable, "-c", code + PROBE], cwd=REPOSITORY, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_the_filter_refuses_foreign_architectures_and_all_that_is_not_listed():
    code = seccomp.assemble(0xC000003E, [0, 1], 72)

    def verdict(architecture: int, number: int, second: int = 0) -> int:
        data = struct.pack("=iIQ6Q", number, architecture, 0, 0, second, 0, 0, 0, 0)
        accumulator, at = 0, 0
        while True:
            operation, if_true, if_false, operand = struct.unpack_from("=HBBI", code, 8 * at)
            at += 1
            if operation == 0x20:
                (accumulator,) = struct.unpack_from("=I", data, operand)
            elif operation == 0x15:
                at += if_true if accumulator == operand else if_false
            elif operation == 0x35:
                at += if_true if accumulator >= operand else if_false
            else:
                return operand

    allow, refuse = 0x7FFF0000, 0x00050001
    assert [verdict(0xC000003E, n) for n in (0, 1, 2, 57, 231, 0x40000000)] == [
        allow,
        allow,
        refuse,
        refuse,
        refuse,
        refuse,
    ]
    assert [verdict(0xC000003E, 72, command) for command in (1, 3, 8, 10)] == [allow, allow, refuse, refuse]
    assert verdict(0x40000003, 0) == refuse


def test_the_table_of_system_calls_has_each_number_once():
    for column in (0, 1):
        numbers = [pair[column] for pair in [*seccomp.COMPUTING.values(), *seccomp.FILES.values(), seccomp.FCNTL]]
        numbers = [number for number in numbers if number >= 0]
        assert len(numbers) == len(set(numbers))


def test_the_callers_own_descriptors_do_not_reach_a_worker():
    ours, theirs = socket.socketpair()
    theirs.set_inheritable(True)
    with ours, theirs, Sandbox(workers=1) as sandbox:
        theirs.close()
        ours.settimeout(PATIENCE)
        assert ours.recv(1) == b""  # the end of the stream: no one else holds it
        assert sandbox.workers
