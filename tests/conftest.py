import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from rmlab.microswe.sandbox import IsolationLevel
from tests import unsynced  # noqa: F401  (for what importing it does)

settings.register_profile("any machine", deadline=None)  # a busy one is slow at random
settings.register_profile("quick", deadline=None, max_examples=30)


def pytest_configure(config: pytest.Config) -> None:
    """The quick tests draw fewer examples than the same tests among all."""
    settings.load_profile("quick" if "not slow" in config.option.markexpr else "any machine")


# Tests run beside each other, one on each core: a second thread of one waits for a core longer than it works.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A lease that cannot be kept ends its process, which may be the tests' own: on no machine do they stand still for so long.
os.environ["RMLAB_LEASE_SECONDS"] = "86400"

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # a shell's background job ignores Ctrl-C, and so would all that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Kept also where the environment asks for none: each run, and each process of one, would compile and rewrite all tests again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish() -> None:
    """What has been collected and imported stays: looking for garbage among it took a tenth of the tests' time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def make_store_anew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], None]]:
    """A store that a test's process makes is a copy of the first: making the tables takes seconds. Gives the way to make them."""
    from rmlab.tracking import store

    template = tmp_path_factory.mktemp("template") / "mlflow.db"
    create, import_mlflow = store._create, store._import_mlflow

    def copied(database: Path) -> None:
        if not template.exists():
            create(template)
        shutil.copy(template, database)

    with pytest.MonkeyPatch.context() as patched:

        @cache
        def imported() -> None:
            """MLflow reads all its migrations, to know the newest, at each store that it opens: here at the first."""
            import_mlflow()
            from mlflow.store.db import utils

            patched.setattr(utils, "_get_latest_schema_revision", cache(utils._get_latest_schema_revision))

        patched.setattr(store, "_create", copied)
        patched.setattr(store, "_import_mlflow", imported)
        yield create


@pytest.fixture(scope="session", autouse=True)
def toy_is_composed_once() -> Iterator[None]:
    """The toy of sweeps is composed once a process for the same overrides. A program that is named by its path is composed each time,
    since its files may change; the toy's do not, and a hundred launches begin with it."""
    from rmlab import configuration

    toy = str(Path(__file__).parent / "sweep" / "toy" / "toy.py")
    composed = configuration._composed
    kept = cache(lambda overrides: composed(toy, overrides))

    def once(program: str, overrides: Sequence[str]) -> Any:
        return kept(tuple(overrides)).copy() if program == toy else composed(program, overrides)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(configuration, "_composed", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def warm_fork_server() -> None:
    """Cells of all tests of a worker of several are forked from one server: the first has it, be it of a toy, import what any needs."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        from tests.forked_command import start_warm_fork_server

        start_warm_fork_server()


@pytest.fixture(scope="session", autouse=True)
def shipped_tasks_hold() -> Iterator[None]:
    """Files of thousands of tasks, the shipped ones, are taken as proven on this machine, which takes two minutes of processor time.
    Whether they hold is asked of a sample, by the tests that replay shipped attempts."""
    from rmlab.microswe import loading

    read = loading._read_verdicts
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loading, "_read_verdicts", lambda kept, tasks: {} if len(tasks) > 1000 else read(kept, tasks))
        yield


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store's file, to be copied."""
    from rmlab.tracking.store import Store

    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    Store.open(f"sqlite:///{path}")
    return path


@pytest.fixture
def runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_database: Path) -> Path:
    """The runs folder of this test and of what it starts, with an empty store."""
    folder = tmp_path / "runs"
    monkeypatch.setenv("RMLAB_RUNS", str(folder))
    folder.mkdir()
    shutil.copy(empty_database, folder / "mlflow.db")
    return folder


@pytest.fixture
def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn small, as PNG alone and where their panels happen to lie, for tests of what is drawn: laying the panels out, and
    drawing them at full size, takes most of their time."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from analysis.presentation import style

    def small(drawn: Figure, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".pdf":
            path.touch()
        else:
            drawn.set_layout_engine("none")
            drawn.set_dpi(50)
            FigureCanvasAgg(drawn).print_png(path, metadata={"Software": "rmlab"})
        return path

    monkeypatch.setattr(style, "save_picture", small)


@pytest.fixture
def no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made but not rendered, for tests of what is written beside them. A test that has `small_pictures` too renders them;
    each kind of figure is rendered in one of those."""
    from matplotlib.figure import Figure

    from analysis.presentation import style

    def empty(drawn: Figure, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    if "small_pictures" not in request.fixturenames:
        monkeypatch.setattr(style, "save_picture", empty)


@pytest.fixture
def weak_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that refuses every level of isolation but resource limits alone."""
    from rmlab.microswe.sandbox import isolation_level
    from rmlab.microswe.sandbox.process import LevelRefused, Worker

    reach = Worker.wait_until_ready

    def reach_limits_alone(worker: Worker) -> IsolationLevel:
        level = reach(worker)
        if level.name != "limits":
            raise LevelRefused("not in this test")
        return level

    monkeypatch.setattr(Worker, "wait_until_ready", reach_limits_alone)
    isolation_level.cache_clear()
    yield
    isolation_level.cache_clear()
