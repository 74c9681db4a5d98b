"""A table of results is printed whole, in a narrow terminal too: no value is cut."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from rmlab.commands.compare import compare
from rmlab.commands.compare_levels import _show
from rmlab.commands.runs import list_runs
from rmlab.console_table import print_table
from rmlab.metrics.report import report
from rmlab.metrics.sweep_levels import LevelTest
from rmlab.pages.report_tables import show
from rmlab.scores.table import read_score_table

STUDY = Path(__file__).parents[1] / "experiments/studies/label_ratio/runs.zip"
CASES = Path(__file__).parent / "data/metric_cases"


NUMBER = r"[+-]?\d+(?:\.\d+)?"


def shown(width: int, *, terminal: bool = True, sentences: bool = False) -> str:
    table = Table("k", "RM@k", "95 %", "note", title="Best of k")
    table.add_row("4", "0.5192", "-0.3535 to 0.6748", "a note of several words that may be read on more than one line")
    console = Console(width=width, force_terminal=terminal, color_system=None)
    with console.capture() as captured:
        print_table(console, table, sentences=sentences)
    return captured.get()


def test_a_narrow_terminal_gets_a_paragraph_for_each_row() -> None:
    assert shown(40).splitlines() == [
        "Best of k",
        "k 4",
        "  RM@k 0.5192 | 95 % -0.3535 to 0.6748 |",
        "  note a note of several words that may",
        "  be read on more than one line",
    ]


def test_a_column_of_sentences_may_take_lines_and_a_pipe_gets_all_on_one() -> None:
    assert "note" in shown(90, sentences=True).splitlines()[2], "a table with a head"
    assert max(map(len, shown(90, sentences=True).splitlines())) <= 90
    assert "-0.3535 to 0.6748 │ a note of several words that may be read on more than one line" in shown(
        40, terminal=False
    )


def report_shown() -> None:
    show("a table", report(read_score_table(CASES / "ties.csv"), replicates=20, folds=2))


def levels_shown() -> None:
    test = LevelTest(
        "1:1",
        "ece_width_10",
        seeds=5,
        difference=-0.1275,
        ci95=(-0.1962, -0.0589),
        p=0.0005,
        p_holm=0.006,
        detectable=0.098,
        detectable_holm=0.132,
    )
    _show("label_ratio: A = 1:1, B = 1:4", [("", test)])


def tables_compared() -> None:
    table = str(CASES / "ties.csv")
    compare(table, table)


@pytest.mark.parametrize("print_it", [report_shown, levels_shown, tables_compared, lambda: list_runs(store=str(STUDY))])
def test_no_value_is_cut_at_80_columns(
    print_it: Callable[[], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_it()
    piped = capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    print_it()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "…" not in shown
    assert set(re.findall(NUMBER, piped)) == set(re.findall(NUMBER, shown))
    assert all(len(line) <= 80 for line in shown.splitlines() if "|" in line)
