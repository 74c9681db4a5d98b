"""Damaged input: never a traceback, never a label that the bytes do not state, always a count."""

import json
import random
import re
import string
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rmlab.trajectories.ingest.assemble import assemble
from rmlab.trajectories.ingest.drafts import Spool
from rmlab.trajectories.ingest.importing import summary
from rmlab.trajectories.ingest.json_text import read_json
from rmlab.trajectories.ingest.locations import Location
from rmlab.trajectories.ingest.reading import Importer, ImportOptions
from rmlab.trajectories.ingest.skipped import Skipped
from rmlab.trajectories.labels.documents import reports
from rmlab.trajectories.labels.statement import predictions
from rmlab.trajectories.readers.registry import FORMATS, format_of
from rmlab.trajectories.record import Message

# fmt: off
KEYS = [
    "messages", "trajectory", "history", "nodes", "transitions", "steps", "events", "state", "info", "role", "content", "tool_calls",
    "function", "name", "arguments", "action", "observation", "args", "instance_id", "resolved", "target", "rewards", "patch",
    "model_patch", "submission", "exit_status", "trajectory_format", "test_result", "git_patch", "metadata", "response", "choices",
    "message", "node_id", "parent_id", "actions", "output", "kind", "source", "thought", "extra", "timestamp", "type", "text", "input",
    "is_demo", "replay_config", "tests_status", "FAIL_TO_PASS", "resolved_ids", "unresolved_ids", "generated", "leaderboards",
    "results", "per_instance_details", "resolved_submissions", "instances", "o__n-1", "completions",
]
# fmt: on
WORDS = [
    "",
    "user",
    "assistant",
    "system",
    "tool",
    "exit",
    "mini-swe-agent-1",
    "run",
    "finish",
    "ActionEvent",
    "```bash\nls\n```",
    "[{",
    "text",
    "o__n-1",
    "\ud800",
    "<function=a><parameter=b>c</parameter></function>",
    "=== INTERACTION LOG ===\n[ASSISTANT]\nx",
    '[{"role": "user"}]',
]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=25,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values)
def test_readers_answer_any_document(document: object) -> None:
    location = Location("x.zip", "a/b.json")
    for reader in FORMATS:
        if not isinstance(document, (dict, list)) or not reader.matches(document):
            continue
        try:
            draft = reader.read(document, location)
        except Skipped:
            continue
        assert all(isinstance(m, Message) and isinstance(m.content, str) for m in draft.messages)
        assert any(m.role == "assistant" for m in draft.messages)
        "".join(m.content for m in draft.messages).encode()
        if draft.resolved is not None:
            assert any(
                isinstance(document, dict) and key in document for key in ("resolved", "target", "reward", "rewards")
            )
    for report in reports(document, location):
        assert all(isinstance(task, str) and isinstance(outcome, bool) for task, outcome in report.outcome.items())
    predictions(document, location)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | st.text(string.printable, max_size=60).map(str.encode))
def test_json_answers_any_bytes(data: bytes) -> None:
    try:
        value, mended = read_json(data)
    except Skipped:
        return
    if mended is None:
        assert json.dumps(value) == json.dumps(json.loads(data.decode("utf-8-sig")))


