"""Programs that reach for what is not theirs: the machine, the sandbox, the expected outputs."""

import os
from pathlib import Path

import pytest

from rmlab.microswe.sandbox import Limits, Program, Sandbox


def only(*levels):
    return pytest.mark.parametrize("box", levels, indirect=True, scope="session")


against_malice = only("namespaces", "seccomp")  # resource limits alone do not shut a program in, and do not claim to


def tries(*expressions: str) -> str:
    """A function that returns what succeeds of the expressions: [] where all is refused."""
    attempt = (
        "    try:\n        done.append((n, str({})))\n    except (OSError, RuntimeError):\n        pass\n    n += 1\n"
    )
    body = "".join(map(attempt.format, expressions))
    return f"import os, signal, socket, subprocess, sys\ndef f():\n    done, n = [], 0\n{body}    return done"


@against_malice
def test_kill_the_parent(box, attack):
    me = os.getpid()
    code = tries(
        f"os.kill({me}, 9)", "os.kill(os.getppid(), 9)", "os.kill(1, 9)", "os.kill(1, 19)", "os.kill(-1, 9)",
        "os.kill(0, 15)", "os.killpg(os.getpgid(0), 9)", f"signal.pidfd_send_signal(os.pidfd_open({me}), 9)",
    )  # fmt: skip
    assert attack(code).results[0].value == "[]"


@only("limits")
def test_kill_the_zygote_where_only_limits_hold(box):
    innocent = Program("", "def f(n):\n    return n", "f", ("(1,)",))
    hostile = Program("import os, time", "def f():\n    os.kill(os.getppid(), 9)\n    time.sleep(9)", "f", ("()",))
    outcomes = box.run([innocent, hostile, innocent, innocent])
    assert [outcome.results[0].kind for outcome in outcomes] == ["value", "killed", "value", "value"]
    assert outcomes[1].broken


@against_malice
def test_read_home_and_environment(box, attack):
    home = Path.home()
    files = [
        home,
        Path(__file__),
        Path("/etc/passwd"),
        Path("/proc/self/environ"),
        Path("/proc/1/environ"),
        Path("/work"),
    ]
    code = tries(
        *(f"open({str(f)!r}).read()" for f in files), *(f"os.listdir({str(f)!r})" for f in files), "os.stat('/etc')"
    )
    assert attack(code).results[0].value == "[]"
    code = "import os\ndef f():\n    return dict(os.environ), os.path.expanduser('~')"
    assert attack(code).results[0].show() == "({}, '~')"


@against_malice
def test_libc_is_no_way_around(box, attack):
    code = """
import ctypes, os
def f():
    libc = ctypes.CDLL(None)
    libc.environ = None
    parent = os.getppid()
    calls = [
        libc.fork(), libc.vfork(), libc.socket(2, 1, 0), libc.socketpair(1, 1, 0, ctypes.byref((ctypes.c_int * 2)())),
        libc.kill(parent, 9), libc.ptrace(16, parent, 0, 0), libc.unshare(0x10000000), libc.chroot(b'.'),
        libc.mount(b'none', b'/', b'tmpfs', 0, None), libc.setuid(0), libc.prctl(1, 9, 0, 0, 0),
        libc.execv(b'/bin/true', (ctypes.c_char_p * 2)(b'true')), libc.shmget(1, 4096, 0o1600), libc.memfd_create(b'x', 0),
        libc.process_vm_readv(parent, None, 0, None, 0, 0), libc.syscall(435, None, 0), libc.setpriority(0, 0, -20),
        libc.fcntl(3, 8, os.getpid()), libc.ioctl(3, 0x8901, ctypes.byref(ctypes.c_int(1))),
    ]
    return set(calls)
"""
    assert attack(code).results[0].value == '{"set":[-1]}'


@against_malice
def test_write_outside(box, attack, tmp_path):
    folders = [tmp_path, "/tmp", "/dev/shm", Path.home(), "../.."]
    targets = [Path(folder) / "x-rmlab" for folder in folders]
    code = tries(
        *(f"open({str(t)!r}, 'w').write('x')" for t in targets), *(f"os.mkdir({str(t)!r})" for t in targets[:2])
    )
    done = attack(code).results[0].value
    assert done == "[]" or box.isolation.name == "namespaces"  # there, "../../x" is in its own empty folder
    assert not any(target.exists() for target in targets)
    assert list(tmp_path.iterdir()) == []


@only("namespaces")
def test_the_only_folder_is_empty_small_and_not_kept(box, attack):
    code = """
import os
def f(n):
    found = os.listdir('/')
    try:
        for i in range(n):
            os.mkdir('d' * 200, 0o300)
            os.chdir('d' * 200)
            open('x', 'wb').write(b'x' * 10**6)
    except OSError:
        pass
    try:
        open('big', 'wb').write(b'x' * 10**7)
    except OSError:
        return found, 'full'
"""
    calls = ("(0,)",)
    for inputs in (calls, ("(1000,)",), calls, ("(1000,)",), calls):
        assert attack(code, *inputs).results[0].value == '{"tuple":[[],"full"]}'


@against_malice
def test_sockets(box, attack):
    code = tries(
        "socket.socket()", "socket.socket(socket.AF_UNIX)", "socket.create_connection(('127.0.0.1', 22), 0.1)",
        "socket.socketpair()", "socket.getaddrinfo('example.org', 80)", "socket.if_nameindex()",
        "socket.socket(fileno=3).getpeername()", "socket.socket(fileno=3).sendmsg([b'x'])",
    )  # fmt: skip
    assert attack(code).results[0].value == "[]"


