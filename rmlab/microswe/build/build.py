"""Building the tasks file: functions, their tests, bugs, public calls, clusters, parts.

    functions ──run──▶ tested functions ──mutate, run──▶ edits ──public call──▶ bugs ──threshold, cap──▶ tasks in parts

Deterministic by seed on one Python and one set of package versions, but for programs that a time limit ends. A built file
is carried to other machines, never built again there: another Python has other sources.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.build.clusters import clusters
from rmlab.microswe.build.extension import ADDED, BaseTasks, admitted, cluster_names, own_functions, read_base_tasks
from rmlab.microswe.build.fitness import unfit
from rmlab.microswe.build.functions import FIRST_SOURCES, Collection, collect_functions, versions
from rmlab.microswe.build.parts import counted, deal
from rmlab.microswe.build.public_call import Outputs, PublicCall, choose
from rmlab.microswe.build.trial import InputSearch, Tested, TriedEdit, all_edits, run_edits, tested_functions
from rmlab.microswe.round_robin import round_robin
from rmlab.microswe.task import Task
from rmlab.microswe.values import show
from rmlab.paths import REPOSITORY
from rmlab.trajectories.record import Split

SCOPE_ERRORS = frozenset({"NameError", "UnboundLocalError"})


class PublicCallKind(StrEnum):
    """weak: the failing input that most other wrong edits satisfy. random: any failing input."""

    weak = "weak"
    random = "random"


@dataclass
class BuildConfig:
    """How tasks are made.

    sources: families to build from. withheld: the family that stands in evaluation only. public_call: which call the
    issue shows; it changes nothing else, the tasks are the same ones. least_share: of the other wrong edits that satisfy
    the weakest call, for a task to be kept; lowered to the largest share that leaves `fewest_tasks`. most_functions: of
    a family; most_of_a_function: tasks, at most `most_crashes` of them with an exception in the public call. two_bugs:
    share of tasks with two changed lines, at most. longest_call: characters of the call, what it should return and what
    it got. workers change the time only.

    tried, most_guesses, every_kind: how long inputs are looked for (`rmlab.microswe.build.trial.InputSearch`). beside: a tasks file, ""
    for none: everything goes to the part `rl` then, what is alike to a function of another part of that file is left out, and
    what is there is not repeated; `most_of_a_function` counts the tasks that are there.
    """

    seed: int = 0
    sources: list[str] = field(default_factory=lambda: list(FIRST_SOURCES))
    withheld: str = "human_eval"
    public_call: PublicCallKind = PublicCallKind.weak
    least_share: float = 0.30
    fewest_tasks: int = 2000
    most_functions: int = 260
    most_of_a_function: int = 9
    most_crashes: int = 2
    two_bugs: float = 0.10
    longest_call: int = 120
    tried: int = 40
    most_guesses: int = 10
    every_kind: bool = False
    beside: str = ""
    workers: int = 2
    progress: bool = True


@dataclass(frozen=True)
class Bug:
    """A wrong text of a function and the weakest call that shows it. outputs: what it gives on the function's inputs."""

    tested: Tested
    code: str
    lines: tuple[int, ...]
    operators: tuple[str, ...]
    outputs: Outputs
    public: PublicCall

    @property
    def crashes(self) -> bool:
        """Whether the public call raises."""
        return (self.outputs[self.public.index] or "").startswith('{"raised"')

    @property
    def order(self) -> str:
        """A draw that is the same on every machine."""
        return fingerprint([self.tested.function.function_id, self.code])


@dataclass(frozen=True)
class Built:
    """The tasks and, for the file's metadata, how they came about."""

    tasks: list[Task]
    metadata: dict[str, str]


def build(config: BuildConfig) -> Built:
    """Builds the tasks from installed packages. Raises DataError where one is missing or nothing is left.

    UsageError where a family is withheld in the file beside which they are to stand.
    """
    base = read_base_tasks(REPOSITORY / config.beside) if config.beside else None
    if base and base.withheld in config.sources:
        raise UsageError(f"sources: {base.withheld} is withheld for evaluation in beside={config.beside}; leave it out")
    built = build_from(collect_functions(tuple(config.sources), config.progress), config, base)
    return Built(built.tasks, {**built.metadata, "versions": json.dumps(versions(tuple(config.sources)))})


