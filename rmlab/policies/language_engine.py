"""The rollout engine: many attempts of one language model, decoded in slots while programs run.

An attempt opens (its issue needs the public call's value), takes a slot, reads, speaks, may wait there for what `run` shows,
leaves the slot when it submits or runs out of turns, and closes (its last program is tested). The slot is given to the next
attempt at once. Where `overlap` is off, programs run whenever an eighth of the slots waits for them, so that a run on a CPU
repeats itself exactly.
"""

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.episode import EnvironmentConfig, Episode
from rmlab.microswe.sandbox import Sandbox
from rmlab.models.generation import SlotDecoder
from rmlab.models.tokenizer import Tokenizer
from rmlab.policies.engine import EngineConfig, EngineSeconds, Rollout, Rollouts, Sampling
from rmlab.policies.language_prompt import PolicyPrompt
from rmlab.policies.rollout import AsyncExecutor, Executor, Planned
from rmlab.progress import Advance
from rmlab.trajectories.record import Trajectory

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WAITING_SHARE = 8  # without overlap programs run when one slot in so many waits
NEWS_SECONDS = 0.02  # conversations that could be read wait so long for others to join them
GATHERED = 8  # on a GPU conversations are read when one in so many waits for it: few large readings cost less than many small ones


@dataclass
class _Attempt:
    """index: in the plan. ids: all known tokens; unread: those at their end that no slot has been told yet.

    own: (first, end) of each message's tokens. logprob: of those tokens, in order.
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


class LanguageEngine:
    """`rmlab.policies.engine.Engine` over one model. device: cpu or cuda; the model may lie elsewhere.

    sandbox: started before torch was imported. The engine belongs to one thread. Raises UsageError for an unknown dtype.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        sandbox: Sandbox,
        environment: EnvironmentConfig,
        config: EngineConfig,
        device: str = "cpu",
    ):
        if config.dtype not in DTYPES:
            raise UsageError(f"engine.dtype={config.dtype}: choose one of {', '.join(DTYPES)}")
        on_gpu = device != "cpu"
        if config.graphs and not on_gpu:
            raise UsageError(
                "engine.graphs=true: CUDA graphs need a CUDA device. Take engine=cpu, or engine.graphs=null."
            )
        self.prompt, self.environment, self.config = PolicyPrompt(tokenizer), environment, config
        self.executor = Executor(sandbox)
        self.decoder = SlotDecoder(
            model,
            config.slots,
            config.capacity,
            self.prompt.stop_id,
            device,
            DTYPES[config.dtype],
            on_gpu if config.graphs is None else config.graphs,
        )
        self.overlap = on_gpu if config.overlap is None else config.overlap
        self.burst = config.burst if on_gpu else 1  # on a CPU a look at who has finished costs nothing

    def refresh(self) -> None:
        """Takes the weights of the model again that it was made with."""
        self.decoder.refresh()

    def rollout(
        self,
        planned: Sequence[Planned],
        sampling: Sampling | Sequence[Sampling],
        seed: int,
        advance: Advance | None = None,
        told: Callable[[Trajectory], None] | None = None,
    ) -> Rollouts:
        """See `rmlab.policies.engine.Engine.rollout`. told: is called with each trajectory as it is finished."""
        sampling_N = [sampling] * len(planned) if isinstance(sampling, Sampling) else list(sampling)
        for one in set(sampling_N):
            if one.temperature < 0 or one.max_action_tokens < 1:
                raise UsageError(
                    f"temperature={one.temperature}, max_action_tokens={one.max_action_tokens}: at least 0, and 1"
                )
        with _Rolling(self, planned, sampling_N, seed, advance, told) as rolling:
            return Rollouts(rolling.all(), rolling.seconds)


