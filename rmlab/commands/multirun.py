"""Multirun: Hydra itself runs a program (`rmlab train -m ...`), with its sweepers and launchers.

    rmlab train -m +sweep=data_scale preset=smoke
    rmlab train -m +sweep=data_scale hydra/launcher=joblib hydra.launcher.n_jobs=2
    rmlab train -m seed=0,1,2 preset=smoke

`+sweep=NAME` is `rmlab sweep NAME`: the same cells, hashes and runs, so either continues what the other began.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from rmlab.configuration import hydra_of, load_program, restore
from rmlab.errors import UsageError
from rmlab.launchers.beats import telling_beside_log
from rmlab.launchers.hydra import cell_to_run
from rmlab.launchers.jobs import answer
from rmlab.overrides import quoted, refuse_unread, unquoted
from rmlab.paths import SWEEPS, runs_folder
from rmlab.sweep.own_launchers import LAUNCHERS
from rmlab.sweep.request import CHOICES, SweepOptions
from rmlab.sweep.single_run import run_once
from rmlab.tracking.parameters import describe_single
from rmlab.wording import near

PACKAGES = {
    "launcher/joblib": "hydra-joblib-launcher",
    "launcher/submitit_slurm": "hydra-submitit-launcher",
    "launcher/submitit_local": "hydra-submitit-launcher",
    "launcher/rq": "hydra-rq-launcher",
    "launcher/ray_aws": "hydra-ray-launcher",
    "sweeper/optuna": "hydra-optuna-sweeper",
    "sweeper/ax": "hydra-ax-sweeper",
    "sweeper/nevergrad": "hydra-nevergrad-sweeper",
}
"""Packages that bring a launcher or a sweeper of Hydra's own."""


def multirun(program: str, overrides: Sequence[str], options: SweepOptions | None = None) -> None:
    """Starts Hydra's multirun of a program. program, +sweep: names, or paths of files. options: of `rmlab sweep`, for its sweeper.

    Raises UsageError for a sweep, group or key that is not there, RmlabError where a job failed.
    """
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    refuse_unread(overrides, multirun=True)
    module = load_program(program)
    find_plugins()
    if program.endswith(".py"):
        travel_by_value(cast(ModuleType, module))
    chosen = [text for text in overrides if text.partition("=")[0] in CHOICES]
    # Hydra refuses a new name in a mapping of free names (data.policies={careful: 2}) unless it is asked to add it.
    given = [f"++{text}" if "={" in text and text[0].isalpha() else text for text in overrides if text not in chosen]
    sweep = next((text for text in given if text.lstrip("+").startswith("sweep=")), None)
    if sweep is not None:
        given[given.index(sweep)] = f"+sweep={quoted(register_sweep(sweep.partition('=')[2]))}"
    if chosen and sweep is None:
        raise UsageError(f"{chosen[0]} selects within a sweep. Name a sweep with +sweep=NAME.")
    if sweep is not None:
        given += ["hydra/sweeper=rmlab"]  # by name too: each job is composed without the sweep
        for name, value in (options or SweepOptions()).changed().items():
            given.append(f"hydra.sweeper.{name}={quoted(value) if isinstance(value, str) else value}")
        given += [f"hydra.sweeper.choose=[{','.join(quoted(text) for text in chosen)}]"] if chosen else []
    folder = runs_folder() / "multirun"
    ours = [
        f"hydra.sweep.dir={quoted(str(folder))}",
        f"hydra.run.dir={quoted(str(folder))}",
        "hydra.output_subdir=null",
        "hydra/job_logging=none",
        "hydra/hydra_logging=none",
    ]
    try:
        hydra_of(program).multirun(
            config_name=Path(program).stem, task_function=HydraTask(program), overrides=[*ours, *given]
        )
    except (HydraException, OmegaConfBaseException) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        what = unquoted(given) or _no_plugin(str(error)) or f"{program}: {'; '.join(lines[:3])}"
        raise UsageError(what) from error
    finally:
        GlobalHydra.instance().clear()
        ConfigStore.instance().repo.pop(
            "sweep", None
        )  # else `sweep` would be a group of what this process composes next


