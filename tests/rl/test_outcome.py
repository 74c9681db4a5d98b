"""What is said of a training at its end."""

from rmlab.rl.outcome import signal


def test_a_training_without_a_signal_says_that_nothing_was_learned() -> None:
    without = [["rl/reward", 0.2, 1, 0], ["rl/signal_share", 0.0, 1, 0], ["rl/signal_share", 0.0, 2, 0]]
    assert "nothing was learned, the policy is its start" in "".join(signal(without))
    assert signal([*without, ["rl/signal_share", 0.25, 3, 0]]) == []
    assert signal([]) == []