@against_malice
def test_start_other_programs(box, attack):
    code = tries(
        "os.system('true') == 0 or os.fork()", "subprocess.run(['/bin/true'])", "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['x'], {})",
    )  # fmt: skip
    assert attack(code).results[0].value == "[]"


def test_inherited_descriptors(box, attack):
    code = """
import os
def f():
    found = []
    for n in range(4096):
        try:
            os.close(os.dup(n))
            found.append(n)
        except OSError:
            pass
    return found
"""
    assert attack(code).results[0].value == "[0,1,2,3]"  # three times /dev/null, and the result channel


def test_module_table_and_builtins_rewritten(box, attack):
    code = """
import builtins, sys, os, json
def f(n):
    for name in dir(builtins):
        if name not in ('__name__', '__build_class__') and n:
            setattr(builtins, name, lambda *a, **k: True)
    sys.modules.clear()
    json.dumps = os.write = os._exit = lambda *a, **k: 1
    return 2
"""
    outcome = attack(code, "(1,)")
    assert outcome.results[0].kind in {"invalid", "killed", "raised", "timeout", "unencodable"}


def test_the_encoder_rewritten_changes_no_one_elses_results(box, attack):
    code = """
import sys
def f(n):
    for name, module in list(sys.modules.items()):
        if name.startswith('rmlab'):
            for key in list(vars(module)):
                if not key.startswith('__'):
                    setattr(module, key, lambda *a, **k: '42')
    return n
"""
    assert len(attack(code, "(1,)", "(2,)").results) == 2  # `attack` proves the neighbours' results


def test_results_written_by_the_program_stay_in_its_own_outcome(box, attack):
    outcome = attack("import os\ndef f(n):\n    os.write(3, b'V 7\\n' * 50)\n    return n", "(1,)", "(2,)")
    assert len(outcome.results) == 2
    code = """
import os
def f():
    os.write(3, b'Vnonsense\\nR1+1\\nQ\\nV{"raised":"E"}\\n')
    os._exit(0)
"""
    outcome = attack(code, "()", "()", "()", "()")
    assert [result.kind for result in outcome.results] == ["invalid"] * 4


def test_channel_closed_or_replaced(box, attack):
    assert attack("import os\ndef f():\n    os.close(3)\n    return 1").results[0].kind == "killed"
    assert attack("import os\ndef f():\n    os.dup2(0, 3)\n    return 1").results[0].kind == "killed"


def test_objects_that_claim_to_equal_everything(attack):
    code = """
class Yes:
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def __len__(self): return 3
    def __repr__(self): return '[3, 6, 9]'
    __class__ = property(lambda self: list)
class Liar(type):
    def __eq__(self, other): return True
    def __hash__(self): return hash(list)
    def __instancecheck__(self, thing): return True
class Odd(metaclass=Liar):
    def __eq__(self, other): return True
    def __iter__(self): return iter([3, 6, 9])
class Text(str):
    def __eq__(self, other): return True
class Seven(int):
    def __eq__(self, other): return True
class Few(list):
    def __eq__(self, other): return True
class Error(Exception, metaclass=type('M', (type,), {'__name__': property(lambda self: 'KeyError')})):
    pass
def f(n):
    if n == 6:
        raise Error
    return [Yes(), Odd(), Text('a'), Seven(7), Few([3, 6, 9]), [Yes()]][n]
"""
    outcome = attack(code, *(f"({n},)" for n in range(7)))
    assert [result.kind for result in outcome.results] == ["unencodable"] * 6 + ["raised"]
    assert outcome.results[6].value == "Error"
    wished = ("[3,6,9]", '"a"', "7", '{"raised":"KeyError"}')
    assert not any(result.matches(expected) for result in outcome.results for expected in wished)


def test_expected_outputs_are_not_in_the_process():
    """Not even those that an earlier run of the right program produced in the same worker."""
    original = Program(
        "", "def f(n):\n    return 'marker-' + str(n * 1234567)", "f", tuple(f"({n},)" for n in range(1, 6))
    )
    code = """
import gc, sys
def f(n):
    text = '-'.join(['marker', ''])
    seen, todo = set(), [sys._getframe(), *gc.get_objects(), *sys.modules.values()]
    frame = sys._getframe()
    while frame:
        todo += [frame, frame.f_locals, frame.f_globals]
        frame = frame.f_back
    while todo:
        thing = todo.pop()
        if id(thing) in seen or thing is todo or thing is seen or thing is text:
            continue
        seen.add(id(thing))
        if type(thing) is str and text in thing or type(thing) is bytes and text.encode() in thing:
            return 'found ' + repr(thing)[:100]
        todo += gc.get_referents(thing)
    return len(seen) > 10_000
"""
    search = Program("", code, "f", ("(1,)",))
    with Sandbox(workers=1, limits=Limits(call_seconds=20, program_seconds=20)) as sandbox:
        first, second = sandbox.run([original, search])
        again, third = sandbox.run([original, search])
    expected = tuple(result.value for result in first.results)
    assert "marker-1234567" in expected[0]
    assert again.passed(expected)
    assert second.results[0].value == third.results[0].value == "true"
