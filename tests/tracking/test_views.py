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
    return {*tree, *(word for one in tree.values() for word in words(one))} if isinstance(tree, dict) else set()


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
        *json.dumps(["LINE", "BAR", "SHOWALL", "average"])[1:-1].split(", "),
    ):
        assert text in ui or text.strip('"') in known, text


def test_what_another_run_went_on_with_is_not_shown_twice(store: Store) -> None:
    """By the filter of the views, as the UI sends it to the store."""
    cell = {"kind": "verifier", "tags": {"config_hash": "c0"}}
    RunLogger.start(store, "verifiers", "before", **cell).fail(KeyboardInterrupt())
    with RunLogger.start(store, "verifiers", "after", **cell):
        pass
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
