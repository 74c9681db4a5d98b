"""Small made inputs of ../shared/data/cases that were read wrongly once, and what real runs show of the same."""

from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY


@pytest.fixture
def cases() -> Path:
    folder = REPOSITORY.parent / "shared" / "data" / "cases"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there: these inputs are kept beside the repository, not in it")
    return folder


def test_a_file_with_a_history_and_other_messages(cases: Path, importing) -> None:
    found = importing(cases / "import" / "m1")
    assert [(t.task_id, t.exit_status, len(t.messages)) for t in found.trajectories] == [
        ("a__b-1", "submitted", 5),
        ("a__b-2", "submitted", 5),
    ]
    assert found.summary["skipped"] == {}


def test_fragments_without_an_issue(cases: Path, importing) -> None:
    found = importing(cases / "import" / "m7")
    assert (found.summary["trajectories"], found.summary["tasks"]) == (2, 2)
    assert all(t.messages[-1].content.endswith("exit code 1.]") for t in found.trajectories)


def test_a_block_that_was_not_run(cases: Path, importing) -> None:
    (t,) = importing(cases / "import" / "m8").trajectories
    assert [m.content for m in t.messages if m.role == "assistant"] == [
        "[call bash]\nls\n[/call]",
        "Fixed. The new code is\n```python\nx = 1\n```\nas asked.",
    ]


def test_snapshots(cases: Path, importing) -> None:
    found = importing(cases / "import" / "m9")
    assert [(t.task_id, t.policy, len(t.messages)) for t in found.trajectories] == [
        ("a__b-1", "m9", 5),
        ("a__b-2", "m9", 5),
    ]
    assert found.summary["removed"] == {"earlier snapshots": 2}


@pytest.mark.parametrize("name", ["both", "generated", "gold_only"])
def test_the_benchmarks_patch(name: str, cases: Path, importing) -> None:
    found = importing(cases / "use" / "gold_patch" / f"{name}.jsonl")
    assert found.summary["removed"] == {"column patch": 3}
    ends = [None] * 3 if name == "gold_only" else [f"+x = {n}\n" for n in range(3)]
    assert [t.patch and t.patch[-7:] for t in found.trajectories] == ends
    assert "GOLD" not in repr(found.trajectories)


def test_renderings(cases: Path, importing) -> None:
    found = importing(cases / "use" / "smith_renderings").summary
    assert (found["trajectories"], found["duplicates"], found["labelled"], found["resolved"]) == (4, 8, 4, 2)


def test_exits(cases: Path, importing) -> None:
    found = importing(cases / "use" / "mini_exits" / "run").by_task()
    stated = {
        f"acme__tool-{n}": t
        for n, t in ((1, "submitted"), (2, "unfinished"), (3, "unfinished"), (5, "error"), (6, "error"))
    }
    assert {task: found[task].exit_status for task in stated} == stated


def test_a_real_turn_is_a_call_if_it_was_run(real: Path, importing) -> None:
    found = importing(real / "mini_v1_gemini3_verified.zip").trajectories
    pairs = [(m.content, n.content[:200]) for t in found for m, n in zip(t.messages, t.messages[1:], strict=False)]
    ran = ["[call bash]" in said for said, seen in pairs if "<returncode>" in seen]
    refused = ["[call bash]" in said for said, seen in pairs if "EXACTLY ONE action" in seen]
    assert (len(ran), sum(ran)) == (966, 966)
    assert (len(refused), sum(refused)) == (36, 0)


def test_real_exit_codes_and_condensations(real: Path, importing) -> None:
    found = importing(real / "openhands_sdk_v1_events.zip")
    assert found.summary["removed"] == {"condensations": 3}
    shown = [m.content for t in found.trajectories for m in t.messages if m.role == "tool"]
    assert sum("exit code" in text[-200:] for text in shown) == 88  # 3 without the suffixes
