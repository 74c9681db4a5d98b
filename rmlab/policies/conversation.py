"""The conversation of a language-model policy, as token ids: what it reads and says, and an attempt while it is played.

ChatML turns, as verifiers read them. A conversation grows by pieces (the issue, a message, an observation, ...), and every
piece is tokenised by itself: what a policy is taught, what it sees when it acts and what it is trained on by reinforcement
learning are the same ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import Episode
from rmlab.models.tokenizer import IM_END, IM_START, Tokenizer
from rmlab.policies.engine import Rollout, Sampling
from rmlab.policies.rollout import Planned
from rmlab.verifiers.prompt import escape

OPEN = f"{IM_START}assistant\n"


class PolicyPrompt:
    """Pieces of conversations in the ids of one tokenizer. Issues and observations (`ok`) repeat, so they are remembered."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        self.stop_id = int(tokenizer.hf.convert_tokens_to_ids(IM_END))
        self._front = len(tokenizer.front)
        self._known: dict[str, list[int]] = {}

    def issue(self, content: str) -> list[int]:
        """From the conversation's first token to where the policy begins to speak; one BOS where the tokenizer has one."""
        return self._whole(f"{IM_START}user\n{self._escaped(content)}{IM_END}\n{OPEN}")[:]

    def observation(self, content: str, ended: bool = True) -> list[int]:
        """What follows a message: the end of its turn (ended: the policy said <|im_end|> itself), the answer, the next turn's start."""
        return self._ids(f"{'' if ended else IM_END}\n{IM_START}user\n{self._escaped(content)}{IM_END}\n{OPEN}")

    def message(self, content: str) -> list[int]:
        """A message as a policy says it, with the <|im_end|> that ends it."""
        return [*self._ids(self._escaped(content)), self.stop_id]

    def begun(self, texts: Sequence[str]) -> list[list[int]]:
        """Many beginnings of conversations that are rendered and escaped already."""
        return self.tokenizer.encode(texts)

    def ended(self, texts: Sequence[str]) -> list[list[int]]:
        """Many messages that are escaped already, each with its <|im_end|>."""
        return [[*ids[self._front :], self.stop_id] for ids in self.tokenizer.encode(texts)]

    def text(self, ids: Sequence[int]) -> str:
        """The message that a policy said, without the <|im_end|> behind it."""
        tokens = list(ids)
        return self.tokenizer.decode(tokens[:-1] if tokens and tokens[-1] == self.stop_id else tokens)

    def _escaped(self, content: str) -> str:
        return escape(content, self.tokenizer.reserved)

    def _ids(self, text: str) -> list[int]:
        return self._whole(text)[self._front :]

    def _whole(self, text: str) -> list[int]:
        if text not in self._known:
            if len(self._known) > 100_000:
                self._known.clear()
            self._known[text] = self.tokenizer.encode([text])[0]
        return self._known[text]


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
