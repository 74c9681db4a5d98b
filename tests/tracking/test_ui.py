import base64
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
import zlib

import psutil
import pytest

from rmlab.errors import RmlabError, UsageError
from rmlab.paths import REPOSITORY
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store
from rmlab.tracking.ui import address_hint, bring_up, choose_port, levels_views, serve
from rmlab.tracking.views import ARMS, ARMS_PRESETS, CURVES, LEVELS, PREFIX, PRESETS, TABLE, view_tags
from tests.waiting import PATIENCE, until


def test_a_port_that_is_taken_is_said_and_the_next_free_one_is_chosen() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RmlabError, match=f"port {port} of 127.0.0.1 is taken"):
            choose_port(port)
    assert choose_port(port) == port
    assert choose_port(None) >= 5000
    with pytest.raises(UsageError, match="must be a number from 1 to 65535"):
        choose_port(70000)


def test_a_server_store_has_its_own_ui() -> None:
    with pytest.raises(UsageError, match="a server with its own UI"):
        serve(Store("http://127.0.0.1:5000", None), 5000)


def test_views_are_made_with_an_experiment_and_stay_when_they_were_changed(store: Store) -> None:
    experiment = store.experiment("data_scale")
    tags = store.client.get_experiment(experiment).tags
    grouped = {}
    for key in (TABLE, *LEVELS):
        saved = json.loads(tags[f"mlflow.sharedViewState.{key}"])
        state = json.loads(zlib.decompress(base64.b64decode(saved["state"].removeprefix("deflate;"))))
        assert saved["name"]
        sections = {section["uuid"] for section in state["compareRunSections"]}
        assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == sections
        assert "metrics.`auc_task`" in state["selectedColumns"]
        grouped[key] = [one["groupByData"] for one in (state["groupBy"] or {"groupByKeys": []})["groupByKeys"]]
    assert grouped == {
        TABLE: [],
        CURVES: ["level"],
        ARMS: ["level", "arm"],
        PRESETS: ["level", "preset"],
        ARMS_PRESETS: ["level", "arm", "preset"],
    }
    store.client.set_experiment_tag(experiment, f"mlflow.sharedViewState.{CURVES}", "mine")
    store.client.delete_experiment_tag(experiment, f"mlflow.sharedViewState.{TABLE}")
    Store.open().experiment("data_scale")
    again = store.client.get_experiment(experiment).tags
    assert again[f"mlflow.sharedViewState.{CURVES}"] == "mine"
    assert again[f"mlflow.sharedViewState.{TABLE}"] == tags[f"mlflow.sharedViewState.{TABLE}"]
    assert address_hint(store, "data_scale").endswith(
        f"/experiments/{experiment}/runs?workflowType=machine_learning"
        "&compareRunsMode=CHART&viewStateShareKey=rmlab-levels"
    )


def test_levels_of_a_sweep_with_arms_are_compared_arm_by_arm(store: Store) -> None:
    for sweep, arms in (("label_ratio", ("",)), ("data_scale", ("epochs", "steps"))):
        for arm in arms:
            tags = {"sweep": sweep, "level": "250", "arm": arm}
            with RunLogger.start(store, sweep, f"a run {arm}", kind="verifier", tags=tags):
                pass
    assert address_hint(store, "label_ratio").endswith("&viewStateShareKey=rmlab-levels")
    assert address_hint(store, "data_scale").endswith("&compareRunsMode=CHART&viewStateShareKey=rmlab-arms")
    assert levels_views(store) == {store.experiment("label_ratio"): CURVES, store.experiment("data_scale"): ARMS}


def test_levels_of_several_presets_share_no_mean(store: Store) -> None:
    presets = {"label_ratio": ["demo", "demo"], "lora": ["smoke", "demo"], "data_scale": ["smoke", "demo"]}
    for sweep, own in presets.items():
        for preset in own:
            tags = {"sweep": sweep, "level": "250", "preset": preset, "arm": "steps" if sweep == "data_scale" else ""}
            with RunLogger.start(store, sweep, "a run", kind="verifier", tags=tags):
                pass
    views = {
        name: address_hint(store, name).partition("&compareRunsMode=CHART&viewStateShareKey=")[2] for name in presets
    }
    assert views == {"label_ratio": CURVES, "lora": PRESETS, "data_scale": ARMS_PRESETS}


def test_an_experiment_of_an_earlier_version_gets_the_views_that_came_later(store: Store) -> None:
    ours, theirs = store.experiment("data_scale"), store.client.create_experiment("somebody's own")
    key = f"{PREFIX}{PRESETS}"
    store.client.delete_experiment_tag(ours, key)
    bring_up(store, {})
    assert store.client.get_experiment(ours).tags[key] == view_tags()[key]
    assert key not in store.client.get_experiment(theirs).tags


@pytest.mark.slow
def test_the_ui_answers_names_the_training_view_and_ends_whole(store: Store) -> None:
    experiment = store.experiment("data_scale")
    process = subprocess.Popen(
        [sys.executable, "-m", "rmlab.cli", "ui"],
        cwd=REPOSITORY,
        env=dict(os.environ),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    name, address = process.stdout.readline().split()
    assert name == "data_scale"
    assert address.endswith(
        f"/#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey=rmlab-table"
    )
    base = address.partition("/#/")[0]
    assert base.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(base, timeout=PATIENCE) as page:
        text = page.read().decode()
    assert "mlflow" in text.lower()
    start = address.partition("/#")[2]
    assert f'location.replace("#{start}")' in text, "the bare address leads there"
    with urllib.request.urlopen(f"{base}/ajax-api/2.0/mlflow/experiments/get?experiment_id={experiment}") as found:
        assert json.load(found)["experiment"]["name"] == "data_scale"
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    until(lambda: not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE])
