"""The runs of a study travel with its page: what is drawn from them is what the page shows, and nothing of a machine is in them."""

import csv
import json
import platform
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from analysis.registry import registered
from rmlab.commands import figures
from rmlab.commands.compare_levels import compare_halves
from rmlab.commands.figures import draw_figures
from rmlab.errors import UsageError
from rmlab.files import write_text
from rmlab.paths import REPOSITORY
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.opening import open_bundle
from rmlab.tracking.bundles.study import anonymous
from rmlab.tracking.store import Store
from tests.analysis.sweep.test_levels import track
from tests.sweeping import sweep_here
from tests.tracking.bundles.test_study import everything
from tests.verifiers.examples import write_pool

STUDIES = REPOSITORY / "experiments" / "studies"
SHIPPED = sorted(path.parent.name for path in STUDIES.glob("*/runs.zip"))
IN_PARTS = sorted(path.parent.name for path in STUDIES.glob("*/bundles") if not (path.parent / "study.yaml").is_file())
"""Studies whose runs came in several bundles, but those of several sweeps, whose pages `rmlab study` writes."""
MADE_HERE = "made here"
MOST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Path:
    """Six runs in `runs`, and their bundle with a table and a figure in `page`."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "runs").mkdir()
    shutil.copy(empty_database, folder / "runs" / "mlflow.db")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RMLAB_RUNS", str(folder / "runs"))
        for seed in (0, 1, 2):
            for level, quality in (("100", 0.5), ("1000", 3.0)):
                track(Store.open(None), folder, "data_scale", level, seed, quality, place=int(quality), baseline="100")
        bundle = folder / "page" / "runs.zip"
        export_runs(Store.open(None), bundle, sweep="data_scale", study=True, show=False)
        draw_figures(["sweep_table", "differences"], str(bundle), page=bundle.parent)
    return folder


@pytest.fixture
def page(request: pytest.FixtureRequest, runs_folder: Path, tmp_path: Path) -> Path:
    """The folder of a study's page with its bundle: a shipped one, or a copy of the one that is made here, with its runs."""
    if request.param != MADE_HERE:
        return STUDIES / request.param
    made = request.getfixturevalue("made")
    shutil.copytree(made / "runs", runs_folder, dirs_exist_ok=True)
    return Path(shutil.copytree(made / "page", tmp_path / "page"))


def same_table(one: Path, other: Path) -> bool:
    """Whether two CSV files hold the same: words as they are, numbers but for the last digits (another machine adds in another order)."""
    with one.open(newline="") as first, other.open(newline="") as second:
        rows, others = list(csv.reader(first)), list(csv.reader(second))
    return [len(row) for row in rows] == [len(row) for row in others] and all(
        a == b or (number(a) is not None and number(a) == pytest.approx(number(b), rel=1e-9, abs=1e-12))
        for row, other_row in zip(rows, others, strict=True)
        for a, b in zip(row, other_row, strict=True)
    )


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def differing(page: Path, out: Path) -> tuple[list[str], list[str]]:
    """The tables of a page that its runs give, and of these the ones that the page has otherwise."""
    drawn: dict[str, list[Path]] = {}
    shown = {path.stem for path in page.rglob("*.png")} & set(registered())
    whole = (page / "runs.zip").is_file()
    for path in draw_figures(() if whole else sorted(shown), str(page / ("runs.zip" if whole else "bundles")), out):
        drawn.setdefault(path.name, []).append(path)
    assert shown <= {Path(name).stem for name in drawn}, "each figure of the page is drawn"
    tables = [path for path in sorted(page.rglob("*.csv")) if path.name in drawn]
    wrong = [path for path in tables if not any(same_table(path, one) for one in drawn[path.name])]
    if (halves := page / "halves.json").is_file():  # of `rmlab compare --halves --json`
        said = json.loads(halves.read_text())
        again = compare_halves(said["sweep"], level=said["level"], source=str(page / "runs.zip"), as_json=True)
        tables.append(halves)
        wrong += [halves] if not alike(said, json.loads(json.dumps(again))) else []
    return [path.name for path in tables], [path.name for path in wrong]


