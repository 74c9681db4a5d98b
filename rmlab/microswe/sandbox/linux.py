"""The few Linux calls that Python's standard library does not have, through ctypes. Each raises OSError.

Names and numbers as in the kernel's headers (sched.h, mount.h, prctl.h, capability.h).
"""

import ctypes
import os
import platform
import sys
from typing import Any

NEW_USER, NEW_MOUNT, NEW_PID, NEW_NET, NEW_IPC, NEW_UTS = (
    0x10000000,
    0x20000,
    0x20000000,
    0x40000000,
    0x8000000,
    0x4000000,
)
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_PRIVATE = 2, 4, 8, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522

IS_LINUX = sys.platform == "linux"
MACHINE = platform.machine()

_libc = ctypes.CDLL(None, use_errno=True) if IS_LINUX else None


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _long(value: int) -> ctypes.c_ulong:
    return ctypes.c_ulong(value)


def unshare(flags: int) -> None:
    """Moves this process into new namespaces; a new PID namespace begins with its next child."""
    _call("unshare", ctypes.c_int(flags))


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind, options)]
    _call("mount", words[0], words[1], words[2], _long(flags), words[3])


def enter_root(path: str) -> None:
    """Makes the mount at `path` the root of this mount namespace and lets go of all that was mounted before.

    Where the old root cannot be pivoted (an initramfs) it is left unreachable: chroot, and no capability to leave it.
    """
    os.chdir(path)
    try:
        _call("pivot_root", b".", b".")
        _call("umount2", b".", ctypes.c_int(MNT_DETACH))
    except OSError:
        os.chroot(".")
    os.chdir("/")


def prctl(option: int, value: int, pointer: Any = None) -> None:
    """prctl(2) with one number, and a pointer where the option takes one."""
    _call(
        "prctl",
        ctypes.c_int(option),
        _long(value),
        ctypes.c_void_p() if pointer is None else pointer,
        _long(0),
        _long(0),
    )


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def drop_capabilities() -> None:
    """Gives up every capability, for this process and all it will start."""
    header = _CapabilityHeader(CAPABILITY_VERSION_3, 0)
    _call("capset", ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
