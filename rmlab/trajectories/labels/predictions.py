"""Predictions: the patches that a run submitted, as `preds.json` (by id) or `all_preds.jsonl` (a row each).

They give the patch to formats that keep none, and the name that a run goes by where its trajectories have none.
"""

from typing import Any

from rmlab.trajectories.labels.statement import Predictions
from rmlab.trajectories.places import Place
from rmlab.trajectories.reading import as_dict, as_list, as_text, clean


def predictions(document: Any, place: Place) -> Predictions | None:
    """The predictions of a document: a row, rows, or rows by id. None where it holds none."""
    if _is_row(document):
        rows = [as_dict(document)]
    elif isinstance(document, dict):
        rows = [as_dict(value) for value in document.values()]
    else:
        rows = [as_dict(value) for value in as_list(document)]
    if not rows or not all(map(_is_row, rows)):
        return None
    found = Predictions(place)
    for row in rows:
        task = row["instance_id"]
        found.patch[task] = clean(as_text(row.get("model_patch")) or as_text(row.get("prediction")))
        found.model[task] = clean(as_text(row.get("model_name_or_path")))
    return found


def _is_row(value: Any) -> bool:
    row = as_dict(value)
    return (
        isinstance(row.get("instance_id"), str)
        and ("model_patch" in row or "prediction" in row)
        and "messages" not in row
    )
