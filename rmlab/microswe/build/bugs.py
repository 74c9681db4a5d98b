"""Bugs of a function: wrong texts with a call that shows them, of one changed line or of two."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from rmlab.fingerprint import UNHASHED, fingerprint
from rmlab.microswe.build.functions import FIRST_SOURCES
from rmlab.microswe.build.public_call import Outputs, PublicCall, choose
from rmlab.microswe.build.trial import Tested, TriedEdit, run_edits
from rmlab.microswe.sandbox.values import show

SCOPE_ERRORS = frozenset({"NameError", "UnboundLocalError"})


class PublicCallKind(StrEnum):
    """weak: the failing input that most other wrong edits satisfy. random: any failing input."""

    weak = "weak"
    random = "random"


@dataclass
class BuildConfig:
    """How tasks are made.

    sources: families to build from. withheld: the family that is used for evaluation only. public_call: which call the issue
    shows; it changes nothing else, the tasks are the same. least_share: a task is kept if at least this share of the other wrong
    edits satisfies the weakest call; lowered to the largest share that leaves `fewest_tasks`. most_functions: limit per
    family; most_of_a_function: tasks per function, at most `most_crashes` of them with an exception in the public call. two_bugs:
    largest share of tasks with two changed lines. longest_call: characters of the call, its expected and its actual value.
    workers: only changes the time.

    tried, most_guesses, every_kind: how long inputs are searched for (`rmlab.microswe.build.trial.InputSearch`). beside: a tasks
    file, or "". With a file, all tasks go to the part `rl`, functions similar to those of another part of that file are left out,
    and its tasks are not repeated; `most_of_a_function` counts the tasks in it.
    """

    seed: int = 0
    sources: list[str] = field(default_factory=lambda: list(FIRST_SOURCES))
    withheld: str = "human_eval"
    public_call: PublicCallKind = PublicCallKind.weak
    least_share: float = 0.30
    fewest_tasks: int = 2000
    most_functions: int = 260
    most_of_a_function: int = 9
    most_crashes: int = 2
    two_bugs: float = 0.10
    longest_call: int = 120
    tried: int = 40
    most_guesses: int = 10
    every_kind: bool = False
    beside: str = ""
    workers: int = field(default=2, metadata=UNHASHED)
    progress: bool = field(default=True, metadata=UNHASHED)


@dataclass(frozen=True)
class Bug:
    """A wrong text of a function and the weakest call that shows it. outputs: what it gives on the function's inputs."""

    tested: Tested
    code: str
    lines: tuple[int, ...]
    operators: tuple[str, ...]
    outputs: Outputs
    public: PublicCall

    @property
    def crashes(self) -> bool:
        return (self.outputs[self.public.index] or "").startswith('{"raised"')

    @property
    def order(self) -> str:
        """A draw that is the same on every machine."""
        return fingerprint([self.tested.function.function_id, self.code])


def single_bugs(tested: Tested, edits: Sequence[TriedEdit], config: BuildConfig) -> list[Bug]:
    """Every edit that is a bug with a call to show: wrong, always ending, and no slip of a name's scope."""
    return [
        bug
        for edit in edits
        if (
            bug := _bug(
                tested,
                edit.mutant.code,
                (edit.mutant.line,),
                (edit.mutant.operator,),
                edit.outputs,
                edit.raises,
                edits,
                config,
            )
        )
        is not None
    ]


def _bug(
    tested: Tested,
    code: str,
    lines: tuple[int, ...],
    operators: tuple[str, ...],
    outputs: Outputs,
    raises: frozenset[str],
    edits: Sequence[TriedEdit],
    config: BuildConfig,
) -> Bug | None:
    if outputs == tested.expected or None in outputs or raises & SCOPE_ERRORS:
        return None
    others = [e.outputs for e in edits if e.mutant.line in lines]
    public = choose(outputs, others, tested.expected, lengths(tested, outputs), config.longest_call)
    return None if public is None else Bug(tested, code, lines, operators, outputs, public)


def lengths(tested: Tested, outputs: Outputs) -> list[int]:
    """Characters of `f(args) should return X but got Y` without its words, per input."""
    return [
        len(tested.function.entry) + len(source) + len(show(expected, 1000)) + len(show(got or "null", 1000))
        for source, expected, got in zip(tested.inputs, tested.expected, outputs, strict=True)
    ]


def double_bugs(single: Sequence[Bug], edits: Mapping[str, Sequence[TriedEdit]], config: BuildConfig) -> list[Bug]:
    """Pairs of bugs in different lines of one function, a few for each, run like any other text."""
    by_function: dict[str, list[Bug]] = defaultdict(list)
    for bug in sorted(single, key=lambda b: b.order):
        by_function[bug.tested.function.function_id].append(bug)
    texts: list[tuple[Bug, Bug, str]] = []
    for bugs in by_function.values():
        pairs = [(a, b) for a, b in pairwise(bugs) if a.lines != b.lines]
        for a, b in pairs[:3]:
            a, b = sorted((a, b), key=lambda bug: bug.lines)
            text = a.code.split("\n")
            text[b.lines[0] - 1] = b.code.split("\n")[b.lines[0] - 1]
            texts.append((a, b, "\n".join(text)))
    outputs, raises = run_edits(
        [(a.tested, code) for a, _, code in texts], config.workers, "running pairs of bugs", config.progress
    )
    found = [
        _bug(
            a.tested,
            code,
            a.lines + b.lines,
            a.operators + b.operators,
            out,
            names,
            edits[a.tested.function.function_id],
            config,
        )
        for (a, b, code), out, names in zip(texts, outputs, raises, strict=True)
    ]
    return [bug for bug in found if bug is not None]
