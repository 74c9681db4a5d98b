"""Near-duplicate issues are found by MinHash as by comparing all pairs; parts share no cluster and no such issue."""

import random
from dataclasses import replace

import pytest

from rmlab.errors import DataError, UsageError
from rmlab.trajectories.leakage import SHINGLE, WORD, issue_of, near_duplicates
from rmlab.trajectories.splitting import TaskFacts, parse_shares, split

WORDS = [f"w{i}" for i in range(400)]


def text(rng: random.Random, n: int = 120) -> list[str]:
    return [rng.choice(WORDS) for _ in range(n)]


def jaccard(a: str, b: str) -> float:
    def runs(t: str) -> set[tuple[str, ...]]:
        words = WORD.findall(t)
        return {tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)}

    return len(runs(a) & runs(b)) / len(runs(a) | runs(b))


def issues(n: int = 60) -> dict[str, str]:
    """Texts of which some are others with a few words changed."""
    rng = random.Random(3)
    found: dict[str, str] = {}
    for i in range(n):
        words = text(rng)
        found[f"t{i:03d}"] = " ".join(words)
        if i % 4 == 0:
            for _ in range(rng.choice([1, 2, 3, 8])):
                words[rng.randrange(len(words))] = "changed"
            found[f"t{i:03d}b"] = " ".join(words)
    return found


def test_every_near_pair_is_found_and_measured_exactly() -> None:
    texts = issues()
    names = sorted(texts)
    exact = {(a, b): jaccard(texts[a], texts[b]) for i, a in enumerate(names) for b in names[i + 1 :]}
    for least in (0.6, 0.8, 0.9):
        found = {(near.a, near.b): near.overlap for near in near_duplicates(texts, least)}
        assert found == {pair: pytest.approx(overlap) for pair, overlap in exact.items() if overlap >= least}
    assert any(overlap >= 0.8 for overlap in exact.values())


def test_what_all_issues_share_makes_nothing_near() -> None:
    rng = random.Random(0)
    template = " ".join(text(rng, 300))
    alike = {f"t{i}": f"{template} {' '.join(text(rng, 60))} {template}" for i in range(30)}
    assert near_duplicates(alike) == []
    assert (
        near_duplicates({})
        == near_duplicates({"a": "", "b": ""})
        == near_duplicates({"a": "fix it", "b": "fix it"})
        == []
    )


@pytest.mark.parametrize(("tasks", "same"), [(6, 4), (10, 6), (50, 6), (100, 12), (100, 60)])
def test_an_issue_that_many_tasks_repeat_is_no_template(tasks: int, same: int) -> None:
    rng = random.Random(1)
    issue = " ".join(text(rng))
    repeated = {f"a{i:02d}": issue for i in range(same)} | {
        f"b{i:02d}": " ".join(text(rng)) for i in range(tasks - same)
    }
    assert [(near.a, near.b) for near in near_duplicates(repeated)] == [("a00", f"a{i:02d}") for i in range(1, same)]
    assert len(near_duplicates(repeated, apart={task: task[-1] for task in repeated})) >= 1


def test_the_issue_within_a_first_message() -> None:
    assert issue_of("<uploaded>x</uploaded> Consider <pr_description>\nBug.\n</pr_description> Do it.") == "Bug."
    assert issue_of("Text:\nISSUE:\nBug.\n\nINSTRUCTIONS:\nNow") == "Bug.\n"
    assert issue_of("Bug.") == "Bug."


def facts(n: int = 60) -> dict[str, TaskFacts]:
    return {
        task: TaskFacts(f"repo{hash_of(task) % 9}", issue, f"2025-01-{1 + i % 28:02d}")
        for i, (task, issue) in enumerate(issues(n).items())
    }


def hash_of(task: str) -> int:
    return int(task.strip("tb")) * 7 + (3 if task.endswith("b") else 0)


