"""The MLflow UI for a store, on this machine only, opened as model training.

Experiments of an earlier version get the views of this one, headline metrics and the level as a number.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from rmlab.errors import RmlabError, UsageError
from rmlab.tracking.config import LEVEL_NUMBER
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import run_infos, search
from rmlab.tracking.store import SEARCHED, Store, quiet_environment
from rmlab.tracking.successors import name_successors
from rmlab.tracking.tags import rmlab_as_called
from rmlab.tracking.ui_server import HOST, TRAINING
from rmlab.tracking.views import (
    CURVES,
    HEADLINE,
    LEVELS,
    PREFIX,
    TABLE,
    headline,
    is_ours,
    levels_view,
    rounded,
    view_tags,
)

if TYPE_CHECKING:
    from mlflow.entities import Experiment, Run

PORT = 5000
START_SECONDS = 120.0


def experiment_address(base: str, experiment_id: str | None, view: str | None = TABLE) -> str:
    """Where an experiment opens in the training view, with a prepared view (TABLE, one of LEVELS); without an id, the list of them."""
    if experiment_id is None:
        return f"{base}/#/experiments?{TRAINING}"
    address = f"{base}/#/experiments/{experiment_id}/runs?{TRAINING}"
    charts = "&compareRunsMode=CHART" if view in LEVELS else ""
    return f"{address}{charts}&viewStateShareKey={view}" if view else address


def run_address(store: Store, experiment_id: str, run_id: str) -> str:
    """The address of a run's page at the default port, or at the server that the store is."""
    return f"{_base(store)}/#/experiments/{experiment_id}/runs/{run_id}?{TRAINING}"


def _base(store: Store) -> str:
    return store.uri.rstrip("/") if store.uri.startswith("http") else f"http://{HOST}:{PORT}"


def ui_command() -> str:
    """What to type for the UI."""
    return shlex.join([*rmlab_as_called(), "ui"])


def address_hint(store: Store, experiment: str) -> str:
    """The address of an experiment's charts at the default port, or at the server that the store is."""
    experiment_id = store.experiment(experiment)
    return experiment_address(_base(store), experiment_id, levels_views(store).get(experiment_id, CURVES))


def levels_views(store: Store) -> dict[str, str]:
    """Of every experiment with levels the view that compares them: each arm and each preset for itself, where there are several."""
    arms, presets = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for info in run_infos(store):
        if "level" in info.tags:
            arms[info.experiment_id].add(info.tags.get("arm", ""))
            presets[info.experiment_id].add(info.tags.get("preset", ""))
    return {one: levels_view(any(arms[one]), len(presets[one]) > 1) for one in arms}


def choose_port(asked: int | None) -> int:
    """The port asked for, or the first free one from 5000 on. Raises RmlabError where the one asked for is taken."""
    if asked is not None:
        if not 0 < asked < 65536:
            raise UsageError(f"--port {asked}: must be a number from 1 to 65535")
        if not _is_free(asked):
            raise RmlabError(
                f"port {asked} of {HOST} is taken. Choose another with --port, or leave it out for the next free one."
            )
        return asked
    for port in range(PORT, PORT + 100):
        if _is_free(port):
            return port
    raise RmlabError(f"no port from {PORT} to {PORT + 99} is free. Name one with --port.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def serve(store: Store, port: int, prepare: Callable[[Store], None] = lambda store: None) -> None:
    """Runs the UI until Ctrl-C (then every process of it ends) and prints the address of each experiment.

    prepare: what is to be done in the store while the server starts.
    Raises RmlabError where the server does not start.
    """
    if store.artifacts is None:
        raise UsageError(f"{store.uri} is a server with its own UI: open that address")
    quiet_environment()
    experiments = store.call(lambda: store.client.search_experiments(max_results=1000))
    named = {e.name: e.experiment_id for e in experiments if e.name != "Default"}
    start = experiment_address("", next(iter(named.values())) if len(named) == 1 else None).removeprefix("/#")
    where = (store.database_url, store.artifacts.as_uri(), str(port), start)
    command = [sys.executable, "-m", "rmlab.tracking.ui_server", *where]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = store.artifacts.parent / "logs" / "ui.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    print(f"starting the MLflow UI for {store.uri} ...", file=sys.stderr, flush=True)
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        base = f"http://{HOST}:{port}"
        prepare(store)
        _await(server, base, str(log))
        views = levels_views(store)
        for name, experiment_id in named.items() or {"experiments": None}.items():
            print(f"{name:<20} {experiment_address(base, experiment_id)}")
            if experiment_id in views:
                print(f"{'  its levels':<20} {experiment_address(base, experiment_id, views[experiment_id])}")
        print("Ctrl-C stops it.", flush=True)
        server.wait()
        raise RmlabError(f"the MLflow server ended unexpectedly (exit code {server.returncode}). Its output: {log}")
    finally:
        _end(server)


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _await(server: "subprocess.Popen[bytes]", base: str, log: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RmlabError(f"the MLflow server did not start (exit code {server.returncode}). Its output: {log}")
        try:
            with urllib.request.urlopen(f"{base}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RmlabError(f"the MLflow server did not answer within {START_SECONDS:.0f} s. Its output: {log}")


def _end(server: "subprocess.Popen[bytes]") -> None:
    """Ends the server and every process of its session."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
        except ProcessLookupError:
            break
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            continue
    server.wait()


def bring_up(store: Store, descriptions: Mapping[str, str]) -> int:
    """Makes a store's experiments such as this version makes them, and returns how many runs were completed.

    descriptions: of experiments by name, for those that have none. A view that somebody saved stays, and nothing that a run says
    is changed; what ended unfinished names the later run of its cell. An experiment whose views are of this version is not looked at
    again.
    """
    name_successors(store)
    completed = 0
    for experiment in store.call(lambda: store.client.search_experiments(max_results=1000)):
        if experiment.name in descriptions:
            store.describe(experiment.name, descriptions[experiment.name], _searched(experiment))
        views = view_tags(_searched(experiment))
        if f"{PREFIX}{TABLE}" in experiment.tags:  # made here: what came with a later version is put beside it
            for key in views.keys() - experiment.tags.keys():
                store.call(partial(store.client.set_experiment_tag, experiment.experiment_id, key, views[key]))
        old = {
            key: tag for key, tag in views.items() if is_ours(experiment.tags.get(key)) and experiment.tags[key] != tag
        }
        if not old:
            continue
        completed += sum(_complete(store, run) for run in search(store, [experiment.name])[0])
        for key, tag in old.items():  # last: who is interrupted begins again
            store.call(partial(store.client.set_experiment_tag, experiment.experiment_id, key, tag))
    return completed


def _searched(experiment: "Experiment") -> list[str]:
    return str(experiment.tags.get(SEARCHED, "")).split()


def _complete(store: Store, run: "Run") -> bool:
    """Adds what a run that ended lacks; whether it lacked something."""
    if run.info.end_time is None:
        return False
    lacking = headline(run.data.metrics)
    logger = RunLogger(store, run.info.run_id, run.info.experiment_id)
    for name in run.data.metrics:
        if HEADLINE.get(name) in lacking:
            for row in store.call(partial(store.client.get_metric_history, run.info.run_id, name)):
                logger.series.history.append((HEADLINE[name], rounded(row.value), row.step, row.timestamp))
    if LEVEL_NUMBER not in run.data.metrics:
        logger.place(run.data.tags)
    logger.flush()
    return bool(logger.series.history)
