"""The views are a state of the UI's own page, which it promises to nobody: every word of it has to be one that the UI still knows."""

import base64
import csv
import io
import json
import re
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from rmlab.commands.runs import list_runs
from rmlab.tracking.config import TrackingConfig, level_number, sweep_params
from rmlab.tracking.leases import replace
from rmlab.tracking.query import runs
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.tracking.ui import bring_up
from rmlab.tracking.ui_server import WORKFLOW
from rmlab.tracking.views import CURVES, PREFIX, TABLE, view_tags

SCRIPTS = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"


def states() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each view's tag as the UI reads it."""
    for tag in view_tags().values():
        view = json.loads(tag)
        way, _, packed = view["state"].partition(";")
        assert way == "deflate"
        yield view["name"], json.loads(zlib.decompress(base64.b64decode(packed)))


def words(tree: Any) -> set[str]:
    """The keys of a state, of all that is in it."""
    if isinstance(tree, list):
        return {word for one in tree for word in words(one)}
    if not isinstance(tree, dict):
        return set()
    return {*tree, *(word for key, one in tree.items() if key != "columnWidths" for word in words(one))}


def test_the_ui_knows_every_word_of_a_view() -> None:
    if not SCRIPTS.is_dir():
        pytest.skip("this MLflow has no UI beside it (mlflow-skinny)")
    ui = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in SCRIPTS.glob("*.js"))
    known = set(re.findall(r"\w+", ui))
    used = {word for _, state in states() for word in words(state)} | {"viewStateShareKey", "deflate"}
    assert len(used) > 40
    assert used - known == set(), "the state of the page has other keys now: rmlab/tracking/views.py has to follow"
    for text in (
        PREFIX.removesuffix("."),
        '"deflate;',
        WORKFLOW.removesuffix("_v1"),
        *json.dumps(["LINE", "BAR", "SCATTER", "METRIC", "SHOWALL", "average"])[1:-1].split(", "),
    ):
        assert text in ui or text.strip('"') in known, text


def test_what_another_run_went_on_with_is_not_shown_twice(store: Store) -> None:
    """By the filter of the views, as the UI sends it to the store."""
    cell = {"kind": "verifier", "tags": {"config_hash": "c0"}}
    RunLogger.start(store, "verifiers", "before", **cell).fail(KeyboardInterrupt())
    with RunLogger.start(store, "verifiers", "after", **cell):
        pass
    with RunLogger.start(store, "verifiers", "replaced", kind="verifier") as old:
        pass
    replace(store, [old.run_id], "another run")
    RunLogger.start(store, "verifiers", "waits", kind="verifier", tags={"config_hash": "c1"}).fail(KeyboardInterrupt())
    for name, state in states():
        found = store.client.search_runs([store.experiment("verifiers")], state["searchFilter"])
        assert sorted(run.info.run_name for run in found) == ["after", "waits"], name