class _Rolling:
    """One call of `rollout`: which attempts wait, hold a slot, need a program, are done."""

    def __init__(
        self,
        engine: LanguageEngine,
        planned: Sequence[Planned],
        sampling_N: Sequence[Sampling],
        seed: int,
        advance: Advance | None,
        told: Callable[[Trajectory], None] | None,
    ):
        self.engine, self.seed, self.advance, self.told = engine, seed, advance, told
        self.decoder, self.seconds = engine.decoder, EngineSeconds()
        self.unopened = deque(enumerate(zip(planned, sampling_N, strict=True)))
        self.ready: deque[_Attempt] = deque()  # the issue is known, no slot yet
        self.needing: list[_Attempt] = []  # a program has to run
        self.programs = AsyncExecutor[_Attempt](engine.executor, engine.overlap)
        self.calm = False  # whether programs brought no news for a while
        self.listening: list[_Attempt] = []  # hold a slot and have tokens to be told
        self.speaking: dict[int, _Attempt] = {}  # by slot
        self.free = list(range(engine.config.slots))  # a heap: low slots first keep the batch narrow
        self.position_B = np.zeros(engine.config.slots, dtype=np.int64)
        self.found: list[Rollout | None] = [None] * len(planned)
        self.done = 0

    def __enter__(self) -> "_Rolling":
        return self

    def __exit__(self, *_: object) -> None:
        self.programs.__exit__()
        self.decoder.active_B.fill_(False)

    def all(self) -> list[Rollout]:
        """Plays until every attempt is done."""
        started, before = time.monotonic(), self._accounted()
        while self.done < len(self.found):
            self._open()
            if self._worth_reading(min(len(self.free), len(self.ready))):
                self._give_slots()
            if self._worth_reading(len(self.listening)):
                self._tell()
            self._execute()
            if self.speaking:
                self._decode()
        self.seconds.other += time.monotonic() - started - (self._accounted() - before)
        return [rollout for rollout in self.found if rollout is not None]

    def _accounted(self) -> float:
        return self.seconds.prefill + self.seconds.decoding + self.seconds.execution

    def _open(self) -> None:
        """Opens attempts ahead, so that a slot that becomes free has someone to take it."""
        ahead = len(self.ready) + sum(not attempt.ids for attempt in self.needing)
        while self.unopened and ahead < self.engine.config.slots:
            index, (planned, sampling) = self.unopened.popleft()
            self.needing.append(_Attempt(index, planned, sampling, Episode(planned.task, self.engine.environment)))
            ahead += 1

    def _readable(self) -> bool:
        return self._worth_reading(min(len(self.free), len(self.ready))) or self._worth_reading(len(self.listening))

    def _worth_reading(self, waiting: int) -> bool:
        """Whether so many conversations are enough for a reading of their own; the last ones do not wait for each other."""
        if not self.engine.overlap or self.calm:
            return waiting > 0
        others = len(self.speaking) or self.programs.in_flight
        return waiting > 0 and waiting * GATHERED >= waiting + others

    def _give_slots(self) -> None:
        opened, self.calm = [], False
        while self.free and self.ready:
            attempt = self.ready.popleft()
            attempt.slot = heapq.heappop(self.free)
            opened.append(attempt)
        rows = self.engine.config.prefill_rows
        opened.sort(key=lambda attempt: len(attempt.unread))  # like lengths read together
        for start in range(0, len(opened), rows):
            part = opened[start : start + rows]
            with self._timed("prefill"):
                self.decoder.put([_slot(a) for a in part], [a.unread for a in part], [self._uniform(a) for a in part])
            self._ask(part)

    def _tell(self) -> None:
        rows, part_of = self.engine.config.prefill_rows, sorted(self.listening, key=lambda attempt: len(attempt.unread))
        self.listening, self.calm = [], False
        for start in range(0, len(part_of), rows):
            part = part_of[start : start + rows]
            with self._timed("prefill"):
                self.decoder.tell(
                    [_slot(a) for a in part], [len(a.ids) - len(a.unread) for a in part], [a.unread for a in part]
                )
            self._ask(part)

    def _ask(self, attempts: Sequence[_Attempt]) -> None:
        last = []
        for attempt in attempts:
            self.seconds.read_tokens += len(attempt.unread)
            attempt.unread = []
            last.append(min(len(attempt.ids) - 1 + attempt.sampling.max_action_tokens, self.engine.config.capacity - 1))
            self.position_B[_slot(attempt)] = len(attempt.ids) - 1
            self.speaking[_slot(attempt)] = attempt
        self.decoder.ask([_slot(a) for a in attempts], last, [a.sampling.temperature for a in attempts])

    def _uniform(self, attempt: _Attempt) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """The random numbers of an attempt, one for each position of its conversation."""
        planned = attempt.planned
        key = int(fingerprint(["tokens", self.seed, planned.task.task_id, planned.policy, planned.number]), 16)
        return np.random.default_rng(key).random(self.engine.config.capacity + 1, dtype=np.float32)

    def _decode(self) -> None:
        slots = list(self.speaking)
        with self._timed("decoding"):
            self.decoder.begin(self.engine.burst, max(slots), int(self.position_B[slots].max()))
            if self.engine.overlap:  # what programs did is read, and attempts are opened, while the device draws
                self._execute()
                self._open()
            active_B, self.position_B = self.decoder.state()
            stopped = [slot for slot in slots if not active_B[slot]]
            if not stopped:
                return
            first = min(len(self.speaking[slot].ids) for slot in stopped)
            ids_NT, logprob_NT = self.decoder.said(stopped, first, int(self.position_B[stopped].max()) + 1)
        for slot, ids_T, logprob_T in zip(stopped, ids_NT, logprob_NT, strict=True):
            attempt = self.speaking.pop(slot)
            begin, end = len(attempt.ids), int(self.position_B[slot]) + 1
            said = ids_T[begin - first : end - first].tolist()
            attempt.ids += said
            attempt.own.append((begin, end))
            attempt.logprob += logprob_T[begin - first : end - first].tolist()
            self.seconds.own_tokens += len(said)
            attempt.episode.act(self.engine.prompt.text(said))
            self._go_on(attempt)

    def _execute(self) -> None:
        """Takes what programs did, and lets those run that are needed. Waits where nothing else can be done."""
        programs = self.programs
        idle = not self.speaking and not self._readable() and (programs.full or not self.needing)
        if programs.in_flight and idle:
            with self._timed(
                "execution"
            ):  # where conversations wait to be read, no longer than it takes several to come
                self.calm = not programs.wait(NEWS_SECONDS if self.ready or self.listening else None)
        self._hear_news()
        if not self.needing or programs.full:
            return
        if not self.engine.overlap and self.speaking and len(self.needing) * WAITING_SHARE < self.engine.config.slots:
            return
        attempts, self.needing = self.needing, []
        needed = [attempt.episode.needs for attempt in attempts if attempt.episode.needs is not None]
        self.seconds.programs += len(needed)
        if self.engine.overlap:
            programs.begin(attempts, needed)
            return
        with self._timed("execution"):
            programs.begin(attempts, needed)
        self._hear_news()

    def _hear_news(self) -> None:
        for attempt, outcome in self.programs.completed():
            self.calm = False
            attempt.episode.receive(outcome)
            self._go_on(attempt)

    def _go_on(self, attempt: _Attempt) -> None:
        """What comes next for an attempt that has just acted, or whose program has run."""
        episode = attempt.episode
        if episode.exit_status is not None and attempt.slot is not None:
            heapq.heappush(self.free, attempt.slot)  # it says no more; its last program needs no slot
            attempt.slot = None
        if episode.done:
            self._finish(attempt)
        elif episode.needs is not None:
            self.needing.append(attempt)
        else:
            self._hear(attempt)

    def _hear(self, attempt: _Attempt) -> None:
        """Tokenises what the environment said last. Where no room is left for an answer, the policy falls silent."""
        prompt, content = self.engine.prompt, attempt.episode.messages[-1].content
        told = (
            prompt.observation(content, ended=attempt.ids[-1] == prompt.stop_id)
            if attempt.own
            else prompt.issue(content)
        )
        if len(attempt.ids) + len(told) >= self.engine.config.capacity:
            attempt.truncated = True
            while attempt.episode.exit_status is None:
                attempt.episode.act("")
            self._go_on(attempt)
            return
        attempt.ids += told
        attempt.unread = told
        (self.ready if attempt.slot is None else self.listening).append(attempt)

    def _finish(self, attempt: _Attempt) -> None:
        if not attempt.ids:
            attempt.ids = self.engine.prompt.issue(attempt.episode.messages[0].content)[: self.engine.config.capacity]
        own_T = np.zeros(len(attempt.ids), dtype=np.bool_)
        for first, end in attempt.own:
            own_T[first:end] = True
        logprob_T = np.zeros(len(attempt.ids), dtype=np.float32)
        logprob_T[own_T] = attempt.logprob
        planned = attempt.planned
        trajectory = attempt.episode.trajectory(planned.policy, planned.number)
        self.found[attempt.index] = Rollout(
            trajectory, np.array(attempt.ids, dtype=np.int32), own_T, logprob_T, attempt.truncated
        )
        self.done += 1
        if self.told is not None:
            self.told(trajectory)
        if self.advance is not None:
            self.advance(1)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        before = time.monotonic()
        yield
        setattr(self.seconds, phase, getattr(self.seconds, phase) + time.monotonic() - before)


def _slot(attempt: _Attempt) -> int:
    assert attempt.slot is not None
    return attempt.slot
