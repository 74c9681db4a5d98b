"""The sandbox is quick enough: at least 150 programs and 1,000 calls a second on two cores, with isolation on."""

import importlib.util

import pytest

from rmlab.microswe.sandbox import Sandbox
from rmlab.paths import REPOSITORY

path = REPOSITORY / "experiments" / "benchmarks" / "execution.py"
spec = importlib.util.spec_from_file_location("execution_benchmark", path)
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "programs_per_second"), [(20, 150), (1, 150), (200, 50)])
def test_cost_of_a_program(calls, programs_per_second):
    """In CPU time, which (unlike the clock) hardly depends on what else the machine does: two cores give 2,000 ms/s."""
    with Sandbox(workers=2) as sandbox:
        _, milliseconds = benchmark.measure(sandbox, calls=calls, seconds=1.0, parts=1)
    assert milliseconds < 2000 / programs_per_second
    assert calls * 2000 / milliseconds > (1000 if calls > 1 else 150)
