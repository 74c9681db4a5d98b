"""Which keys of a cell's configuration are the sweep's own: nobody else sets them, neither on the command line nor in its file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rmlab.errors import UsageError
from rmlab.sweep.cells import SEED
from rmlab.sweep.factors import Factor
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.parameters import TRACKING

USERS = ("uri",)
"""Of the keys of tracking, what a sweep leaves as it is given."""
INSTEAD = {
    "level": "Choose its levels with levels=[...].",
    "arm": "Choose its arms with arms=[...].",
    "baseline": "Choose it with baseline=LEVEL.",
    "preset": "Choose it with preset=NAME.",
    "sweep": "It is the name of the sweep file: give a copy of the file another name.",
    "experiment": "It is the name of the sweep file: give a copy of the file another name.",
    "replaces": "Remove it; `rmlab sweep --force` runs finished cells again.",
}
"""What does the work of a key of tracking that a sweep sets."""


def refuse_owned(factors: Sequence[Factor], overrides: Iterable[str], where: str = "") -> None:
    """Raises UsageError for an override of what the sweep itself sets: its seed, what its factors own, and how its runs are found.

    where: the file and the preset that the overrides stand in; "" = they were given on the command line.
    """
    before = f"{where}: overrides: " if where else ""
    for text in overrides:
        for key in _keys(text):
            if key == SEED:
                raise UsageError(f"{before}{text}: the sweep sets the seed. Choose its seeds with seeds=[0,1].")
            for factor in factors:
                if factor.owns_key(key):
                    raise UsageError(
                        f"{before}{text}: this sweep varies {key} (factor {factor.name}). Choose its levels with levels=[...]."
                    )
            group, _, name = key.partition(".")
            name = name.partition(".")[0]
            if group == TRACKING and name not in USERS and name in TrackingConfig.__dataclass_fields__:
                raise UsageError(f"{before}{text}: the sweep sets {key}. {INSTEAD.get(name, 'Remove it.')}")


def _keys(text: str) -> list[str]:
    """The keys that an override sets: `data={scale: 7}` sets data.scale."""
    key, _, value = text.partition("=")
    key = key.lstrip("+~")
    if not value.lstrip().startswith("{"):
        return [key]
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        mapping = OverridesParser.create().parse_override(text).value()
    except HydraException:  # it is said where the configuration is composed
        return [key]
    return [key, *_below(key, mapping)]


def _below(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{key}.{name}"
            yield from _below(f"{key}.{name}", inner)
