import pytest

from rmlab.errors import DataError
from rmlab.policies.success import success
from rmlab.trajectories.record import Message, Trajectory


def attempt(task: str, cluster: str, number: int, resolved: bool | None, *said: str) -> Trajectory:
    messages = (Message("user", "issue"), *(Message("assistant", text) for text in said))
    return Trajectory(
        task, cluster, "s", "p", number, messages, None, "submitted" if resolved else "unfinished", resolved
    )


def test_a_mean_over_tasks_and_how_attempts_go() -> None:
    rows = [
        attempt("a", "1", 0, True, "edit 1: x", "run", "submit"),
        attempt("b", "1", 0, True, "submit"),
        attempt("b", "1", 1, False, "what", "run"),
        attempt("c", "2", 0, False, "edit 1: x"),
        attempt("c", "2", 1, None),
    ]
    found = success(rows)
    assert found.pass_at_1 == pytest.approx((1 + 0.5 + 0) / 3)
    assert (found.tasks, found.attempts, found.unlabelled) == (3, 4, 1)
    assert (found.unfinished, found.ran) == (0.5, 0.5)
    assert found.unreadable == pytest.approx(1 / 7)
    assert found.turns == pytest.approx(7 / 4)
    assert (found.low, found.high) == (0.0, 0.75)  # two clusters: both drawn twice, or each once
    assert found.metrics("held_out")["held_out/pass_at_1"] == found.pass_at_1


def test_nothing_labelled_is_an_error() -> None:
    with pytest.raises(DataError, match="none of 1 attempts has a label"):
        success([attempt("a", "1", 0, None)])
