"""What is known of an attempt of a language model while it is played: its episode and its tokens so far.

T is the number of tokens in the conversation.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import Episode
from rmlab.policies.engine import Rollout, Sampling
from rmlab.policies.rollout import Planned


@dataclass
class ConversationInProgress:
    """One attempt and its tokens so far. index: in the plan. slot: None while it holds none.

    ids: all known tokens; unread: those at their end that the slot has not read. own: (first, end) of the tokens of each of the
    policy's messages; logprob: of those tokens, in order. truncated: no room was left for an answer.
    """

    index: int
    planned: Planned
    sampling: Sampling
    episode: Episode
    slot: int | None = None
    ids: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    own: list[tuple[int, int]] = field(default_factory=list)
    logprob: list[float] = field(default_factory=list)
    truncated: bool = False

    @property
    def held_slot(self) -> int:
        """The slot of an attempt that holds one."""
        assert self.slot is not None
        return self.slot

    def observe(self, ids: list[int]) -> None:
        """Takes tokens of the environment, which the slot has to read."""
        self.ids += ids
        self.unread = ids

    def speak(self, ids: list[int], logprob: list[float]) -> None:
        """Takes tokens that the policy said."""
        self.own.append((len(self.ids), len(self.ids) + len(ids)))
        self.ids += ids
        self.logprob += logprob

    def uniform(self, seed: int, positions: int) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """The attempt's random numbers, one for each position of its conversation: no schedule changes them."""
        planned = self.planned
        key = int(fingerprint(["tokens", seed, planned.task.task_id, planned.policy, planned.number]), 16)
        return np.random.default_rng(key).random(positions, dtype=np.float32)

    def rollout(self) -> Rollout:
        """The record of the finished attempt."""
        own_T = np.zeros(len(self.ids), dtype=np.bool_)
        for first, end in self.own:
            own_T[first:end] = True
        logprob_T = np.zeros(len(self.ids), dtype=np.float32)
        logprob_T[own_T] = self.logprob
        trajectory = self.episode.trajectory(self.planned.policy, self.planned.number)
        return Rollout(trajectory, np.array(self.ids, dtype=np.int32), own_T, logprob_T, self.truncated)
