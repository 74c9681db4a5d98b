"""Which text of a turn was run? Calls that stand in an agent's text, by the format that its agent documents.

    xml              `<function=...>`: OpenHands and R2E-Gym without native calls
    one bash block   mini-SWE-agent: with none or several nothing runs
    last block       SWE-agent's thought and action; its observations begin with OBSERVATION
    observed block   any other agent: the only block of a turn, of a shell, that an observation follows

A block that was not run is text: an answer may show code. Where any turn of a conversation has a structured call, its texts
hold none; and a turn that was answered by words about its format ran nothing.
"""

import re
from collections.abc import Sequence
from typing import Literal

from rmlab.trajectories.readers.calls import FENCE, XML, call, of_text, turn
from rmlab.trajectories.record import Message

Rule = Literal["xml", "one bash block", "last block", "observed block"]

ACTION = re.compile(r"```(?:bash|mswea_bash_command)[ \t]*\r?\n(.*?)\r?\n```", re.DOTALL)
SHELLS = ("", "bash", "sh", "shell", "console", "zsh")
REFUSED = re.compile(
    r"output was not formatted correctly|always include one discussion|found \d+ actions"
    r"|(?:provide|include|contain) exactly one (?:action|command|bash|tool|code)",
    re.IGNORECASE,
)
SHOWN = re.compile(
    r"\s*(?:observation\b|<(?:returncode|output|stdout|observation)>|exit code|\[exit code)", re.IGNORECASE
)
SUBMITS = re.compile(
    r"^\s*(?:submit|exit|finish)\s*$|COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT|MINI_SWE_AGENT_FINAL_OUTPUT", re.MULTILINE
)


def submits(content: str) -> bool:
    """Whether an agent's turn, in the notation, ends the attempt."""
    return (
        "[call submit]" in content
        or "[call finish]" in content
        or content.rstrip().endswith("[call bash]\nsubmit\n[/call]")
    )


def in_notation(messages: Sequence[Message], rule: Rule | None = None) -> list[Message]:
    """The turns of an agent without structured calls, the texts that were run in the notation.

    rule: of the agent, where the format says which it is; None = by what its observations look like, and only XML where
    they look like none.
    """
    replies = [m if m.role != "assistant" else None for m in messages[1:]]
    answers = [
        reply
        for m, reply in zip(messages, replies, strict=False)
        if m.role == "assistant" and reply is not None and not _refuses(reply)
    ]
    rule = rule or _rule(answers)
    if rule == "one bash block" and not any(ACTION.search(m.content) for m in messages if m.role == "assistant"):
        rule = "observed block"  # a run may be told to write its actions otherwise
    return [
        Message("assistant", _said(m.content, reply, rule)) if m.role == "assistant" else m
        for m, reply in zip(messages, [*replies, None], strict=False)
    ]


def _rule(answers: Sequence[Message]) -> Rule:
    if any("<returncode>" in m.content[:200] for m in answers):
        return "one bash block"
    if any(m.content.lstrip().startswith("OBSERVATION:") for m in answers):
        return "last block"
    return "observed block" if any(m.role == "tool" or SHOWN.match(m.content) for m in answers) else "xml"


def _said(text: str, reply: Message | None, rule: Rule) -> str:
    if XML.search(text):
        return of_text(text)
    if rule == "xml" or (reply is not None and _refuses(reply)):
        return text.strip()
    if rule == "one bash block":
        actions = list(ACTION.finditer(text))
        return _with_call(text, actions[0]) if len(actions) == 1 else text.strip()
    blocks = list(FENCE.finditer(text))
    if not blocks or (rule == "observed block" and len(blocks) > 1):
        return text.strip()
    last = blocks[-1]
    shell = last["language"].lower() in SHELLS
    if reply is not None:
        ran = shell or rule == "last block"
    else:  # nothing shows what the last turn ran
        ran = shell and bool(SUBMITS.search(last["body"]) or (rule == "last block" and not text[last.end() :].strip()))
    return of_text(text) if ran else text.strip()


def _with_call(text: str, action: re.Match[str]) -> str:
    return turn(text[: action.start()] + text[action.end() :], [call("bash", {"command": action[1]})])


def _refuses(reply: Message) -> bool:
    """Whether an answer says that the turn before was not in the agent's format, so that nothing ran."""
    return bool(REFUSED.search(reply.content[:400])) and "<returncode>" not in reply.content[:400]
