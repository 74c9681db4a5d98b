"""What cells share is read once by the fork server; what is no longer the same is read again."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from rmlab.errors import DataError
from rmlab.launchers import warmup
from rmlab.paths import REPOSITORY
from rmlab.selection.pool import read_index
from rmlab.trajectories.record import Message
from rmlab.trajectories.store import write_trajectories
from rmlab.verifiers import dataset
from tests.verifiers.examples import episode, episodes

POOL = [*episodes(2, "supervised"), *episodes(3, "verifier", 10), *episodes(2, "evaluation", 20)]
PROGRAM = """
from dataclasses import dataclass
from pathlib import Path
from hydra.core.config_store import ConfigStore

@dataclass
class Config:
    path: str = ""

ConfigStore.instance().store(name="reads_schema", node=Config)

def run(config):
    from rmlab.verifiers import dataset

    pool = dataset.validated_pool(Path(config.path))
    found = dataset._validated.cache_info()
    return pool.fingerprint, found.hits, found.misses
"""
LAUNCH = """
import json, sys
from pathlib import Path
from rmlab.launchers.jobs import Job, JobList
from rmlab.launchers.local import LocalLauncher, start_fork_server

folder, where = Path(sys.argv[1]), sys.argv[2]
start_fork_server(["a_module_that_is_not_installed"], [("rmlab.verifiers.dataset:preload", str(folder / "none.parquet")),
                                                       ("rmlab.verifiers.dataset:preload", where)])
for number, change in enumerate(["", "", "another.parquet", "altered.parquet"]):
    if change:
        Path(where).write_bytes((folder / change).read_bytes())
    job = Job(str(number), str(folder / "reads.py"), "run", ({"path": where},), folder / f"{number}.log")
    [event] = [e for e in LocalLauncher(1).run(JobList([job]), []) if e is not None and e.state in ("finished", "failed")]
    print(json.dumps(event.result or event.error))
"""


def test_a_cell_finds_the_pool_read_and_reads_it_again_once_it_is_another(tmp_path: Path) -> None:
    pool = write_trajectories(tmp_path / "pool.parquet", POOL)
    another = write_trajectories(tmp_path / "another.parquet", [replace(POOL[0], resolved=None), *POOL[1:]])
    table = pq.read_table(tmp_path / "another.parquet")
    flipped = [not label for label in table.column("resolved").to_pylist()]
    pq.write_table(
        table.set_column(table.column_names.index("resolved"), "resolved", [flipped]), tmp_path / "altered.parquet"
    )
    (tmp_path / "reads.py").write_text(PROGRAM)
    answer = subprocess.run(
        [sys.executable, "-c", LAUNCH, str(tmp_path), str(tmp_path / "pool.parquet")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "RMLAB_RUNS": str(tmp_path / "runs")},
    )
    first, second, third, fourth = map(json.loads, answer.stdout.splitlines())
    assert first == second == [pool.fingerprint, 1, 1], "read once, by the fork server: what it read is found"
    assert third == [another.fingerprint, 0, 2]
    assert "labels or parts were modified" in fourth


def test_a_pool_is_proven_once_as_long_as_its_bytes_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "pool.parquet"
    write_trajectories(path, POOL)
    dataset.preload(str(path))
    held = dataset.validated_pool(path)
    assert dataset.validated_pool(path) is held
    assert read_index(path).fingerprint == held.fingerprint
    os.utime(path, ns=(1, 1))
    assert dataset.validated_pool(path) is held, "another time, the same bytes"
    write_trajectories(path, [*POOL, episode(30, True)])
    assert len(dataset.validated_pool(path)) == len(POOL) + 1 == len(read_index(path).rows)


@pytest.mark.parametrize(
    ("added", "words"),
    [
        (replace(POOL[0], attempt=7, split="evaluation"), "lies in the parts"),
        (
            replace(POOL[4], messages=(*POOL[4].messages, Message("tool", "FAIL_TO_PASS: test_a"))),
            "contain the outcome",
        ),
        (
            replace(episode(40, True, part="evaluation"), messages=(Message("user", "5 hidden tests failed"),) * 2),
            "contain the outcome",
        ),
    ],
)
def test_what_is_wrong_with_a_pool_is_said_every_time(tmp_path: Path, added, words: str) -> None:
    path = tmp_path / "pool.parquet"
    write_trajectories(path, [*POOL, added])
    for _ in range(2):
        with pytest.raises(DataError, match=words):
            dataset.validated_pool(path)
    with pytest.raises(DataError, match="there is no such file"):
        dataset.validated_pool(tmp_path / "none.parquet")


def test_what_cells_read_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [
        OmegaConf.create({"data": {"path": path}, "tasks": tasks})
        for path, tasks in [("a", None), ("b", "t"), ("a", "t")]
    ]
    found = warmup.shared_reads(configs, {"data.path": "m:f", "tasks": "m:g", "not.there": "m:h"})
    assert found == [("m:f", "a"), ("m:f", "b"), ("m:g", "t")]
    with warmup.warm_up_environment(["json"], found):
        assert json.loads(os.environ[warmup.VARIABLE]) == [["json"], [["m:f", "a"], ["m:f", "b"], ["m:g", "t"]]]
    assert warmup.VARIABLE not in os.environ
    monkeypatch.setenv(
        warmup.VARIABLE, json.dumps([["no_such_module"], [["no_such_module:f", "a"], ["os.path:exists", "b"]]])
    )
    warmup.warm_up()
    assert warmup.VARIABLE not in os.environ, "the processes that are forked read nothing of it"