@pytest.mark.parametrize("by", ["repository", "task", "time"])
@pytest.mark.parametrize("seed", [0, 1])
def test_parts_share_no_cluster_and_no_near_issue(by: str, seed: int) -> None:
    tasks = facts()
    result = split(tasks, parse_shares(["verifier=0.6", "validation=0.1", "evaluation=0.3"]), by, seed, least=0.8)
    assert result.part.keys() == tasks.keys()
    assert set(result.part.values()) == {"verifier", "validation", "evaluation"}
    parts_of: dict[str, set[str]] = {}
    for task, part in result.part.items():
        parts_of.setdefault(result.cluster[task], set()).add(part)
    assert all(len(parts) == 1 for parts in parts_of.values())
    assert result.near
    assert all(result.part[near.a] == result.part[near.b] for near in result.near)
    if by == "repository":
        assert all(
            result.part[a] == result.part[b] for a in tasks for b in tasks if tasks[a].cluster == tasks[b].cluster
        )
    else:
        share = sum(part == "verifier" for part in result.part.values()) / len(tasks)
        assert share == pytest.approx(0.6, abs=0.05)


def test_time_puts_the_oldest_first() -> None:
    tasks = {
        f"t{i}": TaskFacts("r", f"issue number {i} of its own kind {i * 7}", f"2025-{1 + i:02d}-01") for i in range(10)
    }
    result = split(tasks, parse_shares(["verifier=0.7", "evaluation=0.3"]), "time")
    assert [result.part[f"t{i}"] for i in range(10)] == ["verifier"] * 7 + ["evaluation"] * 3


def test_tasks_of_one_time_are_ordered_by_the_seed_and_counted() -> None:
    issue = "issue number {} of its own kind {}".format
    tasks = {f"t{i:02d}": TaskFacts("r", issue(i, i * 7), "2025-01-01" if i < 15 else "2024-12-31") for i in range(20)}
    shares = parse_shares(["verifier=0.7", "evaluation=0.3"])
    found = [split(tasks, shares, "time", seed) for seed in (0, 0, 1)]
    assert found[0].part == found[1].part != found[2].part
    for one in found:
        assert all(one.part[f"t{i}"] == "verifier" for i in range(15, 20)), "the older ones first"
        assert [part for _, part in sorted(one.part.items())][:15] != ["verifier"] * 9 + ["evaluation"] * 6
        [note] = one.notes
        assert note.startswith("15 of 20 tasks share one time, 2025-01-01, and lie in several parts (")
        assert "verifier 9" in note
        assert "evaluation 6" in note
    days = {name: replace(facts, time=f"2025-01-{i + 1:02d}") for i, (name, facts) in enumerate(tasks.items())}
    assert split(days, shares, "time", 0) == split(days, shares, "time", 1), "without ties no seed matters"
    minutes = {name: replace(facts, time=f"2025-01-01T10:{i:02d}:00") for i, (name, facts) in enumerate(tasks.items())}
    assert split(minutes, shares, "time", 0) == split(minutes, shares, "time", 1)
    assert split(minutes, shares, "time").notes == (), "one date is no tie where the times differ"
    assert split(days, shares, "time").notes == split(tasks, shares, "task").notes == ()


def test_the_same_seed_gives_the_same_split_and_another_gives_another() -> None:
    tasks, shares = facts(), parse_shares([])
    assert split(tasks, shares, "task", 0).part == split(dict(reversed(tasks.items())), shares, "task", 0).part
    assert split(tasks, shares, "task", 0).part != split(tasks, shares, "task", 1).part


@pytest.mark.parametrize(
    ("parts", "by", "error", "words"),
    [
        (["verifier=2"], "task", UsageError, "a share above 0"),
        (["nope=0.5"], "task", UsageError, "with one of supervised"),
        (["verifier=0.5", "evaluation=0.4"], "task", UsageError, "add up to 1"),
        (["verifier=0.5", "verifier=0.5"], "task", UsageError, "once"),
        (["verifier=1"], "color", UsageError, "repository, task or time"),
        (["verifier=0.5", "evaluation=0.5"], "repository", DataError, "1 groups of repository cannot fill 2 parts"),
        (["verifier=1"], "time", DataError, "2 of 2 tasks have no time, first a"),
    ],
)
def test_what_cannot_be_split_says_so(parts: list[str], by: str, error: type[Exception], words: str) -> None:
    tasks = {"a": TaskFacts("r", "one"), "b": TaskFacts("r", "two")}
    with pytest.raises(error, match=words):
        split(tasks, parse_shares(parts), by)
