"""Many workers on one PostgreSQL: a real server, started from the pg_ctl of this machine, holds the runs and the study."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY
from rmlab.tracking.query import runs
from rmlab.tracking.run_index import cell_runs
from rmlab.tracking.store import Store
from tests.sweeping import sweep_here
from tests.waiting import PATIENCE

TOY = REPOSITORY / "tests" / "sweep" / "toy"
pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URI of a server of its own with two empty databases, on 127.0.0.1; it runs as an ordinary user where we are root."""
    pytest.importorskip("psycopg2", reason="PostgreSQL's driver is not installed (extra postgres)")
    found = shutil.which("pg_ctl") or next(
        iter(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")), reverse=True)), None
    )
    if found is None:
        pytest.skip("there is no pg_ctl on this machine: install Debian's postgresql")
    binaries = Path(found).resolve().parent
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="rmlab-postgres-"))
    as_user: list[str] = []
    if os.getuid() == 0:
        if shutil.which("runuser") is None:
            pytest.skip("we are root, PostgreSQL refuses that, and there is no runuser to become nobody")
        as_user = ["runuser", "-u", "nobody", "--"]
        shutil.chown(folder, "nobody")
    environment = {**os.environ, "HOME": str(folder), "LC_ALL": "C"}

    def run(*command: str) -> None:
        subprocess.run(
            [*as_user, *command], check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL, timeout=PATIENCE
        )

    try:
        run(str(binaries / "initdb"), "-D", str(folder / "data"), "-A", "trust", "-U", "rmlab", "--no-sync")
        run(
            str(binaries / "pg_ctl"),
            "-D",
            str(folder / "data"),
            "-w",
            "-l",
            str(folder / "log"),
            "-o",
            f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off",
            "start",
        )
        for name in ("runs", "study"):
            run(str(binaries / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "rmlab", name)
        yield f"postgresql+psycopg2://rmlab@127.0.0.1:{port}"
    finally:
        with contextlib.suppress(subprocess.SubprocessError):
            run(str(binaries / "pg_ctl"), "-D", str(folder / "data"), "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def test_eight_workers_lose_nothing(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    arguments = (
        str(TOY / "toy_scale.yaml"),
        "levels=[1,2,3,4]",
        "seeds=[0,1]",
        "arms=[epochs]",
        f"tracking.uri={server}/runs",
    )
    code, _, err = sweep_here(*arguments, "--workers", "8")
    assert code == 0, err
    store = Store.open(f"{server}/runs")
    found = runs(store, ["toy_scale"])
    assert Counter(run.status for run in found) == {"finished": 8}
    assert len({run.name for run in found}) == 8
    assert all(len(run.series("train/loss")) == 10 and "eval/auc_pooled" in run.metrics for run in found)
    assert len(cell_runs(store).finished) == 8
    code, out, _ = sweep_here(*arguments, "--dry-run")
    assert "8 of 8 runs finished, 0 to run" in out

    # A search whose study lies there too, beside its runs.
    text = (TOY / "toy_search.yaml").read_text().replace("program: toy.py", f"program: {TOY / 'toy.py'}")
    (tmp_path / "toy_search.yaml").write_text(text.replace("search:\n", f"search:\n  storage: {server}/study\n"))
    code, out, err = sweep_here(
        str(tmp_path / "toy_search.yaml"), "trials=8", f"tracking.uri={server}/runs", "--workers", "8"
    )
    assert code == 0, err
    assert "8 complete" in out
    assert not (tmp_path / "runs" / "optuna.db").exists()
