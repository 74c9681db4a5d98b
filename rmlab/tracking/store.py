"""The tracking store: one sqlite file in the runs folder, or any MLflow server.

MLflow is imported on the first use of a store, never when this module is. Experiments and runs are always named by explicit
ids through the client: nothing that the environment says (MLFLOW_RUN_ID, an active run) decides where a run goes.
"""

import atexit
import gc
import os
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

from rmlab.errors import StoreError, StoreOutOfReach
from rmlab.files import exclusive
from rmlab.paths import runs_folder
from rmlab.stopping import uncut
from rmlab.tracking.home import ARTIFACTS, artifacts_of, bring_home
from rmlab.tracking.store_errors import cannot_write, is_busy, store_error
from rmlab.tracking.views import view_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient

SQLITE = "sqlite:///"
NOTE = "mlflow.note.content"
SEARCHED = "searched"
"""Tag of an experiment: the parameters of its search."""
TRAINING_VIEW = {"mlflow.experimentKind": "custom_model_development"}
"""The tag with which the UI opens an experiment as model training, not as evaluation of agents."""

Answer = TypeVar("Answer")
_jitter = SystemRandom()  # never the seeded generators of a run: a retry must not change a result


def default_uri() -> str:
    """The project's own store: `mlflow.db` in the runs folder."""
    return f"{SQLITE}{runs_folder() / 'mlflow.db'}"


def database_url(path: Path) -> str:
    """A sqlite file as SQLAlchemy, and with it MLflow and Optuna, reads its URL: `%` and `?` in a path mean something there.

    The driver is named where they occur: MLflow takes the path of a plain sqlite URL as it stands and makes its folders.
    """
    return f"sqlite+pysqlite:///{quote(str(path))}" if set("%?") & set(str(path)) else f"{SQLITE}{path}"


MAGIC = b"SQLite format 3\0"


def _as_uri(uri: str | None) -> str:
    if not uri or "://" in uri:
        uri = uri or default_uri()
        if uri.startswith(SQLITE) and not (database := Path(uri.removeprefix(SQLITE))).is_absolute():
            raise StoreError(
                f"{uri} depends on the working directory of each process: use {SQLITE}{database.absolute()}"
            )
        return uri
    path = Path(uri)
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                if zipfile.is_zipfile(path):
                    raise StoreError(
                        f"{uri} is a zip archive, not a store: if it is a bundle, `rmlab runs import {uri}` imports its runs"
                    )
                raise StoreError(
                    f"{uri} is neither a tracking store (sqlite) nor a bundle, or was truncated in transfer: get it again"
                )
        return f"{SQLITE}{path.resolve()}"
    if not path.exists() and uri.endswith((".db", ".sqlite", ".zip")):
        new = "" if uri.endswith(".zip") else f". A new store is named by its URL: {SQLITE}{path.absolute()}"
        raise StoreError(f"{uri}: there is no such file{new}")
    if not path.exists() and ":" not in uri:
        raise StoreError(
            f"{uri}: there is no such file or folder. A new store is named by its URL: sqlite:////absolute/path/mlflow.db"
        )
    return uri