def build_from(collection: Collection, config: BuildConfig, base: BaseTasks | None = None) -> Built:
    """Builds the tasks from functions that were collected before. Raises DataError where nothing is left."""
    search = InputSearch(config.tried, config.most_guesses, config.every_kind)
    tested, left_out = tested_functions(collection, config.seed, config.workers, config.progress, search)
    if base:
        tested, alike = admitted(tested, base)
        for source, counts in alike.items():
            left_out[source].update(counts)
    unsuitable = unfit(tested, config.workers)
    for t in tested:
        if t.function.function_id in unsuitable:
            left_out[t.function.source][unsuitable[t.function.function_id]] += 1
    tested = [t for t in tested if t.function.function_id not in unsuitable]
    tested = [*(own_functions(base) if base else []), *_drawn_functions(tested, config)]
    edits = all_edits(tested, config.seed, config.workers, config.progress)
    single = [bug for t in tested for bug in single_bugs(t, edits[t.function.function_id], config)]
    bugs = [*single, *_double_bugs(single, edits, config)]
    if base:
        bugs = not_there(bugs, base)
    share = share_threshold(bugs, config, base)
    chosen = _capped([bug for bug in bugs if bug.public.share >= share], config, base)
    if not chosen:
        raise DataError(
            f"no task is left of {len(bugs)} bugs in {len(tested)} functions: lower least_share or add sources"
        )
    tasks, cluster_of = _tasks(chosen, edits, config, base)
    return Built(
        tasks, _metadata(tasks, cluster_of, share, left_out, Counter(t.function.source for t in tested), config, base)
    )


def not_there(bugs: Sequence[Bug], base: BaseTasks) -> list[Bug]:
    """The bugs that are no task of the file, nor one in the same lines with the same outputs."""
    there = {
        (b.tested.function.function_id, b.lines, b.outputs)
        for b in bugs
        if (b.tested.function.function_id, b.code) in base.codes
    }
    return [b for b in bugs if (b.tested.function.function_id, b.lines, b.outputs) not in there]


def _drawn_functions(tested: Sequence[Tested], config: BuildConfig) -> list[Tested]:
    """At most `most_functions` of each family: those with examples first, then by draw."""
    drawn: list[Tested] = []
    for source in config.sources:
        own = [t for t in tested if t.function.source == source]
        own.sort(key=lambda t: (t.guessed, fingerprint([config.seed, t.function.function_id])))
        drawn += own[: config.most_functions]
    return drawn


def single_bugs(tested: Tested, edits: Sequence[TriedEdit], config: BuildConfig) -> list[Bug]:
    """Every edit that is a bug with a call to show: wrong, always ending, and no slip of a name's scope."""
    return [
        bug
        for edit in edits
        if (
            bug := _bug(
                tested,
                edit.mutant.code,
                (edit.mutant.line,),
                (edit.mutant.operator,),
                edit.outputs,
                edit.raises,
                edits,
                config,
            )
        )
        is not None
    ]


def _bug(
    tested: Tested,
    code: str,
    lines: tuple[int, ...],
    operators: tuple[str, ...],
    outputs: Outputs,
    raises: frozenset[str],
    edits: Sequence[TriedEdit],
    config: BuildConfig,
) -> Bug | None:
    if outputs == tested.expected or None in outputs or raises & SCOPE_ERRORS:
        return None
    others = [e.outputs for e in edits if e.mutant.line in lines]
    public = choose(outputs, others, tested.expected, _lengths(tested, outputs), config.longest_call)
    return None if public is None else Bug(tested, code, lines, operators, outputs, public)


def _lengths(tested: Tested, outputs: Outputs) -> list[int]:
    """Characters of `f(args) should return X but got Y` without its words, per input."""
    return [
        len(tested.function.entry) + len(source) + len(show(expected, 1000)) + len(show(got or "null", 1000))
        for source, expected, got in zip(tested.inputs, tested.expected, outputs, strict=True)
    ]


def _double_bugs(single: Sequence[Bug], edits: Mapping[str, Sequence[TriedEdit]], config: BuildConfig) -> list[Bug]:
    """Pairs of bugs in different lines of one function, a few for each, run like any other text."""
    by_function: dict[str, list[Bug]] = defaultdict(list)
    for bug in sorted(single, key=lambda b: b.order):
        by_function[bug.tested.function.function_id].append(bug)
    texts: list[tuple[Bug, Bug, str]] = []
    for bugs in by_function.values():
        pairs = [(a, b) for a, b in pairwise(bugs) if a.lines != b.lines]
        for a, b in pairs[:3]:
            a, b = sorted((a, b), key=lambda bug: bug.lines)
            text = a.code.split("\n")
            text[b.lines[0] - 1] = b.code.split("\n")[b.lines[0] - 1]
            texts.append((a, b, "\n".join(text)))
    outputs, raises = run_edits(
        [(a.tested, code) for a, _, code in texts], config.workers, "running pairs of bugs", config.progress
    )
    found = [
        _bug(
            a.tested,
            code,
            a.lines + b.lines,
            a.operators + b.operators,
            out,
            names,
            edits[a.tested.function.function_id],
            config,
        )
        for (a, b, code), out, names in zip(texts, outputs, raises, strict=True)
    ]
    return [bug for bug in found if bug is not None]


