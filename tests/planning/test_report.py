"""What `rmlab plan` prints: which memory a number is of, what lies beside the largest phase, and a command that runs and fits."""

import json
import shlex
from typing import Any

import pytest

from rmlab.commands.plan import plan
from rmlab.errors import UsageError

SMALL = ["rl_preset=small", "start=SmolLM2-135M"]
LESS = ["rl.batch_tokens=2048", "engine.slots=64"]


def said(capsys: pytest.CaptureFixture[str], program: str, *overrides: str, card: str = "l4") -> list[str]:
    plan(program, list(overrides), card=card)
    return capsys.readouterr().out.splitlines()


def values(capsys: pytest.CaptureFixture[str], program: str, *overrides: str, card: str = "l4") -> dict[str, Any]:
    plan(program, list(overrides), card=card, as_json=True)
    return dict(json.loads(capsys.readouterr().out))


def of_key(lines: list[str], key: str) -> list[str]:
    """The texts below one key."""
    first = next(i for i, line in enumerate(lines) if line.startswith(f"{key} "))
    rest = [line[12:] for line in lines[first + 1 :]]
    more = next((i for i, line in enumerate(lines[first + 1 :]) if not line.startswith(" ")), len(rest))
    return [lines[first][12:], *rest[:more]]


def test_every_line_has_a_key_or_stands_below_one(capsys: pytest.CaptureFixture[str]) -> None:
    keys = {"", "model", "assumed", "work", "memory", "tensors", "fits", "time", "command"}
    for overrides in (SMALL, [*SMALL, *LESS]):
        assert {line[:12].strip() for line in said(capsys, "rl", *overrides)} == keys


def test_memory_says_whether_it_is_what_torch_holds_or_what_lies_in_tensors(capsys: pytest.CaptureFixture[str]) -> None:
    found = values(capsys, "rl", *SMALL)
    assert found["held"] == found["memory"]["total"]
    lines = said(capsys, "rl", *SMALL)
    gib = f"{found['held'] / 2**30:.1f} GiB"
    assert of_key(lines, "memory") == [f"torch is taken to hold {gib} at the peak, all of it in tensors"]
    assert sum(gib in line for line in lines) == 1, "said once where both are the same"
    less = values(capsys, "rl", *SMALL, *LESS)
    held, tensors = less["held"] / 2**30, less["memory"]["total"] / 2**30
    assert held > tensors
    [memory] = of_key(said(capsys, "rl", *SMALL, *LESS), "memory")
    assert memory.startswith(f"torch is taken to hold {held:.1f} GiB at the peak: {tensors:.1f} GiB in tensors, ")
    assert f"either with {' '.join(LESS)}: torch is taken to hold {held:.1f} GiB, " in "\n".join(lines)


def test_what_lies_beside_the_updates_is_named_by_its_owner(capsys: pytest.CaptureFixture[str]) -> None:
    several = [*SMALL, "verifier=SmolLM2-135M", "reward.ensemble=[SmolLM2-135M]"]
    found = values(capsys, "rl", *several)
    assert set(found["beside"]) == {"rollouts", "start", "verifier"}
    assert set(found["beside"]["rollouts"]) == {"cache", "weights"}
    assert sum(sum(parts.values()) for parts in found["beside"].values()) == found["memory"]["beside"]
    assert found["beside"]["verifier"]["weights"] == 2 * found["beside"]["start"]["weights"], "each has its own"
    fewer = values(capsys, "rl", *several, "engine.slots=64")
    assert fewer["beside"]["rollouts"]["cache"] == found["beside"]["rollouts"]["cache"] / 8
    updates, beside = of_key(said(capsys, "rl", *several), "tensors")
    assert updates.startswith("updates: weights 0.5 GiB, gradients 0.5 GiB")
    assert beside.startswith("beside them: rollouts (cache of engine.slots=512 8.4 GiB, weights 0.3 GiB), start (")
    assert beside.endswith("verifier (weights 1.0 GiB)")


