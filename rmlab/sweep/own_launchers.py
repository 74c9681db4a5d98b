"""Our own launchers by name, the files of conf/hydra/launcher: they run cells as workers get free."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from rmlab.errors import UsageError
from rmlab.paths import CONF
from rmlab.sweep.typed_yaml import plain_yaml
from rmlab.wording import near

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from rmlab.launchers.jobs import Launcher

LAUNCHERS = CONF / "hydra" / "launcher"


def is_own(launcher: str) -> bool:
    """Whether a launcher is one of ours."""
    return (LAUNCHERS / f"{launcher}.yaml").is_file()


COUNTS = ("workers", "cells_per_gpu", "minutes")
AMOUNTS = ("cpus", "gpus", "memory_gb", "poll_seconds")
MAPPING = "more"
"""Keys of launchers that take a whole number from 1 on, a number from 0 on, and a mapping; the others take a text."""


def own_launcher(name: str, settings: Sequence[str], config: "DictConfig", workers: int | None) -> "Launcher":
    """One of conf/hydra/launcher by its name. settings: `hydra.launcher.KEY=VALUE`. config: of a cell."""
    from hydra.utils import get_class
    from omegaconf import OmegaConf

    own = own_settings(name, settings)
    made = get_class(own.pop("_target_"))(**cast("dict[str, Any]", OmegaConf.to_container(own)))
    launcher: Launcher = made.cells_launcher(config, workers)
    return launcher


def own_settings(name: str, settings: Sequence[str]) -> "DictConfig":
    """What the file of a launcher says, with the settings in its place. Raises UsageError for a setting that it does not have, or a value
    of another kind."""
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    own = cast("DictConfig", OmegaConf.load(LAUNCHERS / f"{name}.yaml"))
    keys = [str(key) for key in own if key != "_target_"]
    usual = {key: own[key] for key in keys}
    for text in settings:
        whole, _, value = text.lstrip("+").partition("=")
        if not whole.startswith("hydra.launcher."):
            raise UsageError(
                f"{text}: this has no effect on a sweep that launcher {name} runs. The flags of `rmlab sweep` say how it runs, and "
                "hydra.launcher.KEY=VALUE where. Remove it"
            )
        key, _, inner = whole.removeprefix("hydra.launcher.").partition(".")
        if key not in keys or (inner and key != MAPPING):
            wrong = f"{key}.{inner}" if inner else key
            raise UsageError(f"{text}: launcher {name} has no {wrong!r}{near(wrong, keys)}; it has {', '.join(keys)}")
        try:
            OmegaConf.update(own, f"{key}.{inner}" if inner else key, plain_yaml(value))
        except (yaml.YAMLError, OmegaConfBaseException):
            raise UsageError(f"{text}: the value of {key} cannot be read. Put text in quotes: {key}='...'") from None
        if what := _must_be(key, OmegaConf.to_container(own)[key], usual[key]):  # type: ignore[index, call-overload]
            raise UsageError(f"{text}: {key} must be {what}")
    return own


def _must_be(key: str, value: Any, usual: Any) -> str:
    """What a setting of a launcher must be, where it is not; empty where it is.

    usual: its value in the launcher's file; null is allowed in place of a text, and of a number that is null there.
    """
    if key == MAPPING:
        return "" if isinstance(value, dict) else "a mapping, such as {slurm_account: me}"
    if value is None and (usual is None or key not in (*COUNTS, *AMOUNTS)):
        return ""
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    if key in COUNTS:
        return "" if isinstance(number, int) and number >= 1 else "a whole number, at least 1"
    if key in AMOUNTS:
        return "" if 0 <= number < math.inf else "a number, at least 0"
    return "" if isinstance(value, str) else "a text"
