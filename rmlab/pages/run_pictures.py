"""The reliability picture of a verifier's run, as a file that stands alone: an artifact that the MLflow UI shows as an image."""

from pathlib import Path

from rmlab.files import write_text
from rmlab.metrics.table import table as grouped
from rmlab.pages import plots
from rmlab.scores.scores import Scores
from rmlab.scores.table import read_score_table
from rmlab.tracking.run_index import run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.tags import SOURCE_RUN

RELIABILITY, SCORES = "reliability.svg", "scores.parquet"
ROOT = '<svg xmlns="http://www.w3.org/2000/svg" style="background:white" font-family="sans-serif" width="690" height="480" '


def reliability_picture(scores: Scores) -> str:
    """Share resolved against the score, of a table with at least one attempt that has both."""
    return plots.reliability(grouped(scores)).replace("<svg ", ROOT, 1)


def draw_missing(store: Store) -> int:
    """Draws it for the verifiers' runs of a local store that have score tables and no picture; returns how many.

    These are of an earlier version, came in a bundle of a study, or reuse what another run measured.
    """
    if store.artifacts is None:
        return 0
    names = {e.experiment_id: e.name for e in store.call(lambda: store.client.search_experiments(max_results=1000))}
    folders = {
        info.run_id: store.artifacts / names[info.experiment_id] / info.run_id / "artifacts"
        for info in run_infos(store)
        if info.experiment_id in names and info.tags.get("kind") == "verifier" and info.end_time is not None
    }
    sources = {info.run_id: info.tags.get(SOURCE_RUN, info.run_id) for info in run_infos(store)}
    drawn = 0
    for run_id, folder in folders.items():
        table = folders.get(sources[run_id], folder) / SCORES
        if table.is_file() and not (folder / RELIABILITY).exists():
            _draw(table, folder / RELIABILITY)
            drawn += 1
    return drawn


def _draw(table: Path, picture: Path) -> None:
    picture.parent.mkdir(parents=True, exist_ok=True)
    write_text(picture, reliability_picture(read_score_table(table)))
