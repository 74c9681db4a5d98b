import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest

from rmlab.errors import RmlabError, UsageError
from rmlab.paths import REPOSITORY
from rmlab.tracking.store import Store
from rmlab.tracking.ui import choose_port, serve


def test_a_port_that_is_taken_is_said_and_the_next_free_one_is_chosen() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RmlabError, match=f"port {port} of 127.0.0.1 is taken"):
            choose_port(port)
    assert choose_port(port) == port
    assert choose_port(None) >= 5000
    with pytest.raises(UsageError, match="a port is a number"):
        choose_port(70000)


def test_a_server_store_has_its_own_ui() -> None:
    with pytest.raises(UsageError, match="a server with a UI of its own"):
        serve(Store("http://127.0.0.1:5000", None), 5000)


@pytest.mark.slow
def test_the_ui_answers_names_the_training_view_and_ends_whole(store: Store) -> None:
    experiment = store.experiment("data_scale")
    process = subprocess.Popen([sys.executable, "-m", "rmlab.cli", "ui"], cwd=REPOSITORY, env=dict(os.environ), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    name, address = process.stdout.readline().split()
    assert name == "data_scale"
    assert address.endswith(f"/#/experiments/{experiment}/runs?workflowType=machine_learning")
    base = address.partition("/#/")[0]
    assert base.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(base, timeout=30) as page:
        assert b"mlflow" in page.read().lower()
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    deadline = time.monotonic() + 10
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
