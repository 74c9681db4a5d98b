"""Our own launchers by name, the files of conf/hydra/launcher: they run cells as workers get free."""

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


NUMBERS = {"workers": int, "cells_per_gpu": int, "minutes": int, "cpus": float, "gpus": float, "memory_gb": float} | {
    "poll_seconds": float
}
"""Keys of launchers that take a number, and whether it is whole."""


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
    for text in settings:
        if not text.startswith("hydra.launcher."):
            raise UsageError(
                f"{text}: this has no effect on a sweep that launcher {name} runs. The flags of `rmlab sweep` say how it runs, and "
                "hydra.launcher.KEY=VALUE where. Remove it"
            )
        key, _, value = text.removeprefix("hydra.launcher.").partition("=")
        if key.split(".")[0] not in own:
            raise UsageError(
                f"{text}: launcher {name} has no {key!r}{near(key, map(str, own))}; it has {', '.join(map(str, own))}"
            )
        try:
            OmegaConf.update(own, key, plain_yaml(value))
        except (yaml.YAMLError, OmegaConfBaseException):
            raise UsageError(f"{text}: the value of {key} cannot be read. Put text in quotes: {key}='...'") from None
        if what := _other_kind(key, OmegaConf.to_container(own)[key.split(".")[0]]):  # type: ignore[index, call-overload]
            raise UsageError(f"{text}: {key} must be {what}")
    return own


def _other_kind(key: str, value: Any) -> str:
    """What a setting of a launcher must be, where it is not; null is left to the launcher."""
    if key.split(".")[0] == "more":
        return "" if isinstance(value, dict) else "a mapping, such as {slurm_account: me}"
    kind = NUMBERS.get(key, str)
    if value is None or (isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)):
        return ""
    return {int: "a whole number", float: "a number", str: "a text"}[kind]
