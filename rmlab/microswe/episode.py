"""One attempt at a task, turn by turn: what the agent sees, what is executed, and whether the hidden tests pass at the end.

An episode executes nothing itself. `needs` says which program has to run next and `receive` takes what came of it;
where nothing is needed, `act` takes the agent's next action. So thousands of episodes go side by side through one
sandbox, and the same episode serves scripts, language models and reinforcement learning.

    user       median([1, 3, 2]) should return 2 but got 3
               1 def median(xs):
               2     return xs[len(xs) // 2]
    assistant  edit 2: return sorted(xs)[len(xs) // 2]
    user       ok
    assistant  run
    user       got 2
    assistant  submit
    user       final got 2

`run` shows a value and never says whether it is right. The last message is the environment's own: under the evidence
`final` it shows the value of the program at the end, submitted or not, so that no policy can hide it; under `voluntary`
it is left out. An unfinished attempt never submitted; its program is tested all the same. An error of the environment
(not of the program) is retried, then the attempt ends as `error`, without a label.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from rmlab.errors import UsageError
from rmlab.fingerprint import OMIT_DEFAULT
from rmlab.microswe import actions as grammar
from rmlab.microswe.sandbox import Outcome, Program
from rmlab.microswe.sandbox.values import show
from rmlab.microswe.task import Task
from rmlab.trajectories.record import ExitStatus, Message, Trajectory

SHOULD, GOT, FINAL = " should return ", "got ", "final "
BUT = f" but {GOT}"
LONGEST_ERROR, LONGEST_QUOTED = 150, 100  # characters of an error in Python's words, and in a program's
_PLAIN_ERROR = re.compile(
    r"(?!(?:None|True|False|nan|inf|Ellipsis|NotImplemented)$)[^\W\d]\w*(: line (\d+|None): .+)?"
    r"|no function `\w+`|invalid while the program was loaded"
)
_OWN_WORDS = re.compile(r"\b(should return|got|final)\b")
_LITERAL = re.compile(rf"""(["'])(?:\\.|(?!\1)[^\\])*?(?:\1|\.\.\.(?={BUT}))""")  # a string, also one that is cut


class Evidence(StrEnum):
    """Whether the end of every episode shows the public call's value, or only an agent's own runs do."""

    final = "final"
    voluntary = "voluntary"


class Edits(StrEnum):
    """What an edit changes."""

    build_up = "build_up"  # the current program: a wrong edit stays until its line is restored
    start_over = "start_over"  # the issue's program: only the last edit counts, so a bug of two lines cannot be fixed


@dataclass
class EnvironmentConfig:
    """evidence, edits: see Evidence and Edits. max_turns: actions per attempt. retries: how often a sandbox failure is retried."""

    evidence: Evidence = Evidence.final
    edits: Edits = field(default=Edits.build_up, metadata=OMIT_DEFAULT)
    max_turns: int = 6
    retries: int = 2

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise UsageError(f"environment.max_turns={self.max_turns}: must be at least 1")


class Episode:
    """A state machine over one task. `code` is the present program, `messages` the conversation up to now.

    Until it is `done`, exactly one of two things can happen: a program is executed (`needs` is not None), or the agent
    acts.
    """

    def __init__(self, task: Task, environment: EnvironmentConfig):
        self.task = task
        self.environment = environment
        self.code = task.code
        self.messages: list[Message] = []
        self.turns = 0
        self.exit_status: ExitStatus | None = None
        self.resolved: bool | None = None
        self.public_passed: bool | None = None
        self._failures = 0
        self._shown_last = ""
        self.needs: Program | None = public_program(task, task.code)

    @property
    def editable(self) -> str:
        """The program that the next edit changes."""
        return self.task.code if self.environment.edits is Edits.start_over else self.code

    @property
    def done(self) -> bool:
        """True when the label is known, or was given up on."""
        return self.exit_status is not None and self.needs is None

    def receive(self, outcome: Outcome) -> None:
        """Takes the outcome of the program that `needs` named. Raises RuntimeError where none was needed."""
        if self.needs is None:
            raise RuntimeError(f"{self.task.task_id}: an outcome came though no program was needed")
        if outcome.broken:
            self._failures += 1
            if self._failures > self.environment.retries:
                self._give_up()
            return
        self._failures = 0
        shown = describe(outcome)
        self.needs = None
        if not self.messages:
            self._say("user", issue(self.task, shown))
        elif self.exit_status is None:
            self._say("user", shown)
            self._count_turn()
        elif self.public_passed is None:
            self._shown_last = shown
            self.public_passed = passes(outcome, (self.task.public_output,))
            if self.public_passed:
                self.needs = hidden_program(self.task, self.code)
            else:  # the public call is one of the hidden tests: the others can change nothing
                self._close(False)
        else:
            self._close(passes(outcome, self.task.outputs))

    def act(self, text: str) -> None:
        """Takes the agent's next message. Raises RuntimeError where the episode is over or waits for an outcome."""
        if self.needs is not None or self.exit_status is not None:
            raise RuntimeError(f"{self.task.task_id}: it is not the agent's turn")
        self._say("assistant", text)
        try:
            action = grammar.parse(text)
            if isinstance(action, grammar.Edit):
                self.code = grammar.apply(self.editable, action)
        except grammar.UnreadableAction as error:
            self._say("user", f"error: {error}")
            self._count_turn()
            return
        if isinstance(action, grammar.Run):
            self.needs = public_program(self.task, self.code)
        elif isinstance(action, grammar.Submit):
            self._end("submitted")
        else:
            self._say("user", "ok")
            self._count_turn()

    def trajectory(self, policy: str, attempt: int) -> Trajectory:
        """The record of a finished episode. Raises RuntimeError before that."""
        if not self.done or self.exit_status is None:
            raise RuntimeError(f"{self.task.task_id}: the episode is not over")
        task = self.task
        return Trajectory(
            task_id=task.task_id,
            cluster=task.cluster,
            source=task.source,
            policy=policy,
            attempt=attempt,
            messages=tuple(self.messages),
            patch=grammar.patch(task.code, self.code),
            exit_status=self.exit_status,
            resolved=self.resolved,
            label_source=None if self.resolved is None else "hidden tests",
            split=task.part,
            extra={
                "operators": list(task.operators),
                "lines": list(task.lines),
                "public_share": round(task.public_share, 4),
                "public_passed": self.public_passed,
            },
        )

    def _say(self, role: str, content: str) -> None:
        self.messages.append(Message("assistant" if role == "assistant" else "user", content))

    def _count_turn(self) -> None:
        self.turns += 1
        if self.turns >= self.environment.max_turns:
            self._end("unfinished")

    def _end(self, status: ExitStatus) -> None:
        self.exit_status = status
        self.needs = public_program(self.task, self.code)

    def _close(self, resolved: bool) -> None:
        self.resolved = resolved
        if self.environment.evidence is Evidence.final:
            self._say("user", FINAL + self._shown_last)

    def _give_up(self) -> None:
        self.needs = None
        self.exit_status = "error"
        if not self.messages:
            self._say("user", issue(self.task, "no value"))


def call(task: Task, arguments: str) -> str:
    """A call as one would write it: the entry's name and the arguments of the tuple's source. `f(x)` from "(x,)"."""
    parsed = ast.parse(arguments, mode="eval").body
    parts = parsed.elts if isinstance(parsed, ast.Tuple) else [parsed]
    return f"{task.entry}({', '.join(ast.unparse(part) for part in parts)})"


@lru_cache(maxsize=4096)  # attempts at one task all open with it
def issue(task: Task, shown: str) -> str:
    """The first message: the failing public call, what it should return and what it did, and the numbered program."""
    return f"{call(task, task.public_input)}{SHOULD}{show(task.public_output)}{BUT}{shown.removeprefix(GOT)}\n{grammar.numbered(task.code)}"


def expected_value(messages: Sequence[Message]) -> str | None:
    """What the issue says the public call should return, as text; None where the conversation is no micro-SWE episode."""
    first = messages[0].content.split("\n", 1)[0] if messages else ""
    outside = _LITERAL.sub(lambda literal: "." * len(literal[0]), first)  # strings may hold the environment's own words
    before, should, after = outside.partition(SHOULD)
    value, but, _ = after.partition(BUT)
    start = len(before) + len(SHOULD)
    return first[start : start + len(value)] if should and but else None


def last_value(messages: Sequence[Message]) -> str | None:
    """What the last execution in the conversation showed, as text; None where nothing was executed since the issue."""
    for message in reversed(messages[1:]):
        shown = message.content.removeprefix(FINAL)
        if message.role == "user" and shown.startswith(GOT):
            return shown.removeprefix(GOT)
    return None


def public_program(task: Task, code: str) -> Program:
    """The public call alone: what `run` executes."""
    return Program(task.context, code, task.entry, (task.public_input,), task.function_id)


def hidden_program(task: Task, code: str) -> Program:
    """All hidden tests."""
    return Program(task.context, code, task.entry, task.inputs, task.function_id)


def passes(outcome: Outcome, expected: tuple[str, ...]) -> bool:
    """Whether every call gave its expected output."""
    return outcome.error is None and outcome.passed(expected)


def describe(outcome: Outcome) -> str:
    """What an agent is shown of the first call: `got 7`, `got raised TypeError`, `got SyntaxError: line 2: ...`.

    Which limit a program hits first is a race (a list that grows without end), so every limit is shown alike.
    """
    if outcome.results[0].kind in ("timeout", "memory", "killed"):
        return f"{GOT}no value (over the limits)"
    return GOT + (_error(outcome.error) if outcome.error is not None else outcome.results[0].show())


def _error(text: str) -> str:
    """Why a program could not be called, as far as it is in Python's words; else quoted and cut, since a program wrote it.

    A program chooses the class and the words of what it raises while it is loaded: `2` would pass for its value.
    """
    if (
        _PLAIN_ERROR.fullmatch(text)
        and text.isprintable()
        and len(text) <= LONGEST_ERROR
        and not _OWN_WORDS.search(text)
    ):
        return text
    return f"error {text[:LONGEST_QUOTED] + '...' * (len(text) > LONGEST_QUOTED)!r}"


def replayed(code: str, messages: Sequence[str], edits: Edits) -> list[str]:
    """The program before each message of the agent, and the one after the last: len(messages) + 1 programs.

    code: the issue's program. A message that is no edit, or one that cannot be made, leaves the program as it is.
    """
    programs = [code]
    for text in messages:
        present = programs[-1]
        try:
            action = grammar.parse(text)
            if isinstance(action, grammar.Edit):
                present = grammar.apply(code if edits is Edits.start_over else present, action)
        except grammar.UnreadableAction:
            pass  # the agent was told so, and nothing changed
        programs.append(present)
    return programs