def test_the_verdict_says_what_the_card_has_and_what_is_kept_free(capsys: pytest.CaptureFixture[str]) -> None:
    for card, word, has, room in (("l4", "no: L4 24 GB", 22.0, 20.5), ("h200", "yes: H200 SXM 141 GB", 139.8, 138.3)):
        verdict, *ways = of_key(said(capsys, "rl", *SMALL, card=card), "fits")
        assert verdict.startswith(f"{word} has {has} GiB, of which 1.5 GiB are kept free")
        assert verdict.endswith(f"so torch may hold {room} GiB")
        assert [way.split()[:2] for way in ways] == ([["either", "with"], ["or", "with"]] if card == "l4" else [])


def test_the_command_is_one_that_fits_once_a_start_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    command, start = of_key(said(capsys, "rl", *SMALL), "command")
    assert shlex.split(command) == ["rmlab", "rl", "rl_preset=small", "start=POLICY", *LESS]
    assert start.startswith("start=POLICY: a run, a cell or a folder (`rmlab warm-start` makes one)")
    assert values(capsys, "rl", *SMALL)["command"] == command
    again = values(capsys, "rl", *SMALL, "engine.slots=300")["command"]
    assert shlex.split(again)[4:] == ["engine.slots=64", "rl.batch_tokens=2048"], "a setting stands once"
    asked = ["model=hf", "model.pretrained=Qwen3-0.6B", "data=real"]
    assert "model.pretrained=FOLDER" in values(capsys, "train", *asked)["command"]
    for fine in ("hf:Qwen/Qwen3-0.6B", "models/Qwen3-0.6B"):
        assert fine in values(capsys, "train", asked[0], f"model.pretrained={fine}", asked[2])["command"]


def test_a_reward_that_needs_a_verifier_is_planned_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "verifier" not in values(capsys, "rl", *SMALL)["beside"]
    found = values(capsys, "rl", *SMALL, "reward=execution_free")
    named = values(capsys, "rl", *SMALL, "reward=execution_free", "verifier=SmolLM2-135M")
    assert found["beside"] == named["beside"]
    assert found["seconds"] == named["seconds"]
    assert [note for note in found["assumed"] if note not in named["assumed"]] == [
        "reward=execution_free needs a verifier and none is named: one of the start's shape is assumed; name it with verifier=RUN, CELL "
        "or FOLDER"
    ]
    assert "verifier=VERIFIER" in shlex.split(found["command"])
    with pytest.raises(UsageError, match="there is no such reward"):
        plan("rl", [*SMALL, "reward.mode=nothing"])


@pytest.mark.parametrize(
    ("program", "override", "words"),
    [
        ("rl", "rl.groups=0", "must be at least 1, and at least 2 attempts"),
        ("rl", "rl.batch_tokens=0", "rl.batch_tokens=0: must be at least 1"),
        ("rl", "engine.slots=0", "engine.slots=0: must be at least 1"),
        ("cross-validate", "folds.number=0", "folds.number=0: must be at least 2"),
        ("pretrain", "training.context=0", "training.context=0: must be at least 1"),
    ],
)
def test_what_the_program_refuses_is_not_planned(program: str, override: str, words: str) -> None:
    needed = ["start=SmolLM2-135M"] if program == "rl" else []
    with pytest.raises(UsageError, match=words):
        plan(program, [*needed, override])


def test_rl_without_steps_is_its_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    plan("rl", ["start=SmolLM2-135M", "rl.steps=0"], as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [phase["name"] for phase in found["phases"] if phase["tokens"]] == ["evaluations"]
    assert found["held"] == found["memory"]["total"]


@pytest.mark.parametrize(
    ("overrides", "gpus", "command"),
    [
        (["++start=SmolLM2-135M"], None, "rmlab rl start=POLICY"),
        (
            ["start=rmlab/starter/base", "reward=ensemble_mean", "reward.ensemble=[rmlab/starter/base,Qwen3-0.6B]"],
            None,
            "reward.ensemble=[rmlab/starter/base,VERIFIER]",
        ),
    ],
)
def test_the_command_names_what_a_run_could_not_take(
    overrides: list[str], gpus: int | None, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan("rl", overrides, as_json=True, gpus=gpus)
    assert command in json.loads(capsys.readouterr().out)["command"]


def test_the_command_runs_on_the_gpus_that_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    plan("train", ["data.path=attempts.parquet"], as_json=True, gpus=3)
    assert json.loads(capsys.readouterr().out)["command"].endswith("runtime=multi_gpu runtime.processes=3")
