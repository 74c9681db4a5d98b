"""Which system calls a program's process may make: those of computing, and files where its only file system is empty.

A classic BPF program (seccomp(2), filter.h) that allows what is listed and answers EPERM to all else: no process, no
thread, no socket, no signal to others, no exec. Tables for x86-64 and AArch64; elsewhere there is no filter.
"""

import ctypes
import errno
import struct
from collections.abc import Collection

from rmlab.microswe.sandbox import linux

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_NONE = -1

# name: (x86-64, AArch64)
COMPUTING = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226),
    "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "readv": (19, 65), "writev": (20, 66), "pipe": (22, _NONE), "select": (23, _NONE),
    "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233), "dup": (32, 23), "dup2": (33, _NONE),
    "pause": (34, _NONE), "nanosleep": (35, 101), "getitimer": (36, 102), "alarm": (37, _NONE), "setitimer": (38, 103),
    "getpid": (39, 172), "exit": (60, 93), "uname": (63, 160), "gettimeofday": (96, 169), "getrusage": (98, 165),
    "sysinfo": (99, 179), "times": (100, 153), "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175),
    "getegid": (108, 177), "getppid": (110, 173), "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137),
    "sigaltstack": (131, 132), "gettid": (186, 178), "time": (201, _NONE), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "restart_syscall": (219, 128), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "exit_group": (231, 94), "pselect6": (270, 72),
    "ppoll": (271, 73), "poll": (7, _NONE), "set_robust_list": (273, 99), "dup3": (292, 24), "pipe2": (293, 59),
    "getrandom": (318, 278), "membarrier": (324, 283), "rseq": (334, 293),
}  # fmt: skip
FILES = {
    "open": (2, _NONE), "stat": (4, _NONE), "fstat": (5, 80), "lstat": (6, _NONE), "pread64": (17, 67),
    "pwrite64": (18, 68), "access": (21, _NONE), "fsync": (74, 82), "fdatasync": (75, 83), "truncate": (76, 45),
    "ftruncate": (77, 46), "getcwd": (79, 17), "chdir": (80, 49), "rename": (82, _NONE), "mkdir": (83, _NONE),
    "rmdir": (84, _NONE), "unlink": (87, _NONE), "readlink": (89, _NONE), "getdents64": (217, 61), "openat": (257, 56),
    "mkdirat": (258, 34), "newfstatat": (262, 79), "unlinkat": (263, 35), "renameat": (264, 38), "readlinkat": (267, 78),
    "faccessat": (269, 48), "renameat2": (316, 276), "statx": (332, 291), "faccessat2": (439, 439),
}  # fmt: skip
FCNTL = (72, 25)
FCNTL_COMMANDS = (0, 1, 2, 3, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC: none that sends signals

_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER, _ARCHITECTURE, _SECOND_ARGUMENT = 0, 4, 24  # offsets in struct seccomp_data
_X32 = 0x40000000


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def check() -> None:
    """Raises OSError where this kernel, or a filter that is already on this process, takes no filter."""
    try:
        linux.prctl(linux.PR_SET_SECCOMP, linux.SECCOMP_MODE_FILTER)
    except OSError as error:
        if error.errno != errno.EFAULT:  # a kernel with filters complains about the missing program
            raise OSError(error.errno, f"seccomp: {error.strerror}") from None


class Filter:
    """A filter made ready for `install`, which is one system call. Raises OSError on another architecture."""

    def __init__(self, *, files: bool) -> None:
        if not linux.IS_LINUX or linux.MACHINE not in ARCHITECTURES:
            raise OSError(errno.ENOSYS, f"seccomp: no table of system calls for {linux.MACHINE}")
        architecture, column = ARCHITECTURES[linux.MACHINE]
        calls = {**COMPUTING, **FILES} if files else COMPUTING
        allowed = [numbers[column] for numbers in calls.values() if numbers[column] != _NONE]
        self._code = assemble(architecture, allowed, FCNTL[column])
        self._program = _Program(len(self._code) // 8, self._code)

    def install(self) -> None:
        """Binds this process, and all it starts, for good. Needs no_new_privs."""
        linux.prctl(linux.PR_SET_SECCOMP, linux.SECCOMP_MODE_FILTER, ctypes.byref(self._program))


def assemble(architecture: int, allowed: Collection[int], fcntl: int) -> bytes:
    """The BPF program: foreign architectures, the x32 numbers and all that is not allowed get EPERM."""
    code = [
        _instruction(_LOAD, 0, 0, _ARCHITECTURE),
        _instruction(_JUMP_IF_EQUAL, 1, 0, architecture),
        _instruction(_RETURN, 0, 0, _REFUSE),
        _instruction(_LOAD, 0, 0, _NUMBER),
        _instruction(_JUMP_IF_AT_LEAST, 0, 1, _X32),
        _instruction(_RETURN, 0, 0, _REFUSE),
    ]
    for number in allowed:
        code += _allow_if(number)
    code += [_instruction(_JUMP_IF_EQUAL, 1, 0, fcntl), _instruction(_RETURN, 0, 0, _REFUSE)]
    code.append(_instruction(_LOAD, 0, 0, _SECOND_ARGUMENT))
    for command in FCNTL_COMMANDS:
        code += _allow_if(command)
    code.append(_instruction(_RETURN, 0, 0, _REFUSE))
    return b"".join(code)


def _allow_if(value: int) -> list[bytes]:
    return [_instruction(_JUMP_IF_EQUAL, 0, 1, value), _instruction(_RETURN, 0, 0, _ALLOW)]


def _instruction(code: int, if_true: int, if_false: int, operand: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
