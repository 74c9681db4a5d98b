"""The plan beside what was measured: within 20 % in memory and time, of every case of experiments/benchmarks/plan_check.py."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from analysis.foretelling.plan import STUDY
from rmlab.configuration import compose, load_file
from rmlab.paths import BENCHMARKS
from rmlab.planning.advice import work_of
from rmlab.planning.assumed import Assumed
from rmlab.planning.cards import CARDS
from rmlab.planning.estimate import estimate
from rmlab.planning.memory import GIB
from rmlab.tracking.bundles.several import bundled_runs

with (BENCHMARKS / "plan_check.csv").open(encoding="utf-8") as _file:
    MEASURED = list(csv.DictReader(_file))


@pytest.fixture(scope="module")
def plan_check() -> Any:
    return load_file(BENCHMARKS / "plan_check.py")


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row["case"])
def test_the_plan_is_within_a_fifth_of_what_was_measured(row: dict[str, str], plan_check: Any) -> None:
    memory, times = plan_check.planned(plan_check.CASES[row["case"]], True, CARDS[row["card"]])
    assert memory.total / GIB == pytest.approx(float(row["memory_gib"]), rel=0.2)
    assert times.total == pytest.approx(float(row["seconds"]), rel=0.2)


def test_rl_is_planned_within_a_fifth_of_what_torch_held(tmp_path: Path) -> None:
    """The runs of RL of which_metric_foretells_rl whose bundle says what they held, on an H200: SmolLM2's shape with 8,000 tokens."""
    shape = {
        "model_type": "llama",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 8000,
        "tie_word_embeddings": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(shape))
    common = yaml.safe_load((STUDY / "common.yaml").read_text())["rl"]
    config = compose("rl", [*common, "reward=execution_free", f"start={tmp_path}", f"verifier={tmp_path}"])
    work = work_of("rl", OmegaConf.to_object(config), Assumed(None))
    planned = estimate(work, CARDS["h200"])
    with bundled_runs([STUDY / "bundles" / "causal_a_s2.zip"]) as found:
        held = [run.metrics["rl/gpu_gib"] for run in found if run.tags["kind"] == "rl"]
    assert len(held) == 12
    for gib in held:
        assert planned.held / GIB == pytest.approx(gib, rel=0.2)
