"""The plan beside what was measured: within 20 % in memory and time of every case of plan_check.py, and in memory of RL."""

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
from rmlab.planning.estimate import Estimate, estimate
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


STEP_GIB = 14.1, 16.1
"""Of experiments/benchmarks/rl_step.py at 76f65330 on an H200: at most in tensors, and held."""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A folder with the configuration of which_metric_foretells_rl's policies and verifiers: SmolLM2's shape, 8,000 tokens."""
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
    return tmp_path


def planned_rl(*overrides: str) -> Estimate:
    work = work_of("rl", OmegaConf.to_object(compose("rl", list(overrides))), Assumed(None))
    return estimate(work, CARDS["h200"])


def test_rl_is_planned_within_a_fifth_of_what_torch_held(policy: Path) -> None:
    """In 14 runs of which_metric_foretells_rl on an H200, one of them without a verifier."""
    common = yaml.safe_load((STUDY / "common.yaml").read_text())["rl"]
    paid = planned_rl(*common, "reward=execution_free", f"start={policy}", f"verifier={policy}")
    alone = planned_rl(*common, "reward=execution", f"start={policy}")
    with bundled_runs([STUDY / "bundles" / name for name in ("causal_a_s2.zip", "rerun_a.zip")]) as found:
        held = {run.name: run.metrics["rl/gpu_gib"] for run in found if run.tags["kind"] == "rl"}
    assert len(held) == 14
    for name, gib in held.items():
        assert (alone if name.startswith("execution_a") else paid).held / GIB == pytest.approx(gib, rel=0.2)


def test_a_step_of_rl_without_evaluations_is_planned_within_a_fifth(policy: Path) -> None:
    asked = ["rl_preset=small", "rl.groups=40", "rl.batch_tokens=8192", "engine.slots=256", "reward=execution"]
    found, (tensors, held) = planned_rl(*asked, f"start={policy}"), STEP_GIB
    assert found.memory.total / GIB == pytest.approx(tensors, rel=0.2)
    assert found.held / GIB == pytest.approx(held, rel=0.2)


def test_only_updates_that_are_graphs_hold_more_than_tensors(policy: Path) -> None:
    small, large = (planned_rl("rl_preset=small", f"start={start}") for start in (policy, "Qwen3-4B"))
    assert small.held > small.memory.total
    assert large.held == large.memory.total
