"""rmlab's own records, as `rmlab import` and `rmlab collect` write them: read again, nothing about them changes.

Parquet files of the store's columns, or their rows as JSON lines. A row that lacks a column, or holds in one what no record
can hold, is not of this format.
"""

import json
from collections import Counter
from typing import Any, get_args

from rmlab.trajectories.ingest.drafts import Draft, Fixed
from rmlab.trajectories.ingest.json_text import as_dict
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.readers.protocol import register
from rmlab.trajectories.record import SPLITS, ExitStatus, Message, Trajectory, clean

TEXTS = ("trajectory_id", "task_id", "cluster", "source", "policy", "exit_status")
ALTERED = "identity of an altered record"  # its trajectory_id is not the hash of its content: it gets the one that is
OPTIONAL = ("patch", "label_source", "split")


@register(order=60)
class OwnRecords:
    """One row of a set."""

    name = "rmlab"

    def matches(self, document: Any) -> bool:
        row = as_dict(document)
        attempt, turns = row.get("attempt"), row.get("messages")
        return (
            all(isinstance(row.get(key), str) for key in TEXTS)
            and all(row.get(key) is None or isinstance(row[key], str) for key in OPTIONAL)
            and (row.get("resolved") is None or isinstance(row["resolved"], bool))
            and (isinstance(attempt, int) and not isinstance(attempt, bool))
            and isinstance(turns, list)
            and all(isinstance(as_dict(m).get(key), str) for m in turns for key in ("role", "content"))
            and row["exit_status"] in get_args(ExitStatus)
            and (row.get("split") is None or row["split"] in SPLITS)
            and _extra(row.get("extra")) is not None
        )

    def read(self, document: Any, location: Location) -> Draft:
        record = Trajectory(
            **{key: clean(document[key]) for key in ("task_id", "cluster", "source", "policy")},
            attempt=document["attempt"],
            messages=tuple(Message(m["role"], clean(m["content"])) for m in document["messages"]),
            patch=None if document.get("patch") is None else clean(document["patch"]),
            exit_status=document["exit_status"],
            resolved=document.get("resolved"),
            label_source=document.get("label_source"),
            split=document.get("split"),
            extra=_extra(document.get("extra")) or {},
        )
        altered = record.trajectory_id != document["trajectory_id"]
        return Draft(
            location=location,
            format=self.name,
            task_id=record.task_id,
            policy=record.policy,
            messages=list(record.messages),
            patch=record.patch,
            exit_status=record.exit_status,
            resolved=record.resolved,
            label_source=record.label_source,
            joins=record.resolved is None,
            extra=record.extra,
            removed=Counter({ALTERED: 1} if altered else {}),
            fixed=Fixed(record.trajectory_id, record.cluster, record.source, record.attempt, record.split),
        )


def _extra(value: object) -> dict[str, Any] | None:
    """The object that `extra` holds, empty where it is null; None where it holds none."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None
