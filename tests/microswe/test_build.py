"""From functions to tasks, on functions of this file: tests, edits, bugs, public calls, caps, parts."""

from collections import Counter
from dataclasses import replace

import pytest

from rmlab.errors import DataError
from rmlab.microswe.build import trial
from rmlab.microswe.build.bugs import BuildConfig, PublicCallKind, single_bugs
from rmlab.microswe.build.build import build_from, share_threshold
from rmlab.microswe.build.functions import Collection, Function
from rmlab.microswe.task import read_tasks, write_tasks

TEXTS = {
    "above": (
        "def above(xs, n):\n    found = []\n    for x in xs:\n        if x > n and x not in found:\n            found.append(x)\n"
        "    return sorted(found)",
        ">>> above([3, 9, 4, 9], 3)\n>>> above([], 1)",
    ),
    "clip": (
        "def clip(x, low, high):\n    if x < low:\n        return low\n    return min(x, high)",
        ">>> clip(5, 0, 3)",
    ),
    "spread": (
        "def spread(xs):\n    low, high = min(xs), max(xs)\n    return [x - low for x in xs if x != high]",
        ">>> spread([4, 1, 7])",
    ),
    "nothing": ("def nothing(xs):\n    xs.sort()\n    return None", ">>> nothing([2, 1])"),
    "where": ("def where(x):\n    a = object()\n    return [id(a)] * (x + 2)", ">>> where(1)"),
    "guess": ("def guess(n):\n    k = n * 2\n    return k + half(n)", ""),
    "forever": ("def forever(n):\n    while n != 50:\n        n += 7\n    return n", ">>> forever(1)"),
}


def function(name, source):
    code, documentation = TEXTS[name]
    context = "def half(n):\n    return n // 2" if name == "guess" else ""
    return Function(f"{source}.{name}", source, source, name, context, code, documentation, (), ())


FUNCTIONS = tuple(function(name, "human_eval" if name == "clip" else "algorithms") for name in TEXTS)
COLLECTION = Collection(FUNCTIONS, {}, {"human_eval": Counter(), "algorithms": Counter()})
CONFIG = BuildConfig(sources=["human_eval", "algorithms"], progress=False, fewest_tasks=1, workers=1)


@pytest.fixture(scope="module")
def tested(short_calls):
    return trial.tested_functions(COLLECTION, seed=0, workers=1, show=False, search=trial.InputSearch())


@pytest.fixture(scope="module")
def edits(tested):
    return trial.all_edits(tested[0], seed=0, workers=1, show=False)


def test_functions_without_telling_inputs_are_left_out_and_counted(tested):
    kept, left_out = tested
    assert [t.function.entry for t in kept] == ["above", "clip", "spread", "guess"]
    assert left_out["algorithms"]["no inputs"] + left_out["algorithms"]["not deterministic"] == 3
    assert [t.guessed for t in kept] == [False, False, False, True]
    assert all(8 <= len(t.inputs) == len(t.expected) <= 16 for t in kept)


def test_edits_hold_the_outputs_of_each_mutant(tested, edits):
    clip = next(t for t in tested[0] if t.function.entry == "clip")
    scope = {}
    for edit in edits["human_eval.clip"]:
        if "return max(x, high)" not in edit.mutant.code:
            continue
        exec(edit.mutant.code, scope)
        expected = [repr(scope["clip"](*eval(i))) for i in clip.inputs]
        assert list(edit.outputs) == expected
        break
    else:
        pytest.fail("the mutant max for min was not drawn")


def test_an_endless_loop_has_no_output_and_is_no_bug(edits, tested):
    endless = [e for es in edits.values() for e in es if None in e.outputs]
    for t in tested[0]:
        codes = {b.code for b in single_bugs(t, edits[t.function.function_id], CONFIG)}
        assert not codes & {e.mutant.code for e in endless}


def test_every_bug_fails_its_public_call_and_three_others_exist(tested, edits):
    for t in tested[0]:
        own = edits[t.function.function_id]
        for bug in single_bugs(t, own, CONFIG):
            assert bug.outputs[bug.public.index] != t.expected[bug.public.index]
            others = {e.outputs for e in own if e.mutant.line in bug.lines} - {bug.outputs, t.expected}
            assert len(others) >= 3
            satisfied = sum(o[bug.public.index] == t.expected[bug.public.index] for o in others) / len(others)
            assert satisfied == pytest.approx(bug.public.share)


def test_the_threshold_falls_only_where_too_few_tasks_are_left(tested, edits):
    bugs = [b for t in tested[0] for b in single_bugs(t, edits[t.function.function_id], CONFIG)]
    assert share_threshold(bugs, CONFIG) == CONFIG.least_share
    many = BuildConfig(least_share=1.0, fewest_tasks=12, most_of_a_function=50)
    share = share_threshold(bugs, many)
    assert share < 1.0
    assert sum(b.public.share >= share for b in bugs) >= 12
    assert share_threshold(bugs, BuildConfig(fewest_tasks=10_000)) == 0.0


def test_drawn_mutants_are_bounded_and_the_same_for_a_seed():
    f = function("above", "algorithms")
    drawn = trial.drawn_mutants(f, 0)
    assert drawn == trial.drawn_mutants(f, 0) != trial.drawn_mutants(f, 1)
    assert max(Counter(m.line for m in drawn).values()) <= 12
    assert len(trial.drawn_mutants(function("forever", "algorithms"), 0)) <= 45


@pytest.fixture(scope="module")
def built():
    return {kind: build_from(COLLECTION, replace(CONFIG, public_call=kind)) for kind in PublicCallKind}


def test_tasks_are_whole_and_survive_the_file(built, tmp_path):
    tasks = built[PublicCallKind.weak].tasks
    assert {t.part for t in tasks if t.source == "human_eval"} == {"evaluation"}
    assert 0 < sum(len(t.lines) == 2 for t in tasks) <= 0.1 * len(tasks) + 1
    assert max(Counter(t.function_id for t in tasks).values()) <= CONFIG.most_of_a_function
    for task in tasks:
        pairs = enumerate(zip(task.original.split("\n"), task.code.split("\n"), strict=True), 1)
        assert tuple(i for i, (a, b) in pairs if a != b) == task.lines
    write_tasks(tmp_path / "tasks.parquet", tasks, built[PublicCallKind.weak].metadata)
    again, metadata = read_tasks(tmp_path / "tasks.parquet")
    assert {t.content for t in again} == {t.content for t in tasks}
    assert metadata["withheld"] == "human_eval"


def test_another_public_call_leaves_the_tasks_the_same(built):
    weak, random = ({t.task_id: t for t in built[kind].tasks} for kind in (PublicCallKind.weak, PublicCallKind.random))
    assert weak.keys() == random.keys()
    assert all(random[i].public_share <= weak[i].public_share for i in weak)
    assert any(random[i].public != weak[i].public for i in weak)


def test_nothing_left_is_an_error():
    with pytest.raises(DataError, match="no task is left of 0 bugs in 0 functions"):
        build_from(Collection((), {}, {"algorithms": Counter()}), CONFIG)
