"""A training that is asked to stop ends at once, wherever it is, and the same command ends where an unbroken run ends."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmlab.errors import DataError
from rmlab.policies.language_engine import LanguageEngine
from rmlab.tracking.query import TrackedRun, runs
from rmlab.tracking.store import Store
from rmlab.trajectories.record import SPLITS
from rmlab.trajectories.store import write_trajectories
from tests.forked_command import ForkedCommand
from tests.rl.small_training import SMALL, trained
from tests.sweeping import until_said
from tests.verifiers.examples import episodes
from tests.waiting import PATIENCE

FEW = [
    "seed=5",  # of its three evaluations the second one is the best
    "rl.steps=2",
    "watch.every=1",
    "watch.choose=true",
    "watch.tasks=6",
    "watch.attempts=4",
    "watch.held_out_tasks=3",
    "runtime.checkpoint_seconds=1000",
]
MEASURED = ("rl/reward", "rl/loss", "rl/pass_at_1", "rl/pass_at_1_greedy", "held_out/new/pass_at_1")


@pytest.fixture
def sigterm_interrupts() -> Iterator[None]:
    """As in every command."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


def stopping_in(number: int, begun: list[int], played: list[int]) -> Callable[..., Any]:
    """A rollout that SIGTERM reaches in the process's rollout of that number, with its first attempt. begun: rollouts so far; played:
    attempts since the signal, its own included."""
    rollout = LanguageEngine.rollout

    def stopped(self: LanguageEngine, *given: Any, **more: Any) -> Any:
        begun.append(1)
        if len(begun) != number:
            return rollout(self, *given, **more)

        def finished(_: Any) -> None:
            played.append(1)
            if len(played) == 1:
                os.kill(os.getpid(), signal.SIGTERM)

        return rollout(self, *given, **more, on_finished=finished)

    return stopped


def outcome(run: TrackedRun) -> Any:
    found = {k: v for k, v in json.loads(run.artifact("outcome.json").read_text()).items() if k != "seconds"}
    found["curve"] = [{k: v for k, v in row.items() if not k.startswith("seconds")} for row in found["curve"]]
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("sigterm_interrupts")
def test_each_rollout_is_cut_and_made_again_and_nothing_that_was_finished_is(
    easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In turn: validation and held-out tasks before the first step, attempts of a step and the validation after it (twice), held-out
    tasks after the last step, with the last weights and with the best. Each process is stopped in its second rollout, so that the next
    one begins with what this one was at."""
    begun = list[int]()
    with monkeypatch.context() as counted:
        counted.setattr(LanguageEngine, "rollout", stopping_in(0, begun, []))
        whole = trained(easy, tmp_path / "whole", counted, *FEW)
    rollouts = len(begun)
    assert rollouts == (8 if outcome(whole)["chosen"]["step"] == 1 else 7)
    for number in [1, *[2] * (rollouts - 1)]:
        begun, played = [], []
        with monkeypatch.context() as cut, pytest.raises(KeyboardInterrupt):
            cut.setattr(LanguageEngine, "rollout", stopping_in(number, begun, played))
            trained(easy, tmp_path / "stopped", cut, *FEW)
        assert played == [1], "no attempt was waited for"
        assert len(begun) == number
    [best] = tmp_path.rglob("best_000001.safetensors")
    weights, begun = best.read_bytes(), []
    for left in (weights[:-1], None):  # cut, and gone: said before anything is made
        best.unlink() if left is None else best.write_bytes(left)
        with monkeypatch.context() as counted, pytest.raises(DataError, match=best.name):
            counted.setattr(LanguageEngine, "rollout", stopping_in(0, begun, []))
            trained(easy, tmp_path / "stopped", counted, *FEW)
    assert begun == []
    best.write_bytes(weights)
    with monkeypatch.context() as counted:
        counted.setattr(LanguageEngine, "rollout", stopping_in(0, begun, []))
        last = trained(easy, tmp_path / "stopped", counted, *FEW)
        ended = sorted(run.status for run in runs(Store.open()))
        assert ended == ["failed", "failed", "finished", *["stopped"] * rollouts]
    assert len(begun) == 1, "the last one alone was left"
    assert last.tags["config_hash"] == whole.tags["config_hash"]
    for name in MEASURED:
        assert last.series(name) == whole.series(name), name
    assert outcome(last) == outcome(whole)


def endless(*arguments: str) -> None:
    """`rmlab ...` whose rollouts of a language model have no end."""
    from rmlab.__main__ import main

    rollout = LanguageEngine.rollout

    def again(*given: Any, **more: Any) -> Any:
        while True:
            rollout(*given, **more)
            print("an endless rollout", file=sys.stderr, flush=True)

    LanguageEngine.rollout = again  # type: ignore[method-assign]
    main()


@pytest.fixture
def command(request: pytest.FixtureRequest, easy: Path, tmp_path: Path) -> list[str]:
    """A command that plays attempts of the easy policy."""
    policy, tasks = easy / "policy", f"tasks={easy / 'tasks.parquet'}"
    if request.param == "rl":
        return ["rl", f"start={policy}", tasks, *SMALL, *FEW]
    if request.param == "warm-start":
        write_trajectories(tmp_path / "shown.parquet", episodes(8, "supervised"))
        model = ["model=path", f"model.pretrained={policy}", f"demonstrations.paths=[{tmp_path / 'shown.parquet'}]"]
        quick = [
            "runtime=cpu",
            "engine.capacity=224",
            "training.epochs=1",
            "training.batch_size=8",
            "training.threads=1",
            "held_out.tasks=2",
        ]
        return ["warm-start", *model, tasks, f"output={tmp_path / 'policy'}", *quick, "held_out.parts=[validation]"]
    parts = [f"parts.{name}.tasks={2 if name == 'validation' else 0}" for name in sorted(SPLITS)]
    language = [f"language.language.{one}" for one in (f"model={policy}", "device=cpu", "engine.capacity=224")]
    return [
        "collect",
        f"output={tmp_path / 'set.parquet'}",
        tasks,
        "policy=[language]",
        *language,
        *parts,
        "parts.validation.policies=[]",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["rl", "warm-start", "collect"], indirect=True)
def test_sigterm_ends_a_command_in_the_middle_of_its_rollout(command: list[str], runs_folder: Path) -> None:
    """rl: before its first step; warm-start: after its last one."""
    process = ForkedCommand(*command, work=endless)
    until_said(process, "an endless rollout")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert said.splitlines()[-1] == "rmlab: interrupted"
    assert f"ontinue from the last checkpoint with: rmlab {command[0]} " in said or "Continue with: rmlab" in said
    assert [run.status for run in runs(Store.open())] == ["stopped"]
