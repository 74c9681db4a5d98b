from collections.abc import Callable, Iterator

import pytest

from rmlab.microswe.sandbox import LEVELS, Limits, Outcome, Program, Sandbox

LIMITS = Limits(call_seconds=0.4, program_seconds=0.8, patience=5.0, memory_mb=64)
GOOD = "def f(xs, k):\n    return sorted(x * k for x in xs)"
NEIGHBOURS = [Program("", GOOD, "f", (f"([{n}, 2, 1], 3)", f"([], {n})")) for n in range(4)]
RIGHT = [(f"[{','.join(map(str, sorted([3 * n, 6, 3])))}]", "[]") for n in range(4)]

Attack = Callable[..., Outcome]


@pytest.fixture(scope="session", params=LEVELS)
def box(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox at each level; skipped where the machine refuses the level."""
    with Sandbox(workers=2, limits=LIMITS, at_most=request.param) as sandbox:
        if sandbox.isolation.name != request.param:
            pytest.skip(str(sandbox.isolation))
        yield sandbox


@pytest.fixture
def attack(box: Sandbox) -> Attack:
    """Runs a hostile program among innocent ones; these are right, the workers are the same, the outcome comes back."""

    def run(code: str, *inputs: str, context: str = "", workers_stay: bool = True) -> Outcome:
        before = [worker.process.pid for worker in box.workers]
        hostile = Program(context, code, "f", inputs or ("()",))
        programs = [*NEIGHBOURS[:2], hostile, *NEIGHBOURS[2:], *NEIGHBOURS]
        *first, outcome = (outcomes := box.run(programs))[:3]
        others = [*first, *outcomes[3:]]
        assert all(other.passed(right) for other, right in zip(others, RIGHT + RIGHT, strict=True))
        if workers_stay:
            assert [worker.process.pid for worker in box.workers] == before
        return outcome

    return run
