"""The schedule of one rollout: which attempts wait, prefill, decode or need a program next?

An attempt goes through these states; those between the first and the last are the collections of `RolloutSchedule`:

    unopened         planned; nothing of it exists yet
    awaits_program   its public call, its `run` or its last test has to be executed (`programs` holds those under way)
    awaits_slot      its issue is tokenised, and no slot was free so far
    awaits_prefill   it holds a slot, and an observation that its slot has not read
    decoding         it speaks in its slot
    ended            its message is known (with log-probabilities), and it has not acted by it
    done             its rollout stands in rollout_N

B is the number of slots, N of attempts, T of tokens in one conversation.
"""

import heapq
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from rmlab.microswe.episode import Episode
from rmlab.policies.conversation import ConversationInProgress
from rmlab.policies.engine import EngineSeconds, Rollout, Sampling
from rmlab.policies.engine_core import EngineCore
from rmlab.policies.programs import AsyncExecutor
from rmlab.policies.rollout import Planned
from rmlab.progress import Advance
from rmlab.trajectories.record import Trajectory

WAITING_SHARE = 8  # without overlap programs run when one slot in so many waits
GATHER_SECONDS = 0.02  # conversations that could be read wait so long for others to join them
GATHERED = 8  # on a GPU conversations are read when one in so many waits for it: few large prefills cost less than many small ones


