"""The sweeper of `rmlab train -m +sweep=NAME`: the cells of `sweeps/NAME.yaml`, through any launcher of Hydra.

Nothing heavy is imported here: Hydra looks through every plugin whenever it composes.
"""

from collections.abc import Sequence
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class RmlabSweeper(Sweeper):
    """`rmlab sweep NAME`, started by Hydra.

    sweep: name of the file. choose: `levels=[...]`, `seeds=[...]` and the like. options: `rmlab.sweep.request.SweepOptions`.
    """

    def __init__(self, sweep: str, choose: Sequence[str], **options: Any) -> None:
        self.name, self.choose, self.options = sweep, list(choose), options

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Takes the launcher that `hydra/launcher=` names."""
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.where = [
            text for text in config.hydra.overrides.hydra if text.startswith(("hydra/launcher=", "hydra.launcher."))
        ]
        self.program = getattr(task_function, "program", config.hydra.job.name)

    def sweep(self, arguments: list[str]) -> None:
        """Launches or resumes the sweep. arguments: what Hydra was given for the program."""
        from rmlab.commands.sweep import HydraRun, launch_sweep
        from rmlab.sweep.request import SweepOptions

        overrides = [text for text in arguments if text.lstrip("+").partition("=")[0] != "sweep"]
        asked = [*self.choose, *overrides, *self.where]
        launch_sweep(self.name, asked, SweepOptions(**self.options), HydraRun(self.launcher, self.program))
