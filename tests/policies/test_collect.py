import re
import signal
import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from rmlab.configuration import compose, load_program
from rmlab.errors import UsageError
from rmlab.microswe.episode import Edits, EnvironmentConfig, Evidence
from rmlab.microswe.task import read_tasks, tasks_fingerprint, write_tasks
from rmlab.paths import CONF, STARTER
from rmlab.policies.collection import choose
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store
from rmlab.trajectories.store import read_trajectories

SMALL = [
    "policy=[hasty,careful]",
    "parts.supervised.tasks=0",
    "parts.verifier.tasks=0",
    "parts.evaluation.tasks=0",
    "parts.validation.tasks=3",
    "parts.validation.attempts=2",
    "progress=false",
    "tracked=false",
]


@pytest.fixture(scope="module")
def collect():
    return load_program("collect")


@pytest.fixture(scope="module")
def tasks():
    return [t for t in read_tasks(STARTER / "tasks.parquet")[0] if t.part == "validation"][::50]


@pytest.fixture
def small(tmp_path, monkeypatch, tasks):
    """Overrides for a small collection from a few tasks, with a runs folder of its own."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    write_tasks(tmp_path / "tasks.parquet", tasks, {})
    return [*SMALL, f"tasks={tmp_path / 'tasks.parquet'}"]


def test_writes_a_labelled_set_that_names_its_origin(collect, tmp_path, tasks, small, capsys):
    path = tmp_path / "few.parquet"
    pool = collect.main([*small, f"output={path}", "seed=5", "tracked=true"])
    back = read_trajectories(path)
    assert back.fingerprint == pool.fingerprint
    assert len(back) == 3 * 2 * 2
    assert {t.split for t in back.trajectories} == {"validation"}
    assert all(t.resolved is not None and t.cluster and t.source for t in back.trajectories)
    assert back.metadata["seed"] == "5"
    assert back.metadata["tasks_fingerprint"] == tasks_fingerprint(tasks)
    assert back.metadata["command"].startswith("rmlab collect")
    assert set(back.metadata) == {
        "command",
        "config_hash",
        "seed",
        "tasks_fingerprint",
        "rmlab_version",
        "environment",
        "edits",
        "max_turns",
    }
    assert "validation hasty: 6 trajectories" in capsys.readouterr().out
    [run] = runs(Store.open(), ["collections"])
    assert run.status == "finished"
    assert run.tags["dataset"] == pool.fingerprint
    assert run.tags["isolation"]
    assert (len(run.tags["config_hash"]), run.tags["device"]) == (16, "cpu")
    assert run.metrics["collect/trajectories"] == 12
    assert run.artifact("few.parquet").read_bytes() == path.read_bytes()
    assert back.metadata["config_hash"] == run.tags["config_hash"]


@pytest.fixture
def once(collect, tmp_path, small, capsys):
    """Overrides of a collection that is finished, and its file."""
    path = tmp_path / "set.parquet"
    arguments = [*small, f"output={path}", "parts.validation.tasks=1", "parts.validation.attempts=1"]
    collect.main(arguments)
    capsys.readouterr()
    return arguments, path


def test_a_finished_collection_is_not_made_again(collect, once, capsys, monkeypatch):
    arguments, path = once
    before, fingerprint = path.stat().st_mtime_ns, read_trajectories(path).fingerprint
    with monkeypatch.context() as patched:
        patched.setattr(collect, "RolloutProcesses", lambda *_: pytest.fail("it plays"))
        found = collect.main([*arguments, "workers=1", "batch=7"])
    assert (found.fingerprint, len(found)) == (fingerprint, 2)
    said = capsys.readouterr().out
    assert re.fullmatch(
        rf"finished already: {re.escape(str(path))}: 2 trajectories, .* {fingerprint} \(--force .*\)\n", said
    )
    assert path.stat().st_mtime_ns == before
    assert collect.main(arguments, force=True).fingerprint == fingerprint
    assert "finished already" not in capsys.readouterr().out
    assert path.stat().st_mtime_ns > before


def test_a_set_whose_run_did_not_end_is_not_finished(collect, once, capsys, monkeypatch):
    tracked = [*once[0], "tracked=true"]
    with monkeypatch.context() as patched:
        patched.setattr(collect, "_log", lambda *_: pytest.fail("killed behind the writing of the set"))
        with pytest.raises(pytest.fail.Exception):
            collect.main(tracked)
    capsys.readouterr()
    collect.main(tracked)
    assert "continuing: 2 of 2 attempts were finished before" in capsys.readouterr().err
    assert {run.status for run in runs(Store.open(), ["collections"])} == {"failed", "finished"}
    collect.main(tracked)
    assert "finished already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"), [(None, "made by `rmlab collect "), (b"task_id,score", "which does not say what made it")]
)
def test_another_request_does_not_take_the_place_of_a_set(collect, once, content, words):
    arguments, path = once
    if content is not None:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=f"holds something else, {words}.*name another output, or replace it with"):
        collect.main([*arguments, "seed=1"])
    assert path.read_bytes() == before
    assert collect.main([*arguments, "seed=1"], force=True).path == path
    assert read_trajectories(path).metadata["seed"] == "1"


@pytest.mark.slow
def test_an_interrupted_collection_goes_on_and_gives_the_same_set(collect, tmp_path, small, capsys, monkeypatch):
    from rmlab.policies import rollout_processes
    from rmlab.trajectories.parts import TrajectoryParts

    whole = tmp_path / "whole.parquet"
    collect.main([*small, f"output={whole}"])
    path, played = tmp_path / "set.parquet", []
    arguments = [*small, f"output={path}", "tracked=true", "batch=4"]

    class Stops(TrajectoryParts):
        def add(self, trajectory):
            super().add(trajectory)
            played.append(trajectory)
            if len(played) == 5:
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rollout_processes, "TrajectoryParts", Stops)
        with pytest.raises(KeyboardInterrupt):
            collect.main(arguments)
    said = capsys.readouterr().err
    assert "Stopped; 5 of 12 attempts are finished and kept. Continue with: rmlab collect" in said
    assert not path.exists()
    [run] = runs(Store.open())
    assert (run.status, run.end_time is None) == ("stopped", False)

    class Counts(TrajectoryParts):
        def add(self, trajectory):
            played.append(trajectory)
            super().add(trajectory)

    played.clear()
    monkeypatch.setattr(rollout_processes, "TrajectoryParts", Counts)
    pool = collect.main(arguments)
    assert "continuing: 5 of 12 attempts were finished before" in capsys.readouterr().err
    assert len(played) == 7, "none is played again"
    assert pool.fingerprint == read_trajectories(whole).fingerprint
    assert [t.extra for t in read_trajectories(path).trajectories] == [
        t.extra for t in read_trajectories(whole).trajectories
    ]
    assert not list((tmp_path / "runs" / "cells").iterdir()), "nothing is left of it"
    collect.main([*arguments, "seed=1"], force=True)
    assert "goes on" not in capsys.readouterr().err


KILLED = """
import os, signal
from rmlab.cli import main
from rmlab.trajectories import parts
TrajectoryParts = parts.TrajectoryParts
write = TrajectoryParts.flush
def written(kept):
    write(kept)
    if kept.files():
        os.killpg(0, signal.SIGKILL)
