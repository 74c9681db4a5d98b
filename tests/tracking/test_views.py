"""The views are a state of the UI's own page, which it promises to nobody: every word of it has to be one that the UI still knows."""

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest

from rmlab.tracking.config import TrackingConfig, level_number, sweep_params
from rmlab.tracking.leases import replace
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
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
