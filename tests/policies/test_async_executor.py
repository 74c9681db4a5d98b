import os
import signal

import pytest

from rmlab.microswe.sandbox import Limits, Program, Sandbox
from rmlab.policies.programs import AsyncExecutor, Executor
from tests.waiting import PATIENCE

ENDLESS = Program("", "def f(x):\n    while True:\n        pass", "f", ("(1,)",))


def double(factor: int) -> Program:
    return Program("", f"def f(x):\n    return {factor} * x", "f", ("(1,)",))


def test_an_endless_program_holds_up_nobody_else() -> None:
    limits = Limits(call_seconds=3.0, program_seconds=3.0)
    with Sandbox(2, limits) as sandbox, AsyncExecutor[str](Executor(sandbox), overlap=True) as programs:
        programs.begin(["endless", "a", "b", "a again"], [ENDLESS, double(2), double(3), double(2)])
        assert programs.in_flight == 4
        heard: list[tuple[str, str]] = []
        while programs.in_flight:
            programs.wait(PATIENCE)
            heard += [
                (owner, outcome.results[0].value if outcome.results[0].kind == "value" else outcome.results[0].kind)
                for owner, outcome in programs.completed()
            ]
        assert sorted(heard[:3]) == [("a", "2"), ("a again", "2"), ("b", "3")], (
            "all before the endless one's time is over"
        )
        assert heard[3:] == [("endless", "timeout")]


def test_leaving_it_waits_for_no_program_that_has_not_begun() -> None:
    with Sandbox(1) as sandbox:
        executor = Executor(sandbox)
        with AsyncExecutor[int](executor, overlap=True) as programs:
            programs.begin(list(range(5000)), [double(n) for n in range(5000)])
            assert programs.wait(PATIENCE)
        ran = [n for n in range(5000) if executor.recall(double(n)) is not None]
        assert 1 <= len(ran) < 5000
        assert executor.run([double(7)])[0].results[0].value == "7", "the workers are free"


@pytest.mark.parametrize("overlap", [False, True])
def test_what_a_batch_has_no_time_left_for_is_no_outcome_of_its_program(overlap: bool) -> None:
    endless = [Program("", f"def f(x):\n    while True:\n        x = {n}", "f", ("(1,)",)) for n in range(6)]
    limits = Limits(call_seconds=5.0, program_seconds=5.0, batch_seconds=0.3)
    with Sandbox(1, limits) as sandbox, AsyncExecutor[int](Executor(sandbox), overlap) as programs:
        programs.begin(list(range(6)), endless)
        broken: list[int] = []
        while programs.in_flight:
            programs.wait(PATIENCE)
            broken += [owner for owner, outcome in programs.completed() if outcome.broken]
        assert sorted(broken) == list(range(6)), "as by `Sandbox.run`: none used up its own time"


def test_an_error_in_a_batch_is_raised_where_outcomes_are_taken() -> None:
    with Sandbox(1) as sandbox:
        executor = Executor(sandbox)
        with AsyncExecutor[str](executor, overlap=True) as programs:
            sandbox.close()
            programs.begin(["a"], [double(2)])
            assert programs.wait(PATIENCE)
            with pytest.raises(ValueError, match="closed"):
                while True:
                    assert list(programs.completed()) == []


def test_without_overlap_outcomes_come_in_order(sandbox: Sandbox) -> None:
    with AsyncExecutor[int](Executor(sandbox), overlap=False) as programs:
        programs.begin(list(range(20)), [double(n) for n in range(20)])
        assert programs.wait(0)
        assert programs.wait(0)  # takes no second one
        assert [(owner, int(outcome.results[0].value)) for owner, outcome in programs.completed()] == [
            (n, n) for n in range(20)
        ]
        assert programs.in_flight == 0


def test_a_worker_that_is_killed_loses_no_program() -> None:
    with Sandbox(2) as sandbox, AsyncExecutor[int](Executor(sandbox), overlap=True) as programs:
        programs.begin(list(range(200)), [double(n) for n in range(200)])
        heard: list[tuple[int, str]] = []
        while programs.in_flight:
            programs.wait(PATIENCE)
            for owner, outcome in programs.completed():
                heard.append((owner, outcome.results[0].value))
                if len(heard) in (20, 60):
                    os.kill(sandbox.workers[len(heard) // 60].process.pid, signal.SIGKILL)
        assert sorted(heard) == [(n, str(n)) for n in range(200)]
