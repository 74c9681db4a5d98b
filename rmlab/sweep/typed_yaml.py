"""The text of a sweep file as plain values, checked against the types of its keys."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from rmlab.configured_values import LARGEST
from rmlab.errors import UsageError
from rmlab.wording import near


def plain_yaml(text: str) -> Any:
    """A YAML text without numbers to base 60: `4:1` is a ratio, not 241. Raises yaml.YAMLError."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Takes two numbers with a colon for a text."""

    def number(loader: Any, node: Any) -> Any:
        if ":" in node.value:
            return node.value
        return loader.construct_yaml_int(node) if node.tag.endswith("int") else loader.construct_yaml_float(node)

    for kind in ("int", "float"):
        Loader.add_constructor(f"tag:yaml.org,2002:{kind}", number)
    return yaml.load(text, Loader)


def yaml_mapping(path: Path) -> dict[str, Any]:
    """What a sweep file holds. Raises UsageError where that is no mapping."""
    import yaml

    try:
        raw = plain_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not readable YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise UsageError(
            f"{path} does not define a sweep, which needs question, program, factor, levels, baseline, seeds and presets"
        )
    return raw


_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "levels": (lambda v: list_of(v, (int, float, str)), "a list of numbers or words, such as [500,2000]"),
    "arms": (lambda v: list_of(v, (int, float, str)), "a list of words, such as [epochs,steps]"),
    "seeds": (
        lambda v: list_of(v, (int,)) and all(0 <= seed <= LARGEST for seed in v),
        f"a list of whole numbers from 0 to {LARGEST}, such as [0,1,2]",
    ),
    "trials": (lambda v: isinstance(v, int) and v > 0, "a whole number, at least 1"),
    "overrides": (
        lambda v: v == [] or list_of(v, (str,)),
        "a list of KEY=VALUE, such as [preset=demo,training.epochs=2]",
    ),
    "baseline": (lambda v: isinstance(v, int | float | str), "one of the levels"),
    "cost": (lambda v: isinstance(v, dict), "a text by preset, such as {demo: 8 min on 2 cores}"),
    "named": (
        lambda v: isinstance(v, dict) and all(list_of(o, (str,)) for o in v.values()),
        "a list of KEY=VALUE by level",
    ),
}


def list_of(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether it is a list of these kinds that is not empty."""
    return (
        isinstance(value, list) and bool(value) and all(isinstance(v, kinds) and not isinstance(v, bool) for v in value)
    )


def typed(kind: type, raw: Mapping[str, Any], where: str, whole: bool = True) -> dict[str, Any]:
    """The fields of a dataclass from plain values; whole: those without a default have to be there. Raises UsageError for what is
    unknown, missing or of another type."""
    known = [f.name for f in fields(kind)]
    if not isinstance(raw, Mapping):
        raise UsageError(f"{where} must be a mapping; its keys are {', '.join(known)}")
    for key, value in raw.items():
        if key not in known:
            raise UsageError(
                f"{where}: there is no key {key!r}{near(str(key), known)}; the keys are {', '.join(known)}"
            )
        holds, what = _KINDS.get(key, (lambda v: isinstance(v, str), "a text"))
        if value is not None and not holds(value):
            raise UsageError(f"{where}: {key}={value} must be {what}")
    required = [f.name for f in fields(kind) if raw.get(f.name) is None and f.default is f.default_factory]
    if whole and required:
        raise UsageError(
            f"{where}: {required[0]} is missing: add a line `{required[0]}: ...` (sweeps/README.md says what it is for)"
        )
    return {key: value for key, value in raw.items() if value is not None}
