"""The one place where content becomes an identity.

A fingerprint covers only plain values and file contents, so it does not depend on caches, the process or the folder.
Whether a configuration key enters it is set where the key is defined, in its field's metadata (UNHASHED, OMIT_DEFAULT); a
configuration class with `HASHED: ClassVar[bool] = False` is left out as a whole, in every program that has it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from rmlab.errors import UsageError

if TYPE_CHECKING:
    from omegaconf import DictConfig

UNHASHED = {"hashed": False}
"""Metadata of a configuration's field that enters no hash: it changes no result, or its content stands for it."""
OMIT_DEFAULT = {"omit_default": True}
"""Metadata of a field that enters a hash only with another value than its default, so that it changes no hash of runs without it."""
LENGTH = 16  # hex digits: 64 bits, enough for millions of runs


@dataclass(frozen=True)
class Identity:
    """config_hash: of a run. control_hash: of what it shares with the runs it is compared with.

    control, parts: what was hashed for the latter and for the former, to show in which key two runs differ.
    """

    config_hash: str
    control_hash: str
    control: Mapping[str, Any] = field(repr=False)
    parts: Mapping[str, Any] = field(repr=False)


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


def hashed_values(config: "DictConfig") -> dict[str, Any]:
    """The keys of a typed, resolved configuration that enter its hash, as JSON holds them: enumerations by name.

    Raises UsageError where a value is missing.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import MissingMandatoryValue

    try:
        plain: Any = OmegaConf.to_container(config, resolve=True, enum_to_str=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise UsageError(f"{error.full_key} has no value: set it, for example {error.full_key}=...") from error
    return hashed_plain(plain, OmegaConf.get_type(config))


def hashed_fields(config: Any) -> dict[str, Any]:
    """The same of a plain instance of a configuration class."""
    return hashed_plain(asdict(config), type(config))


def hashed_plain(plain: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    """The same of plain values. schema: the configuration class that they are of."""
    known = _fields(schema) if isinstance(schema, type) and is_dataclass(schema) else {}
    of_any = get_args(schema)[1] if get_origin(schema) is dict else None
    kept = {}
    for key, value in plain.items():
        one, kind = known.get(key, (None, of_any))
        if one is not None and (not one.metadata.get("hashed", True) or not getattr(kind, "HASHED", True)):
            continue
        if one is not None and one.metadata.get("omit_default") and value == _default(one):
            continue
        kept[key] = hashed_plain(value, kind) if isinstance(value, dict) else value
    return kept


@cache
def _fields(schema: type) -> dict[str, tuple["Field[Any]", Any]]:
    """Fields of a configuration class and the classes of their values."""
    kinds = get_type_hints(schema)
    return {one.name: (one, kinds[one.name]) for one in fields(schema)}


def _default(one: "Field[Any]") -> Any:
    value = one.default if one.default_factory is MISSING else one.default_factory()
    if isinstance(value, Enum):
        return value.name
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
