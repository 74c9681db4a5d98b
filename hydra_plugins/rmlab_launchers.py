"""Launchers of Hydra that run each job in a process of its own: on this machine, through Slurm, on a Ray cluster.

They serve any sweeper of Hydra. The sweeper of rmlab takes what is behind them (`cells_launcher`), which starts cells as workers
get free and says at once what becomes of each. Nothing heavy is imported here.
"""

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

if TYPE_CHECKING:
    from rmlab.launchers import jobs as launching


class OwnLauncher(Launcher):
    """settings: of the launcher, as its file in conf/hydra/launcher says them."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keeps what composes the jobs."""
        self.config, self.context = config, hydra_context
        self.program = getattr(task_function, "program", config.hydra.job.name)

    @abstractmethod
    def cells_launcher(self, config: DictConfig, workers: int | None = None) -> "launching.Launcher":
        """What runs cells of this configuration. workers: at once, None = as the settings or the machine say."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Runs jobs of any sweeper and returns what became of them, in their order."""
        from rmlab.configuration import load_program
        from rmlab.launchers.jobs import HEAVY, Job, JobList
        from rmlab.paths import runs_folder

        program = self.program
        jobs = []
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            composed = self.context.config_loader.load_sweep_config(self.config, list(overrides))
            plain = OmegaConf.to_container(
                OmegaConf.masked_copy(composed, [str(k) for k in composed if k != "hydra"]),
                resolve=True,
                enum_to_str=True,
            )
            name = f"{number} {' '.join(overrides)}"
            log = runs_folder() / "logs" / f"{self.config.hydra.job.name}-{number}.log"
            jobs.append(Job(name, program, "run", (plain,), log))  # type: ignore[arg-type]
        returns = {
            job.name: JobReturn(overrides=list(o), status=JobStatus.UNKNOWN)
            for job, o in zip(jobs, job_overrides, strict=True)
        }
        launcher = self.cells_launcher(composed)
        queue = JobList(jobs)
        with closing(launcher.run(queue, getattr(load_program(program), "PRELOAD", HEAVY))) as events:
            for event in events:
                if event is None or event.state in ("started", "progress"):
                    continue
                if event.state == "submitted":
                    print(f"{event.job.name}: submitted as {event.where}", flush=True)
                    continue
                if event.state == "crowded":
                    queue.put_back(event.job)
                    print(f"{event.job.name} {event.error}", flush=True)
                    continue
                print(f"{event.job.name}: {event.state} {event.trace or event.error}", flush=True)
                returned = returns[event.job.name]
                finished = event.state == "finished"
                returned.status = JobStatus.COMPLETED if finished else JobStatus.FAILED
                returned.return_value = event.result if finished else RuntimeError(event.error)
        return [returns[job.name] for job in jobs]


class LocalProcesses(OwnLauncher):
    """`rmlab.launchers.local`."""

    def cells_launcher(self, config: DictConfig, workers: int | None = None) -> "launching.Launcher":
        """Processes from a fork server, a GPU or a part of one each where there are GPUs."""
        from rmlab.launchers.local import local_launcher

        return local_launcher(config, workers or self.settings.get("workers"), self.settings.get("cells_per_gpu", 1))


class Slurm(OwnLauncher):
    """`rmlab.launchers.slurm`."""

    def cells_launcher(self, config: DictConfig, workers: int | None = None) -> "launching.Launcher":
        """Jobs of Slurm, through submitit."""
        from rmlab.launchers.slurm import SlurmLauncher

        return SlurmLauncher(**{**self.settings, **({"workers": workers} if workers else {})})


class Ray(OwnLauncher):
    """`rmlab.launchers.ray`."""

    def cells_launcher(self, config: DictConfig, workers: int | None = None) -> "launching.Launcher":
        """Tasks of a Ray cluster."""
        from rmlab.launchers.ray import RayLauncher

        return RayLauncher(**{**self.settings, **({"workers": workers} if workers else {})})
