"""The one renderer: what does a verifier read of a trajectory?

ChatML: every message is a turn; a last turn repeats what the issue asks, what was seen last and what was changed, and asks for
the answer; the assistant's turn is opened, so that the answer is the next token. The patch comes last: that order
is worth 0.04 of within-task AUC to a small model with random weights (experiments/studies/verifier_recipe). Training, scoring
and reinforcement learning all use this renderer. The label, the exit status, the policy and `extra` are not read.

How much of an attempt is shown? All of it, only its patch, or everything except the agent's own runs.

Leaving turns out here, instead of collecting other attempts, keeps everything else in an ablation fixed: the same attempts are
drawn, and score tables can be compared row by row. Which turns are runs is known for micro-SWE only; other conversations are
refused rather than silently shown whole.

Does a prompt contain the outcome that it asks for? Every training checks this for every prompt of training, validation and
evaluation. The issue (the first user message) is exempt: what a user writes is the task. R2E-Gym #17 is such a case: the output of
hidden tests was in the prompt.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_args

from rmlab.errors import DataError
from rmlab.microswe.actions import Run, try_parse
from rmlab.microswe.episode import FINAL, GOT, Evidence, expected_value
from rmlab.models.tokenizer import IM_END, IM_START
from rmlab.trajectories.leakage import OUTCOME_TEXT
from rmlab.trajectories.record import Message, Role, Trajectory
from rmlab.verifiers.config import PromptConfig, PromptView

YES, NO = "YES", "NO"
RESERVED = (IM_START, IM_END)
LINE_CHARACTERS = 400  # of the issue's first line and of the last observation, where the question repeats them

OPEN_ANSWER = f"{IM_START}assistant\n"


def render(trajectory: Trajectory, reserved: Sequence[str] = RESERVED, config: PromptConfig | None = None) -> str:
    """The prompt's text; YES or NO follows it directly.

    reserved: strings that the tokenizer reads as special tokens; content that holds them is escaped, so that no message
    can forge a turn. config: what is shown (None = the whole attempt). Raises DataError for a role that is not known.
    """
    shown = visible(trajectory, config) if config else trajectory
    return render_shown(shown, reserved, config is None or config.shows is not PromptView.patch_only)


def render_shown(shown: Trajectory, reserved: Sequence[str] = RESERVED, with_last: bool = True) -> str:
    """`render` of messages that were chosen already (`visible`, and what `rmlab.verifiers.truncation` leaves of them).

    with_last: the question says what was seen last.
    """
    turns = []
    for message in shown.messages:
        if message.role not in get_args(Role):
            raise DataError(
                f"trajectory {shown.trajectory_id} has the role {message.role!r}: "
                f"it must be one of {', '.join(get_args(Role))}"
            )
        turns.append(_turn(message.role, escape(message.content, reserved)))
    return "".join([*turns, render_question(shown, reserved, with_last)])


def render_question(shown: Trajectory, reserved: Sequence[str] = RESERVED, with_last: bool = True) -> str:
    """What `render_shown` puts behind the turns: the question, and the answer's opened turn."""
    return _turn("user", escape(_question(shown, with_last), reserved)) + OPEN_ANSWER


def turns_of(trajectory: Trajectory, config: PromptConfig | None = None) -> int:
    """How many turns `render` opens: the messages, the question and the answer."""
    return len((visible(trajectory, config) if config else trajectory).messages) + 2


def escape(text: str, reserved: Sequence[str] = RESERVED) -> str:
    """The text with a backslash after the first character of every reserved string: `<|im_end|>` → `<\\|im_end|>`."""
    return _pattern(tuple(reserved)).sub(lambda match: f"{match[0][0]}\\{match[0][1:]}", text)


def _question(trajectory: Trajectory, with_last: bool) -> str:
    issue = next((m.content for m in trajectory.messages if m.role == "user"), "")
    seen = next((m.content for m in reversed(trajectory.messages) if m.role in ("user", "tool")), "")
    last = f"Last: {_line(seen.strip().split(chr(10))[-1])}\n" if with_last else ""
    return (
        f"Asked: {_line(issue.strip().split(chr(10))[0])}\n{last}"
        f"Patch:\n{(trajectory.patch or 'none').strip()}\n"
        f"Is the issue solved? Answer {YES} or {NO}."
    )


def _line(text: str) -> str:
    """At most LINE_CHARACTERS of a line, its middle left out: both the start and the end of an issue's line tell."""
    half = LINE_CHARACTERS // 2
    return text if len(text) <= LINE_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def _turn(role: str, content: str) -> str:
    return f"{IM_START}{role}\n{content}{IM_END}\n"


