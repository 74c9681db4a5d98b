"""Running candidates: do they have inputs, are they deterministic, and what does each mutant of them give?

Everything runs in the sandbox. An original is run twice, in two sandboxes whose processes share no memory layout, and
must give the same outputs both times.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rmlab.microswe.build.examples import examples
from rmlab.microswe.build.functions import Collection, Function
from rmlab.microswe.build.guesses import guesses, sample
from rmlab.microswe.build.inputs import choose, round_robin, variations
from rmlab.microswe.build.operators import Mutant, mutants
from rmlab.microswe.build.public_call import Outputs
from rmlab.microswe.sandbox import Outcome, Program, Sandbox
from rmlab.progress import progress

SAMPLES_OF_A_GUESS = 4
BATCH = 512
MOST_OF_A_LINE, MOST_OF_A_FUNCTION, MOST_OF_A_WHILE = 12, 90, 45


@dataclass(frozen=True)
class InputSearch:
    """How far the search for inputs goes. tried: argument tuples; guesses: combinations of kinds, of `every_kind` or the likely ones."""

    tried: int = 40
    guesses: int = 10
    every_kind: bool = False

    def kinds(self, function: Function) -> list[tuple[str, ...]]:
        """The guesses for a function, the likeliest first."""
        return guesses(function, self.guesses, self.every_kind)


@dataclass(frozen=True)
class Tested:
    """A function with its tests. guessed: no example was found, the inputs come from guesses."""

    function: Function
    inputs: tuple[str, ...]
    expected: tuple[str, ...]
    guessed: bool

    def program(self, code: str) -> Program:
        """Another text in the function's place, on its inputs."""
        return Program(self.function.context, code, self.function.entry, self.inputs, self.function.function_id)


@dataclass(frozen=True)
class TriedEdit:
    """One mutant and its outputs; where one agrees with the expected output, it is that very text. names: of what it raises."""

    mutant: Mutant
    outputs: Outputs
    raises: frozenset[str]


def tested_functions(
    collection: Collection, seed: int, workers: int, show: bool, search: InputSearch
) -> tuple[list[Tested], dict[str, Counter[str]]]:
    """The functions that have inputs and are deterministic, in order, and by source how many are not."""
    left_out = {source: Counter(counts) for source, counts in collection.left_out.items()}
    tested: dict[str, Tested] = {}
    with Sandbox(workers, allow_weak=True) as sandbox:  # installed packages and edits of them, no model's code
        known = {f.function_id: examples(f, collection.tests) for f in collection.functions}
        rngs = {f.function_id: random.Random(f"{seed} {f.function_id}") for f in collection.functions}
        with_examples = [f for f in collection.functions if known[f.function_id]]
        sources = [tuple(variations(known[f.function_id], search.tried, rngs[f.function_id])) for f in with_examples]
        _add_tested(tested, with_examples, sources, sandbox, "trying examples", show, guessed=False)

        rest = [f for f in collection.functions if f.function_id not in tested and search.kinds(f)]
        tries = [[sample(kinds, SAMPLES_OF_A_GUESS, rngs[f.function_id]) for kinds in search.kinds(f)] for f in rest]
        programs = [_original(f, tuple(s for group in t for s in group)) for f, t in zip(rest, tries, strict=True)]
        outcomes = _run(programs, sandbox, "trying guesses", show)
        best = [_best(t, outcome) for t, outcome in zip(tries, outcomes, strict=True)]
        taken = [(f, search.kinds(f)[b]) for f, b in zip(rest, best, strict=True) if b is not None]
        sources = [tuple(sample(kinds, search.tried, rngs[f.function_id])) for f, kinds in taken]
        _add_tested(tested, [f for f, _ in taken], sources, sandbox, "trying guessed inputs", show, guessed=True)

    candidates = [tested[f.function_id] for f in collection.functions if f.function_id in tested]
    with Sandbox(workers, allow_weak=True) as other:  # another process tree: other addresses, nothing left over
        again = _run([t.program(t.function.code) for t in candidates], other, "running again", show)
    kept = []
    for candidate, outcome in zip(candidates, again, strict=True):
        if tuple(r.encoded for r in outcome.results) == candidate.expected:
            kept.append(candidate)
        else:
            left_out[candidate.function.source]["not deterministic"] += 1
    for function in collection.functions:
        if function.function_id not in tested:
            left_out[function.source]["no inputs"] += 1
    return kept, left_out