def _no_plugin(error: str) -> str | None:
    """What to install, or which name was meant, where Hydra does not find a launcher or a sweeper; None for any other error."""
    missing = re.search(r"Could not find 'hydra/((launcher|sweeper)/([^']+))'", error)
    if missing is None:
        return None
    plugin, kind, name = missing.groups()
    if plugin in PACKAGES:
        return f"hydra/{kind}={name} needs {PACKAGES[plugin]}: pip install {PACKAGES[plugin]}"
    own = sorted(path.stem for path in LAUNCHERS.glob("*.yaml")) if kind == "launcher" else ["rmlab"]
    known = [*own, "basic", *(one.partition("/")[2] for one in PACKAGES if one.startswith(kind))]
    return (
        f"hydra/{kind}={name}: there is no such {kind} here{near(name, known)}; there are: {', '.join(known)} "
        "(packages may add others)"
    )


def register_sweep(name: str) -> str:
    """Makes a file of sweeps/, or one that is named by its path, a choice of the config group `sweep`; returns the choice.

    Raises UsageError for one that is not there: without this, Hydra takes `+sweep=nope` for a new key and runs one job.
    """
    from hydra.core.config_store import ConfigStore

    path = Path(name) if name.endswith(".yaml") else SWEEPS / f"{name}.yaml"
    if not path.is_file():
        there = sorted(p.stem for p in SWEEPS.glob("*.yaml"))
        raise UsageError(
            f"there is no sweep {name!r}{near(name, there)}; there are: {', '.join(there)}, or any file *.yaml"
        )
    node = {
        "defaults": [{"override /hydra/sweeper": "rmlab"}, {"override /hydra/launcher": "local"}],
        "hydra": {"mode": "MULTIRUN", "sweeper": {"sweep": name}},
    }
    ConfigStore.instance().store(group="sweep", name=path.stem, node=node, package="_global_", provider="sweeps/")
    return path.stem


def find_plugins() -> None:
    """Makes our plugins known to Hydra before it looks for any. The sweeper takes the keys of `SweepOptions`."""
    from hydra.core.config_store import ConfigStore
    from hydra.core.plugins import Plugins

    from hydra_plugins.rmlab_launchers import LocalProcesses, Ray, Slurm
    from hydra_plugins.rmlab_sweeper import RmlabSweeper

    own = {"_target_": f"{RmlabSweeper.__module__}.{RmlabSweeper.__name__}", "sweep": "???", "choose": []}
    options = {name: str(value) if isinstance(value, str) else value for name, value in asdict(SweepOptions()).items()}
    ConfigStore.instance().store(group="hydra/sweeper", name="rmlab", node=own | options, provider="rmlab")
    for plugin in (RmlabSweeper, LocalProcesses, Ray, Slurm):
        Plugins.instance().register(plugin)


def travel_by_value(module: ModuleType) -> None:
    """A program of one's own is loaded by its path, so another process cannot import it by name; its schema travels whole."""
    import importlib

    for name in ("cloudpickle", "joblib.externals.cloudpickle"):
        try:
            importlib.import_module(name).register_pickle_by_value(module)
        except ModuleNotFoundError:
            continue  # the launcher that would need it is not installed either


@dataclass(frozen=True)
class HydraTask:
    """The task function that Hydra's launchers call: one cell, or one configuration of a program by itself."""

    program: str

    def __call__(self, config: Any) -> Any:
        """What `answer` says of a cell; the run id of a configuration by itself."""
        if (job := cell_to_run()) is not None:
            with telling_beside_log(job):
                return answer(job)
        from hydra.core.hydra_config import HydraConfig
        from omegaconf import OmegaConf

        program = load_program(self.program)
        own = restore(self.program, OmegaConf.to_container(config, resolve=True, enum_to_str=True))  # type: ignore[arg-type]
        describe_single(own, HydraConfig.get().overrides.task)
        return run_once(own, program.identity(own).config_hash, program.run)