def test_a_failed_run_is_no_run_of_its_level_and_is_shown_until_its_cell_is_tried_again(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(name: str, cell: str) -> RunLogger:
        return RunLogger.start(store, "verifiers", name, kind="verifier", tags={"config_hash": cell, "level": "8"})

    def shown(view: str) -> list[str]:
        state = next(state for name, state in states() if name.startswith(view))
        found = store.client.search_runs([store.experiment("verifiers")], state["searchFilter"])
        return sorted(run.info.run_name for run in found)

    begin("first", "c0").fail(ValueError("no"))
    begin("alone", "c1").fail(ValueError("no"))
    assert (shown("Runs"), shown("Levels")) == (["alone", "first"], [])
    again = begin("again", "c0")
    assert (shown("Runs"), shown("Levels")) == (["again", "alone"], ["again"])
    again.finish()
    assert (shown("Runs"), shown("Levels")) == (["again", "alone"], ["again"])
    list_runs(as_csv=True)
    listed = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert {row["name"]: row["status"] for row in listed} == {
        "first": "failed, retried",
        "alone": "failed",
        "again": "finished",
    }


def test_a_store_of_an_earlier_version_learns_which_run_came_after_a_failed_one(store: Store) -> None:
    def begin(name: str, cell: str) -> RunLogger:
        return RunLogger.start(store, "verifiers", name, kind="verifier", tags={"config_hash": cell})

    first = begin("first", "c0")
    first.fail(ValueError("no"))
    with begin("whole", "c1"):
        pass
    time.sleep(0.01)  # runs are told apart by the millisecond in which they began
    again = begin("again", "c0")
    again.finish()
    begin("redone", "c1").fail(ValueError("no"))
    store.client.delete_tag(first.run_id, "continued_by")
    for _ in range(2):
        bring_up(store, {})
        named = {run.name: run.tags.get("continued_by") for run in runs(store)}
        assert named == {"first": again.run_id, "again": None, "whole": None, "redone": None}


def test_a_search_has_its_parameters_as_columns_and_no_levels(store: Store) -> None:
    experiment = store.client.get_experiment(store.experiment("search", searched=["learning_rate", "width"]))
    views = {key: tag for key, tag in experiment.tags.items() if key.startswith(PREFIX)}
    assert list(views) == [f"{PREFIX}{TABLE}"]
    Store.open(store.uri).experiment("search")  # as the process of a cell does
    assert f"{PREFIX}{CURVES}" not in store.client.get_experiment(experiment.experiment_id).tags
    packed = json.loads(views[f"{PREFIX}{TABLE}"])["state"].partition(";")[2]
    columns = json.loads(zlib.decompress(base64.b64decode(packed)))["selectedColumns"]
    assert columns[:2] == ["params.`learning_rate`", "params.`width`"]
    assert "tags.`preset`" in columns


def test_what_a_window_of_1440_shows_of_a_run_is_its_level_preset_and_headline() -> None:
    """Widths as the UI gives them, 100 pixels but for a few; the table has 1,186 of the window, of which boxes and time take 224."""
    for name, state in states():
        assert state["columnOrder"][1:] == state["selectedColumns"], name
        shown = state["columnOrder"][: state["columnOrder"].index("metrics.`brier`") + 1]
        assert sum(state["columnWidths"].get(column, 100) for column in shown) <= 1186 - 224, name
        assert {"tags.`level`", "tags.`preset`", "metrics.`auc_task`", "metrics.`ece`"} <= set(shown)


def test_levels_are_sorted_as_numbers_and_stand_on_an_axis(store: Store) -> None:
    """As the UI asks the store for them; as words 1000 would stand before 250."""
    for level in ("1000", "250", "4000", "500"):
        tags = {"level": level, "place": "0"}
        with RunLogger.start(store, "data_scale", f"data_scale={level} s0", kind="verifier", tags=tags) as run:
            run.metric("eval/auc_within_task", 0.5)
    for name, state in states():
        order = f"{state['orderByKey']} {'ASC' if state['orderByAsc'] else 'DESC'}"
        found = store.client.search_runs([store.experiment("data_scale")], state["searchFilter"], order_by=[order])
        assert [run.data.tags["level"] for run in found] == ["250", "500", "1000", "4000"], name
        axes = [chart["xaxis"] for chart in state["compareRunCharts"] if chart["type"] == "SCATTER"]
        assert axes[:1] == [{"key": "level_number", "type": "METRIC"}]
        assert found[0].data.metrics["level_number"] == 250


@pytest.mark.parametrize(
    ("level", "place", "number"),
    [("2000", 3, 2000.0), ("2:1", 0, 2.0), ("tiny", 1, 1.0), ("1e-3", 0, 0.001), ("1:0", 2, 2.0), ("", None, None)],
)
def test_a_level_as_a_number(level: str, place: int | None, number: float | None) -> None:
    tracking = TrackingConfig(level=level, place=place)
    assert level_number(tracking) == number
    assert sweep_params(tracking) == ({} if number is None else {"level_number": f"{number:g}"})


def test_an_experiment_says_its_question_and_keeps_what_somebody_wrote(store: Store) -> None:
    store.describe("data_scale", "How much data?")
    store.describe("data_scale", "Another question?")
    experiment = store.client.get_experiment_by_name("data_scale")
    assert experiment.tags["mlflow.note.content"] == "How much data?"
