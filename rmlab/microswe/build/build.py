"""Building the tasks file: functions, their tests, bugs, public calls, clusters, parts.

    functions ──run──▶ tested functions ──mutate, run──▶ edits ──public call──▶ bugs ──threshold, cap──▶ tasks in parts

Deterministic by seed on one Python and one set of package versions, but for programs that a time limit ends. A built file
is carried to other machines, never built again there: another Python has other sources.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rmlab.errors import DataError, UsageError
from rmlab.fingerprint import fingerprint
from rmlab.microswe.build.bugs import Bug, BuildConfig, PublicCallKind, double_bugs, lengths, single_bugs
from rmlab.microswe.build.clusters import clusters, counted, deal
from rmlab.microswe.build.extension import ADDED, BaseTasks, admitted, cluster_names, own_functions, read_base_tasks
from rmlab.microswe.build.fitness import unfit
from rmlab.microswe.build.functions import Collection, collect_functions, versions
from rmlab.microswe.build.inputs import round_robin
from rmlab.microswe.build.public_call import choose
from rmlab.microswe.build.trial import InputSearch, Tested, TriedEdit, all_edits, tested_functions
from rmlab.microswe.task import Task
from rmlab.paths import REPOSITORY
from rmlab.trajectories.record import Split

SEMANTICS = 1
"""Bumped by hand when the same configuration, packages and Python can give other tasks than before."""


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
    bugs = [*single, *double_bugs(single, edits, config)]
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
            lengths(bug.tested, bug.outputs),
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
