"""Which issues are almost the same? MinHash over word shingles, banded; every candidate pair is then compared exactly.

Two tasks whose issues nearly agree (a bug reported twice, a benchmark's copy of another's task) must not lie on both sides
of a split. MinHash as in Broder 1997; banding as in Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"\w+")
MARKED = re.compile(r"<(issue_description|pr_description|task|issue)>\s*(.*?)\s*</\1>", re.DOTALL)
SHINGLE = 5  # words
BANDS, ROWS = 32, 4  # 128 hashes: a pair of overlap 0.8 is a candidate with probability 1 - 1e-7, one of 0.3 with 0.23
COMMON = 0.1
FEWEST = 3  # shingles: of a shorter issue ("fix the bug") nothing can be said
PRIME = (1 << 61) - 1


@dataclass(frozen=True)
class Near:
    """Two tasks and the Jaccard overlap of their issues' shingles."""

    a: str
    b: str
    overlap: float


def issue_of(message: str) -> str:
    """The issue within a first message: what stands between an agent's marks, else all of it."""
    found = MARKED.search(message)
    if found:
        return found[2]
    _, mark, rest = message.partition("\nISSUE:\n")
    return re.split(r"\nINSTRUCTIONS?:", rest, maxsplit=1)[0] if mark else message


def near_duplicates(issues: Mapping[str, str], least: float = 0.8) -> list[Near]:
    """Pairs of tasks whose issues overlap by at least `least`, in the order of their names. issues: task → text."""
    shingles = _without_common({task: _shingles(text) for task, text in sorted(issues.items())})
    tasks = [task for task, found in shingles.items() if len(found) >= FEWEST]
    signature_TH = np.stack([_signature(shingles[task]) for task in tasks]) if tasks else np.zeros((0, BANDS * ROWS), np.uint64)
    candidates: set[tuple[int, int]] = set()
    for band in range(BANDS):
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for number, row in enumerate(signature_TH[:, band * ROWS : (band + 1) * ROWS]):
            buckets[row.tobytes()].append(number)
        for same in buckets.values():
            candidates.update((a, b) for i, a in enumerate(same) for b in same[i + 1 :])
    found = []
    for a, b in sorted(candidates):
        overlap = _overlap(shingles[tasks[a]], shingles[tasks[b]])
        if overlap >= least:
            found.append(Near(tasks[a], tasks[b], overlap))
    return found


def _shingles(text: str) -> NDArray[np.uint64]:
    """Hashes of the runs of SHINGLE words, unique and sorted; a shorter text is one shingle."""
    words = [word.lower() for word in WORD.findall(text)]
    runs = {" ".join(words[i : i + SHINGLE]) for i in range(max(len(words) - SHINGLE + 1, 1))} if words else set()
    hashes = [int.from_bytes(hashlib.blake2b(run.encode("utf-8", "replace"), digest_size=4).digest(), "big") for run in runs]
    return np.unique(np.array(hashes, dtype=np.uint64))


def _without_common(shingles: dict[str, NDArray[np.uint64]]) -> dict[str, NDArray[np.uint64]]:
    """Without what stands in over COMMON of all issues: an agent's instructions, a template's questions."""
    if len(shingles) < 20:
        return shingles
    values, counts = np.unique(np.concatenate(list(shingles.values())), return_counts=True)
    common = values[counts > COMMON * len(shingles)]
    return {task: np.setdiff1d(found, common, assume_unique=True) for task, found in shingles.items()}


def _signature(shingles: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The least value of each of the BANDS * ROWS hashes over the shingles."""
    least = np.full(BANDS * ROWS, np.iinfo(np.uint64).max, dtype=np.uint64)
    for start in range(0, len(shingles), 4096):  # a long text's table of hashes stays small
        part = shingles[start : start + 4096]
        # shingles < 2^32 and multipliers < 2^31: the product fits 64 bits, and the modulus is a prime above both
        table = (part[:, None] * _MULTIPLY[None, :] + _ADD[None, :]) % np.uint64(PRIME)
        least = np.minimum(least, table.min(axis=0))
    return least


def _overlap(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> float:
    shared = len(np.intersect1d(a, b, assume_unique=True))
    return shared / (len(a) + len(b) - shared)


_RNG = np.random.default_rng(0)
_MULTIPLY = _RNG.integers(1, 1 << 31, BANDS * ROWS, dtype=np.uint64)
_ADD = _RNG.integers(0, 1 << 31, BANDS * ROWS, dtype=np.uint64)
