"""The edits that a script knows for a task: correct ones, and wrong ones that look as good.

Scripted policies generate data, they do not solve tasks: the right repair is read from the task's original, and a
configured probability decides whether a script hits upon it. What matters for a verifier is that the wrong edits are
plausible. They come from two sides:

- siblings: other mutants of the original's line. The public call is chosen so that many of them satisfy it.
- variations: mutants of the line as it now stands, as an agent would try out.

A right repair is one small change away from the buggy line; so are variations, and siblings mostly are two away. Both
are drawn, so that neither the size of an edit nor its kind gives the label away.
"""

import hashlib
import random
from collections.abc import Generator, Sequence
from functools import cached_property, lru_cache

from rmlab.errors import UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.actions import Edit, Run, Submit, write
from rmlab.microswe.build.operators import Mutant, mutants
from rmlab.microswe.episode import Edits, Episode, expected_value, last_value
from rmlab.microswe.task import Task
from rmlab.policies.policy import KINDS, Attempt, LineSearch, Policy, Reacts, Runs, ScriptedConfig, Stops, policy_kind
from rmlab.wording import near


@lru_cache(maxsize=4096)
def _alternatives(code: str, line: int) -> tuple[str, ...]:
    """The other versions of a line by one operator, in the operators' order, without indentation."""
    return tuple(_changed_line(mutant) for mutant in mutants(code, [line]))


def _changed_line(mutant: Mutant) -> str:
    return mutant.code.split("\n")[mutant.line - 1].strip()


class Knowledge:
    """The edits that a script can think of at one task."""

    def __init__(self, task: Task):
        self.task = task

    @cached_property
    def original(self) -> list[str]:
        """The right program, line by line."""
        return self.task.original.split("\n")

    def repairs(self, code: str) -> list[Edit]:
        """The edits after all of which the program is the original: one for each line that differs."""
        pairs = zip(code.split("\n"), self.original, strict=True)
        return [Edit(n, right.strip()) for n, (now, right) in enumerate(pairs, 1) if now != right]

    def wrong(self, code: str, line: int, by_operator: bool = False) -> tuple[list[str], list[str]]:
        """Siblings and variations of a line, without the right text. Siblings may hold the present one.

        Most tempting first (an order that is the task's own), or in the operators' order.
        """
        right = self.original[line - 1].strip()
        both = (
            [text for text in _alternatives(self.task.original, line) if text != right],
            [text for text in self._variations(code, line) if text != right],
        )
        if not by_operator:
            for texts in both:
                texts.sort(key=lambda text: self._temptation(line, text))
        return both

    def _temptation(self, line: int, text: str) -> bytes:
        return hashlib.sha256(f"{self.task.task_id}\n{line}\n{text}".encode()).digest()

    def _variations(self, code: str, line: int) -> Sequence[str]:
        return self._first_variations.get(line, ()) if code == self.task.code else _alternatives(code, line)

    @cached_property
    def _first_variations(self) -> dict[int, list[str]]:
        """Of the task's own program, by line; lines without any are left out."""
        variations: dict[int, list[str]] = {}
        for mutant in mutants(self.task.code):
            variations.setdefault(mutant.line, []).append(_changed_line(mutant))
        return dict(sorted(variations.items()))

    @cached_property
    def suspicion(self) -> dict[int, int]:
        """How many ways each line of the task's program could be wrong; lines without any are left out."""
        return {line: len(texts) for line, texts in self._first_variations.items()}


SLIPS = ("edit line {line}: {code}", "I would change line {line}", "test", "run()", "submit it", "edit {code}")
HARDEST, EASIEST = 0.02, 0.98  # no bug is plain to a script, or hidden from it, for certain


@policy_kind("scripted")
class ScriptedPolicy:
    """A policy that plays a script. name: how its trajectories are called."""

    def __init__(self, name: str, config: ScriptedConfig):
        self.name = name
        self.config = config

    def act(self, attempts: Sequence[Attempt]) -> list[str]:
        """The scripts' next messages; a script goes on where it stopped."""
        return [self._next(attempt) for attempt in attempts]

    def _next(self, attempt: Attempt) -> str:
        if attempt.memory is None:
            attempt.memory = _Script(attempt.episode, self.config, attempt.rng).messages()
        return str(next(attempt.memory))


def make_policy(name: str, config: ScriptedConfig) -> Policy:
    """The policy of a name and a behaviour. Raises UsageError for a kind that nothing is registered as."""
    if config.kind not in KINDS:
        raise UsageError(
            f"policy.{name}.kind={config.kind}: there is no such policy{near(config.kind, KINDS)}; there are: {', '.join(KINDS)}"
        )
    return KINDS[config.kind](name, config)


@lru_cache(maxsize=1024)
def _knowledge(task: Task) -> Knowledge:
    return Knowledge(task)


def skill(config: ScriptedConfig, task: Task) -> float:
    """The chance that a script at the right line writes the right repair: the same for every attempt at a task."""
    ease = int(fingerprint(["ease", task.task_id])[:8], 16) / 0xFFFFFFFF
    return min(max(config.hand + config.spread * (ease - 0.5), HARDEST), EASIEST)


