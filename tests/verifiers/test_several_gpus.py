"""`rmlab train runtime=multi_gpu`, with two processes on the CPU in place of two GPUs: one run, one verifier, and how it ends."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from rmlab.configuration import compose, load_program
from rmlab.errors import UsageError
from rmlab.launchers.gpus import VISIBLE
from rmlab.launchers.local import local_launcher
from rmlab.launchers.rank_processes import Nodes, ranks_to_start
from rmlab.scores.table import read_score_table
from rmlab.sweep import single_run
from rmlab.tracking.query import TrackedRun, runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.training.config import SeveralGpusRuntimeConfig
from rmlab.training.ranks import Ranks
from rmlab.trajectories.store import read_trajectories
from rmlab.verifiers.scoring import _own_share
from rmlab.verifiers.verifier import load_verifier
from tests.command_line import rmlab_here
from tests.forked_command import ForkedCommand
from tests.verifiers.test_programs import PARTS, overrides, pool, trained
from tests.waiting import PATIENCE, until

__all__ = ["PARTS", "pool"]
TWO = ("runtime.device=cpu", "runtime.processes=2")
TINY = (
    *("model.pretrained=null", "model.layers=2", "model.hidden_size=32", "model.heads=2", "model.kv_heads=1"),
    *("model.head_dim=16", "model.intermediate_size=64", "model.experts=4", "model.experts_per_token=2"),
    *("model.expert_size=32", "model.tokenizer.vocab_size=512", "data.scale=48", "evaluation.replicates=200"),
    *("training.batch_size=16", "training.micro_batch_size=8", "training.epochs=1.0", "training.reference_scale=48"),
    *("evaluation.batch_tokens=4096", "evaluation.attempts=4"),
)
"""The preset paper at the size of tests."""


def of_command(folder: Path, *given: str, **environment: str) -> tuple[ForkedCommand, Store]:
    store = Store.open(f"sqlite:///{folder / 'mlflow.db'}")
    return ForkedCommand("train", *given, environment={"RMLAB_RUNS": str(folder), **environment}), store


def finished(folder: Path, *given: str) -> TrackedRun:
    """By the command in this process, whose ranks are processes of their own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RMLAB_RUNS", str(folder))
        code, _, told = rmlab_here("train", *given)
        assert code == 0, told
        (run,) = runs(Store.open(), tags={"kind": "verifier", "status": "finished"})
    return run


def ranks_of(process: ForkedCommand) -> list[psutil.Process]:
    """Those that train, rank 0 first."""
    found = process.family()
    assert len(found) == 2
    return found


def test_how_many_processes_a_run_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,1,2")
    assert ranks_to_start(SeveralGpusRuntimeConfig(device="cuda")) == 0
    assert ranks_to_start(SeveralGpusRuntimeConfig(device="cuda", processes=0)) == 3
    assert ranks_to_start(SeveralGpusRuntimeConfig(device="cuda", processes=2)) == 2
    assert ranks_to_start(SeveralGpusRuntimeConfig(device="cpu", processes=0)) == 0
    with pytest.raises(UsageError, match=r"runtime\.processes=4: 3 GPUs are visible"):
        ranks_to_start(SeveralGpusRuntimeConfig(device="cuda", processes=4))
    monkeypatch.setenv("RMLAB_RANKS", "2")  # a rank starts none
    assert ranks_to_start(SeveralGpusRuntimeConfig(device="cuda", processes=2)) == 0


def test_a_sweep_gives_such_a_cell_all_gpus_and_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE, "0,1")
    several, single = (local_launcher(compose("train_verifier", [f"runtime={name}"])) for name in ("multi_gpu", "cuda"))
    assert (several.workers, several.gpus) == (1, None)
    assert single.workers == 2
    assert single.gpus is not None


def test_folds_refuse_several_gpus() -> None:
    program = load_program("cross_validate")
    with pytest.raises(
        UsageError, match=r"runtime\.processes=0: only `rmlab train` trains one verifier on several GPUs"
    ):
        program._settings(compose("cross_validate", ["runtime=multi_gpu"]))


def test_folds_refuse_further_pools() -> None:
    program = load_program("cross_validate")
    with pytest.raises(UsageError, match=r"evaluation\.pools=\['again'\]: only `rmlab train`"):
        program._settings(compose("cross_validate", ["evaluation.pools={again: [hand]}"]))


