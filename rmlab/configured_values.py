"""Single values of a composed configuration: set without composing it anew, and refused where no key means them."""

import math
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf, ValueNode

from rmlab.errors import UsageError
from rmlab.overrides import lower_first, unquoted
from rmlab.paths import PROGRAMS_PACKAGE

LARGEST = 2**63 - 1
"""The largest whole number that torch takes as a seed and SQLite stores."""
SIZES = (
    *("engine.slots", "engine.capacity", "engine.prefill_rows", "engine.burst"),
    *("rl.batch_tokens", "training.batch_tokens", "training.context"),
)
"""Ends of keys whose number is the size of something: with none of it a program would wait for ever, or divide by it."""


def with_values(config: DictConfig, overrides: Sequence[str]) -> DictConfig | None:
    """A composed configuration with plain values set, as composing it anew would; None where that needs composing (a group), or says
    what is wrong with a mapping.

    Raises UsageError for a value of the wrong type.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    changed = config.copy()
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise UsageError(unquoted(overrides) or lower_first(str(error).splitlines()[0])) from error
    for override in parsed:
        key, value = override.key_or_group, override.value()
        if override.is_sweep_override() or override.is_add() or override.is_delete() or override.package is not None:
            return None
        if isinstance(value, dict):
            if not _takes_free_names(config, key):
                return None
            try:
                OmegaConf.update(changed, key, value, force_add=True)
            except OmegaConfBaseException:
                return None
            continue
        if not _is_value(config, key):
            return None
        try:
            OmegaConf.update(changed, key, value)
        except OmegaConfBaseException as error:
            raise UsageError(f"{override.input_line}: {lower_first(str(error).splitlines()[0])}") from error
    refuse_values(changed)
    return changed


def _is_value(config: DictConfig, key: str) -> bool:
    """Whether a key is there and holds a value, null or not: no group, no mapping."""
    if OmegaConf.select(config, key) is not None:
        return not isinstance(OmegaConf.select(config, key), DictConfig)
    parent, _, name = key.rpartition(".")
    holder = OmegaConf.select(config, parent) if parent else config
    return isinstance(holder, DictConfig) and isinstance(holder._get_node(name, validate_access=False), ValueNode)


def _takes_free_names(config: DictConfig, key: str) -> bool:
    """Whether a key is there and holds a mapping of free names (`data.policies`)."""
    node = OmegaConf.select(config, key)
    return isinstance(node, DictConfig) and OmegaConf.get_type(node) is dict


def refuse_values(config: DictConfig) -> None:
    """Refuses what no key means: a reference to nothing, a number that is not finite, a whole number above LARGEST, and in schemas of rmlab
    itself one below 0 (they are counts and seeds; rewards and weights are no whole numbers), or 0 where it is one of SIZES.

    Raises UsageError for one of these.
    """
    from omegaconf.errors import OmegaConfBaseException

    def walk(value: Any, name: str, node: Any, own: bool) -> None:
        if isinstance(node, DictConfig) and isinstance(schema := OmegaConf.get_type(node), type) and schema is not dict:
            own = schema.__module__.startswith(("rmlab.", f"{PROGRAMS_PACKAGE}."))
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(
                    inner,
                    f"{name}.{key}" if name else str(key),
                    node._get_node(key) if isinstance(node, DictConfig) else None,
                    own,
                )
        elif isinstance(value, list):
            for inner in value:
                walk(inner, name, None, own)
        elif isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name}={value}: must be finite")
        elif isinstance(value, int) and own and value < 0:
            raise UsageError(f"{name}={value}: must be at least 0")
        elif value == 0 and own and f".{name}".endswith(tuple(f".{size}" for size in SIZES)):
            raise UsageError(f"{name}={value}: must be at least 1")
        elif isinstance(value, int) and value > LARGEST:
            raise UsageError(f"{name}={value}: must be at most {LARGEST}")

    try:
        walk(OmegaConf.to_container(config, resolve=True), "", config, False)
    except OmegaConfBaseException as error:
        raise UsageError(f"{error.full_key}: {lower_first(str(error).splitlines()[0])}") from error
