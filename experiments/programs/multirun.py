"""Multirun: Hydra itself runs a program (`rmlab train -m ...`), with its sweepers and launchers.

    rmlab train -m +sweep=data_scale preset=smoke
    rmlab train -m +sweep=data_scale hydra/launcher=joblib hydra.launcher.n_jobs=2
    rmlab train -m seed=0,1,2 preset=smoke

`+sweep=NAME` is `rmlab sweep NAME`: the same cells, hashes and runs, so either goes on with what the other began.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from rmlab.ablation.through_hydra import Task
from rmlab.configuration import load_program, near, register_resolvers
from rmlab.errors import RmlabError, UsageError
from rmlab.paths import CONF, REPOSITORY, SWEEPS, runs_folder

OF_THE_SWEEP = ("levels", "baseline", "seeds", "arms", "trials")


def main(program: str, overrides: Sequence[str], options: Mapping[str, Any] | None = None) -> None:
    """Starts Hydra's multirun of a program. options: of `rmlab sweep`, for its sweeper.

    Raises UsageError for a sweep, group or key that is not there, RmlabError where a job failed.
    """
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_config_search_path
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    module = load_program(program)
    register_resolvers()
    register_sweeps()
    find_plugins()
    travel_by_value(module)
    chosen = [text for text in overrides if text.partition("=")[0] in OF_THE_SWEEP]
    given = [text for text in overrides if text not in chosen]
    sweep = next((text.partition("=")[2] for text in given if text.lstrip("+").startswith("sweep=")), None)
    if sweep is not None and sweep not in (there := sorted(path.stem for path in SWEEPS.glob("*.yaml"))):
        raise UsageError(f"there is no sweep {sweep!r}{near(sweep, there)}; there are: {', '.join(there)}")
    if (chosen or options) and sweep is None:
        raise UsageError(f"{(chosen or list(options or ()))[0]}: it chooses within a sweep. Name one with +sweep=NAME.")
    if sweep is not None:
        given += [f"hydra.sweeper.{name}={'null' if value is None else value}" for name, value in (options or {}).items()]
        given += [f"hydra.sweeper.choose=[{','.join(_quoted(text) for text in chosen)}]"] if chosen else []
    folder = runs_folder() / "multirun"
    ours = [f"hydra.sweep.dir={folder}", f"hydra.run.dir={folder}", "hydra.output_subdir=null", "hydra/job_logging=none",
            "hydra/hydra_logging=none"]
    GlobalHydra.instance().clear()
    try:
        Hydra.create_main_hydra2(task_name=program, config_search_path=create_config_search_path(str(CONF))).multirun(
            config_name=program, task_function=Task(program), overrides=[*ours, *given])
    except (HydraException, OmegaConfBaseException) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UsageError(f"{program}: {'; '.join(lines[:3])}") from error
    except RmlabError:
        raise
    finally:
        GlobalHydra.instance().clear()


def register_sweeps() -> None:
    """Every file of sweeps/ as a choice of the config group `sweep`, which a name that is not there cannot pass for."""
    from hydra.core.config_store import ConfigStore

    for path in sorted(SWEEPS.glob("*.yaml")):
        node = {"defaults": [{"override /hydra/sweeper": "rmlab"}, {"override /hydra/launcher": "local"}],
                "hydra": {"mode": "MULTIRUN", "sweeper": {"sweep": path.stem}}}
        ConfigStore.instance().store(group="sweep", name=path.stem, node=node, package="_global_", provider="sweeps/")


def find_plugins() -> None:
    """Hydra looks for hydra_plugins on the import path only, and so do the processes that it starts."""
    from hydra.core.plugins import Plugins

    if str(REPOSITORY) not in sys.path:
        sys.path.append(str(REPOSITORY))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(REPOSITORY) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, paths), str(REPOSITORY)])
    from hydra_plugins.rmlab_launchers import LocalProcesses, Ray, Slurm
    from hydra_plugins.rmlab_sweeper import RmlabSweeper

    for plugin in (RmlabSweeper, LocalProcesses, Ray, Slurm):
        Plugins.instance().register(plugin)


def travel_by_value(module: ModuleType) -> None:
    """A program is loaded by its path, so another process cannot import it by name; its schema travels whole."""
    import importlib

    for name in ("cloudpickle", "joblib.externals.cloudpickle"):
        try:
            importlib.import_module(name).register_pickle_by_value(module)
        except ModuleNotFoundError:
            continue  # the launcher that would need it is not installed either


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