@lru_cache(maxsize=8)
def _pattern(reserved: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(re.escape(r) for r in sorted({*reserved, *RESERVED}, key=len, reverse=True)))


def visible(trajectory: Trajectory, config: PromptConfig) -> Trajectory:
    """The attempt with the messages that a prompt of this configuration shows; the attempt itself where that is all.

    Raises DataError where turns are to be left out of a conversation that is no micro-SWE episode.
    """
    if config.evidence is Evidence.final and config.shows is PromptView.whole:
        return trajectory
    messages = list(trajectory.messages)
    if config.shows is PromptView.patch_only:
        first = next((i for i, m in enumerate(messages) if m.role == "user"), 0)
        return replace(trajectory, messages=tuple(messages[: first + 1]))
    if expected_value(trajectory.messages) is None:
        key = (
            "prompt.evidence=voluntary"
            if config.evidence is Evidence.voluntary
            else f"prompt.shows={config.shows.value}"
        )
        whole = [
            *(["prompt.evidence=final"] if config.evidence is not Evidence.final else []),
            *(["prompt.shows=whole (or patch_only)"] if config.shows is not PromptView.whole else []),
        ]
        raise DataError(
            f"{key}: trajectory {trajectory.trajectory_id} ({trajectory.source}) is not a micro-SWE episode, so it is unknown which "
            f"of its turns show a value. Use {' and '.join(whole)}."
        )
    if config.evidence is Evidence.voluntary and messages[-1].content.startswith(FINAL):
        messages.pop()
    if config.shows is PromptView.without_runs:
        messages = _without_runs(messages)
    return replace(trajectory, messages=tuple(messages))


def _without_runs(messages: list[Message]) -> list[Message]:
    kept: list[Message] = []
    ran = False
    for message in messages:
        if ran and message.role == "user" and message.content.startswith(GOT):
            kept.pop()
            ran = False
            continue
        kept.append(message)
        ran = message.role == "assistant" and isinstance(try_parse(message.content), Run)
    return kept


# Keys of `extra` under which formats keep outcomes; their texts must not be found in a prompt.
OUTCOME_KEYS = re.compile(r"eval|test|report|resolved|label|verdict|outcome|fail_to|pass_to|gold|hidden", re.IGNORECASE)
SHORTEST = 12  # characters of an outcome text that count as found; shorter ones ("[]", "passed") occur by chance


def check_leaks(trajectories: Iterable[Trajectory]) -> int:
    """Proves that no prompt holds outcome text; returns how many were read.

    Raises DataError that counts the trajectories with a leak by kind and shows the first.
    """
    read, leaking, first = 0, 0, ""
    outcome_of: dict[str, str | None] = {}  # most messages are said by many attempts
    for trajectory in trajectories:
        read += 1
        if leak := next(leaks(trajectory, outcome_of), None):
            leaking += 1
            first = (
                first or f"{trajectory.trajectory_id} ({trajectory.extra.get('place') or trajectory.source}): {leak}"
            )
    if leaking:
        raise DataError(
            f"{leaking} of {read} prompts contain the outcome that they ask for, first {first}. "
            "Remove such messages when the trajectories are read, before any verifier is trained (`rmlab import --leaks drop` "
            "leaves such attempts out)."
        )
    return read


def leaks(trajectory: Trajectory, outcome_of: dict[str, str | None] | None = None) -> Iterator[str]:
    """What in one trajectory's prompt tells its outcome: one line each. outcome_of: remembers what a text was found to say."""
    outcome_of = {} if outcome_of is None else outcome_of
    outcomes = [text for text in _outcome_texts(trajectory.extra) if len(text) >= SHORTEST]
    for place, text in _shown(trajectory):
        if text not in outcome_of:
            match = OUTCOME_TEXT.search(text)
            outcome_of[text] = match[0] if match else None
        if outcome_of[text] is not None:
            yield f"{place} says {outcome_of[text]!r}"
        for outcome in outcomes:
            if outcome in text:
                yield f"{place} repeats a text that `extra` keeps as an outcome: {outcome[:60]!r}"


def _shown(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    issue = next((number for number, m in enumerate(trajectory.messages) if m.role == "user"), None)
    for number, message in enumerate(trajectory.messages):
        if number != issue:
            yield f"message {number} ({message.role})", message.content
    yield "the patch", trajectory.patch or ""


@lru_cache(maxsize=4096)
def _of_outcome(key: str) -> bool:
    return OUTCOME_KEYS.search(key) is not None


def _outcome_texts(value: Any, under_outcome: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, dict | list | str):
                yield from _outcome_texts(inner, under_outcome or _of_outcome(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _outcome_texts(inner, under_outcome)
    elif isinstance(value, str) and under_outcome:
        yield value