def _add_tested(
    tested: dict[str, Tested],
    functions: Sequence[Function],
    sources: Sequence[tuple[str, ...]],
    sandbox: Sandbox,
    title: str,
    show: bool,
    guessed: bool,
) -> None:
    """Adds to `tested` the functions for which inputs can be chosen, with the outputs as their tests.

    sources: inputs to try, of each function.
    """
    outcomes = _run([_original(f, s) for f, s in zip(functions, sources, strict=True)], sandbox, title, show)
    for function, tried, outcome in zip(functions, sources, outcomes, strict=True):
        chosen = choose(tried, outcome.results, function.code)
        if chosen is not None:
            tested[function.function_id] = Tested(
                function, tuple(i for i, _ in chosen), tuple(o for _, o in chosen), guessed
            )


def _original(function: Function, inputs: tuple[str, ...]) -> Program:
    return Program(function.context, function.code, function.entry, inputs, function.function_id)


def _best(tries: Sequence[Sequence[str]], outcome: Outcome) -> int | None:
    """The guess under which the function returned most often and most differently; None where none did."""
    scores = []
    at = 0
    for group in tries:
        results = outcome.results[at : at + len(group)]
        at += len(group)
        returned = [r.value for r in results if r.kind == "value"]
        scores.append((len(returned) + 2 * len(set(returned))) if 2 * len(returned) > len(group) else 0)
    top = max(scores, default=0)
    return scores.index(top) if top > 0 else None


def all_edits(tested: Sequence[Tested], seed: int, workers: int, show: bool) -> dict[str, list[TriedEdit]]:
    """Function id to a balanced draw of its mutants, each with its outputs."""
    drawn = {t.function.function_id: drawn_mutants(t.function, seed) for t in tested}
    pairs = [(t, m) for t in tested for m in drawn[t.function.function_id]]
    edits: dict[str, list[TriedEdit]] = {t.function.function_id: [] for t in tested}
    results = run_edits([(t, m.code) for t, m in pairs], workers, "running mutants", show)
    for (t, mutant), outputs, raises in zip(pairs, *results, strict=True):
        edits[t.function.function_id].append(TriedEdit(mutant, outputs, raises))
    return edits


def run_edits(
    texts: Sequence[tuple[Tested, str]], workers: int, title: str, show: bool
) -> tuple[list[Outputs], list[frozenset[str]]]:
    """The outputs of each text on its function's inputs, and the names of the exceptions among them."""
    with Sandbox(workers, allow_weak=True) as sandbox:
        outcomes = _run([t.program(code) for t, code in texts], sandbox, title, show)
    outputs = [
        tuple(e if r.matches(e) else r.encoded for r, e in zip(o.results, t.expected, strict=True))
        for (t, _), o in zip(texts, outcomes, strict=True)
    ]
    return outputs, [frozenset(r.value for r in o.results if r.kind == "raised") for o in outcomes]


def drawn_mutants(function: Function, seed: int) -> list[Mutant]:
    """At most MOST_OF_A_LINE mutants of a line, the operators taking turns, and MOST_OF_A_FUNCTION, whole lines at a time.

    MOST_OF_A_WHILE where the function has a `while`: most endless mutants come from there, and each costs its full time.
    """
    most = MOST_OF_A_WHILE if "while " in function.code else MOST_OF_A_FUNCTION
    rng = random.Random(f"{seed} mutants {function.function_id}")
    by_line: dict[int, list[Mutant]] = {}
    for mutant in mutants(function.code):
        by_line.setdefault(mutant.line, []).append(mutant)
    drawn: list[Mutant] = []
    for line in rng.sample(sorted(by_line), len(by_line)):
        if len(drawn) < most:
            drawn += round_robin(rng.sample(by_line[line], len(by_line[line])), lambda m: m.operator)[:MOST_OF_A_LINE]
    return sorted(drawn[:most], key=lambda m: m.line)


def _run(programs: Sequence[Program], sandbox: Sandbox, title: str, show: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with progress(title, len(programs), "programs", show) as advance:
        for start in range(0, len(programs), BATCH):
            batch = programs[start : start + BATCH]
            outcomes += sandbox.run(batch)
            advance(len(batch))
    return outcomes