def quiet_environment() -> None:
    """Settings that MLflow reads at import: no telemetry, no advice on the terminal."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_DISABLE_AGENT_HINT", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


@cache
def _import_mlflow() -> None:
    """Once a process. Python would look for garbage among all of it: a third of the import, and a second or two before the end."""
    quiet_environment()
    gc.disable()
    try:
        import mlflow  # noqa: F401
    finally:
        gc.enable()
    gc.freeze()
    atexit.register(gc.freeze)


@dataclass(frozen=True)
class Store:
    """An open store. uri: where runs are. artifacts: the folder of a database's artifacts, None for a server."""

    uri: str
    artifacts: Path | None
    _experiments: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def open(cls, uri: str | None = None) -> "Store":
        """Opens a store and makes it where it is a sqlite file that is not there yet.

        uri: None = the project's own; the path of a sqlite file that is there will do. Any number of processes may open a new
        store at once: its tables are made by one of them under a file lock.
        Raises StoreError where it cannot be reached or written.
        """
        uri = _as_uri(uri)
        if not uri.startswith(SQLITE):
            return cls._server(uri)
        database = Path(uri.removeprefix(SQLITE))
        _check_writable(database)
        store = cls(uri, artifacts_of(database))
        if not database.exists():
            with exclusive(database.with_name(f".{database.name}.lock"), f"the new tracking store {database}"):
                if not database.exists():
                    _create(database)
        bring_home(database)
        store._reach(60.0)  # it is there, and other processes may write to it
        return store

    @classmethod
    def existing(cls, uri: str | None = None) -> "Store | None":
        """The store, not yet reached, where there is one; None where a local store was never made. Makes nothing."""
        uri = _as_uri(uri)
        if not uri.startswith(SQLITE):
            return cls._server(uri)
        database = Path(uri.removeprefix(SQLITE))
        return cls(uri, artifacts_of(database)) if database.exists() else None

    @classmethod
    def to_read(cls, uri: str | None = None) -> "Store | None":
        """The same for a reader: a store that was named and is not there is an error, the project's own may not be there yet."""
        store = cls.existing(uri)
        if store is None and uri:
            raise StoreError(f"{uri}: there is no such store. Name the URL or file of a store, or a bundle.")
        return store

    @classmethod
    def _server(cls, uri: str) -> "Store":
        scheme = urlsplit(uri).scheme
        if scheme in ("", "file") or len(scheme) == 1:
            raise StoreError(
                f"{uri!r} is a folder: MLflow's file store is no longer supported. "
                "Use sqlite:////absolute/path/mlflow.db or a server's URL."
            )
        if scheme in ("http", "https"):
            _answers(uri)
        # A database keeps runs only: artifacts lie in the runs folder, which all that use it must share.
        store = cls(uri, None if scheme in ("http", "https") else runs_folder() / ARTIFACTS)
        store._reach()
        return store

    def _reach(self, patience: float = 5.0) -> None:
        """One real request, so that what is wrong with a store shows before work is done."""
        client = self.client  # not within the request: Ctrl-C need not wait for the import of MLflow
        self.call(lambda: client.search_experiments(max_results=1), patience)

    @property
    def database_url(self) -> str:
        """The store as MLflow reads it."""
        return database_url(Path(self.uri.removeprefix(SQLITE))) if self.uri.startswith(SQLITE) else self.uri

    @cached_property
    def client(self) -> "MlflowClient":
        """MLflow's client, bound to this store."""
        _import_mlflow()
        import logging

        from mlflow import MlflowClient
        from mlflow.tracking._tracking_service.utils import _artifact_repos_cache

        _artifact_repos_cache.clear()  # by run, whichever store it is of: a copy's runs would be the original's
        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        # A traceback of what a database says, at each try: `call` says it once, in one line.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        try:
            return MlflowClient(tracking_uri=self.database_url, registry_uri=self.database_url)
        except Exception as error:
            raise store_error(self.uri, error) from error

    def experiment(self, name: str, searched: Sequence[str] = ()) -> str:
        """Id of the experiment of that name, made where there is none (by several processes at once, too).

        searched: parameters of a search, which are columns in its view; it has no levels to draw.
        """
        if name in self._experiments:
            return self._experiments[name]
        if not name or "/" in name:
            raise StoreError(f"{name!r} cannot name an experiment: the UI cuts names at a slash. Choose another name.")

        own = {SEARCHED: " ".join(searched)} if searched else {}

        def find_or_make() -> str:
            found = self.client.get_experiment_by_name(name)
            if found is None:
                location = (self.artifacts / name).as_uri() if self.artifacts else None
                try:
                    return str(
                        self.client.create_experiment(
                            name, artifact_location=location, tags=TRAINING_VIEW | own | view_tags(searched)
                        )
                    )
                except Exception as error:
                    if getattr(error, "error_code", None) != "RESOURCE_ALREADY_EXISTS":
                        raise  # busy, say: `call` tries again
                found = self.client.get_experiment_by_name(name)
            if found is None or found.lifecycle_stage != "active":
                raise StoreError(
                    f"experiment {name!r} is deleted in {self.uri}. "
                    "Restore it (mlflow experiments restore) or use another store."
                )
            # A view that somebody changed in the UI stays as it is.
            views = view_tags(searched or found.tags.get(SEARCHED, "").split())
            missing = {key: value for key, value in views.items() if key not in found.tags}
            for key, value in (TRAINING_VIEW | own | missing).items():
                if found.tags.get(key) != value:
                    self.client.set_experiment_tag(found.experiment_id, key, value)
            return str(found.experiment_id)

        self._experiments[name] = self.call(find_or_make)
        return self._experiments[name]

    def describe(self, name: str, text: str, searched: Sequence[str] = ()) -> None:
        """What the UI says of an experiment, unless somebody has written something there. searched: as `experiment` takes it."""
        experiment_id = self.experiment(name, searched)

        def write() -> None:
            if not self.client.get_experiment(experiment_id).tags.get(NOTE):
                self.client.set_experiment_tag(experiment_id, NOTE, text)

        self.call(write)

    def call(self, request: Callable[[], Answer], patience: float = 60.0) -> Answer:
        """Makes a request, again with growing, jittered pauses while the store is busy. patience: seconds in all.

        Ctrl-C and SIGTERM end the process after the request or in a pause, never in the middle of a transaction.

        Raises StoreOutOfReach with the store's own words when it stays busy, StoreError when it refuses.
        """
        pause, deadline = 0.05, time.monotonic() + patience
        while True:
            try:
                with uncut():
                    return request()
            except StoreError:
                raise
            except Exception as error:
                if not is_busy(error):
                    raise store_error(self.uri, error) from error
                if time.monotonic() + pause > deadline:
                    raise StoreOutOfReach(str(store_error(self.uri, error))) from error
                time.sleep(pause * (0.5 + _jitter.random()))
                pause = min(pause * 2, 5.0)


def _check_writable(database: Path) -> None:
    """Raises StoreError where the file or its folder cannot be written (sqlite writes a journal beside its file)."""
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(database, f"{error.strerror or error} ({database.parent})") from error
    if database.is_dir():
        raise cannot_write(database, "it is a folder")
    for place in (database.parent, database):
        if place.exists() and not os.access(place, os.W_OK):
            raise cannot_write(database, f"no permission to write {place}")


def _create(database: Path) -> None:
    """Makes the tables in a file of another name and renames it: a kill in between leaves no half-made store."""
    temporary = database.with_name(f".{database.name}.new")
    temporary.unlink(missing_ok=True)
    try:
        client = Store(f"{SQLITE}{temporary}", None).client
        client.search_experiments(max_results=1)
        temporary.replace(database)
    except StoreError:
        raise
    except Exception as error:
        raise store_error(f"{SQLITE}{database}", error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _answers(uri: str) -> None:
    """A server that is not there is said at once; MLflow itself would try again for minutes."""
    import socket

    parts = urlsplit(uri)
    address = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    try:
        socket.create_connection(address, timeout=5.0).close()
    except OSError as error:  # a cell that begins while the server restarts is taken up again
        raise StoreOutOfReach(
            f"no tracking server answers at {uri} ({error.strerror or error}). Start it, or set tracking.uri to another store."
        ) from error
