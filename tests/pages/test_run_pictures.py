"""The reliability picture of runs: alone in a file, and drawn later for runs that have none."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from rmlab.pages.report_page import RELIABILITY, draw_missing, reliability_picture
from rmlab.scores.scores import Scores
from rmlab.scores.writing import write_score_table
from rmlab.tracking.query import get_run
from rmlab.tracking.reuse import log_reuse
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

SCORES = Scores.of(["a", "a", "b", "b"], [0.2, 0.9, 0.6, 0.7], [0, 1, 1, 0])
TAGS = {"sweep": "data_scale", "level": "9", "config_hash": "c0"}


@pytest.fixture
def store(runs_folder: Path) -> Store:
    return Store.open()


def run_with_scores(store: Store, folder: Path) -> str:
    with RunLogger.start(store, "data_scale", "data_scale=9 s0", kind="verifier", tags=TAGS) as run:
        write_score_table(folder / "scores.parquet", SCORES)
        run.artifact(folder / "scores.parquet")
    return run.run_id


def test_it_stands_alone() -> None:
    root = ET.fromstring(reliability_picture(SCORES))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert (root.get("width"), root.get("height")) == ("690", "480"), "an image without a size is not shown"
    dots = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(dots) >= 4, "one a bin that has attempts"


def test_runs_without_one_get_one_once(store: Store, tmp_path: Path) -> None:
    first = run_with_scores(store, tmp_path)
    reused = log_reuse(store, get_run(store, first), "other", "other=1 s0", {"sweep": "other", "config_hash": "c0"})
    with RunLogger.start(store, "verifiers", "no scores", kind="verifier"):
        pass
    running = RunLogger.start(store, "verifiers", "runs", kind="verifier")
    assert draw_missing(store) == 2
    for run_id in (first, reused.run_id):
        listed = [file.path for file in store.client.list_artifacts(run_id)]
        assert RELIABILITY in listed
    assert draw_missing(store) == 0
    running.fail(KeyboardInterrupt())
