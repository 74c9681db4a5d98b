"""Levels beside the baseline, from a real store: table and figure; what may be said and what not."""

import csv

import pytest

from analysis.presentation import style
from analysis.sweep import level_tests, level_words
from analysis.verifiers import differences, discrimination_calibration, rm_at_k, sweep_table
from rmlab.commands.figures import draw_figures
from rmlab.metrics.sweep_levels import FAMILY, compare_levels
from tests.analysis.sweep.level_runs import the_group, track

pytestmark = pytest.mark.usefixtures("no_pictures")


def test_the_table_and_the_csv_say_what_the_test_says(words, one_sweep):
    group, scores = the_group(words), one_sweep[1]
    assert group.levels == ["usual", "good", "same"], "words in the order of the sweep file"
    assert group.baseline == "usual"
    by_hand = compare_levels(
        [scores["usual", s] for s in range(3)], {lv: [scores[lv, s] for s in range(3)] for lv in ("good", "same")}
    )
    assert [group.tests["", t.level, t.metric] for t in by_hand] == by_hand
    assert group.tests["", "good", "auc_within_task"].shown
    assert not group.tests["", "same", "auc_within_task"].shown
    text = sweep_table.as_markdown(group)
    [good] = [line for line in text.splitlines() if line.startswith("| good | AUC within task")]
    [same] = [line for line in text.splitlines() if line.startswith("| same | AUC within task")]
    assert good.endswith("| higher |")
    assert same.endswith("| no difference shown |")
    rows = {row["level"]: row for row in sweep_table.rows(group)}
    assert rows["good"]["auc_within_task_verdict"] == "higher"
    assert rows["usual"]["auc_within_task_verdict"] is None
    assert level_words.answer(group).startswith("Compared with usual: ")
    assert "AUC within task is higher at good (by " in level_words.answer(group)
    assert "same" not in level_words.answer(group)
    assert "differences are shown at 5 % after Holm's correction over all of them" in level_tests.note(group)


def test_the_name_of_a_factor_is_not_cut_off_beside_one_level(store, tmp_path, monkeypatch):
    for level, place in (("whole", 0), ("part", 1)):
        for seed in range(3):
            track(store, tmp_path, "policy_mixture", level, seed, 1.0 + place, place=place, baseline="whole")
    found = []

    def ends(figure, *_):
        figure.canvas.draw()
        label = figure.axes[0].yaxis.label.get_window_extent()
        found.append((label.y0, label.y1, figure.bbox.height))
        return []

    monkeypatch.setattr(style, "save", ends)
    differences.draw(the_group(store, "policy_mixture"), tmp_path)
    [(low, high, height)] = found
    assert 0 <= low < high <= height


@pytest.mark.usefixtures("small_pictures")
def test_the_figure_holds_every_test(words, tmp_path):
    draw_figures(["differences", "rm_at_k", "discrimination_calibration", "reliability"], out=tmp_path / "out")
    drawn = list(csv.DictReader((tmp_path / "out" / "mixture" / "smoke-c0" / "differences.csv").open()))
    tests = the_group(words).tests
    assert [(row["level"], row["metric"]) for row in drawn] == [
        (level, metric) for metric in FAMILY for level in ("good", "same")
    ]
    for row in drawn:
        test = tests["", row["level"], row["metric"]]
        assert row["verdict"] == level_tests.verdict(test)
        if test.difference is not None:
            assert float(row["difference"]) == pytest.approx(test.difference)


def test_two_seeds_are_no_test_and_no_baseline_is_said(store, tmp_path):
    for level, place in (("100", 0), ("1000", 1)):
        for seed in range(2):
            track(store, tmp_path, "data_scale", level, seed, 1.0, place=place, baseline="100")
    group = the_group(store, "data_scale")
    assert {level_tests.verdict(t) for t in group.tests.values()} == {"no test: 2 of at least 3 seeds"}
    assert level_tests.note(group).endswith("no test (2 seeds, at least 3 are needed).")
    assert not any(level_tests.is_shown(group, *key) for key in group.tests)
    track(store, tmp_path, "lonely", "a", 0, 1.0, place=0, baseline="")
    track(store, tmp_path, "lonely", "b", 0, 1.0, place=1, baseline="")
    assert level_tests.note(the_group(store, "lonely")) == "Levels are not compared: the runs do not name a baseline."


def test_holm_covers_all_arms_and_each_arm_has_its_own_baseline(store, tmp_path):
    for number, arm in enumerate(("epochs", "steps")):
        for place, level in enumerate(("100", "1000")):
            for seed in range(3):
                quality = 1.0 + place * (1 + number)
                track(store, tmp_path, "data_scale", level, seed, quality, place=place, baseline="100", arm=arm)
    group = the_group(store, "data_scale")
    assert len(group.tests) == 2 * len(FAMILY)
    tested = sorted(t.p for t in group.tests.values() if t.p is not None)
    smallest = min(t.p_holm for t in group.tests.values() if t.p is not None)
    assert smallest == pytest.approx(min(1.0, tested[0] * len(tested)))


