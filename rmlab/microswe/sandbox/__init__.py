"""Code that anyone wrote, run so that it can harm nothing: `with Sandbox(workers=2) as sandbox: sandbox.run(programs)`.

isolation  levels of isolation and how a worker reaches one; the part of the standard library that programs may import
linux      namespaces, mounts and capabilities through ctypes
pool       the worker processes, borrowed by the batches that have programs for them
process    a worker process as its parent holds it
records    programs, limits, results, outcomes; the framing of messages between these processes
runner     what that process does: take the function of the task out of itself, load, call, encode, write
sandbox    `Sandbox`: batches of programs; `isolation_level`, and what runs at the weakest
seccomp    the system calls that programs may make
stream     `ProgramStream`: programs that run as workers become free, while more are added; lost workers replaced
values     outputs as text: encoding, comparison, what is shown
worker     the worker process: the clock, the bounds on what comes back
zygote     the bare process that each program's own process is forked from
"""

from rmlab.microswe.sandbox.isolation import LEVELS, IsolationLevel, importable
from rmlab.microswe.sandbox.records import Kind, Limits, Outcome, Program, Result
from rmlab.microswe.sandbox.sandbox import (
    OnOutcome,
    Sandbox,
    SandboxConfig,
    default_workers,
    isolation_level,
    warn_if_weak,
)
from rmlab.microswe.sandbox.stream import ProgramStream

__all__ = [
    "LEVELS",
    "IsolationLevel",
    "Kind",
    "Limits",
    "OnOutcome",
    "Outcome",
    "Program",
    "ProgramStream",
    "Result",
    "Sandbox",
    "SandboxConfig",
    "default_workers",
    "importable",
    "isolation_level",
    "warn_if_weak",
]
