"""Figures of damaged runs: one line that names the run and the file, and nothing outside the folder that was asked for."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from analysis.quick_yaml import quick_yaml
from rmlab.commands.figures import draw_figures
from rmlab.errors import DataError, StoreError
from rmlab.tracking.run import RunLogger
from rmlab.tracking.store import Store

pytestmark = pytest.mark.usefixtures("no_pictures")

PAIRED = {"before": 0.2, "after": 0.3, "difference": 0.1, "low": 0.0, "high": 0.2, "tasks": 9}
CURVE = [
    {
        "step": float(step),
        "pass_at_1": 0.2,
        "pass_at_1_low": 0.1,
        "pass_at_1_high": 0.3,
        "hacking_gap": step / 10,
        "verifier_auc_within_task": 0.8,
        "verifier_mixed_tasks": 12.0,
        "verifier_ece_width_10": 0.1,
    }
    for step in (0, 5)
]
OUTCOME = {
    "held_out": {"all": {"sampled": PAIRED, "greedy": PAIRED}},
    "collapse": False,
    "area": 0.1,
    "hacking_gap": 0.5,
    "curve": CURVE,
    "verifier_first": {},
    "verifier_last": {},
}
REPORT = {
    "auc_within_task": 0.8,
    "auc_pooled": 0.8,
    "ece_width_10": 0.1,
    "rm_at_k": {"1": 0.2, "16": 0.4},
    "ci95": {"auc_within_task": [0.7, 0.9], "rm_at_k": {"1": [0.1, 0.3], "16": None}},
}
OTHER = {"name": "other", "config_hash": "h2", "verifier_fingerprint": "v2"}
"""A second verifier: what one alone paid is related to nothing."""


def track(store: Store, *, name: str = "good", params: dict[str, Any] | None = None, **tags: str) -> None:
    with RunLogger.start(
        store,
        "policies",
        "the run",
        kind="rl",
        tags={
            "config_hash": "h",
            "start_fingerprint": "s0",
            "evidence": "final",
            "verifier_fingerprint": "v",
            "verifier_name": name,
            **tags,
        },
        params={"seed": 0, "reward": "hybrid", "reward_weight": 1.0, "steps": 5} | (params or {}),
    ) as run:
        run.json("outcome.json", OUTCOME)
        run.json("verifier_report.json", REPORT)


@pytest.fixture(scope="module")
def tracked_once(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> tuple[Path, Path]:
    """The folder of a store with two whole runs, each of its own verifier, and of the files of the first."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copy(empty_database, folder / "mlflow.db")
    store = Store.open(f"sqlite:///{folder / 'mlflow.db'}")
    track(store)
    [outcome] = folder.rglob("outcome.json")
    track(store, **OTHER)
    return folder, outcome.parent