class RolloutSchedule:
    """One call of `LanguageEngine.rollout`, a context manager. The states are explained above.

    free_slots: a heap, since low slots first keep the batch narrow. position_B: each slot's last token.
    no_outcome_lately: conversations that wait to be read have waited GATHER_SECONDS for others in vain.
    on_finished: is called with each trajectory as it is finished.
    """

    def __init__(
        self,
        engine: EngineCore,
        planned_N: Sequence[Planned],
        sampling_N: Sequence[Sampling],
        seed: int,
        advance: Advance | None,
        on_finished: Callable[[Trajectory], None] | None,
    ):
        self.engine, self.config, self.decoder = engine, engine.config, engine.decoder
        self.seed, self.advance, self.on_finished = seed, advance, on_finished
        self.seconds = EngineSeconds()
        self.unopened = deque(enumerate(zip(planned_N, sampling_N, strict=True)))
        self.awaits_program: list[ConversationInProgress] = []
        self.programs = AsyncExecutor[ConversationInProgress](engine.executor, engine.overlap)
        self.no_outcome_lately = False
        self.awaits_slot: deque[ConversationInProgress] = deque()
        self.awaits_prefill: list[ConversationInProgress] = []
        self.decoding: dict[int, ConversationInProgress] = {}  # by slot
        self.ended: list[tuple[ConversationInProgress, list[int], list[float]]] = []
        self.free_slots = list(range(self.config.slots))
        self.position_B = np.zeros(self.config.slots, dtype=np.int64)
        self.rollout_N: list[Rollout | None] = [None] * len(planned_N)
        self.done = 0

    def __enter__(self) -> "RolloutSchedule":
        return self

    def __exit__(self, *_: object) -> None:
        self.programs.__exit__()
        self.decoder.active_B.fill_(False)

    def play(self) -> list[Rollout]:
        """Plays until every attempt is done; the rollouts in the order of the plan."""
        started, before = time.monotonic(), self._accounted()
        while self.done < len(self.rollout_N):
            self._open_ahead()
            if self._enough_to_read(self._issues_to_read):
                self._read_issues()
            if self._enough_to_read(len(self.awaits_prefill)):
                self._read_observations()
            if not (self.engine.overlap and self.decoding):  # else while the device draws
                self._run_programs()
            if self.decoding:
                self._decode()
            if not (self.engine.overlap and self.decoding):
                self._act()
        self.seconds.other += time.monotonic() - started - (self._accounted() - before)
        return [rollout for rollout in self.rollout_N if rollout is not None]

    def _accounted(self) -> float:
        return self.seconds.prefill + self.seconds.decoding + self.seconds.execution

    # unopened → awaits_program

    def _open_ahead(self) -> None:
        """Opens as many attempts ahead as there are slots, so that a slot that becomes free has someone to take it."""
        ahead = len(self.awaits_slot) + sum(not attempt.ids for attempt in self.awaits_program)
        while self.unopened and ahead < self.config.slots:
            index, (planned, sampling) = self.unopened.popleft()
            episode = Episode(planned.task, self.engine.environment)
            self.awaits_program.append(ConversationInProgress(index, planned, sampling, episode))
            ahead += 1

    # awaits_slot, awaits_prefill → decoding

    @property
    def _issues_to_read(self) -> int:
        return min(len(self.free_slots), len(self.awaits_slot))

    def _enough_to_read(self, waiting: int) -> bool:
        """Whether so many conversations are enough for a prefill of their own; the last ones do not wait for each other."""
        if not self.engine.overlap or self.no_outcome_lately:
            return waiting > 0
        others = len(self.decoding) or self.programs.in_flight
        return waiting > 0 and waiting * GATHERED >= waiting + others

    def _read_issues(self) -> None:
        """Gives free slots to attempts that wait for one."""
        opened = []
        while self.free_slots and self.awaits_slot:
            attempt = self.awaits_slot.popleft()
            attempt.slot = heapq.heappop(self.free_slots)
            opened.append(attempt)

        def prefill(part: Sequence[ConversationInProgress]) -> None:
            uniform_NS = [a.uniform(self.seed, self.config.capacity + 1) for a in part]
            self.decoder.put([a.held_slot for a in part], [a.unread for a in part], uniform_NS)

        self._prefill(opened, prefill)

    def _read_observations(self) -> None:
        """Lets attempts read, in the slots that they hold, what the environment answered."""
        waiting, self.awaits_prefill = self.awaits_prefill, []

        def prefill(part: Sequence[ConversationInProgress]) -> None:
            end_N = [len(a.ids) - len(a.unread) for a in part]
            self.decoder.append([a.held_slot for a in part], end_N, [a.unread for a in part])

        self._prefill(waiting, prefill)

    def _prefill(
        self, attempts: Sequence[ConversationInProgress], prefill: Callable[[Sequence[ConversationInProgress]], None]
    ) -> None:
        """Reads `prefill_rows` conversations at once, those of like length together, and lets them speak."""
        self.no_outcome_lately = False
        by_length = sorted(attempts, key=lambda attempt: len(attempt.unread))
        for start in range(0, len(by_length), self.config.prefill_rows):
            part = by_length[start : start + self.config.prefill_rows]
            with self._timed("prefill"):
                prefill(part)
            self._start_decoding(part)

    def _start_decoding(self, attempts: Sequence[ConversationInProgress]) -> None:
        last_N = []
        for attempt in attempts:
            self.seconds.read_tokens += len(attempt.unread)
            attempt.unread = []
            last_N.append(min(len(attempt.ids) - 1 + attempt.sampling.max_action_tokens, self.config.capacity - 1))
            self.position_B[attempt.held_slot] = len(attempt.ids) - 1
            self.decoding[attempt.held_slot] = attempt
        self.decoder.activate([a.held_slot for a in attempts], last_N, [a.sampling.temperature for a in attempts])

    # decoding → ended

    def _move_down(self) -> None:
        """Near the end, when nobody waits for a slot, conversations that speak move to lower ones as long as that halves the slots of a
        step: the last ones often speak for long, and a step takes as long as its highest slot says."""
        while not (self.unopened or self.awaits_slot):
            half = self.decoder.width(max(self.decoding)) // 2
            high = [slot for slot in self.decoding if slot >= half]
            low = heapq.nsmallest(len(high), self.free_slots)
            if half < self.decoder.narrowest or len(low) < len(high) or low[-1] >= half:
                return
            self.decoder.move(high, low, int(self.position_B[high].max()) + 1)
            self.position_B[low] = self.position_B[high]
            for slot, lower in zip(high, low, strict=True):
                attempt = self.decoding[lower] = self.decoding.pop(slot)
                attempt.slot = lower
            self.free_slots = sorted({*self.free_slots, *high} - set(low))  # which is a heap

    def _decode(self) -> None:
        """Draws a burst of tokens in every slot that speaks; what was said before is acted by while the device draws."""
        self._move_down()
        slots = list(self.decoding)
        with self._timed("decoding"):
            self.decoder.begin(self.engine.burst, max(slots), int(self.position_B[slots].max()))
            if self.engine.overlap:
                self._act()
                self._run_programs()
                self._open_ahead()
            active_B, self.position_B = self.decoder.state()
            stopped = [slot for slot in slots if not active_B[slot]]
            if not stopped:
                return
            first = min(len(self.decoding[slot].ids) for slot in stopped)
            ids_NT, logprob_NT = self.decoder.drawn(stopped, first, int(self.position_B[stopped].max()) + 1)
        for slot, ids_T, logprob_T in zip(stopped, ids_NT, logprob_NT, strict=True):
            attempt = self.decoding.pop(slot)
            message = slice(len(attempt.ids) - first, int(self.position_B[slot]) + 1 - first)
            self.ended.append((attempt, ids_T[message].tolist(), logprob_T[message].tolist()))

    # ended → awaits_program, awaits_prefill, done

    def _act(self) -> None:
        """Lets the attempts whose messages have ended act by them."""
        ended, self.ended = self.ended, []
        for attempt, ids, logprob in ended:
            attempt.speak(ids, logprob)
            self.seconds.own_tokens += len(ids)
            attempt.episode.act(self.engine.prompt.text(ids))
            self._go_on(attempt)

    # awaits_program → awaits_slot, awaits_prefill, done

    def _run_programs(self) -> None:
        """Takes the outcomes of programs, and starts those that are needed. Waits where nothing else can be done."""
        if self.programs.in_flight and self._nothing_else_to_do:
            gathering = (
                self.awaits_slot or self.awaits_prefill
            )  # others may join what waits to be read, but not for long
            with self._timed("execution"):
                self.no_outcome_lately = not self.programs.wait(GATHER_SECONDS if gathering else None)
        self._take_outcomes()
        if not self._enough_to_execute:
            return
        attempts, self.awaits_program = self.awaits_program, []
        needed = [attempt.episode.needs for attempt in attempts if attempt.episode.needs is not None]
        self.seconds.programs += len(needed)
        if self.engine.overlap:
            self.programs.begin(attempts, needed)
            return
        with self._timed("execution"):
            self.programs.begin(attempts, needed)
        self._take_outcomes()

    @property
    def _nothing_else_to_do(self) -> bool:
        readable = self._enough_to_read(self._issues_to_read) or self._enough_to_read(len(self.awaits_prefill))
        return not self.decoding and not readable and (self.programs.full or not self.awaits_program)

    @property
    def _enough_to_execute(self) -> bool:
        """Whether programs start now. Without overlap decoding stands still meanwhile, so that several start together."""
        if not self.awaits_program or self.programs.full:
            return False
        return self.engine.overlap or not self.decoding or len(self.awaits_program) * WAITING_SHARE >= self.config.slots

    def _take_outcomes(self) -> None:
        for attempt, outcome in self.programs.completed():
            self.no_outcome_lately = False
            attempt.episode.receive(outcome)
            self._go_on(attempt)

    def _go_on(self, attempt: ConversationInProgress) -> None:
        """The next state of an attempt that has just acted, or whose program has run."""
        episode = attempt.episode
        if episode.exit_status is not None and attempt.slot is not None:
            heapq.heappush(self.free_slots, attempt.slot)  # it says no more; its last program needs no slot
            attempt.slot = None
        if episode.done:
            self._finish(attempt)
        elif episode.needs is not None:
            self.awaits_program.append(attempt)
        else:
            self._observe(attempt)

    def _observe(self, attempt: ConversationInProgress) -> None:
        """Tokenises the environment's last message. Where no room is left for an answer, the policy falls silent."""
        prompt, content = self.engine.prompt, attempt.episode.messages[-1].content
        ids = (
            prompt.observation(content, ended=attempt.ids[-1] == prompt.stop_id)
            if attempt.own
            else prompt.issue(content)
        )
        if len(attempt.ids) + len(ids) >= self.config.capacity:
            attempt.truncated = True
            while attempt.episode.exit_status is None:
                attempt.episode.act("")
            self._go_on(attempt)
            return
        attempt.observe(ids)
        (self.awaits_slot if attempt.slot is None else self.awaits_prefill).append(attempt)

    def _finish(self, attempt: ConversationInProgress) -> None:
        if not attempt.ids:
            attempt.ids = self.engine.prompt.issue(attempt.episode.messages[0].content)[: self.config.capacity]
        rollout = self.rollout_N[attempt.index] = attempt.rollout()
        self.done += 1
        if self.on_finished is not None:
            self.on_finished(rollout.trajectory)
        if self.advance is not None:
            self.advance(1)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        before = time.monotonic()
        yield
        setattr(self.seconds, phase, getattr(self.seconds, phase) + time.monotonic() - before)