TrajectoryParts.flush, parts.EVERY_SECONDS = written, 0.0
main()
"""


@pytest.mark.slow
def test_a_killed_collection_goes_on_and_its_run_is_closed(collect, tmp_path, small, capsys):
    """It kills itself as soon as attempts are kept."""
    path = tmp_path / "set.parquet"
    arguments = [*small, f"output={path}", "tracked=true", "parts.validation.attempts=8"]
    process = subprocess.Popen([sys.executable, "-c", KILLED, "collect", *arguments], start_new_session=True)
    assert process.wait() == -signal.SIGKILL
    cells = tmp_path / "runs" / "cells"
    assert not path.exists()
    kept = sum(len(read_trajectories(file)) for file in cells.glob("*/[!.]*.parquet"))
    assert kept
    pool = collect.main(arguments)
    assert f"continuing: {kept:,} of" in capsys.readouterr().err
    assert sorted(run.status for run in runs(Store.open())) == ["finished", "killed"]
    assert pool.fingerprint == collect.main([*arguments, "tracked=false"], force=True).fingerprint


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("parts.validation.tasks=100000", r"parts.validation.tasks=100000 cannot be filled: that part has \d+ tasks"),
        ("policy=[hasty]", "parts.validation.policies names careful, .* set parts.validation.policies=.. for all"),
        ("parts.validation.attempts=0", "there is nothing to collect"),
        ("parts.training.tasks=1", "training"),
        ("parts.validation.policies=[nobody]", "names nobody, which is not configured .there are careful, hasty"),
        ("policy.hasty.speed=3", "speed"),
        ("policy.hasty.search=sideways", "sideways"),
    ],
)
def test_wrong_settings_end_in_one_line(collect, tmp_path, small, override, words):
    with pytest.raises(UsageError, match=words) as raised:
        collect.main([*small, f"output={tmp_path / 'x.parquet'}", override])
    assert "\n" not in str(raised.value)


def test_a_dry_run_says_what_would_be_collected_and_makes_nothing(collect, tmp_path, small):
    said = collect.dry_run([*small, f"output={tmp_path / 'set.parquet'}", "parts.validation.attempts=5000"])
    assert "set.parquet: 30,000 attempts at 3 tasks" in said
    assert "validation: 30,000 attempts at 3 tasks by careful, hasty" in said
    assert re.search(r"30,000 attempts of scripts: about \d+ min with 2 workers on \d+ core", said)
    assert not (tmp_path / "runs").exists()
    with pytest.raises(UsageError, match="cannot be filled"):
        collect.dry_run([*small, f"output={tmp_path / 'set.parquet'}", "parts.validation.tasks=4000"])


def test_tasks_are_drawn_one_of_every_cluster_first():
    tasks = [t for t in read_tasks(STARTER / "tasks.parquet")[0] if t.part == "verifier"]
    clusters = len({t.cluster for t in tasks})
    chosen = choose(tasks, clusters, seed=0)
    assert len({t.cluster for t in chosen}) == clusters
    assert chosen == choose(list(reversed(tasks)), clusters, seed=0)
    assert choose(tasks, None, seed=1)[:5] != chosen[:5]


def test_every_environment_composes():
    expected = {
        "default": (Evidence.final, Edits.build_up, 6),
        "voluntary": (Evidence.voluntary, Edits.build_up, 6),
        "start_over": (Evidence.final, Edits.start_over, 14),
    }
    assert {path.stem for path in (CONF / "environment").glob("*.yaml")} == set(expected)
    for name, (evidence, edits, max_turns) in expected.items():
        environment = OmegaConf.to_object(compose("collect", [f"environment={name}"])).environment
        assert environment == EnvironmentConfig(evidence, edits, max_turns)
