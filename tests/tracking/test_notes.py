from rmlab.metrics.report import report
from rmlab.metrics.thin import cautions
from rmlab.scores.scores import Scores
from rmlab.tracking.notes import run_note, summary_note
from rmlab.tracking.tags import LONGEST_TAG


def test_a_run_says_first_what_it_found() -> None:
    scores = Scores.of(["t", "t", "u", "u"], [0.9, 0.1, 0.2, 0.8], [1, 0, 1, 0])
    rules = {"majority": {"rm_at_k": {"2": 0.5}}, "shape": {"reason": "none"}}
    note = run_note("data_scale=9 s1", report(scores, replicates=50), rules, "rmlab train")
    first, _, table = note.partition("\n\n")
    assert first.startswith("**data_scale=9 s1**: RM@2 0.500, AUC within task 0.500 [")
    assert first.endswith("(pass@1 0.500, pass@2 1.000; 2 tasks, 4 attempts)")
    assert "| this verifier | 0.500 | 0.500 |" in table
    assert "| majority | 0.500 |  |  |  |  |" in table
    assert "shape" not in table
    assert note.endswith("`rmlab train`")


def test_a_run_says_on_how_little_its_values_rest() -> None:
    scores = Scores.of(["t", "t", "u"], [0.9, 0.1, 0.2], [1, 0, 1])
    found = report(scores, replicates=50)
    note = run_note("one", found, {}, "rmlab train", cautions(found, scores))
    assert "AUC within task 1.000 (1 mixed task), ECE" in note
    beware = "Only 2 clusters: intervals from so few are too narrow, and other clusters may give another result. RM@2: 1 of 2 tasks has"
    assert f"3 attempts)\n\nBeware: {beware}" in note


def test_a_run_of_one_attempt_a_policy_is_told_across_policies() -> None:
    tasks = [f"t{i // 2}" for i in range(8)]
    scores = Scores.of(tasks, [0.9, 0.1] * 4, [1, 0] * 4, policy=["p", "q"] * 4, cluster=["c", "c", "c", "c", *"dddd"])
    note = run_note("one", report(scores, replicates=50), {}, "rmlab train")
    assert note.startswith("**one**: RM@1 0.500, AUC within task across policies 1.000 [1.000, 1.000], ECE 0.100 (less")
    assert "(pass@1 0.500; 4 tasks, 8 attempts)" in note
    assert "Interval: 95 % over 2 clusters of tasks." in note


def test_a_summary_fits_a_tag_and_says_where_the_rest_is() -> None:
    short = summary_note("Does it?", "No.", "| a |\n|---|\n| 1 |", "from here")
    assert short == "**Does it?** No.\n\n| a |\n|---|\n| 1 |\n\nfrom here"
    rows = [f"| {i} | {'x' * 90} |" for i in range(200)]
    long = summary_note("Does it?", "No.", "\n".join(rows), "from here")
    assert len(long) <= LONGEST_TAG
    assert long.endswith("(the rest of the table: artifact `table.md`)\n\nfrom here")
    kept = long.split("\n\n")[1].split("\n")
    assert kept == rows[: len(kept)]
    assert len(kept) > 50
