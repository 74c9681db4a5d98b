"""What may join the part rl of a finished file, by hand: own functions, twins of them, twins of held-out ones, bridges."""

from collections import Counter
from dataclasses import replace

import pytest

from rmlab.errors import DataError, UsageError
from rmlab.microswe.build import trial
from rmlab.microswe.build.bugs import BuildConfig
from rmlab.microswe.build.build import build, build_from
from rmlab.microswe.build.clusters import clusters
from rmlab.microswe.build.extension import (
    BaseTasks,
    admitted,
    check_joined,
    cluster_names,
    own_functions,
    read_base_tasks,
)
from rmlab.microswe.build.functions import Collection, Function
from rmlab.microswe.build.joined import joined_tasks, read_joined
from rmlab.microswe.loading import held_tasks
from rmlab.microswe.task import Task, read_tasks, tasks_fingerprint, write_tasks
from rmlab.paths import STARTER

ABOVE = (
    "def above(xs, n):\n    found = []\n    for x in xs:\n"
    "        if x > n and x not in found:\n            found.append(x)\n    return sorted(found)"
)
SPREAD = "def spread(xs):\n    low, high = min(xs), max(xs)\n    return [x - low for x in xs if x != high]"
CLIP = "def clip(x, low, high):\n    if x < low:\n        return low\n    return min(x, high)"
HALVES = "def halves(n):\n    steps = 0\n    while n > 1:\n        n //= 2\n        steps += 1\n    return steps"

DIGITS = (
    "def digits(text, low):\n    total = 0\n    for char in text:\n"
    "        if char.isdigit() and int(char) >= low:\n            total += int(char)\n    return total"
)


def function(name: str, code: str, documentation: str, context: str = "") -> Function:
    source, entry = name.split(".")
    return Function(name, source, source, entry, context, code, documentation, (), ())


def renamed(code: str, old: str, new: str, **names: str) -> str:
    code = code.replace(f"def {old}(", f"def {new}(")
    for before, after in names.items():
        code = code.replace(before, after)
    return code


OLD = (
    function("algorithms.above", ABOVE, ">>> above([3, 9, 4, 9], 3)\n>>> above([], 1)"),
    function("algorithms.spread", SPREAD, ">>> spread([4, 1, 7])"),
    function("algorithms.clip", CLIP, ">>> clip(5, 0, 3)"),
    function("algorithms.digits", DIGITS, ">>> digits('a592', 3)\n>>> digits('17x', 1)"),
)
NEW = (
    function("more.halves", HALVES, ">>> halves(9)"),
    function("a.over", renamed(ABOVE, "above", "over", found="kept"), ">>> over([3, 9, 4, 9], 3)"),
    function("more.width", renamed(SPREAD, "spread", "width", low="least"), ">>> width([4, 1, 7])"),
    function("more.limit", renamed(CLIP, "clip", "limit"), ">>> limit(5, 0, 3)", context=DIGITS),
)
CONFIG = BuildConfig(
    sources=["algorithms", "more", "a"], withheld="", progress=False, fewest_tasks=1, workers=1, most_of_a_function=3
)
PARTS = {"above": "rl", "clip": "rl", "digits": "rl", "spread": "evaluation"}


def collection(functions: tuple[Function, ...]) -> Collection:
    return Collection(functions, {}, {f.source: Counter() for f in functions})


@pytest.fixture(scope="module")
def beside(short_calls: None) -> BaseTasks:
    tasks = build_from(collection(OLD), CONFIG).tasks
    assert {t.entry for t in tasks} == set(PARTS)
    return BaseTasks(tuple(replace(t, part=PARTS[t.entry]) for t in tasks), "human_eval", "0" * 16)


def test_who_is_admitted_and_why_others_are_not(beside: BaseTasks) -> None:
    again = [replace(f, function_id=f"more.copy.{f.entry}", source="more") for f in (NEW[0], OLD[0])]
    candidates = [trial.Tested(f, (), (), False) for f in (*OLD, *NEW, *again)]
    kept, left_out = admitted(candidates, beside)
    assert [t.function.function_id for t in kept] == ["more.halves", "a.over"]
    assert left_out == {
        "algorithms": {"in evaluation": 1},
        "more": {"alike to evaluation": 1, "would join two clusters": 1, "repeated": 2},
    }
    assert [t.function.function_id for t in own_functions(beside)] == [
        "algorithms.above",
        "algorithms.clip",
        "algorithms.digits",
    ]


def test_clusters_keep_the_names_of_the_file(beside: BaseTasks) -> None:
    names = cluster_names([NEW[0], NEW[1], OLD[0]], beside)
    assert names == {"more.halves": "more.halves", "a.over": "algorithms.above", "algorithms.above": "algorithms.above"}


