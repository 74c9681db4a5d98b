"""Streams: programs that are added while others run."""

import pytest

from rmlab.microswe.sandbox import Limits, Program, Sandbox

ENDLESS = Program("", "def f():\n    while True: pass", "f", ("()",))


def gives(n: int) -> Program:
    return Program("", f"def f():\n    return {n}", "f", ("()",))


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2, limits=Limits(call_seconds=1.0, program_seconds=1.0)) as opened:
        yield opened


def test_what_is_added_while_an_endless_program_runs_is_known_before_it(sandbox):
    order = []
    with sandbox.stream() as stream:
        assert stream.add(ENDLESS) == 0
        last = stream.add(gives(0))
        while known := stream.outcomes():
            order += [(number, outcome.results[0].kind) for number, outcome in known]
            if known[-1][0] == last and last < 5:
                last = stream.add(gives(last))
    assert order == [*((n, "value") for n in range(1, 6)), (0, "timeout")]
    assert stream.outcomes() == []


def test_nothing_is_waited_for_unless_that_is_asked_for(sandbox):
    with sandbox.stream() as stream:
        stream.add(ENDLESS)
        assert stream.outcomes(wait=False) == []
        [(number, outcome)] = stream.outcomes()  # so it was still running
        assert (number, outcome.results[0].kind) == (0, "timeout")


def test_a_stream_that_is_left_gives_its_workers_back(sandbox):
    with pytest.raises(RuntimeError, match="left"), sandbox.stream() as stream:
        for _ in range(3):
            stream.add(ENDLESS)
        raise RuntimeError("left")
    outcomes = sandbox.run([gives(n) for n in range(10)])
    assert [outcome.results[0].value for outcome in outcomes] == [str(n) for n in range(10)]


def test_what_has_not_ended_in_time_is_a_timeout_of_the_sandbox(sandbox):
    with sandbox.stream(0.3) as stream:
        for program in (ENDLESS, ENDLESS, gives(1)):
            stream.add(program)
        found = {}
        while known := stream.outcomes():
            found.update(known)
    assert {n: (o.results[0].kind, o.broken) for n, o in found.items()} == dict.fromkeys(range(3), ("timeout", True))
    assert sandbox.run([gives(2)])[0].results[0].value == "2"


def test_the_time_of_a_program_begins_when_it_is_added():
    with Sandbox(1, Limits(call_seconds=5.0, batch_seconds=2.0)) as sandbox, sandbox.stream() as stream:
        stream.add(ENDLESS)
        stream.add(ENDLESS)
        while known := stream.outcomes():
            assert all(outcome.broken for _, outcome in known)
        stream.add(gives(1))
        assert [(n, outcome.results[0].value) for n, outcome in stream.outcomes()] == [(2, "1")]
