"""One notation for tool calls, whatever the agent's own was, so that no verifier tells policies apart by their syntax.

    [call bash]
    sed -n 1,20p setup.py
    [/call]

A call of one argument shows its value, a call of several shows `name: value` lines. The thought stands before the call.
"""

import json
import re
from typing import Any

from rmlab.trajectories.ingest.json_text import as_dict, as_list, as_text
from rmlab.trajectories.record import clean

FENCE = re.compile(r"```(?P<language>[a-zA-Z_]*)[ \t]*\r?\n(?P<body>.*?)```", re.DOTALL)
XML = re.compile(r"<function=([\w.-]+)>(.*?)</function>", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([\w.-]+)>(.*?)</parameter>", re.DOTALL)
HIDDEN = frozenset({"security_risk", "kind"})  # what a framework adds to the arguments of every call


def call(name: str, arguments: object) -> str:
    """A call in the notation. arguments: an object, a JSON text of one, or plain text."""
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if isinstance(arguments, dict):
        shown = {str(k): _value(v) for k, v in arguments.items() if k not in HIDDEN and v not in (None, "", [], {})}
        body = next(iter(shown.values())) if len(shown) == 1 else "\n".join(f"{k}: {v}" for k, v in shown.items())
    else:
        body = _value(arguments) if arguments is not None else ""
    body = body.strip("\n")
    return f"[call {name or 'tool'}]\n{body}\n[/call]" if body else f"[call {name or 'tool'}]\n[/call]"


def turn(thought: str, calls: list[str]) -> str:
    """An assistant's message: what it said, then its calls."""
    return "\n\n".join(part for part in (thought.strip(), *calls) if part)


def of_tool_calls(tool_calls: object) -> list[str]:
    """Calls of an OpenAI-style `tool_calls` list; it may be a JSON text."""
    if isinstance(tool_calls, str):
        tool_calls = _parsed(tool_calls)
    calls = []
    for one in as_list(tool_calls):
        function = as_dict(as_dict(one).get("function"))
        if function or as_dict(one).get("name"):
            calls.append(
                call(
                    as_text(function.get("name")) or as_text(one.get("name")),
                    function.get("arguments", one.get("arguments")),
                )
            )
    return calls


def of_message(message: dict[str, Any]) -> list[str]:
    """The structured calls of an assistant's message beside its content: `tool_calls`, or `function_call` of older APIs."""
    return of_tool_calls(message.get("tool_calls")) or of_tool_calls([_parsed_dict(message.get("function_call"))])


def is_structured(message: dict[str, Any]) -> bool:
    """Whether a message calls tools in fields or blocks of their own: its agent runs nothing that stands in its text."""
    blocks = as_list(message.get("content"))
    return bool(of_message(message)) or any(as_dict(block).get("type") == "tool_use" for block in blocks)


def of_response(output: object) -> str:
    """An answer of the Responses API: messages and calls are items of one list; reasoning is left out."""
    items = [as_dict(one) for one in as_list(output)]
    content = "\n".join(content_text(one.get("content")) for one in items if one.get("type") == "message")
    return turn(content, of_tool_calls([one for one in items if one.get("type") == "function_call"]))


def of_text(text: str) -> str:
    """A message whose call is known to stand in its text, as XML or as the last fenced block, in the notation.

    Others are unchanged. `executed` tells whether a block was a call at all.
    """
    if XML.search(text):
        return XML.sub(_xml_call, text).strip()
    blocks = list(FENCE.finditer(text))
    if not blocks:
        return text.strip()
    last = blocks[-1]
    return turn(text[: last.start()] + text[last.end() :], [call("bash", {"command": last["body"]})])


def _xml_call(match: re.Match[str]) -> str:
    return call(match[1], {name: value.strip("\n") for name, value in PARAMETER.findall(match[2])} or match[2].strip())


def content_text(content: object) -> str:
    """Text of a message's content: a string, or blocks of text, calls and results. None is ""."""
    if isinstance(content, str):
        return clean(content)
    parts = []
    for one in content if isinstance(content, list) else [content]:
        if isinstance(one, str):
            parts.append(clean(one))
            continue
        block = as_dict(one)
        kind = as_text(block.get("type"))
        if kind == "tool_use":
            parts.append(call(as_text(block.get("name")), block.get("input")))
        elif kind == "tool_result":
            parts.append(content_text(block.get("content")))
        elif kind in ("image", "image_url"):
            parts.append("[image]")
        elif kind not in ("thinking", "redacted_thinking"):
            parts.append(clean(as_text(block.get("text"))))
    return "\n".join(part for part in parts if part)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parsed_dict(value: object) -> dict[str, Any]:
    return as_dict(_parsed(value) if isinstance(value, str) else value)


def _value(value: object) -> str:
    if isinstance(value, str):
        return clean(value)
    try:
        return clean(json.dumps(value, ensure_ascii=False))
    except (ValueError, TypeError, RecursionError):
        return clean(str(value))