def test_nodes_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Nodes.of_environment({}) == Nodes(1, 0, "127.0.0.1", 0)
    assert Nodes.of_environment({"SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1"}).number == 1
    step = {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "1", "SLURM_JOB_ID": "123456"}
    step["SLURM_STEP_NODELIST"] = "gpu[07-08]"
    with pytest.raises(UsageError, match="srun started 16 tasks on 2 nodes"):
        Nodes.of_environment(step | {"SLURM_STEP_NUM_TASKS": "16"})
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\n[ \"$3\" = 'gpu[07-08]' ] && printf 'gpu07\\ngpu08\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert Nodes.of_environment(step) == Nodes(2, 1, "gpu07", 23456)


def test_the_number_of_gpus_is_in_no_hash(pool: Path) -> None:
    program = load_program("train_verifier")
    hashes = {
        program.identity(compose("train_verifier", overrides(pool, *more))).config_hash
        for more in (
            (),
            ("runtime=multi_gpu",),
            ("runtime.processes=2", "runtime.offload=true", "runtime.parallel=fsdp"),
        )
    }
    assert len(hashes) == 1


def test_every_prompt_is_scored_by_one_rank_that_gets_its_share_of_the_tokens() -> None:
    draw = np.random.default_rng(0)
    for number in (1, 2, 3, 8):
        for count in (0, 1, 2, 40):
            prompts = [draw.integers(0, 300, size=draw.integers(1, 30)).astype(np.int32) for _ in range(count)]
            shares = [_own_share(prompts, Ranks(number, index)) for index in range(number)]
            assert sorted(i for share in shares for i in share) == list(range(count))
            tokens = [sum(len(prompts[i]) for i in share) for share in shares]
            assert max(tokens) - min(tokens) <= 2 * 30
            in_order = [prompts[i].tolist() for share in shares for i in share]
            assert in_order == sorted(in_order), "so that what has a start in common lies together"


@pytest.mark.slow
def test_two_processes_make_one_run_whose_verifier_is_that_of_one(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = "evaluation.pools={again: [hand]}"
    one = trained(pool, tmp_path / "one", monkeypatch, pools)
    two = finished(tmp_path / "two", *overrides(pool, pools), *TWO)
    assert two.tags["config_hash"] == one.tags["config_hash"]
    assert two.tags["ranks"] == "2"
    ours, theirs = (read_score_table(run.artifact("scores.parquet")) for run in (two, one))
    assert np.allclose(ours.score, theirs.score, atol=1e-5)
    assert np.allclose(read_score_table(two.artifact("again_scores.parquet")).score, ours.score, atol=1e-5)
    assert two.metrics["train/loss"] == pytest.approx(one.metrics["train/loss"], abs=1e-5)
    verifier = load_verifier(two.artifact("model"))
    assert sum(p.numel() for p in verifier.model.parameters()) > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_adapters_are_scored_as_they_are_saved(pool: Path, tmp_path: Path, parallel: str) -> None:
    """Merged into the weights: in bfloat16 the sums of weights and adapters would round otherwise."""
    adapters = ("model=starter", "lora.rank=2", "training.dtype=bfloat16", "optimizer.learning_rate=3e-2")
    run = finished(tmp_path, *overrides(pool, *adapters), *TWO, f"runtime.parallel={parallel}")
    table = read_score_table(run.artifact("scores.parquet"))
    verifier, attempts = load_verifier(run.artifact("model")), read_trajectories(pool).trajectories
    encoded = verifier.encode([one for one in attempts if one.trajectory_id in set(table.trajectory_id)])
    again = dict(zip((e.trajectory.trajectory_id for e in encoded), verifier.score(encoded).score, strict=True))
    assert table.score == pytest.approx([again[name] for name in table.trajectory_id], abs=2e-3)


@pytest.mark.slow
def test_the_preset_paper_runs_as_written_at_the_size_of_tests(pool: Path, tmp_path: Path) -> None:
    run = finished(tmp_path, "preset=paper", f"data.path={pool}", *TINY, *TWO, "runtime.parallel=fsdp")
    assert run.tags["ranks"] == "2"
    assert "train/layer_1_load_max" in run.metrics
    scores = read_score_table(run.artifact("scores.parquet"))
    assert np.isfinite(scores.score).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parallel", "written"), [("ddp", "cells/*/checkpoint.safetensors"), ("fsdp", "cells/*/checkpoint-step*")]
)
def test_a_killed_rank_ends_all_with_one_line_and_the_same_command_goes_on(
    pool: Path, tmp_path: Path, parallel: str, written: str
) -> None:
    given = (
        *overrides(pool, "training.epochs=8", "runtime.checkpoint_seconds=0"),
        *TWO,
        f"runtime.parallel={parallel}",
    )
    process, store = of_command(tmp_path, *given)
    until(lambda: list(tmp_path.glob(written)), process)
    ranks = ranks_of(process)
    os.kill(ranks[1].pid, signal.SIGKILL)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "rmlab: rank 1: the process was killed (signal 9)" in told.splitlines()[-1]
    assert "Traceback" not in told
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in ranks)
    (broken,) = runs(store, tags={"kind": "verifier"})
    assert broken.tags["status"] in ("killed", "stopped")
    assert broken.tags["error"].startswith("rank 1: the process was killed (signal 9)")
    whole = finished(tmp_path, *given)
    (again,) = [run for run in runs(store, tags={"kind": "verifier"}) if run.run_id == broken.run_id]
    assert again.tags["continued_by"] == whole.run_id


