"""The records and the protocol of rollouts: the form of a language model's attempt for those that train on it.

    engine = LanguageEngine(model, tokenizer, sandbox, environment, EngineConfig(slots=512))   # rmlab.policies.language_engine
    rollouts, seconds = engine.rollout(plan(tasks, ["policy"], attempts=8), Sampling(temperature=1.0), seed=step)
    ...                                       # an optimiser step on `model`
    engine.refresh()                          # the engine acts with the new weights from here on

Collection, evaluation and reinforcement learning all roll out through `Engine.rollout`. Start the sandbox before torch is
imported: its workers are forked from this process. A training step takes the ids as they were sampled, never the text
again: another tokenisation of the same text is another sequence.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rmlab.fingerprint import UNHASHED
from rmlab.policies.rollout import Planned
from rmlab.progress import Advance
from rmlab.trajectories.record import Trajectory


@dataclass(frozen=True)
class Sampling:
    """How the next token is taken. temperature: 0 = the likeliest (greedy), else tokens ~ softmax(logits / temperature).

    max_action_tokens: after so many tokens of one message without its end, the message is taken as it stands.
    """

    temperature: float = 1.0
    max_action_tokens: int = 64


@dataclass
class EngineConfig:
    """How attempts are laid out on the device; with float32 nothing here changes a result beyond rounding.

    slots: attempts decoded at once. capacity: most tokens of one conversation (the static cache holds slots × capacity).
    prefill_rows: conversations prefilled at once. burst: tokens between two checks for finished attempts.
    overlap: run programs while other attempts are decoded; null = on CUDA only (without it, a run on a CPU is reproducible bit by
    bit). graphs: decode with CUDA graphs; null = on CUDA. dtype: of the weights in rollouts and of the cache (float32 or bfloat16).
    """

    slots: int = field(default=64, metadata=UNHASHED)
    capacity: int = 640
    prefill_rows: int = field(default=64, metadata=UNHASHED)
    burst: int = field(default=4, metadata=UNHASHED)
    overlap: bool | None = field(default=None, metadata=UNHASHED)
    graphs: bool | None = field(default=None, metadata=UNHASHED)
    dtype: str = "float32"


@dataclass(frozen=True)
class Rollout:
    """One finished attempt and the very tokens that it was made of.

    trajectory: messages, patch, exit_status ("submitted", "unfinished", "error"), resolved (True, False; None only for
    "error", an environment failure: never reward it), attempt number, task_id, cluster, source. The environment's last
    message (`final got 7`) stands in the messages and not in the tokens: the policy never reads it.

    ids_T: the whole conversation, from the first token of the issue's turn to the last token that the policy said.
    own_T: True where the token was said by the policy: the words of its messages and the <|im_end|> behind them where it
    said that itself. Everything else (issue, observations, turn markers) is masked from every loss.
    logprob_T: natural logarithm of the probability with which the token at position t was drawn, given ids_T[:t], under
    the distribution that was sampled from (softmax(logits / temperature); at temperature 0, softmax(logits)); 0 where
    own_T is False. Compare with `rmlab.training.policy.token_logprobs` on the same ids and temperature.
    truncated: the conversation outgrew the engine's capacity, and the policy could say no more.
    Where the policy never spoke (an issue beyond the capacity, an environment that failed at once) ids_T holds the issue's
    first tokens and own_T is False throughout.
    """

    trajectory: Trajectory
    ids_T: NDArray[np.int32]
    own_T: NDArray[np.bool_]
    logprob_T: NDArray[np.float32]
    truncated: bool = False

    @property
    def own_tokens(self) -> int:
        return int(self.own_T.sum())


@dataclass
class EngineSeconds:
    """Where the time of rollouts went, and how much was done in it; sums of several rollouts add up.

    execution: waiting for programs while nothing could be decoded (programs that ran beside decoding cost none). A GPU is not waited for
    when it reads: what it has not done of a prefill by the next look at who has finished counts as decoding.
    """

    prefill: float = 0.0
    decoding: float = 0.0
    execution: float = 0.0
    other: float = 0.0
    own_tokens: int = 0
    read_tokens: int = 0
    programs: int = 0

    def __add__(self, other: "EngineSeconds") -> "EngineSeconds":
        return EngineSeconds(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def total(self) -> float:
        """All of it."""
        return self.prefill + self.decoding + self.execution + self.other

    def __str__(self) -> str:
        return (
            f"{self.total:.1f} s: decoding {self.decoding:.1f} ({self.own_tokens:,} tokens), prefill {self.prefill:.1f} "
            f"({self.read_tokens:,} tokens), waiting for programs {self.execution:.1f} ({self.programs:,}), other {self.other:.1f}"
        )


def seconds_of(spent: EngineSeconds) -> dict[str, float]:
    """Where the engine's time went, as metrics."""
    return {"seconds_prefill": spent.prefill, "seconds_decoding": spent.decoding, "seconds_execution": spent.execution}


class Rollouts(NamedTuple):
    """rollouts: one for each planned attempt, in the order of the plan. seconds: where the time of making them went."""

    rollouts: list[Rollout]
    seconds: EngineSeconds


class Engine(Protocol):
    """Plays attempts with one language model."""

    def rollout(
        self,
        planned: Sequence[Planned],
        sampling: Sampling | Sequence[Sampling],
        seed: int,
        advance: Advance | None = None,
    ) -> Rollouts:
        """One Rollout for each planned attempt, in the order of the plan. sampling: of all, or one for each attempt of the plan:
        greedy and sampled attempts then share the slots, and only one of many benchmarks waits for its longest line.

        Each attempt draws from a random stream of its own (seed, task, policy name, number), so that it does not depend on
        its neighbours but for rounding: ask for the same plan with another seed to sample anew. `planned` comes from
        `rmlab.policies.rollout.plan`; the policy's name is how the trajectories are called.
        """
        ...

    def refresh(self) -> None:
        """Takes the weights of the model again that it was made with (after an optimiser step)."""
        ...
