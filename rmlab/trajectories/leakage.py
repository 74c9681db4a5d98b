"""Text in an attempt that reveals its outcome, or that a format adds after its end: found, removed or refused, with its place.

Removed: the patch where it is repeated as the last turn (mini-SWE-agent, SWE-agent), since the record holds it once.
Found: text that evaluation harnesses write about an outcome, and the names of tests that were hidden from the agent.
`rmlab.verifiers.prompt` refuses to train on the former; a hidden test's name may have been seen in the repository by right
(the test was there and was changed), so it is reported and nothing else.

Which issues are almost the same? MinHash over word shingles, banded; every candidate pair is then compared exactly.

Two tasks whose issues nearly agree (a bug reported twice, a benchmark's copy of another's task) must not lie on both sides
of a split. MinHash as in Broder 1997; banding as in Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rmlab.progress import progress
from rmlab.trajectories.record import Message, Trajectory

# What evaluation harnesses write about an outcome. The bare words "resolved", "hidden tests" or `test_patch.py` are none:
# agents say them of their own work.
OUTCOME_TEXT = re.compile(
    r"FAIL_TO_PASS|PASS_TO_PASS|FAIL_TO_FAIL|PASS_TO_FAIL|tests_status\b|[\"']test_patch[\"']\s*:|\beval_logs\b"
    r"|\b\d+ hidden[ _]tests?\b|\bhidden[ _]tests?\W+(?:passed|failed)\b"
    r"|[\"'](?:resolved|is_resolved|label|verdict)[\"']\s*:\s*(?:true|false|0|1)\b|\bRESOLVED_(?:FULL|PARTIAL|NO)\b",
    re.IGNORECASE,
)
_SIGNS = (
    *("to_pass", "to_fail", "tests_status", "test_patch", "eval_logs", "hidden test", "hidden_test"),
    *(f"{word}{quote}" for word in ("resolved", "label", "verdict") for quote in ("'", '"')),
    *("resolved_full", "resolved_partial", "resolved_no"),
)
"""One of these stands in every text that the pattern finds: looking for them first is far faster."""


def outcome_texts(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """(number of the message, what it says) for each message after the issue that holds outcome text."""
    lower = [m.content.lower() for m in messages]
    whole = "\n".join(lower)
    signs = [sign for sign in _SIGNS if sign in whole]
    if not signs:
        return
    issue = next((number for number, m in enumerate(messages) if m.role == "user"), None)
    for number, message in enumerate(messages):
        if (
            number != issue
            and any(sign in lower[number] for sign in signs)
            and (stated := OUTCOME_TEXT.search(message.content))
        ):
            yield number, stated[0]


def hidden_names(messages: Sequence[Message], hidden: Iterable[str]) -> Iterator[tuple[int, str]]:
    """(number of the message, the test) for each hidden test whose function is named in a turn after the issue."""
    issue = next((number for number, m in enumerate(messages) if m.role == "user"), None)
    functions = {name: function for name in hidden if len(function := _function(name)) >= 8}
    for name, function in functions.items():
        for number, message in enumerate(messages):
            if number != issue and function in message.content:
                yield number, name
                break


def _function(test: str) -> str:
    """The function's name of a test's id: `tests/a.py::Case::test_x[1]` and `test_x (app.tests.Case)` → `test_x`."""
    return test.split("::")[-1].split(" (")[0].split("[")[0].strip()


def without_repeated_patch(messages: Sequence[Message], patch: str | None) -> tuple[list[Message], Counter[str]]:
    """The messages without last turns that only repeat the patch, or are empty; and how many of each were left out."""
    kept = list(messages)
    wanted = _even(patch or "")
    removed: Counter[str] = Counter()
    while kept and kept[-1].role != "assistant":
        text = _even(kept[-1].content)
        # A shell's state may follow the patch (SWE-agent: open file, directory, prompt).
        if text and not (wanted and text.startswith(wanted) and len(text) < len(wanted) + 200):
            break
        kept.pop()
        removed["patch repeated as last turn" if text else "empty last turn"] += 1
    return kept, removed


def _even(text: str) -> str:
    """Line ends evened and outer space dropped: the same patch goes through terminals and files."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


WORD = re.compile(r"\w+")
MARKED = re.compile(r"<(issue_description|pr_description|task|issue)>\s*(.*?)\s*</\1>", re.DOTALL)
SHINGLE = 5  # words
BANDS, ROWS = 32, 4  # 128 hashes: a pair of overlap 0.8 is a candidate with probability 1 - 1e-7, one of 0.3 with 0.23
LEAST = 0.8  # overlap from which issues count as the same
COMMON, FEW = (
    0.1,
    5,
)  # what stands in over this share of all issues, and in more than so many (or half of them), tells none apart
MANY = 10_000  # issues: fewer take no seconds
FEWEST = 3  # shingles: of a shorter issue ("fix the bug") nothing can be said

Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Near:
    """Two tasks and the Jaccard overlap of their issues' shingles."""

    a: str
    b: str
    overlap: float


def issue_of(message: str) -> str:
    """The issue within a first message: what stands between an agent's marks, else all of it."""
    marked = MARKED.search(message)
    if marked:
        return marked[2]
    _, mark, rest = message.partition("\nISSUE:\n")
    return re.split(r"\nINSTRUCTIONS?:", rest, maxsplit=1)[0] if mark else message


def issues_of(trajectories: Iterable[Trajectory]) -> dict[str, str]:
    """task → issue, as the first attempt at it shows it."""
    issues: dict[str, str] = {}
    for trajectory in trajectories:
        if trajectory.task_id not in issues:
            issues[trajectory.task_id] = issue_of(
                next((m.content for m in trajectory.messages if m.role == "user"), "")
            )
    return issues


