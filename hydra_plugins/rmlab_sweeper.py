"""The sweeper of `rmlab train -m +sweep=NAME`: the cells of `sweeps/NAME.yaml`, through any launcher of Hydra.

Nothing heavy is imported here: Hydra looks through every plugin whenever it composes.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from rmlab.errors import UsageError

if TYPE_CHECKING:
    from rmlab.launchers.jobs import Launcher as CellsLauncher
    from rmlab.sweep.request import Plan, SweepOptions


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
        from rmlab.sweep.launch import describe, plan_to_launch, run_sweep
        from rmlab.sweep.request import SweepOptions

        options = SweepOptions(**self.options)
        until = None if options.stop_after is None else time.monotonic() + 60 * options.stop_after
        options = options.dated()
        overrides = [text for text in arguments if text.lstrip("+").partition("=")[0] != "sweep"]
        plan = plan_to_launch(self.name, [*self.choose, *overrides, *self.where], options)
        if self.program != plan.spec.program:
            raise UsageError(
                f"sweep {self.name} runs the program {plan.spec.program}, not {self.program}: use rmlab sweep {self.name}"
            )
        if options.explain or options.dry_run:
            describe(plan, options)
            return
        from analysis.summaries import summary_runs

        run_sweep(plan, options, self._cells_launcher(plan, options), until, summary_runs)

    def _cells_launcher(self, plan: "Plan", options: "SweepOptions") -> "CellsLauncher":
        """The launcher of the cells: one of ours, even where Hydra set it up, else Hydra's own launcher in batches."""
        from rmlab.launchers.hydra import ThroughHydra

        launcher: Any = self.launcher
        if hasattr(launcher, "cells_launcher"):
            own: CellsLauncher = launcher.cells_launcher(plan.cells[0].config, options.workers)
            return own
        return ThroughHydra(launcher, options.batch or options.workers or (1 if plan.spec.search else None))
