"""What a plan assumes: lengths that no file states, attempts of reinforcement learning, how many GPUs a program uses."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rmlab.commands.plan import app, plan
from rmlab.configuration import compose, load_program
from rmlab.errors import UsageError
from rmlab.models.packed import pack_branches
from rmlab.planning.advice import work_of
from rmlab.planning.assumed import Assumed
from rmlab.planning.memory import FLOAT, GIB
from rmlab.planning.phases import Work
from rmlab.planning.policy_work import branched
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories

SMALL = ["rl_preset=small", "start=SmolLM2-135M"]
LONG = ["model=hf", "model.pretrained=Qwen3-0.6B", "data.scale=500", "prompt.max_tokens=32768"]


def planned(capsys: pytest.CaptureFixture[str], program: str, *overrides: str, **options: Any) -> dict[str, Any]:
    plan(program, list(overrides), as_json=True, card="h200", **options)
    return dict(json.loads(capsys.readouterr().out))


def work(program: str, *overrides: str, mean_tokens: int | None = None) -> tuple[Work, Assumed]:
    assumed = Assumed(mean_tokens)
    return work_of(program, OmegaConf.to_object(compose(program, list(overrides))), assumed), assumed


def tokens(found: Work) -> dict[str, int]:
    return {phase.name: phase.read.tokens for phase in found.phases if not isinstance(phase.read, int)}


def test_the_preset_paper_is_planned_as_its_file_says(capsys: pytest.CaptureFixture[str]) -> None:
    """61 GB of weights, gradients and moments on each of 8 GPUs of 141 GB, 103 GB of an attempt in the machine's memory."""
    found = planned(capsys, "train", "preset=paper")
    assert "no data.path: attempts of 25,000 tokens on average, the longest 262,143" in found["assumed"][0]
    assert (found["gpus"], found["fits"], found["fits_with"]) == (8, True, [])
    memory = found["memory"]
    assert memory["weights"] + memory["gradients"] + memory["moments"] == pytest.approx(61e9, rel=0.01)
    assert found["offloaded"] == pytest.approx(8 * 103e9, rel=0.01)
    assert 61e9 < memory["total"] < 139 * GIB
    assert found["phases"][0]["tokens"] == pytest.approx(2 * 100_000 * 25_000, rel=0.02)
    assert 24 < found["seconds"] / 3600 < 72
    plan("train", ["preset=paper"], card="h200")
    assert "96.0 GiB of each GPU's largest micro-batch in its memory (runtime.offload)" in capsys.readouterr().out


def test_the_preset_paper_trains_on_data_that_are_given() -> None:
    with pytest.raises(UsageError, match=r"data.path must be given: `rmlab import` imports"):
        load_program("train_verifier").main(["preset=paper"])


@pytest.mark.parametrize("preset", ["smoke", "demo"])
def test_shipped_attempts_are_not_taken_for_long_ones(preset: str) -> None:
    found, assumed = work("train_verifier", f"preset={preset}", *LONG)
    assert (
        "the attempts of the shipped set in data.path are far shorter than prompt.max_tokens=32768" in assumed.notes[0]
    )
    assert "attempts of 25,000 tokens on average, the longest 32,767" in assumed.notes[0]
    assert tokens(found)["training"] > 500 * 20_000