def test_runs_that_stand_in_two_arms_are_tested_once(store, tmp_path):
    for arm in ("rank_last", "truncate_middle"):  # the same runs in both, beside a level that only one arm has
        for place, level in enumerate(("1024", "refilter", *(["512"] if arm == "rank_last" else []))):
            for seed in range(3):
                track(store, tmp_path, "length", level, seed, 1.0 + place, place=place, baseline="1024", arm=arm)
    group = the_group(store, "length")
    once, again = ([group.tests[arm, "refilter", m] for m in FAMILY] for arm in ("rank_last", "truncate_middle"))
    assert [t.difference for t in once] == [t.difference for t in again]
    assert [t.p for t in once] != [t.p for t in again], "another level lends them another variance of seeds"
    assert [t.p_holm for t in once] == [t.p_holm for t in again]
    family = {(m, p): max(a.p, b.p) for m, p, a, b in zip(FAMILY, "rrr", once, again, strict=True)}
    family |= {(m, "512"): group.tests["rank_last", "512", m].p for m in FAMILY}
    assert min(t.p_holm for t in group.tests.values()) == pytest.approx(min(1.0, 6 * min(family.values())))
    assert "of 6 differences are shown" in level_tests.note(group)
    assert "3 that compare the same runs again are counted once" in level_tests.note(group)


def test_no_difference_shown_states_its_power(words):
    group = the_group(words)
    same = group.tests["", "same", "auc_within_task"]
    assert not same.shown
    alone, corrected = f"{same.detectable:.3f}", f"{same.detectable_holm:.3f}"
    assert float(alone) < float(corrected)
    [line] = [line for line in level_tests.as_markdown(group).splitlines() if line.startswith("| same | AUC within")]
    assert line.endswith(f"| {alone} / {corrected} | no difference shown |")
    assert f"AUC within task {alone} ({corrected})" in level_tests.power_note(group)
    assert level_tests.power_note(group) in level_words.answer(group)
    row = next(row for row in sweep_table.rows(group) if row["level"] == "same")
    assert row["auc_within_task_detectable"] == same.detectable


def test_the_papers_values_are_those_of_the_notes_and_never_on_our_axes(store, tmp_path):
    assert discrimination_calibration.paper_points("data_scale") == (
        "ece",
        [{"level": 500, "value": 0.481, "disputed": False}, {"level": 100_000, "value": 0.067, "disputed": False}],
    )
    assert [p["disputed"] for p in discrimination_calibration.paper_points("context_length")[1]] == [True, False, False]
    assert discrimination_calibration.paper_points("policy_mixture")[1] == [], "one value is no comparison"
    assert discrimination_calibration.paper_points("objective")[1] == []
    track(store, tmp_path, "label_ratio", "2:1", 0, 1.0, place=0, baseline="2:1")
    [_, _, drawn] = discrimination_calibration.draw(the_group(store, "label_ratio"), tmp_path / "out")
    reported = [
        (row["level"], row["value"]) for row in csv.DictReader(drawn.open()) if row["panel"] == "paper reported RM@32"
    ]
    assert reported == [("2:1", "0.62"), ("1:1", "0.608")]


def test_nine_levels_of_words_are_drawn(store, tmp_path):
    for place, level in enumerate(
        [
            "all",
            "algorithms",
            "functional",
            "stdlib",
            "symbolic",
            "without_algorithms",
            "without_functional",
            "without_stdlib",
            "without_symbolic",
        ]
    ):
        track(store, tmp_path, "source_composition", level, 0, 1.0, place=place, baseline="all")
    group = the_group(store, "source_composition")
    assert rm_at_k.draw(group, tmp_path / "out")
    assert discrimination_calibration.draw(group, tmp_path / "out")
    assert len(set(style.level_colours(group.levels, ordered=False).values())) == 9
    assert style.grid(9) == (2, 5)
    assert style.grid(4) == (1, 4)


def test_intervals_stand_beside_the_largest_k_and_hide_no_line(store, tmp_path, monkeypatch):
    for place, level in enumerate(("whole", "part", "none")):
        for seed in range(3):
            track(store, tmp_path, "turn_visibility", level, seed, 1.0 + place, place=place, baseline="whole")
    group, seen = the_group(store, "turn_visibility"), []
    save = style.save

    def look(drawn, *rest):
        for axis in drawn.axes:
            bars = [bar for bar in axis.containers if hasattr(bar, "has_yerr")]
            seen.append(([float(bar.lines[0].get_xdata()[0]) for bar in bars], axis.get_xlim()[1]))
        return save(drawn, *rest)

    monkeypatch.setattr(style, "save", look)
    rm_at_k.draw(group, tmp_path / "out")
    largest = int(level_tests.largest_k(group))
    for beside, end in seen:
        assert len(beside) == 3, "one interval a level"
        assert largest < beside[0] < beside[1] < beside[2] < end
    assert seen
