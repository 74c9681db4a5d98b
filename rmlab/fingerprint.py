"""The one place where content becomes an identity.

A fingerprint covers pure values and file contents only: the same cold or warm, in another process, from another folder.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LENGTH = 16  # hex digits: 64 bits, enough for millions of runs


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces. Raises ValueError for NaN or infinity, TypeError for what JSON cannot hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint(value: Any) -> str:
    """SHA-256 of the canonical JSON of a plain value, 16 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:LENGTH]


def fingerprint_lines(lines: Iterable[str]) -> str:
    """SHA-256 of lines in the order given, each closed by a newline, 16 hex digits. For content too large for one JSON."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode())
        digest.update(b"\n")
    return digest.hexdigest()[:LENGTH]


def file_fingerprint(path: Path) -> str:
    """SHA-256 of a file's bytes, 16 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:LENGTH]
