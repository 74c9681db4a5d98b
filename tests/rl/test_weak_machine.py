"""Where only resource limits keep programs in, a policy is trained only where that is asked for, and the run says so."""

from pathlib import Path

import pytest

from rmlab.configuration import compose, load_program
from rmlab.errors import RmlabError
from rmlab.tracking.query import runs
from rmlab.tracking.store import Store

QUICK = [
    "runtime=cpu", "runtime.progress=false", "training.threads=1", "engine.capacity=224", "rl.steps=0", "watch.every=0",
    "watch.tasks=2", "watch.held_out_tasks=1", "watch.held_out_attempts=1", "watch.episodes=1", "rl.max_action_tokens=8",
    "keep_model=false", "workers=1",
]  # fmt: skip


def test_a_policy_is_trained_only_where_that_is_asked_for(
    easy: Path, runs_folder: Path, weak_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [f"start={easy / 'policy'}", f"tasks={easy / 'tasks.parquet'}", *QUICK]
    program = load_program("rl")
    with pytest.raises(
        RmlabError, match=r"sandbox\.allow_weak=true runs model-written code with resource limits alone"
    ):
        program.main(arguments)
    made = program.main([*arguments, "sandbox.allow_weak=true"])
    (run,) = runs(Store.open(), ["policies"])
    assert run.run_id == made
    assert run.tags["isolation"].startswith("limits: ")
    assert "warning: code runs with resource limits alone" in capsys.readouterr().err
    assert program.identity(compose("rl", arguments)).config_hash == run.tags["config_hash"]