@pytest.mark.slow
def test_what_is_built_beside_is_new_and_of_the_part_rl(beside: BaseTasks) -> None:
    built = build_from(collection((*OLD, *NEW)), replace(CONFIG, most_of_a_function=6), beside)
    assert {t.part for t in built.tasks} == {"rl"}
    assert {t.function_id for t in built.tasks} == {
        "algorithms.above",
        "algorithms.clip",
        "algorithms.digits",
        "more.halves",
        "a.over",
    }
    assert not {(t.function_id, t.code) for t in built.tasks} & beside.codes
    both = Counter(t.function_id for t in (*built.tasks, *beside.tasks))
    new, there = Counter(t.function_id for t in built.tasks), beside.of_function
    assert max(both.values()) == 6, "tasks that are there count to the cap"
    assert new["algorithms.above"] <= 6 - there["algorithms.above"] < new["a.over"], "both " + str(both)
    own = {t.function_id: t for t in beside.tasks}
    assert all(t.inputs == own[t.function_id].inputs for t in built.tasks if t.function_id in own)
    assert built.metadata["beside"] == "0" * 16
    assert '"alike to evaluation": 1' in built.metadata["counts"]
    check_joined(beside.tasks, built.tasks, "more.parquet")


@pytest.mark.slow
def test_a_build_with_no_file_beside_it_is_what_it_was(beside: BaseTasks) -> None:
    metadata = build_from(collection(OLD), CONFIG).metadata
    assert "beside" not in metadata
    assert "functions_there" not in metadata["counts"]


def joinable(name: str, code: str, part: str = "rl") -> Task:
    return Task(
        task_id=f"more/{name}/0",
        function_id=f"more.{name}",
        package="more",
        source="more",
        cluster=f"more.{name}",
        part=part,  # type: ignore[arg-type]
        entry=name,
        context="",
        original=code,
        code=code.replace("n > 1", "n > 2"),
        lines=(3,),
        operators=("constant",),
        inputs=("(9,)", "(2,)"),
        outputs=("3", "1"),
        public=1,
        public_share=0.5,
    )


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (joinable("halves", HALVES, "validation"), "it has tasks of the part validation"),
        (
            joinable("width", renamed(SPREAD, "spread", "width")),
            r"more\.width is in one cluster with a function of another part",
        ),
        ("own", "is also in another tasks file"),
        ("held out", r"algorithms\.spread is in one cluster"),
    ],
)
def test_what_may_not_be_joined_is_refused_in_one_line(beside: BaseTasks, task: Task | str, words: str) -> None:
    if task == "own":
        task = next(t for t in beside.tasks if t.part == "rl")
    elif task == "held out":
        task = replace(next(t for t in beside.tasks if t.part == "evaluation"), task_id="more/spread/1", part="rl")
    assert isinstance(task, Task)
    with pytest.raises(DataError, match=rf"^more\.parquet: .*{words}") as error:
        check_joined(beside.tasks, [joinable("other", HALVES), task], "more.parquet")
    assert "\n" not in str(error.value)


def test_joined_tasks_are_proven_counted_and_fingerprinted_together(tmp_path, monkeypatch, beside: BaseTasks) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    first, more = tmp_path / "first.parquet", tmp_path / "more.parquet"
    good = joinable("halves", HALVES)
    wrong = replace(good, task_id="more/halves/1", outputs=("3", "5"))
    write_tasks(first, list(beside.tasks), {})
    write_tasks(more, [good, wrong], {})
    alone, joined = joined_tasks(first, [], 1), joined_tasks(first, [str(more)], 1)
    assert alone == held_tasks(first, 1)
    assert joined.tasks == (*alone.tasks, good)
    assert joined.left_out == {"the original gives other outputs here": {"more": 1}}
    assert joined.fingerprint == tasks_fingerprint(joined.tasks) != alone.fingerprint
    assert joined.part("evaluation") == alone.part("evaluation")
    with pytest.raises(DataError, match=r"nosuch\.parquet: there is no such file"):
        read_joined(first, [str(tmp_path / "nosuch.parquet")])
    assert [t.task_id for t in read_joined(first, [str(more)])][-2:] == [good.task_id, wrong.task_id]


def test_files_that_nothing_is_built_beside(tmp_path) -> None:
    write_tasks(tmp_path / "t.parquet", [joinable("halves", HALVES, "evaluation")], {})
    with pytest.raises(DataError, match="has no task of the part rl"):
        read_base_tasks(tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="human_eval is withheld for evaluation in beside="):
        build(BuildConfig(beside="rmlab/starter/tasks.parquet", progress=False))


@pytest.mark.slow
def test_the_shipped_file_joins_the_shipped_parts() -> None:
    tasks, metadata = read_tasks(STARTER / "tasks.parquet")
    more, about = read_tasks(STARTER / "tasks_rl.parquet")
    assert (STARTER / "tasks_rl.parquet").stat().st_size <= 1e6
    assert {t.part for t in more} == {"rl"}
    assert about["beside"] == metadata["fingerprint"]
    check_joined(tasks, more, "tasks_rl.parquet")
    in_rl = [t for t in tasks if t.part == "rl"] + more
    assert len(in_rl) >= 4000
    assert len({t.function_id for t in in_rl}) >= 500
    assert max(Counter(t.function_id for t in in_rl).values()) <= 20
    assert not {t.cluster for t in more} & {t.cluster for t in tasks if t.part != "rl"}
    functions = {t.function_id: t for t in (*tasks, *more)}
    found = clusters({i: t.original for i, t in functions.items()}, {i: t.context for i, t in functions.items()})
    names: dict[str, set[str]] = {}
    for function_id, task in functions.items():
        names.setdefault(found[function_id], set()).add(task.cluster)
    assert {len(own) for own in names.values()} == {1}, "one name a cluster, over both files"
    assert len(names) == len({t.cluster for t in functions.values()})