def share_threshold(bugs: Sequence[Bug], config: BuildConfig, base: BaseTasks | None = None) -> float:
    """`least_share`, or the largest share that leaves `fewest_tasks` after the cap of a function's tasks."""
    if len(_capped([b for b in bugs if b.public.share >= config.least_share], config, base)) >= config.fewest_tasks:
        return config.least_share
    below = sorted({b.public.share for b in bugs if b.public.share < config.least_share}, reverse=True)
    for share in below:
        if len(_capped([b for b in bugs if b.public.share >= share], config, base)) >= config.fewest_tasks:
            return share
    return 0.0


def _capped(bugs: Sequence[Bug], config: BuildConfig, base: BaseTasks | None = None) -> list[Bug]:
    """At most `most_of_a_function` bugs of each function with different outputs, lines and operators in turns; few doubles."""
    there = base.of_function if base else Counter[str]()
    by_function: dict[str, list[Bug]] = defaultdict(list)
    for bug in sorted(bugs, key=lambda b: b.order):
        by_function[bug.tested.function.function_id].append(bug)
    single: list[Bug] = []
    double: list[Bug] = []
    for name, own in by_function.items():
        most = config.most_of_a_function - there[name]
        distinct = list({(b.lines, b.outputs): b for b in reversed(own)}.values())[::-1]
        crashes = [b for b in distinct if b.crashes]
        distinct = [b for b in distinct if b not in crashes[config.most_crashes :]]
        ones = round_robin(
            round_robin([b for b in distinct if len(b.lines) == 1], lambda b: str(b.lines)), lambda b: b.operators[0]
        )
        twos = [b for b in distinct if len(b.lines) == 2]
        single += ones[: max(most - bool(twos), 0)]
        double += twos[: max(min(most, 1), 0)]
    few = int(config.two_bugs / (1 - config.two_bugs) * len(single))
    return single + sorted(double, key=lambda b: b.order)[:few]


def _tasks(
    bugs: Sequence[Bug], edits: Mapping[str, Sequence[TriedEdit]], config: BuildConfig, base: BaseTasks | None
) -> tuple[list[Task], dict[str, str]]:
    functions = {b.tested.function.function_id: b.tested.function for b in bugs}
    if base:
        cluster_of = cluster_names(functions.values(), base)
        alone: dict[str, Split] = dict.fromkeys(cluster_of.values(), ADDED)
        return [
            _task(b, cluster_of[b.tested.function.function_id], alone, edits[b.tested.function.function_id], config)
            for b in bugs
        ], cluster_of
    cluster_of = clusters({i: f.code for i, f in functions.items()}, {i: f.context for i, f in functions.items()})
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for bug in bugs:
        sizes[bug.tested.function.source][cluster_of[bug.tested.function.function_id]] += 1
    parts = deal(sizes, config.withheld, config.seed)
    tasks = []
    for bug in bugs:
        own = bug.tested.function.function_id
        tasks.append(_task(bug, cluster_of[own], parts, edits[own], config))
    return tasks, cluster_of


def _task(bug: Bug, cluster: str, parts: Mapping[str, Split], edits: Sequence[TriedEdit], config: BuildConfig) -> Task:
    function, public = bug.tested.function, bug.public
    if config.public_call is PublicCallKind.random:
        others = [e.outputs for e in edits if e.mutant.line in bug.lines]
        drawn = choose(
            bug.outputs,
            others,
            bug.tested.expected,
            _lengths(bug.tested, bug.outputs),
            config.longest_call,
            "random",
            f"{config.seed} {bug.order}",
        )
        assert drawn is not None  # the weakest call was found among the same candidates
        public = drawn
    return Task(
        task_id=f"{function.source}/{function.entry}/{bug.order}",
        function_id=function.function_id,
        package=function.package,
        source=function.source,
        cluster=cluster,
        part=parts[cluster],
        entry=function.entry,
        context=function.context,
        original=function.code,
        code=bug.code,
        lines=bug.lines,
        operators=bug.operators,
        inputs=bug.tested.inputs,
        outputs=bug.tested.expected,
        public=public.index,
        public_share=round(public.share, 6),
    )


def _metadata(
    tasks: Sequence[Task],
    cluster_of: Mapping[str, str],
    share: float,
    left_out: Mapping[str, Counter[str]],
    functions: Counter[str],
    config: BuildConfig,
    base: BaseTasks | None,
) -> dict[str, str]:
    counts = {
        **counted(tasks),
        "tested_functions": functions,
        **({"functions_there": len(cluster_of.keys() & base.functions.keys())} if base else {}),
        "left_out": {source: dict(counts.most_common()) for source, counts in left_out.items()},
    }
    return {
        "seed": str(config.seed),
        "withheld": "" if base else config.withheld,
        "public_call": config.public_call.value,
        "least_share": str(config.least_share),
        "share_threshold": f"{share:.6g}",
        "counts": json.dumps(counts),
        **({"beside": base.fingerprint} if base else {}),
    }