def test_lengths_of_a_file_are_said() -> None:
    _, assumed = work("train_verifier", "preset=smoke")
    assert "trajectories.parquet: 377 tokens on average, the longest 894" in assumed.notes[0]


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Attempts of 855 estimated tokens."""
    path = tmp_path / "set.parquet"
    parts = ("supervised", "verifier", "validation", "evaluation")
    message = (Message("user", "x" * 2667),)
    rows = [
        Trajectory(f"t-{part}", f"c{part}", "s", "p", i, message, "", "submitted", i % 2 == 0, split=part)
        for part in parts
        for i in range(4)
    ]
    write_trajectories(path, rows)
    return path


def test_mean_tokens_win_over_a_file(pool: Path) -> None:
    file = f"data.path={pool}"
    assert tokens(work("train_verifier", file, *LONG)[0])["training"] == pytest.approx(1000 * 855, rel=0.01)
    found, assumed = work("train_verifier", file, *LONG, mean_tokens=5000)
    assert tokens(found)["training"] == pytest.approx(1000 * 5000, rel=0.05)
    assert assumed.notes[0].startswith("--mean-tokens 5000: attempts of 5,000 tokens on average")
    shown = [f"demonstrations.paths=[{pool}]", "demonstrations.capacity=20000"]
    few, many = (tokens(work("train_policy", *shown, mean_tokens=mean)[0])["imitation"] for mean in (None, 10 * 855))
    assert 5 < many / few < 15


@pytest.mark.parametrize(
    ("program", "overrides"),
    [
        ("rl", SMALL),
        ("collect", ["policy=[language]", "language.language.model=SmolLM2-135M"]),
        ("train_policy", ["demonstrations.paths=[nowhere.parquet]"]),
    ],
)
def test_mean_tokens_are_those_of_attempts_that_a_model_makes(program: str, overrides: list[str]) -> None:
    _, plain = work(program, *overrides)
    _, asked = work(program, *overrides, mean_tokens=600)
    assert any("attempts of 300 tokens, 40 of them said" in note for note in plain.notes)
    assert any("attempts of 600 tokens, 80 of them said" in note for note in asked.notes)


def test_the_example_of_the_help_names_no_shipped_data(capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(str(app.registered_commands[0].epilog).partition("`rmlab ")[2].rstrip("`"))
    assert words[:2] == ["plan", "train"]
    found = planned(capsys, "train", *words[2 : words.index("--card")])
    assert len(found["assumed"]) == 1
    assert "no data.path: attempts of 25,000 tokens on average, the longest 32,767" in found["assumed"][0]


def test_what_attempts_share_is_read_once() -> None:
    """As rows of branches hold it: three attempts of 4 tokens behind each of two issues of 6."""
    own = [[1] * 4] * 3
    ids_1T, row, _ = pack_branches([([1] * 6, own), ([2] * 6, own)], 0, width=1)
    seen = int((row.position_1T + 1).sum())
    read = branched(6, 6, 4, 3, 2)
    assert (read.tokens, read.pairs, read.answers) == (ids_1T.shape[1], seen, 12)
    assert branched(6, 0, 4, 3, 2).tokens == 24


def test_an_update_reads_what_the_code_reads() -> None:
    """Before the first change of the weights nothing is read beside what is trained on; of the start, where it is evaluated."""
    one = tokens(work("rl", *SMALL, "rl.steps=10", "watch.every=5")[0])
    issues, rest = 64 * 180, 64 * 12 * 120
    assert one["updates"] == 10 * (issues + rest)
    assert "log-probabilities before" not in one
    assert one["log-probabilities of the start"] == 2 * (issues + rest)
    two = tokens(work("rl", *SMALL, "rl.steps=10", "watch.every=5", "rl.updates=2", "algorithm.kl_weight=0.1")[0])
    assert two["updates"] == 10 * (2 * issues + rest)
    assert two["log-probabilities before"] == two["updates"] / 2
    assert two["log-probabilities of the start"] == two["updates"]
    plain = tokens(work("rl", *SMALL, "training.dtype=float32", "rl.steps=10")[0])
    assert plain["updates"] == 10 * 64 * 12 * 300


def test_a_copy_of_the_start_lies_beside_the_policy_but_for_adapters(capsys: pytest.CaptureFixture[str]) -> None:
    """Float32 weights of the start, and bfloat16 ones that the engine plays with."""
    whole, adapted = (planned(capsys, "rl", *SMALL, f"lora.rank={rank}")["memory"] for rank in (0, 16))
    apart = whole["beside"] - adapted["beside"]
    assert apart == pytest.approx(FLOAT * 134_515_008)


@pytest.mark.parametrize(
    ("program", "overrides"), [("rl", SMALL), ("warm-start", []), ("pretrain", []), ("collect", [])]
)
def test_several_gpus_are_refused_where_one_is_used(program: str, overrides: list[str]) -> None:
    with pytest.raises(UsageError, match=r"--gpus 2: this program uses one GPU"):
        plan(program, overrides, gpus=2)


def test_more_gpus_are_no_advice_where_one_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    large = ["model=hf", "model.pretrained=Qwen3-32B"]
    for program, start in (
        ("warm-start", large),
        ("cross-validate", ["data=real", *large]),
        ("rl", ["start=Qwen3-32B"]),
    ):
        found = planned(capsys, program, *start)
        assert not found["fits"]
        assert not [word for way in found["fits_with"] for word in way["settings"] if "gpu" in word]
    plan("rl", ["start=Qwen3-32B", "lora.rank=16", "rl.batch_tokens=2048"], card="l4")
    said = capsys.readouterr().out
    assert "32 GPUs" not in said
    assert "use a smaller model" in said
