"""Short names for the UI: what is logged under them, and how runs of earlier versions get them."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rmlab.commands.runs import by
from rmlab.metrics.registry import METRICS
from rmlab.tracking.bundles.exporting import export_runs
from rmlab.tracking.bundles.importing import import_bundle
from rmlab.tracking.bundles.opening import open_bundle
from rmlab.tracking.config import TrackingConfig
from rmlab.tracking.query import get_run, runs
from rmlab.tracking.reuse import log_reuse
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.tracking.ui import bring_up
from rmlab.tracking.views import EVALUATION, HEADLINE, PREFIX, TABLE, headline, rounded, view_tags

TAGS = {"sweep": "data_scale", "level": "2:1", "place": "3", "config_hash": "c0"}


def test_every_short_name_is_short_and_of_a_metric_of_the_registry() -> None:
    assert set(EVALUATION) <= {metric.name for metric in METRICS}
    assert len(set(HEADLINE.values())) == len(HEADLINE)
    assert max(map(len, HEADLINE.values())) <= 14, "what a column of the UI shows of a name"
    assert not any("/" in short for short in HEADLINE.values()), "no group: they stand before all others"


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.88412, 0.884), (0.0245784, 0.0246), (-0.0102318, -0.0102), (1.0, 1.0), (0.0, 0.0), (1234.5, 1230.0)],
)
def test_three_significant_digits(value: float, said: float) -> None:
    assert rounded(value) == said
    assert math.isnan(rounded(math.nan))


def test_what_is_there_or_undefined_is_left_out() -> None:
    values = {
        "eval/auc_within_task": 0.12345,
        "eval/ece_width_10": None,
        "eval/brier": 0.2,
        "brier": 0.5,
        "train/loss": 1.0,
    }
    assert headline(values) == {"auc_task": 0.123}


def test_a_run_says_its_headline_and_level_beside_the_exact_values(store: Store) -> None:
    with RunLogger.start(store, "data_scale", "a", kind="verifier", tags=TAGS) as run:
        run.metrics({"eval/auc_within_task": 0.76543, "validation/auc_within_task": 0.5})
        for k, value in ((1, 0.49258), (16, 0.63949)):
            run.metric("eval/rm_at_k", value, k)
    found = store.client.get_run(run.run_id).data.metrics
    assert list(found)[:3] == ["level_number", "auc_task", "rm_at_k"], "first of all"
    assert found == {
        "level_number": 2.0,
        "auc_task": 0.765,
        "rm_at_k": 0.639,
        "eval/auc_within_task": 0.76543,
        "validation/auc_within_task": 0.5,
        "eval/rm_at_k": 0.63949,
    }
    assert get_run(store, run.run_id).series("rm_at_k") == [(1, 0.493), (16, 0.639)]
    assert list(dict.fromkeys(name for name, *_ in run.series.history)) == list(found), (
        "the UI lists metrics as they were written"
    )


def old_run(store: Store, name: str, auc: float, **tags: str) -> str:
    """A run as the version before logged it: full names alone, the level as a tag."""
    with RunLogger.start(store, "data_scale", name, kind="verifier") as run:
        run.series.history += [
            ("eval/rm_at_k", 0.25, 1, 1),
            ("eval/rm_at_k", 0.31249, 8, 2),
            ("eval/auc_within_task", auc, 0, 3),
        ]
        run.tags({**TAGS, **tags})
    return run.run_id


def test_old_and_new_runs_are_sorted_by_either_name(store: Store) -> None:
    old_run(store, "old", 0.6789, config_hash="c1")
    with RunLogger.start(store, "data_scale", "new", kind="verifier") as run:
        run.metric("eval/auc_within_task", 0.7)
    for name in ("auc_task", "auc_within_task", "eval/auc_within_task"):
        assert [run.name for run in by(runs(store), name)] == ["new", "old"]
    assert by(runs(store), "auc_task")[1].metrics["auc_task"] == 0.679


@pytest.mark.slow
def test_a_bundle_of_old_runs_has_them_read_and_imported(store: Store, tmp_path: Path) -> None:
    run_id = old_run(store, "old", 0.6789)
    bundle = tmp_path / "old.zip"
    export_runs(store, bundle, [run_id])
    with open_bundle(bundle) as opened:
        assert opened.runs()[0].metrics["auc_task"] == 0.679
        assert "auc_task" not in {name for name, *_ in opened.metrics(opened.entries[0])}, "the bundle is as it was"
    other = Store.open(f"sqlite:///{tmp_path / 'other' / 'mlflow.db'}")
    import_bundle(bundle, other)
    [run] = runs(other)
    stored = other.client.get_run(run.run_id).data.metrics
    assert (stored["auc_task"], stored["rm_at_k"], stored["level_number"]) == (0.679, 0.312, 2.0)
    assert run.series("rm_at_k") == [(1, 0.25), (8, 0.312)]
    again = tmp_path / "again.zip"
    export_runs(other, again, [run.run_id])
    third = Store.open(f"sqlite:///{tmp_path / 'third' / 'mlflow.db'}")
    import_bundle(again, third)
    assert runs(third)[0].series("rm_at_k") == [(1, 0.25), (8, 0.312)], "not twice"


def test_what_reuses_a_cell_has_its_own_level(store: Store) -> None:
    run_id = old_run(store, "old", 0.6)
    tags = {**TAGS, "level": "7", "place": "0", "sweep": "other"}
    reused = log_reuse(store, get_run(store, run_id), "other", "other=7 s0", tags)
    assert reused.series("level_number") == [(0, 7.0)]
    assert store.client.get_run(reused.run_id).data.metrics["auc_task"] == 0.6


def test_the_metrics_of_a_reused_cell_are_copied_in_their_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunLogger.start(store, "data_scale", "a", kind="verifier", tags=TAGS) as run:
        run.metrics({f"eval/{name}": 0.5 for name in ("brier", "auc_within_task", "ece_width_10", "auc_pooled")})
    copied: list[str] = []
    replay = RunLogger.replay

    def noted(logger: RunLogger, history: Iterable[Iterable[Any]]) -> None:
        rows = [list(row) for row in history]
        copied.extend(str(name) for name, *_ in rows)
        replay(logger, rows)

    monkeypatch.setattr(RunLogger, "replay", noted)
    log_reuse(store, get_run(store, run.run_id), "other", "other=7 s0", {**TAGS, "sweep": "other"})
    assert copied == [name for name in get_run(store, run.run_id).metrics if name != "level_number"]
    assert len(copied) > 3


def test_an_experiment_of_an_earlier_version_is_brought_up_once(store: Store) -> None:
    run_id = old_run(store, "old", 0.6789)
    experiment_id = store.experiment("data_scale")
    key = f"{PREFIX}{TABLE}"
    now = view_tags()[key]
    store.client.set_experiment_tag(experiment_id, key, json.dumps(json.loads(now) | {"state": "deflate;of before"}))
    mine = json.dumps(json.loads(view_tags()[f"{PREFIX}rmlab-levels"]) | {"updatedAt": 1764400000000})
    store.client.set_experiment_tag(experiment_id, f"{PREFIX}rmlab-levels", mine)
    assert bring_up(store, {"data_scale": "How much data?", "else": "?"}) == 1
    tags = store.client.get_experiment(experiment_id).tags
    assert tags[key] == now
    assert tags[f"{PREFIX}rmlab-levels"] == mine, "what somebody saved stays"
    assert tags["mlflow.note.content"] == "How much data?"
    stored = store.client.get_run(run_id)
    assert (stored.data.metrics["auc_task"], stored.data.metrics["level_number"]) == (0.679, 2.0)
    assert get_run(store, run_id).series("rm_at_k") == [(1, 0.25), (8, 0.312)]
    assert stored.info.status == "FINISHED"
    assert bring_up(store, {}) == 0


def test_a_killed_run_that_goes_on_logs_its_headline_once(store: Store) -> None:
    with RunLogger.start(store, "verifiers", "before", kind="verifier") as before:
        before.metric("rl/pass_at_1", 0.4321, 1)
    with RunLogger.start(store, "verifiers", "after", kind="verifier") as after:
        after.replay(before.series.history)
        after.metric("rl/pass_at_1", 0.5, 2)
    assert get_run(store, after.run_id).series("pass_at_1") == [(1, 0.432), (2, 0.5)]
    assert len([name for name, *_ in after.series.history if name == "pass_at_1"]) == 2


def test_a_single_run_has_no_level(store: Store) -> None:
    with RunLogger.start(store, "verifiers", "one", kind="verifier") as run:
        pass
    assert get_run(store, run.run_id).metrics == {}
    assert TrackingConfig().level == ""