def near_duplicates(
    issues: Mapping[str, str], least: float = LEAST, apart: Mapping[str, str] | None = None
) -> list[Near]:
    """Pairs of tasks whose issues overlap by at least `least`, in the order of their names. issues: task → text.

    apart: task → where it lies; then only pairs that lie in two places are looked for. Of issues that are the same word for word
    (in one place) the first stands for the others, which are paired with it alone: a text that a thousand tasks share is no half
    million of pairs.
    """
    words, cut = _Words(), {}
    with progress("comparing issues", len(issues), "issues", show=len(issues) > MANY) as advance:
        for task, text in sorted(issues.items()):
            cut[task] = words.shingles(text)
            advance(1)
    shingles = _without_common(cut)
    alike: dict[tuple[bytes, str], list[str]] = defaultdict(list)
    for task, own in shingles.items():
        if len(own) >= FEWEST:
            alike[own.tobytes(), apart[task] if apart else ""].append(task)
    groups, places = list(alike.values()), [place for _, place in alike]
    first = [group[0] for group in groups]
    pairs = [] if apart else [Near(group[0], other, 1.0) for group in groups for other in group[1:]]
    signature_TH = (
        np.stack([_signature(shingles[task]) for task in first]) if first else np.zeros((0, BANDS * ROWS), np.uint64)
    )
    for i, j in _candidates(signature_TH, places if apart else None):
        overlap = _overlap(shingles[first[i]], shingles[first[j]])
        if overlap >= least:
            pairs.append(Near(min(first[i], first[j]), max(first[i], first[j]), overlap))
    return sorted(pairs, key=lambda near: (near.a, near.b))


class _Words:
    """Hashes of words, each looked up once: issues share most of theirs."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def shingles(self, text: str) -> Hashes:
        """Hashes of the runs of SHINGLE words, unique and sorted; a shorter text is one shingle."""
        known, hashes = self.known, []
        for word in WORD.findall(text.lower()):
            if word not in known:
                known[word] = int.from_bytes(
                    hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "big"
                )
            hashes.append(known[word])
        if not hashes:
            return np.zeros(0, dtype=np.uint64)
        word_W = np.array(hashes, dtype=np.uint64)
        runs = max(len(word_W) - SHINGLE + 1, 1)
        run_R = np.zeros(runs, dtype=np.uint64)
        for place in range(min(SHINGLE, len(word_W))):  # a polynomial of the words' hashes: their order counts
            run_R = run_R * _BASE + word_W[place : place + runs]
        return np.unique(run_R)


def _without_common(shingles: dict[str, Hashes]) -> dict[str, Hashes]:
    """Without what stands in too many issues (COMMON, FEW): an agent's instructions, a template's questions.

    An issue that many tasks repeat word for word counts once: it is the same issue, however many they are, and no template.
    """
    if len(shingles) < 4:
        return shingles
    distinct = {own.tobytes(): own for own in shingles.values()}
    values, counts = np.unique(np.concatenate(list(distinct.values())), return_counts=True)
    common = values[counts > max(COMMON * len(distinct), min(len(distinct) / 2, FEW))]
    if not len(common):
        return shingles
    return {
        task: shingles_of_task[
            common[np.searchsorted(common, shingles_of_task).clip(max=len(common) - 1)] != shingles_of_task
        ]
        for task, shingles_of_task in shingles.items()
    }


def _signature(shingles: Hashes) -> Hashes:
    """The least value of each of the BANDS * ROWS hashes over the shingles (multiply-add-shift, Dietzfelbinger 1996)."""
    least = np.full(BANDS * ROWS, np.iinfo(np.uint64).max, dtype=np.uint64)
    for start in range(0, len(shingles), 1024):  # the table of a long text's hashes stays in a core's cache
        table = shingles[start : start + 1024, None] * _MULTIPLY[None, :]
        table += _ADD[None, :]
        least = np.minimum(least, table.min(axis=0))
    return least >> np.uint64(32)  # the upper half is the one that depends on all bits


def _candidates(signature_TH: Hashes, places: Sequence[str] | None) -> Iterator[tuple[int, int]]:
    """Pairs of rows that agree in all hashes of a band, each once; where places are given, pairs of two places."""
    seen: set[tuple[int, int]] = set()
    for band in range(BANDS):
        key_T = signature_TH[:, band * ROWS] * _BASE
        for row in range(1, ROWS):
            key_T = (key_T + signature_TH[:, band * ROWS + row]) * _BASE
        order_T = np.argsort(key_T, kind="stable")
        edges = np.flatnonzero(np.diff(key_T[order_T])) + 1
        for bucket in np.split(order_T, edges):
            if len(bucket) < 2:
                continue
            same = bucket.tolist()
            for number, i in enumerate(same):
                for j in same[number + 1 :]:
                    if (places is None or places[i] != places[j]) and (i, j) not in seen:
                        seen.add((i, j))
                        yield i, j


def _overlap(a: Hashes, b: Hashes) -> float:
    shared = len(np.intersect1d(a, b, assume_unique=True))
    return shared / (len(a) + len(b) - shared)


_BASE = np.uint64(0x9E3779B97F4A7C15)
_RNG = np.random.default_rng(0)
_MULTIPLY = _RNG.integers(0, 1 << 63, BANDS * ROWS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_ADD = _RNG.integers(0, 1 << 63, BANDS * ROWS, dtype=np.uint64)
