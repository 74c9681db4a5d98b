"""Which failing call does the issue show, and how weak is it as evidence?

An agent that makes the public call right has not repaired the function: other wrong edits of the line do that too. The
share of them that does is what makes a verifier's work interesting, so the weakest failing call is shown.
Everything here is arithmetic on which mutant gives which output on which input.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

FEWEST_OTHERS = 3
Outputs = tuple[str | None, ...]
"""One output per input in the encoding of `rmlab.microswe.sandbox.values`; None = neither returned nor raised."""


@dataclass(frozen=True)
class PublicCall:
    """index: of the public input. share: of the other wrong edits, those that give the expected output on it."""

    index: int
    share: float


def others(bug: Outputs, edits: Sequence[Outputs], expected: Outputs) -> list[Outputs]:
    """The other wrong edits: outputs that differ from the expected ones, from the bug's and from each other."""
    return [outputs for outputs in dict.fromkeys(edits) if outputs != expected and outputs != bug]


def shares(wrong: Sequence[Outputs], expected: Outputs, candidates: Sequence[int]) -> dict[int, float]:
    """Candidate input to the share of wrong edits that satisfy it. wrong: at least one."""
    return {i: sum(outputs[i] == expected[i] for outputs in wrong) / len(wrong) for i in candidates}


def choose(
    bug: Outputs,
    edits: Sequence[Outputs],
    expected: Outputs,
    lengths: Sequence[int],
    longest: int,
    kind: Literal["weak", "random"] = "weak",
    seed: int | str = 0,
) -> PublicCall | None:
    """The public call of a bug, None where it has fewer than FEWEST_OTHERS other wrong edits or no input to show.

    edits: outputs of the operators' mutants of the right line (the bug may be among them). Outputs that agree within
    the tolerance are taken to be equal texts already. lengths: characters that showing each input takes; only failing
    inputs of at most `longest` are shown. weak: most wrong edits satisfy it, of several the shortest; random: by seed.
    """
    wrong = others(bug, edits, expected)
    candidates = [
        i for i in range(len(expected)) if bug[i] is not None and bug[i] != expected[i] and lengths[i] <= longest
    ]
    if len(wrong) < FEWEST_OTHERS or not candidates:
        return None
    share = shares(wrong, expected, candidates)
    weakest = min(candidates, key=lambda i: (-share[i], lengths[i], i))
    index = random.Random(str(seed)).choice(candidates) if kind == "random" else weakest
    return PublicCall(index, share[index])