SPLICES = [
    b"null",
    b"true",
    b"false",
    b"[]",
    b"{}",
    b"1e999",
    b"NaN",
    b'"\\ud800"',
    b"-1",
    b"9" * 30,
    b'"x"',
    b"[[[[",
    b"\x00",
    b"\xff\xfe",
    b'"',
    b"\\",
    b",",
    b"}",
]
VALUE = re.compile(rb'(?<=: )("(?:[^"\\]|\\.){0,60}"|true|false|null|-?\d+(?:\.\d+)?|\[|\{)')
OUTCOME = re.compile(rb"resolved|target|reward|success_ids|generated")


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A file with one to eight bytes, spans or values replaced, or its end cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(changed)) if changed else 0
        how = rng.randrange(6)
        if how == 0 and changed:
            changed[at] = rng.randrange(256)
        elif how == 1:
            del changed[at : at + rng.choice([1, 10, 1000])]
        elif how == 2:
            changed[at:at] = rng.choice(SPLICES)
        elif how in (3, 4):
            found = list(VALUE.finditer(bytes(changed[:20_000])))
            if found:
                one = rng.choice(found)
                changed[one.start() : one.end()] = rng.choice(SPLICES)
        else:
            changed = changed[:at]
    return bytes(changed)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes]]:
    """The smallest files of every kind of every source, by their path."""
    import zipfile

    from rmlab.paths import REPOSITORY

    folder = REPOSITORY.parent / "shared" / "data" / "real"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    chosen: list[tuple[str, bytes]] = []
    for path in sorted(folder.glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            kinds: dict[tuple[str, str], int] = {}
            for info in sorted(archive.infolist(), key=lambda i: i.file_size):
                kind = (Path(info.filename).suffix, Path(info.filename).parent.name[:6])
                kinds[kind] = kinds.get(kind, 0) + 1
                if kinds[kind] <= 2 and sum(kinds.values()) < 40:
                    with archive.open(info) as file:
                        data = file.readline() if info.filename.endswith(".jsonl") else file.read(250_001)
                    if len(data) <= 250_000:
                        chosen.append((info.filename, data))
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_thousand_damaged_files(seed: int, samples: list[tuple[str, bytes]], tmp_path: Path) -> None:
    rng = random.Random(seed)
    for number in range(1000):
        name, data = rng.choice(samples)
        changed = mutated(data, rng)
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(changed)
        spool = Spool()
        importer = Importer(ImportOptions(), spool)
        importer.read(tmp_path / "set")
        result = assemble(importer.imported)
        records = list(result.records())
        for record in records:
            record.trajectory_id.encode()
        found = summary(result)
        json.dumps(found, allow_nan=False)
        spool.close()
        where = (seed, number, name)
        assert (
            found["trajectories"] + sum(found["skipped"].values()) + len(found["reports"]) + len(found["predictions"])
            > 0
        ), where
        if found["labelled"]:
            assert OUTCOME.search(changed), where
        path.unlink()


def replaced(value: object, rng: random.Random, depth: int = 0) -> object:
    """The value with one part of it, at any depth, replaced by something of another kind."""
    inner = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    if not inner or rng.random() < 0.05 * depth:
        return rng.choice(
            [
                None,
                True,
                0,
                -1,
                1e300,
                float("nan"),
                "",
                "x",
                "\ud800",
                [],
                {},
                [None],
                {"role": 3},
                [[]],
                [{"function": "f"}],
            ]
        )
    key, chosen = rng.choice(inner)
    if rng.random() < 0.05:
        return {k: v for k, v in inner if k != key} if isinstance(value, dict) else [v for k, v in inner if k != key]
    new = replaced(chosen, rng, depth + 1)
    return {**value, key: new} if isinstance(value, dict) else [new if k == key else v for k, v in inner]


@pytest.mark.slow
def test_readers_answer_real_documents_with_any_part_replaced(samples: list[tuple[str, bytes]]) -> None:
    rng = random.Random(0)
    documents = [
        read_json(data.split(b"\n")[0] if name.endswith(".jsonl") else data)[0]
        for name, data in samples
        if name.endswith((".json", ".traj", ".jsonl"))
    ]
    events = [d for d in documents if isinstance(d, dict) and "kind" in d]
    documents = [
        d
        for d in documents
        if format_of(d) is not None or reports(d, Location("x", "y")) or predictions(d, Location("x", "y"))
    ]
    documents.append({"events": events, "state": {}})
    steps = [{"thought": "x", "action": "<function=a><parameter=b>c</parameter></function>", "observation": "y"}]
    documents.append(
        {"trajectory_steps": steps, "docker_image": "i", "reward": 1.0, "agent_args": {"llm_name": "m"}, "ds": {}}
    )
    documents.append(
        {
            **dict.fromkeys(("trajectory_id", "task_id", "cluster", "source", "policy"), "x"),
            **{"exit_status": "submitted", "attempt": 0, "extra": "{}"},
            "messages": [{"role": "assistant", "content": "x"}],
        }
    )
    known: Counter[str] = Counter()
    for number in range(6000):
        document = documents[number % len(documents)]
        for _ in range(rng.choice([1, 2, 5])):
            document = replaced(document, rng)
        reader = format_of(document) if isinstance(document, (dict, list)) else None
        if reader is not None:
            known[reader.name] += 1
            try:
                draft = reader.read(document, Location("x.zip", "a/b.json"))
            except Skipped:
                continue
            json.dumps([[m.role, m.content] for m in draft.messages], ensure_ascii=False).encode()
        for report in reports(document, Location("x.zip", "a/b.json")):
            assert all(isinstance(outcome, bool) for outcome in report.outcome.values())
        predictions(document, Location("x.zip", "a/b.json"))
    assert known.keys() == {one.name for one in FORMATS}
    assert known.total() > 1000


def test_a_label_is_only_what_the_bytes_state() -> None:
    """Of a row's outcome every other value is none: other text, numbers that are no outcome, lists, nothing."""
    talk = [{"role": "user", "content": "Fix"}, {"role": "assistant", "content": "Done"}]
    for value in (
        True,
        False,
        1,
        0,
        1.0,
        0.0,
        -1,
        2,
        0.5,
        "true",
        "1",
        "resolved",
        [],
        {},
        None,
        float("nan"),
        float("inf"),
    ):
        row = {"messages": talk, "instance_id": "o__n-1", "resolved": value}
        draft = format_of(row).read(row, Location("a.jsonl", ""))
        states = value in ("true", "resolved") or (isinstance(value, (bool, int, float)) and value in (0, 1))
        assert draft.resolved is (bool(value) if states else None), value
