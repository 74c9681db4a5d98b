"""`rmlab score` and `rmlab compare` take a verifier by its run, the beginning of its id, its cell, or its folder (as `rmlab rl` does)."""

from pathlib import Path

import numpy as np
import pytest

from rmlab.commands.compare import compare
from rmlab.commands.score import score
from rmlab.scores.table import read_score_table
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.trajectories.store import write_trajectories
from tests.rl.conftest import write_verifier
from tests.verifiers.examples import episode

CELL, HASH = "data_scale/demo/8/s0", "0123456789abcdef"


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "pool.parquet"
    write_trajectories(path, [episode(n, a == 0, attempt=a, part="evaluation") for n in range(4) for a in range(2)])
    return path


@pytest.mark.slow
def test_a_verifier_is_named_alike_in_score_and_compare(runs_folder: Path, tmp_path: Path, pool: Path) -> None:
    folder, table = tmp_path / "trained" / "model", tmp_path / "trained" / "scores.parquet"
    write_verifier(folder)
    score(pool, str(folder), table)
    tags = {"sweep": "data_scale", "preset": "demo", "level": "8", "config_hash": HASH}
    with RunLogger.start(Store.open(), "data_scale", "data_scale=8 s0", kind="verifier", tags=tags) as run:
        run.artifact(folder)
        run.artifact(table)
    expected = read_score_table(table).score
    for name in (run.run_id, run.run_id[:8], HASH, CELL, str(folder.parent)):
        score(pool, name, tmp_path / "again.parquet", force=True)
        assert np.array_equal(read_score_table(tmp_path / "again.parquet").score, expected), name
    for name in (run.run_id[:8], HASH, CELL, str(folder), str(folder.parent)):
        found = compare(name, str(table), as_json=True)
        assert (found["trajectories"], found["metrics"]["auc_pooled"]["difference"]) == (8, 0.0), name
