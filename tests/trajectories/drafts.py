"""Documents of one attempt, and what a reader makes of them."""

import json
from pathlib import Path
from typing import Any

from rmlab.trajectories.ingest.drafts import Draft
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.readers.registry import drafted

TALK = [
    {"role": "system", "content": "You fix."},
    {"role": "user", "content": "Fix x."},
    {"role": "assistant", "content": "I look.\n```bash\nls\n```"},
    {"role": "tool", "content": "a.py"},
    {"role": "assistant", "content": "Done."},
]
HERE = Location("run", "o__n-1/trajectory.json")
TALK_WITH_CALLS = [
    {"role": "system", "content": "You fix."},
    {"role": "user", "content": "Fix x."},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"function": {"name": "bash", "arguments": '{"command": "ls"}'}, "id": "1"}],
    },
    {"role": "tool", "content": "a.py", "tool_call_id": "1"},
    {"role": "assistant", "content": "Done."},
]
"""The same with structured calls of tools."""
A, B, C, D = "o__n-1", "o__n-2", "o__n-3", "o__n-4"
"""Names of instances."""


def read(document: Any, location: Location = HERE) -> Draft:
    draft = drafted(document, location)
    assert draft is not None
    return draft


def said(draft: Draft) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in draft.messages]


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, rows)))
    return path
