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


def own_launcher(name: str, settings: Sequence[str], config: "DictConfig", workers: int | None) -> "Launcher":
    """One of conf/hydra/launcher by its name. settings: `hydra.launcher.KEY=VALUE`. config: of a cell."""
    import yaml
    from hydra.utils import get_class
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    own = cast("DictConfig", OmegaConf.load(LAUNCHERS / f"{name}.yaml"))
    for text in settings:
        key, _, value = text.removeprefix("hydra.launcher.").partition("=")
        if key.split(".")[0] not in own:
            raise UsageError(
                f"{text}: launcher {name} has no {key!r}{near(key, map(str, own))}; it has {', '.join(map(str, own))}"
            )
        try:
            OmegaConf.update(own, key, plain_yaml(value))
        except (yaml.YAMLError, OmegaConfBaseException):
            raise UsageError(f"{text}: the value of {key} cannot be read. Put text in quotes: {key}='...'") from None
    made = get_class(own.pop("_target_"))(**cast("dict[str, Any]", OmegaConf.to_container(own)))
    launcher: Launcher = made.cells_launcher(config, workers)
    return launcher