class _Script:
    """One attempt. `line`: where it edited last; `edits`: how many edits it has made."""

    def __init__(self, episode: Episode, config: ScriptedConfig, rng: random.Random):
        self.episode = episode
        self.config = config
        self.rng = rng
        self.knowledge = _knowledge(episode.task)
        self.hand = skill(config, episode.task)
        self.line: int | None = None
        self.edits = 0
        self.means_to_make = rng.randint(1, config.patience)
        lines = enumerate(episode.task.code.split("\n"), 1)
        self.ruled_out = {
            Edit(n, text.strip()) for n, text in lines
        }  # a line of the program is no repair of it
        self.cursor = 0

    def messages(self) -> Generator[str, None, None]:
        """The whole attempt; the episode ends it."""
        if self.config.runs is Runs.first or self._sometimes():
            yield from self._action(Run())
        while True:
            yield from self._edit()
            looked = self.config.runs in (Runs.first, Runs.after_edit) or self._sometimes()
            if looked:
                yield from self._action(Run())
            if self._content(looked):
                break
        while self._chance(self.config.lingers):
            yield from self._action(Run())
        while True:
            yield from self._action(Submit())

    def _edit(self) -> Generator[str, None, None]:
        reacts = self.config.reacts
        stands = self.episode.environment.edits is Edits.build_up  # otherwise nothing is there to put back
        if stands and self.line is not None and reacts is Reacts.revert and self._chance(0.5):
            before = self.episode.task.code.split("\n")[self.line - 1].strip()
            yield from self._action(Edit(self.line, before))
            self.line = None
        if reacts is not Reacts.stay:
            self.line = None
        edit = self._propose()
        self.line = edit.line
        self.edits += 1
        yield from self._action(edit)

    def _action(self, action: Edit | Run | Submit) -> Generator[str, None, None]:
        slips = self._chance(self.config.slips)
        if slips and not self._must_end():
            edit = action if isinstance(action, Edit) else Edit(self.line or 1, "pass")
            yield self.rng.choice(SLIPS).format(line=edit.line, code=edit.code)
        yield write(Submit() if self._must_end() else action)

    def _must_end(self) -> bool:
        return self.config.ends and self.episode.turns + 1 == self.episode.environment.max_turns

    def _content(self, looked: bool) -> bool:
        """Whether it wants to submit now. looked: it has just seen the public call's value."""
        config = self.config
        matched = looked and last_value(self.episode.messages) == expected_value(self.episode.messages)
        if looked and not matched and self.line is not None:
            self.ruled_out.add(Edit(self.line, self._text(self.line)))
        if config.stops is Stops.random:
            return self._chance(config.haste)
        if config.stops is Stops.patience or not looked:
            return self.edits >= self.means_to_make
        if matched:
            return not self._chance(config.doubt)
        return self.edits >= self.means_to_make and self._chance(config.haste)

    def _propose(self) -> Edit:
        """The next edit. Where it has not seen a line fail, it may write it once more as it stands, right or wrong."""
        buggy = [edit.line for edit in self.knowledge.repairs(self.episode.editable)]
        line = self.line if self.line is not None and not self._chance(0.3) else self._turn_to(buggy)
        if line in (*buggy, *self.episode.task.lines) and self._chance(self.hand):
            return Edit(line, self.knowledge.original[line - 1].strip())
        return self._plausible(line) or self._plausible(self._turn_to([])) or Edit(line, self._text(line))

    def _turn_to(self, buggy: list[int]) -> int:
        """The line that it looks at next."""
        if buggy and self._chance(self.config.eye):
            return self.rng.choice(buggy)
        suspicion = self.knowledge.suspicion or {1: 1}
        lines = list(suspicion)
        if self.config.search is LineSearch.top_down:
            self.cursor += 1 + self.rng.randrange(2)
            return lines[(self.cursor - 1) % len(lines)]
        if self.config.search is LineSearch.random:
            return self.rng.choice(lines)
        return self.rng.choices(lines, list(suspicion.values()))[0]

    def _plausible(self, line: int) -> Edit | None:
        """A wrong edit of a line that is not ruled out, the more tempting the likelier; None where there is none."""
        by_operator = self.config.search is LineSearch.operators
        siblings, variations = (
            [text for text in texts if Edit(line, text) not in self.ruled_out]
            for texts in self.knowledge.wrong(self.episode.editable, line, by_operator)
        )
        texts = siblings if siblings and (not variations or self._chance(0.5)) else variations
        if not texts:
            return None
        rank = 0
        while self._chance(1 - self.config.habit):
            rank += 1
        return Edit(line, texts[rank % len(texts)])

    def _text(self, line: int) -> str:
        return self.episode.code.split("\n")[line - 1].strip()

    def _sometimes(self) -> bool:
        return self.config.runs is Runs.sometimes and self._chance(0.5)

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability
