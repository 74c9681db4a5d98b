"""What a reader must not do: take another's document, the benchmark's answer, or an outcome in no known form."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trajectories.drafts import TALK, lines, read

# Whose document is it?


@pytest.mark.parametrize("messages", [[["a"], ["b"]], [{"role": "user", "content": "Summarise."}], [], [3], None])
def test_a_swe_agent_file_with_other_messages_beside_its_history(messages: Any) -> None:
    document = {"environment": "o__n-1", "trajectory": [], "history": TALK, "info": {"exit_status": "submitted"}}
    draft = read({**document, "messages": messages})
    assert (draft.format, draft.task_id, len(draft.messages)) == ("swe-agent", "o__n-1", 5)


def test_messages_beside_a_history_of_something_else() -> None:
    row = {"instance_id": "o__n-1", "messages": TALK, "test_result": {"git_patch": "d"}}
    for history in ([], [{"role": "user", "content": "earlier"}], [{"action": "message", "source": "user"}]):
        draft = read({**row, "history": history})
        assert (draft.format, len(draft.messages), draft.patch) == ("chat", 5, "d"), history


def test_turns_are_where_the_roles_are() -> None:
    row = {"instance_id": "o__n-1", "messages": [["a"], ["b"]], "trajectory": TALK}
    assert (read(row).format, len(read(row).messages)) == ("chat", 5)


def test_the_first_readers_reason_is_given_where_no_reader_finds_an_attempt(tmp_path: Path, importing) -> None:
    document = {"info": {"exit_status": "RuntimeError", "submission": ""}, "messages": TALK[:2]}
    (tmp_path / "o__n-1.traj.json").write_text(json.dumps(document))
    assert importing(tmp_path).summary["skipped"] == {"crash trace": 1}


# Whose patch is it?

ROW = {"instance_id": "o__n-1", "messages": TALK, "patch": "GOLD"}
BENCHMARK = {"test_patch": "t", "FAIL_TO_PASS": ["t::a"]}


@pytest.mark.parametrize(
    ("beside", "patch"),
    [
        ({}, "GOLD"),  # SWE-smith: the attempt's own
        ({"model_patch": "mine"}, "mine"),
        ({"generated_patch": "mine", **BENCHMARK}, "mine"),
        ({"output_patch": "mine"}, "mine"),
        ({"metadata": {"model_patch": "mine"}}, "mine"),
        ({"test_result": {"git_patch": "mine"}}, "mine"),
        ({"submission": "diff --git a/m b/m"}, "diff --git a/m b/m"),
        ({"submission": "20240620_agent"}, "GOLD"),  # a name
        ({"model_patch": ""}, None),
        ({"model_patch": None}, None),
        (BENCHMARK, None),
        ({"PASS_TO_PASS": "[]"}, None),
        ({"fail_to_pass": "[]"}, None),
        ({"patch": "mine", "gold_patch": "GOLD"}, "mine"),
        ({"patch": "mine", "reference_patch": "GOLD"}, "mine"),
        ({"patch": "mine", "golden_patch": "GOLD", **BENCHMARK}, "mine"),
        ({"gold_patch": "GOLD", **BENCHMARK}, None),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_the_benchmarks_patch_is_never_the_attempts(
    beside: dict[str, Any], patch: str | None, kind: str, tmp_path: Path, importing
) -> None:
    row = {**ROW, **beside}
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        lines(path, row)
    else:
        pq.write_table(pa.Table.from_pylist([row]), path)
    (t,) = importing(path).trajectories
    assert t.patch == patch
    assert patch == "GOLD" or "GOLD" not in json.dumps([t.extra, [m.content for m in t.messages]])
    if patch is None or (patch != "GOLD" and row["patch"] == "GOLD"):
        assert t.extra["removed"]["column patch"] == 1


def test_an_outcome_in_no_known_form_is_counted() -> None:
    for value, counted in (("perhaps", 1), (0.5, 1), (-1, 0), (None, 0), (1, 0), ("yes", 0)):
        draft = read({**ROW, "resolved": value})
        assert sum(draft.removed.values()) == counted, value
    assert read({**ROW, "resolved": "perhaps"}).removed == {
        "label in column resolved that is neither true nor false": 1
    }


def test_condensations_and_unknown_events_are_counted() -> None:
    action = {"kind": "ActionEvent", "source": "agent", "action": {"command": "ls"}, "tool_name": "bash"}
    events = [
        action,
        {"kind": "Condensation"},
        {"kind": "CondensationSummaryEvent"},
        {"kind": "Condensation"},
        {"kind": "New"},
    ]
    events.append({"kind": "ConversationStateUpdateEvent"})
    for document in ({"events": events, "state": {}}, {"instance_id": "o__n-1", "history": events}):
        assert read(document).removed == {"condensations": 2, "event of an unknown kind": 1}
    old = [{"action": "run", "args": {"command": "ls"}}, {"action": "condensation"}, {"observation": "condense"}]
    assert read({"instance_id": "o__n-1", "history": old}).removed == {"condensations": 1}