def alike(one: Any, other: Any) -> bool:
    """Whether two JSON values hold the same but for the last digits of numbers."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(alike(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other or (isinstance(one, float) and one == pytest.approx(other, rel=1e-9, abs=1e-12)))


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("page", [MADE_HERE, *SHIPPED, *IN_PARTS], indirect=True)
def test_a_page_shows_what_its_runs_give(page: Path, tmp_path: Path) -> None:
    tables, wrong = differing(page, tmp_path / "drawn")
    assert tables, "a page with runs has a table of them"
    assert wrong == []
    for path in [*page.glob("runs.zip"), *page.glob("bundles/*.zip")]:
        with open_bundle(path) as bundle:
            text = everything(bundle)
        assert anonymous(text) == text, "no path of any machine"
        assert not [name for name in ("host", "process", "lease", "mlflow.user") if f"'{name}'" in text]


@pytest.mark.parametrize("page", [MADE_HERE], indirect=True)
def test_another_digit_in_a_table_is_found(page: Path, tmp_path: Path) -> None:
    table = page / "table.csv"
    before = table.read_text()
    digit = re.search(r"\.\d\d(\d)", before)
    assert digit is not None
    changed = str((int(digit[1]) + 1) % 10)
    table.write_text(before[: digit.start(1)] + changed + before[digit.end(1) :])
    copy = tmp_path / "copy.csv"
    copy.write_text(before)
    assert not same_table(table, copy)
    assert same_table(copy, copy)


@pytest.mark.parametrize("page", [MADE_HERE], indirect=True)
def test_a_page_is_drawn_into_its_folder_twice_alike(page: Path, tmp_path: Path) -> None:
    bundle = str(page / "runs.zip")
    first = {p.name: p.read_bytes() for p in draw_figures(["sweep_table", "differences"], bundle, page=tmp_path / "a")}
    again = {p.name: p.read_bytes() for p in draw_figures(["sweep_table", "differences"], bundle, page=tmp_path / "b")}
    assert sorted(first) == ["differences.csv", "differences.png", "table.csv"]
    assert first == again
    assert first["table.csv"] == (page / "table.csv").read_bytes()
    track(Store.open(None), tmp_path, "data_scale", "100", 0, 1.0, place=0, baseline="100", control="c1")
    with pytest.raises(
        UsageError, match=r"do not share figures, .*data_scale/smoke-c0, data_scale/smoke-c1\. Choose one with --group"
    ):
        draw_figures(["sweep_table"], page=tmp_path / "c")
    [table] = draw_figures(["sweep_table"], page=tmp_path / "c", group="c1")
    assert table.read_text().count("\n") == 2
    with pytest.raises(UsageError, match=r"--group c2 matches no run; .* has data_scale/smoke-c0, data_scale/smoke-c1"):
        draw_figures(page=tmp_path / "c", group="c2")
    with pytest.raises(UsageError, match="--page or --out, not both"):
        draw_figures(page=tmp_path / "c", out=tmp_path)


def test_pages_of_several_sweeps_are_drawn_into_a_folder_of_each(runs_folder: Path, tmp_path: Path) -> None:
    for sweep, level in (("data_scale", "100"), ("label_ratio", "1:1")):
        track(Store.open(None), tmp_path, sweep, level, 0, 1.0, place=0, baseline=level, control=sweep)
    drawn = draw_figures(["sweep_table"], page=tmp_path / "pages")
    assert [path.relative_to(tmp_path).as_posix() for path in drawn] == [
        "pages/data_scale/table.csv",
        "pages/label_ratio/table.csv",
    ]
    assert [path.read_text().count("\n") for path in drawn] == [2, 2]


def test_a_figure_of_no_sweep_stands_on_the_page_itself(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(place: str, out: Path) -> list[Path]:
        write_text(out / place, "drawn")
        return [out / place]

    places = {
        "data_scale/smoke-c0/table.csv": ["data_scale/smoke-c0"],
        "label_ratio/smoke-c1/table.csv": ["label_ratio/smoke-c1"],
    }
    places["rl/foretelling/foretelling.csv"] = []
    drawings = [figures._Drawing(place, folders, partial(draw, place)) for place, folders in places.items()]
    monkeypatch.setattr(figures, "_chosen", lambda *_, **__: drawings)
    track(Store.open(None), tmp_path, "data_scale", "100", 0, 1.0, place=0, baseline="100", control="c0")
    drawn = draw_figures(page=tmp_path / "page")
    assert [path.relative_to(tmp_path / "page").as_posix() for path in drawn] == [
        *("data_scale/table.csv", "label_ratio/table.csv", "foretelling.csv")
    ]


def test_all_that_travels_is_small() -> None:
    assert sum((STUDIES / name / "runs.zip").stat().st_size for name in SHIPPED) <= MOST_BYTES


@pytest.mark.slow
@pytest.mark.usefixtures("small_pictures")
def test_of_a_real_sweep_nothing_of_the_machine_travels(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = write_pool(tmp_path / "hand.parquet")
    monkeypatch.setenv("LOGNAME", "user-of-somebody")
    code, _, err = sweep_here("label_ratio", "preset=smoke", f"data.path={pool}")
    assert code == 0, err
    bundle = tmp_path / "runs.zip"
    done = export_runs(Store.open(None), bundle, sweep="label_ratio", preset="smoke", study=True, show=False)
    assert done.runs == 2
    with open_bundle(bundle) as opened:
        text = everything(opened)
    host = platform.node()
    for word in (str(tmp_path), str(REPOSITORY), str(Path.home()), "user-of-somebody"):
        assert word not in text
    assert not re.search(rf"\b{re.escape(host)}\b", text)
    assert anonymous(text) == text
    assert "data.path=hand.parquet" in text, "the command is there, without the place"

    drawn = {path.name: path.read_bytes() for path in draw_figures(source=str(bundle), out=tmp_path / "drawn")}
    [folder] = (runs_folder / "figures" / "label_ratio").iterdir()
    assert drawn == {path.name: path.read_bytes() for path in folder.iterdir()}, "what the sweep itself drew"


@pytest.mark.slow
@pytest.mark.usefixtures("small_pictures")
def test_rl_runs_travel_with_what_their_figures_read(runs_folder: Path, tmp_path: Path) -> None:
    from tests.analysis.rl.test_watched import track as track_rl

    for evidence in ("final", "voluntary"):
        track_rl(Store.open(None), tmp_path, evidence)
    export_runs(Store.open(None), tmp_path / "rl.zip", kind="rl", study=True, show=False)
    drawn = {path.name: path.read_bytes() for path in draw_figures(out=tmp_path / "store")}
    assert {"rl_table.csv", "rl_curves.png", "rl_by_reward.png"} <= drawn.keys()
    assert {
        path.name: path.read_bytes() for path in draw_figures(source=str(tmp_path / "rl.zip"), out=tmp_path / "bundle")
    } == drawn
