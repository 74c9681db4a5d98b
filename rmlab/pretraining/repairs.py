"""Text that teaches what belongs on a line: a function with one line broken, and the edit that mends it.

Made from functions of packages alone, by the operators that also make bugs; nothing is run and nothing is labelled. The
form is an episode's first two turns without an issue: who reads episodes later has then seen many more functions.
"""

import random
from collections.abc import Iterable, Iterator

from rmlab.fingerprint import fingerprint
from rmlab.microswe.build.operators import mutants
from rmlab.models.tokenizer import IM_END, IM_START
from rmlab.pretraining.near_copies import NearCopies
from rmlab.pretraining.sources import Code
from rmlab.verifiers.prompt import escape

FEWEST_LINES, MOST_LINES, MOST_CHARACTERS = 3, 30, 900  # of a task's function
LINES_TRIED = 3


def repairs(codes: Iterable[Code], forbidden: NearCopies, number: int) -> Iterator[str]:
    """One text a function, of at most `number` functions, drawn by a hash of their text."""
    fitting = [
        c.text for c in codes if FEWEST_LINES <= c.text.count("\n") + 1 <= MOST_LINES and len(c.text) <= MOST_CHARACTERS
    ]
    for text in sorted(fitting, key=lambda code: fingerprint(["repair", code]))[:number]:
        mended = repair(text, forbidden)
        if mended is not None:
            yield mended


def repair(code: str, forbidden: NearCopies) -> str | None:
    """The broken function with numbered lines, and `edit N: line`; None where no operator applies or a near copy comes out."""
    drawn = random.Random(int(fingerprint(code), 16))
    lines = code.split("\n")
    tried = drawn.sample(range(1, len(lines) + 1), min(LINES_TRIED, len(lines)))
    by_operator: dict[str, list[tuple[int, str]]] = {}
    for mutant in mutants(code, tried):
        by_operator.setdefault(mutant.operator, []).append((mutant.line, mutant.code))
    if not by_operator:
        return None
    line, broken = drawn.choice(by_operator[drawn.choice(sorted(by_operator))])
    if forbidden.found(broken):
        return None
    numbered = "\n".join(f"{n} {text}" for n, text in enumerate(broken.split("\n"), start=1))
    turns = (("user", numbered), ("assistant", f"edit {line}: {lines[line - 1].strip()}"))
    return "".join(f"{IM_START}{role}\n{escape(content)}{IM_END}\n" for role, content in turns)
