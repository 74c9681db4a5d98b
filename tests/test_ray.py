"""Cells on a Ray cluster of two nodes on this machine."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmlab.paths import REPOSITORY
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from tests.waiting import PATIENCE

ray = pytest.importorskip("ray", reason="Ray is an extra of its own: pip install -e .[ray]")
TOY = REPOSITORY / "tests" / "sweep" / "toy"
pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray writes a token there
    size = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    made.add_node(**size)
    try:
        yield made.address
    finally:
        made.shutdown()


def test_a_sweep_runs_on_both_nodes_and_a_killed_cell_fails_alone(cluster: str, tmp_path: Path) -> None:
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "rmlab.cli",
            "sweep",
            str(TOY / "toy_scale.yaml"),
            "levels=[1,2,3,4]",
            "seeds=[0]",
            "arms=[epochs]",
            "seconds=2",
            "trouble={3:kill}",
            "--on-error",
            "continue",
            "hydra/launcher=ray",
            f"hydra.launcher.address={cluster}",
        ],
        cwd=REPOSITORY,
        env=dict(os.environ),
        text=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert process.returncode == 1, process.stderr
    assert "1 of 4 cells failed (data_scale=3 s0)" in process.stderr
    found = {run.name: run for run in runs(Store.open(), ["toy_scale"])}
    assert Counter(run.status for run in found.values()) == {"finished": 3, "failed": 1}
    assert "without an answer" in found["data_scale=3 s0"].tags["error"]
    assert all(len(run.series("train/loss")) == 10 for run in found.values() if run.status == "finished")
    starts = [
        line.split() for line in (tmp_path / "runs" / "ledger").read_text().splitlines() if line.startswith("start")
    ]
    assert len({pid for _, _, pid, _ in starts}) == 4, "a process a cell"
    assert len({parent for *_, parent in starts}) == 2, "on both nodes"
