"""What does a script know of a task? Edits that could be made: the right ones, and wrong ones that look as good.

Scripted policies generate data, they do not solve tasks: the right repair is read from the task's original, and a
configured probability decides whether a script hits upon it. What matters for a verifier is that the wrong edits are
plausible. They come from two sides:

- siblings: other mutants of the original's line. The public call is chosen so that many of them satisfy it.
- variations: mutants of the line as it now stands, as an agent would try out.

A right repair is one small change away from the buggy line; so are variations, and siblings mostly are two away. Both
are drawn, so that neither the size of an edit nor its kind gives the label away.
"""

import hashlib
from collections import Counter
from functools import cached_property, lru_cache

from rmlab.microswe.grammar import Edit
from rmlab.microswe.operators import mutants
from rmlab.microswe.task import Task


@lru_cache(maxsize=16384)
def _alternatives(code: str, line: int) -> tuple[str, ...]:
    """The other versions of a line by one operator, in the operators' order, without indentation."""
    return tuple(mutant.code.split("\n")[line - 1].strip() for mutant in mutants(code, [line]))


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
            [text for text in _alternatives(code, line) if text != right],
        )
        if not by_operator:
            for texts in both:
                texts.sort(key=lambda text: self._temptation(line, text))
        return both

    def _temptation(self, line: int, text: str) -> bytes:
        return hashlib.sha256(f"{self.task.task_id}\n{line}\n{text}".encode()).digest()

    @cached_property
    def suspicion(self) -> dict[int, int]:
        """How many ways each line of the task's program could be wrong; lines without any are left out."""
        return dict(sorted(Counter(mutant.line for mutant in mutants(self.task.code)).items()))