@pytest.mark.slow
def test_two_nodes_of_slurm_train_one_verifier(pool: Path, tmp_path: Path) -> None:
    """Two tasks, one a node, with two commands on this machine in place of nodes; the second tracks nothing."""
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\nprintf 'localhost\\nlocalhost\\n'\n")
    program.chmod(0o755)
    step = {
        "SLURM_STEP_NUM_NODES": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "any",
        "SLURM_JOB_ID": "7717",
    }
    path = f"{tmp_path}:{os.environ['PATH']}"
    given = (*overrides(pool), "runtime.device=cpu", "runtime.processes=0")
    both = [of_command(tmp_path / "runs", *given, **step, SLURM_NODEID=str(node), PATH=path)[0] for node in (0, 1)]
    for process in both:
        _, told = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, told
    (run,) = runs(Store.open(f"sqlite:///{tmp_path / 'runs' / 'mlflow.db'}"))
    assert run.status == "finished"
    assert run.tags["ranks"] == "2"


@pytest.mark.parametrize("ends", ["finish", "fail"])
def test_the_second_node_waits_for_who_is_at_work_as_the_first_does(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """A run of another job, which ends while it is waited for: the first node starts no ranks before, and none where it is finished."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    monkeypatch.setenv("RMLAB_LEASE_SECONDS", "86400")
    monkeypatch.setattr(Nodes, "of_environment", lambda: Nodes(2, 1, "localhost", 1))
    program, given, waited = load_program("train_verifier"), (*overrides(pool), "runtime.processes=0"), []
    tags = {"config_hash": program.identity(compose("train_verifier", given)).config_hash}
    other = RunLogger.start(Store.open(), "verifiers", "other", kind="verifier", tags=tags, once=True)

    def wait(seconds: float) -> None:
        waited.append(seconds)
        other.finish() if ends == "finish" else other.fail(RuntimeError("killed"))

    def ranks(config: object) -> str:
        assert waited, "its ranks would wait in vain"
        return "ranks"

    monkeypatch.setattr(single_run, "time", SimpleNamespace(sleep=wait))
    monkeypatch.setattr(program, "run", ranks)
    assert program.main(given) == (other.run_id if ends == "finish" else "ranks")
    assert len(waited) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "parallel", "written"),
    [
        (signal.SIGINT, "fsdp", ["checkpoint-step*/rank*.safetensors"] * 2),
        (signal.SIGTERM, "auto", ["checkpoint.safetensors"]),
    ],
)
def test_ctrl_c_ends_all_with_a_checkpoint(
    pool: Path, tmp_path: Path, number: int, parallel: str, written: list[str]
) -> None:
    given = (
        *overrides(pool, "training.epochs=3000", "runtime.checkpoint_seconds=3600"),
        *TWO,
        f"runtime.parallel={parallel}",
    )
    process, store = of_command(tmp_path, *given)
    until(lambda: any("train/loss" in run.metrics for run in runs(store)), process)
    ranks = ranks_of(process)
    process.send_signal(number)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Continue from the last checkpoint with: rmlab train" in told
    assert "Traceback" not in told
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in ranks)
    assert len(list(tmp_path.glob(f"cells/*/{written[0]}"))) == len(written)
    (run,) = runs(store, tags={"kind": "verifier"})
    assert run.tags["status"] == "stopped"
