"""What distinguishes two runs: the configuration as parameters, a name from the given overrides, the keys in which they differ.

Parameters have short keys: the shortest end of a key that no other key of the configuration has (`learning_rate` for
`optimizer.learning_rate`, `rl.steps` where `training.steps` is there too). What was asked for comes first. Some twenty are few enough to
be read: a key that nobody asked for, that changes no result or has its default is in the artifact `config.yaml` alone.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.fingerprint import hashed_fields
from rmlab.tracking.config import sweep_params
from rmlab.tracking.references import CELL

if TYPE_CHECKING:
    from omegaconf import DictConfig

TRACKING, PRESET, SEED = "tracking", "preset", "seed"
ASIDE = ("runtime.progress", "runtime.processes", "progress", "tracked")
"""Keys that are no parameters, besides those of tracking: what is shown or tracked of a run."""
USUAL = (
    "data.label_ratio",
    "environment.evidence",
    "evaluation.tasks",
    "lora.rank",
    "model.name",
    "prompt.max_tokens",
    "rl.attempts",
    "rl.groups",
    "training.batch_size",
    "training.dtype",
    "training.epochs",
)
"""Keys that people look for at their default too."""
VAGUE = ("name", "path", "tasks", "scale", "kind", "mode", "device")
"""Ends of keys that say too little alone."""
LONGEST_PARAM = 250
LONGEST_WORD, LONGEST_CELL, LONGEST_NAME = 32, 60, 120


def asked_keys(overrides: Iterable[str]) -> list[str]:
    """The keys that overrides set, but for those of tracking, a preset and the seed; a group stands for all its keys."""
    keys = [text.partition("=")[0].lstrip("+~").partition("@")[0].replace("/", ".") for text in overrides]
    aside = (*ASIDE, SEED)
    return [
        key
        for key in dict.fromkeys(keys)
        if not key.startswith(f"{TRACKING}.") and key not in aside and not _is_preset(key)
    ]


def describe_single(config: "DictConfig", overrides: Sequence[str]) -> None:
    """Says in the tracking of a run by itself what it is told apart by: its preset, the keys that were asked for, and a name of
    these, `smoke label_ratio=2:1 s0`. A name that was given stays, and without an override the program names the run."""
    tracking = config.tracking
    given = dict(text.lstrip("+~").partition("=")[::2] for text in overrides)
    for key, value in given.items():
        if _is_preset(key) and not tracking.preset:
            tracking.preset = value
    tracking.asked = asked_keys(overrides)
    words = [value for key, value in given.items() if _is_preset(key)]
    words += [f"{_short(key, tracking.asked)}={_brief(given[key])}" for key in given if key in tracking.asked]
    if words and not tracking.name:
        seed = f" s{config.seed}" if SEED in config else ""
        tracking.name = f"{' '.join(words)[: LONGEST_NAME - len(seed)]}{seed}"


def parameters(settings: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a run, in the order in which they are logged: what was asked for, the program's own, the rest.

    The rest is what is USUAL, and what changes results and has not its default; of a group that was asked for (`model=tiny`) likewise.
    settings: the typed configuration of a program. own: what the program knows better than its configuration says; these names win.
    """
    values, default = dict(leaves(settings)), dict(leaves(type(settings)()))
    hashed = _paths(hashed_fields(settings))
    kept = [
        key
        for key, value in values.items()
        if key in settings.tracking.asked
        or key in USUAL
        or (key in hashed and value != default.get(key) and not _is_place(value))
    ]
    named = {key: _parameter(key, values, own) for key in values if key in kept}
    asked = [key for key in kept if any(key == one or key.startswith(f"{one}.") for one in settings.tracking.asked)]
    whole = {name: _text(values[key]) for key, name in named.items()} | dict(own)
    swept = sweep_params(settings.tracking)
    whole = swept | whole  # where both have a name, the exact value
    order = [*swept, *(named[key] for key in asked), *own, *named.values()]
    return {name: whole[name] for name in order}


def leaves(settings: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    """(dotted key, value) of a typed configuration, without those that are no parameters. A mapping or list is one value."""
    for one in fields(settings):
        key, value = f"{path}{one.name}", getattr(settings, one.name)
        if key == TRACKING or key in ASIDE:
            continue
        if is_dataclass(value):
            yield from leaves(value, f"{key}.")
        else:
            yield key, value


def differing_keys(one: Any, other: Any, path: str = "") -> list[str]:
    """Dotted paths at which two trees of plain values differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = sorted({*one, *other}, key=str)
        return [
            found
            for key in keys
            for found in differing_keys(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [] if one == other else [path]


def _paths(tree: Mapping[str, Any], path: str = "") -> set[str]:
    """Dotted paths of all nodes of a tree of plain values."""
    found = set()
    for key, value in tree.items():
        found.add(f"{path}{key}")
        if isinstance(value, Mapping):
            found |= _paths(value, f"{path}{key}.")
    return found


def _is_preset(key: str) -> bool:
    return key == PRESET or key.endswith(f"_{PRESET}")


def _short(key: str, keys: Iterable[str]) -> str:
    """The shortest end of a dotted key that no other of `keys` ends in."""
    parts = key.split(".")
    ends = Counter(".".join(other.split(".")[-n:]) for other in keys for n in range(1, other.count(".") + 2))
    least = 2 if parts[-1] in VAGUE else 1
    return next((end for n in range(least, len(parts)) if ends[end := ".".join(parts[-n:])] < 2), key)


def _parameter(key: str, keys: Iterable[str], own: Mapping[str, Any]) -> str:
    """The parameter's name: the program's own where that says the same (`data_scale`, `objective` for its kind), else a short one."""
    same = (key, key.replace(".", "_"), key.removesuffix(".kind"), key.removesuffix(".mode"))
    return next((name for name in same if name in own), _short(key, keys))


def _is_place(value: Any) -> bool:
    """Whether a value is a path, or a list of paths."""
    texts = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and "/" in text for text in texts)


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping) and any(is_dataclass(one) for one in value.values()):
        text = ", ".join(value)  # the names of its parts; what they are is in config.yaml
    elif isinstance(value, Mapping | list | tuple):
        value = (
            {key: _text(one) for key, one in value.items()} if isinstance(value, Mapping) else [_text(v) for v in value]
        )
        text = json.dumps(value, ensure_ascii=False).replace('"', "")
    elif isinstance(value, str):
        text = Path(value).name if value.startswith("/") else value  # where it lies is this machine's alone
    else:
        text = json.dumps(value)
    return text if len(text) <= LONGEST_PARAM else f"{text[: LONGEST_PARAM - 1]}…"


def _brief(value: str) -> str:
    """A value as a word of a name: a cell without its preset, the end of a path, without quotes, cut where it is long. An interpolation
    stands there without its `$`: the name is a value of the configuration, which would resolve it, and could not where it was cut."""
    plain = re.sub(r"['\"\s]|\$(?=\{)", "", value)
    if re.fullmatch(CELL, plain) and not Path(plain).exists():
        sweep, _, level, seed = plain.split("/")
        plain = f"{sweep}/{level}/{seed}"
        return plain if len(plain) <= LONGEST_CELL else f"…{plain[1 - LONGEST_CELL :]}"
    plain = Path(plain).stem if "/" in plain and plain[0] not in "[{" else plain
    return plain if len(plain) <= LONGEST_WORD else f"{plain[: LONGEST_WORD - 1]}…"
