"""What a sweep shows while it runs: rows in the order in which cells end, text that is not markup, time left, and silence if asked."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from rmlab.launchers.jobs import Event, Job
from rmlab.progress import ENDED, STARTED, Beat, set_verbosity
from rmlab.sweep import progress_table
from rmlab.sweep.plan import Cell, shape
from rmlab.sweep.progress_table import ProgressLine, ProgressTable
from rmlab.sweep.request import make_plan


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    yield
    set_verbosity(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the table, as its one item."""
    now = [0.0]
    monkeypatch.setattr(progress_table.time, "monotonic", lambda: now[0])
    return now


def job(name: str) -> Job:
    return Job(name, "toy", "run", (), Path("log"))


def drawn(table: ProgressTable) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(table._table())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_rows_stand_in_the_order_in_which_cells_end() -> None:
    table = ProgressTable("toy", [ProgressLine(name, "waiting") for name in "abcd"])
    for name in "abc":
        table.note(name, "running")
    table.note("b", "finished", 2.0)
    table.note("a", "failed", 3.0)
    assert [line.name for line in table.shown()] == ["b", "a", "c", "d"]
    table.note("d", "running")
    table.note("c", "waiting")  # it had to stop, and is taken up again behind the others
    assert [line.name for line in table.shown()] == ["b", "a", "d", "c"]


def test_names_and_notes_are_text_and_not_markup() -> None:
    table = ProgressTable("toy [bold]", [ProgressLine("ratio=[1:2] s0", "waiting"), ProgressLine("b", "waiting")])
    table.note("ratio=[1:2] s0", "running")
    table.tell(Event(job("ratio=[1:2] s0"), "progress", beat=Beat("[red]training", 1, 4, "steps", 2.0, "loss [0.1]")))
    text = drawn(table)
    for words in ("toy [bold]", "ratio=[1:2] s0", "[red]training 25%", "loss [0.1]"):
        assert words in text
    assert "[/]" not in text
    assert "[cyan]" not in text


def test_no_time_left_is_told_of_cells_that_still_run_beyond_it(clock: list[float]) -> None:
    table = ProgressTable("toy", [ProgressLine(name, "waiting", "level") for name in "ab"])
    table.note("a", "running")
    table.note("b", "running")
    clock[0] = 100.0
    table.note("a", "finished", 100.0)
    table.tell(Event(job("b"), "progress", beat=Beat("scoring", 999, 1000, "tokens", 10.0, "")))
    text = drawn(table)
    assert "1 of 2 cells finished" in text
    assert "0 s left" not in text


def test_the_time_left_of_the_sweep_is_shown(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    table = ProgressTable("toy", [ProgressLine(name, "waiting", "level") for name in "abcde"])
    assert "about" not in drawn(table)
    table.note("a", "running")
    table.note("b", "running")
    clock[0] = 100.0
    table.note("a", "finished", 100.0)
    table.note("c", "running")
    table.note("b", "finished", 100.0)
    table.note("d", "running")
    assert "2 of 5 cells finished, 1 waiting, about 3 min left" in drawn(table)
    assert capsys.readouterr().err.splitlines()[-1] == "[2/5] d started; about 3 min left"
    for name in "cde":
        table.note(name, "finished", 1.0)
    assert table.seconds_left() is None


def test_a_cell_of_a_scheduler_runs_from_its_first_word_on(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """The time in the queue is none that cells take."""
    table = ProgressTable("toy", [ProgressLine(name, "waiting", "level") for name in "ab"])
    table.note("a", "submitted", where="Slurm job 17")
    assert "as Slurm job 17" in capsys.readouterr().err
    assert "Slurm job 17" in drawn(table)
    clock[0] = 500.0
    table.tell(Event(job("a"), "progress", beat=STARTED))
    assert table.lines["a"].state == "running"
    clock[0] = 520.0
    table.tell(Event(job("a"), "progress", beat=ENDED))
    clock[0] = 560.0  # the batch that it belongs to has ended
    table.note("a", "finished", 560.0)
    assert "finished in 20 s; about 20 s left" in capsys.readouterr().err
    assert table.seconds_left() == pytest.approx(20.0)


def test_a_cell_that_is_the_same_run_as_another_takes_no_time(clock: list[float]) -> None:
    table = ProgressTable(
        "toy", [ProgressLine("a", "finished", "l", ran=10.0), ProgressLine("b", "waiting", "l", same_as="a")]
    )
    assert table.seconds_left() is None


def test_quiet_says_what_went_wrong_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    set_verbosity(-1)
    with ProgressTable("toy", [ProgressLine("a", "waiting")]) as table:
        table.note("a", "running")
        table.inform("preparing")
        table.say("a failed: no luck")
    assert capsys.readouterr().err == "a failed: no luck\n"


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (["arms=[epochs]"], "2 levels x 1 seed = 2 cells"),
        ([], "2 levels x 2 arms x 1 seed = 4 cells"),
        (["arms=[epochs]", "seeds=[0,1,2]"], "2 levels x 3 seeds = 6 cells"),
    ],
)
def test_the_first_line_says_how_many_cells_and_why(choices: list[str], said: str) -> None:
    cells: list[Cell] = make_plan("data_scale", ["preset=smoke", *choices], "").cells
    assert shape(cells) == said