@pytest.fixture
def damage(tracked_once: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Gives a file of the first run, in this test, another text."""
    folder, files = tracked_once
    monkeypatch.setenv("RMLAB_RUNS", str(folder))
    whole = {path: path.read_bytes() for path in files.iterdir()}
    yield lambda name, text: (files / name).write_text(text) and None
    for path, content in whole.items():
        path.write_bytes(content)


def draw() -> list[Path]:
    return [*draw_figures(["rl_table", "rl_curves", "relation"])]


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in OUTCOME.items() if name != key}


def with_curve(change: Callable[[list[dict[str, Any]]], Any]) -> dict[str, Any]:
    curve = [dict(row) for row in CURVE]
    return {**OUTCOME, "curve": change(curve)}


@pytest.mark.slow
def test_whole_runs_are_drawn(store: Store) -> None:
    track(store)
    track(store, **OTHER)
    assert len(draw()) == 10


@pytest.mark.parametrize(
    "outcome",
    [
        {},
        [],
        None,
        without("held_out"),
        without("area"),
        without("collapse"),
        without("curve"),
        {**OUTCOME, "held_out": None},
        {**OUTCOME, "held_out": "x"},
        {**OUTCOME, "held_out": {"new": {}}},
        {**OUTCOME, "curve": None},
        {**OUTCOME, "collapse": "no"},
        {**OUTCOME, "held_out": {"all": {"greedy": PAIRED}}},
        {**OUTCOME, "held_out": {"all": {"sampled": {**PAIRED, "low": None}}}},
        {**OUTCOME, "held_out": {"all": {"sampled": {}}}},
        with_curve(lambda curve: [{key: value for key, value in curve[0].items() if key != "step"}]),
        with_curve(lambda curve: [{**curve[0], "hacking_gap": None}]),
        with_curve(lambda curve: [{**curve[0], "pass_at_1": "x"}]),
        with_curve(lambda curve: curve[::-1]),
        with_curve(lambda curve: [curve[0], curve[0]]),
    ],
)
def test_an_outcome_that_is_none(outcome: Any, damage: Callable[[str, str], None]) -> None:
    damage("outcome.json", json.dumps(outcome))
    with pytest.raises(
        DataError,
        match=r"^outcome\.json of the run \([0-9a-f]{32}\) cannot be read: .*Get the bundle or the store again",
    ):
        draw()


@pytest.mark.parametrize(
    "text", ["", "{", json.dumps(OUTCOME).replace("0.5", "NaN"), json.dumps(OUTCOME).replace("0.5", "Infinity")]
)
def test_an_outcome_that_is_no_json(text: str, damage: Callable[[str, str], None]) -> None:
    damage("outcome.json", text)
    with pytest.raises(DataError, match=r"^outcome\.json of the run .* cannot be read: "):
        draw()


@pytest.mark.parametrize(
    "report",
    [
        [],
        {"rm_at_k": {"most": 0.4}},
        {"rm_at_k": [0.4]},
        {"rm_at_k": {"1": None}},
        {"auc_pooled": "x"},
        {"ci95": {"auc_pooled": [0.9, 0.1]}},
        {"ci95": {"auc_pooled": [0.9]}},
        {"ci95": [1]},
    ],
)
def test_a_report_of_a_verifier_that_is_none(report: Any, damage: Callable[[str, str], None]) -> None:
    damage("verifier_report.json", json.dumps(report))
    with pytest.raises(DataError, match=r"^verifier_report\.json of the run .* cannot be read: "):
        draw_figures(["relation"])


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"seed": "x"}, "parameter seed is 'x'"),
        ({"steps": "60/../.."}, "parameter steps is"),
        ({"steps": None}, "has no parameter steps"),
        ({"reward": None}, "has no parameter reward"),
    ],
)
def test_parameters_that_are_none(params: dict[str, Any], said: str, store: Store) -> None:
    track(store, params=params)
    with pytest.raises(DataError, match=said):
        draw()


@pytest.mark.parametrize("tag", ["start_fingerprint", "fixed", "dataset"])
def test_a_tag_does_not_lead_out_of_the_folder(tag: str, store: Store, tmp_path: Path) -> None:
    track(store, **{tag: "x/../../../../elsewhere"})
    with pytest.raises(DataError, match="leads out of the folder to write: nothing is written"):
        draw()
    assert not [path for path in tmp_path.rglob("*elsewhere*") if "mlruns" not in path.parts]


@pytest.mark.usefixtures("small_pictures")
def test_names_are_text_and_not_markup(store: Store) -> None:
    track(store, name="a $\\frac{b|c\nd")
    track(store, **OTHER)
    paths = {path.name: path for path in draw()}
    assert "| hybrid, a $\\frac{b\\|c d | 0 |" in paths["rl_table.md"].read_text()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"SQLite is not here"])
def test_a_file_that_is_neither_store_nor_bundle_stays_as_it_is(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "runs.zip"
    file.write_bytes(content)
    with pytest.raises(StoreError, match="is neither a tracking store"):
        draw_figures(["rl_table"], str(file))
    assert file.read_bytes() == content
    with pytest.raises(StoreError, match=r"none\.zip: there is no such file"):
        draw_figures(["rl_table"], str(tmp_path / "none.zip"))


def test_a_configuration_is_read_fast_and_says_the_same() -> None:
    """libyaml reads what the slow reader reads: a ratio stays a text, 3.0e-5 a number, an empty value none."""
    config = OmegaConf.create(
        {"data": {"label_ratio": "4:1", "scale": 300}, "rate": 3.0e-5, "verifier": None, "more": ["a"]}
    )
    text = OmegaConf.to_yaml(config)
    assert quick_yaml(text) == yaml.safe_load(text) == OmegaConf.to_container(config)
    with pytest.raises(yaml.YAMLError):
        quick_yaml("a: [")
