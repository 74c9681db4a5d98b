"""What is a policy? Something that, shown many attempts under way, says the next action of each.

The batch is the seam: a language model generates for all attempts at once, a script goes through them one by one.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import Episode


@dataclass
class Attempt:
    """One attempt under way: its episode, the randomness that is its own, and what the policy keeps in mind of it.

    rng depends on seed, task, policy and number alone, so an attempt is the same in any batch, order and process.
    memory: the policy's; nothing else reads it.
    """

    episode: Episode
    policy: str
    number: int
    rng: random.Random
    memory: Any = None


class Policy(Protocol):
    """name: how trajectories and the factor `policy_mixture` call it."""

    name: str

    def act(self, attempts: Sequence[Attempt]) -> list[str]:
        """The next message of each attempt, in order. Only called with attempts whose episodes wait for an action."""
        ...


def attempt_rng(seed: int, task_id: str, policy: str, number: int) -> random.Random:
    """The randomness of one attempt."""
    return random.Random(int(fingerprint([seed, task_id, policy, number]), 16))
