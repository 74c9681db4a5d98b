"""Two levels of a sweep, or the seeds of one, compared on the command line."""

import json

import pytest

from rmlab.commands import compare_levels as command
from rmlab.commands.compare_levels import compare_halves
from rmlab.errors import DataError, UsageError
from rmlab.metrics.sweep_levels import FAMILY
from rmlab.tracking.bundles.exporting import export_runs
from tests.analysis.sweep.level_runs import the_group, track
from tests.command_line import rmlab_here


def test_two_levels_on_the_command_line(words, tmp_path, capsys):
    compare = command.compare_levels
    found = compare("mixture=good", "usual", "mixture")
    group = the_group(words)
    assert (found["a"], found["b"], found["family"]) == ("good", "usual", 6)
    assert {t["metric"]: t["p_holm"] for t in found["tests"]} == {m: group.tests["", "good", m].p_holm for m in FAMILY}
    shown = capsys.readouterr().out
    assert "higher" in shown
    assert "B = usual is the baseline: p (Holm) is corrected over the 6 tests of all levels against usual" in shown
    other = compare("usual", "good", "mixture", as_json=True)
    assert other == found, "the verdict of the sweep's pages, whichever is named first"
    said = capsys.readouterr()
    assert said.err == "usual is the sweep's baseline, so it is B here, and good is A\n"
    assert json.loads(said.out) == other
    others = compare("same", "good", "mixture")
    assert (others["a"], others["b"]) == ("same", "good"), "of others the second one is the baseline"
    capsys.readouterr()
    export_runs(words, tmp_path / "b.zip", show=False)
    assert compare("good", "usual", "mixture", source=str(tmp_path / "b.zip")) == found
    wrong = {
        ("x", "usual", "mixture"): "mixture=x has no finished run",
        ("good", "usual", "nothing"): "sweeps: mixture",
        ("good", "usual", "mixtur"): r"\(did you mean mixture\?\)",
        ("scale=1", "usual", "mixture"): "varies mixture, not scale",
        ("good", "good", "mixture"): "are the same level",
    }
    for arguments, said in wrong.items():
        with pytest.raises(UsageError, match=said):
            compare(*arguments)
    with pytest.raises(UsageError, match="at preset demo; presets: smoke"):
        compare("good", "usual", "mixture", preset="demo")


def test_of_several_controls_the_last_that_has_both_levels_is_compared(store, tmp_path):
    for level, place, control in (("usual", 0, "c0"), ("good", 1, "c0"), ("usual", 0, "later")):
        for seed in range(3):
            track(store, tmp_path, "mixture", level, seed, 1.0, place=place, baseline="usual", control=control)
    assert command.compare_levels("good", "mixture=usual", "mixture", as_json=True)["control_hash"] == "c0"
    with pytest.raises(UsageError, match=r"mixture=good has no finished run .*levels: usual"):
        command.compare_levels("good", "none", "mixture")


def test_the_seeds_of_one_level_against_each_other(store, tmp_path, capsys):
    for seed in range(6):
        track(store, tmp_path, "aa", "64", seed, 1.0, place=seed, baseline="64")
    found = compare_halves("aa")
    assert (found["seeds"], found["splits"]) == ([0, 1, 2, 3, 4, 5], 10)
    assert {t["metric"] for t in found["declared"]} == set(FAMILY)
    assert "seeds [3, 4, 5] against seeds [0, 1, 2]" in capsys.readouterr().out
    track(store, tmp_path, "aa", "128", 0, 1.0, place=9, baseline="64")
    with pytest.raises(UsageError, match="has the levels 64, 128: name one"):
        compare_halves("aa")
    with pytest.raises(DataError, match="1 seeds do not make two halves"):
        compare_halves("aa", level="128")


def test_wrong_calls_are_one_line(store):
    for arguments in (
        ["compare"],
        ["compare", "a"],
        ["compare", "a", "b", "--halves", "--sweep", "aa"],
        ["compare", "--halves"],
    ):
        code, _, err = rmlab_here(*arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert "rmlab: name what to compare" in err
