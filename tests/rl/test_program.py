"""The program that trains a policy: what composes, what is hashed, what is refused in one line."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.fingerprint import Identity
from rmlab.microswe.build.joined import joined_tasks
from rmlab.microswe.loading import held_tasks
from rmlab.microswe.task import write_tasks
from rmlab.paths import CONF
from rmlab.rl.rewards import REWARDS
from rmlab.sweep.request import make_plan
from tests.rl.conftest import write_verifier
from tests.rl.easy_family import easy_task
from tests.rl.small_training import trained


@pytest.mark.parametrize("reward", sorted({*REWARDS, *(path.stem for path in (CONF / "reward").glob("*.yaml"))}))
def test_every_reward_composes(reward: str) -> None:
    load_program("rl")
    assert compose("rl", ["start=somewhere", f"reward={reward}"]).reward.unfinished == -0.5


@pytest.mark.parametrize(
    ("preset", "steps", "dtype"),
    [("smoke", 2, "float32"), ("demo", 10, "float32"), ("small", 60, "bfloat16"), ("paper", 400, "bfloat16")],
)
def test_every_preset_composes_over_the_defaults(preset: str, steps: int, dtype: str) -> None:
    load_program("rl")
    config = compose("rl", ["start=somewhere", f"rl_preset={preset}"])
    assert (config.rl.steps, config.training.dtype.value, config.engine.dtype) == (steps, dtype, dtype)
    assert compose("rl", ["start=somewhere", f"rl_preset={preset}", "rl.steps=7"]).rl.steps == 7


def test_wrong_input_is_one_line(easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for more, error, words in (
        (["reward=hybrid"], UsageError, "reward=hybrid needs a verifier: name one with verifier=RUN"),
        (["rl.attempts=1"], UsageError, r"rl\.attempts=1.*at least 2 attempts"),
        (["reward.ensemble=[x]"], UsageError, "`verifier`, which is empty"),
        (["verifier=/nowhere"], DataError, "/nowhere: there is no such file or folder"),
        (["verifier=nowhere"], DataError, "no run has been tracked yet"),
        ([f"verifier={easy / 'policy'}"], DataError, "has no verifier.json"),
        (
            [f"start={easy / 'run' / 'model'}"],
            DataError,
            r"is a verifier, and a verifier plays no attempts\. Name a policy",
        ),
        (["rl.temperature=0"], UsageError, "temperature=0"),
        (["algorithm.name=gpo"], UsageError, "algorithm.name=gpo"),
    ):
        with pytest.raises(error, match=words) as caught:
            trained(easy, tmp_path, monkeypatch, *more)
        assert isinstance(caught.value, RmlabError)
        assert "\n" not in str(caught.value)


def test_a_policy_to_start_from_has_to_be_named() -> None:
    with pytest.raises(UsageError, match="start has no value: give one"):
        load_program("rl").main([])


def test_what_is_hashed_and_what_is_not(easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    program = load_program("rl")

    def config_hash(*more: str) -> str:
        own = [f"start={easy / 'policy'}", f"tasks={easy / 'tasks.parquet'}", *more]
        found: str = program.identity(compose("rl", own)).config_hash
        return found

    base = config_hash()
    assert {
        config_hash("rl.max_minutes=9", "workers=7", "engine.slots=8", "runtime.progress=false", "keep_model=false")
    } == {base}
    changed = [
        config_hash(more)
        for more in (
            "seed=1",
            "rl.steps=9",
            "algorithm.clip_low=0.1",
            "reward=weak_tests",
            "engine.dtype=bfloat16",
            "environment=voluntary",
            "watch.attempts=2",
            f"verifier={easy / 'run'}",
            "reward.factor=2",
            "reward.transform.between=0",
        )
    ]
    assert len({base, *changed}) == 1 + len(changed)
    reward = program.identity(compose("rl", [f"start={easy / 'policy'}", f"tasks={easy / 'tasks.parquet'}"])).parts[
        "config"
    ]["reward"]
    assert not {"offset", "factor"} & reward.keys(), "runs from before these were there keep their hash"
    assert reward["transform"] == {"slope": 1.0, "shift": 0.0, "difficulty": 0.0, "spread": 1.0}


def test_further_tasks_are_trained_on_and_hashed_by_what_they_are(
    easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    program, tasks = load_program("rl"), easy / "tasks.parquet"
    right = "def far(x):\n    low = 3 - x\n    return abs(low) * 2"
    far = replace(
        easy_task("rl", "far", 2), original=right, code=right.replace("abs(low)", "low"), lines=(3,), outputs=("2", "4")
    )
    for name in ("far", "copy"):
        write_tasks(tmp_path / f"{name}.parquet", [far], {})
    twin = easy_task("rl", "twin", 2)  # another name for a function of the evaluation part
    write_tasks(tmp_path / "twin.parquet", [twin], {})

    def identity(*more: str) -> Identity:
        found: Identity = program.identity(compose("rl", [f"start={easy / 'policy'}", f"tasks={tasks}", *more]))
        return found

    alone = identity()
    assert "more_tasks" not in alone.parts["config"], "a run without further tasks keeps the hash that it had"
    assert alone.parts["pool"] == held_tasks(tasks, 2).fingerprint
    joined, copied = (identity(f"more_tasks=[{tmp_path / name}.parquet]") for name in ("far", "copy"))
    assert joined == copied != alone
    assert joined.parts["config"] == alone.parts["config"]
    assert {t.task_id for t in joined_tasks(tasks, [str(tmp_path / "far.parquet")], 2).part("rl")} >= {far.task_id}
    for wrong, words in (
        (tmp_path / "twin.parquet", "in one cluster with a function of another part"),
        (tasks, "tasks of the part"),
    ):
        with pytest.raises(DataError, match=words):
            identity(f"more_tasks=[{wrong}]")


def test_the_shipped_sweeps_are_controlled(easy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells of a sweep share everything but reward, evidence or verifier; a verifier counts by its content, not by its place."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path))
    verifier, other, copied = easy / "run" / "model", tmp_path / "other", tmp_path / "copied"
    shutil.copytree(verifier, copied)
    write_verifier(other, seed=1)
    given = [f"start={easy / 'policy'}", f"tasks={easy / 'tasks.parquet'}", "more_tasks=[]"]
    plan = make_plan
    modes = plan("reward_modes", ["preset=small", *given, f"verifier={verifier}", "seeds=[0]"], "").cells
    assert len({cell.identity.config_hash for cell in modes}) == len(modes) == 8
    assert len({cell.identity.control_hash for cell in modes}) == 1
    assert {(cell.config.reward.mode, cell.config.reward.weight) for cell in modes} == {
        ("execution", 1.0),
        ("execution_free", 1.0),
        ("hybrid", 1.0),
        ("hybrid", 0.5),
    }
    levels = [f"levels=[{verifier},{other},{copied}]", f"baseline={verifier}"]
    cells = plan("verifier_to_rl", ["preset=smoke", *given, *levels], "").cells
    assert len(cells) == 6
    assert len({cell.identity.config_hash for cell in cells}) == 4, "a copied verifier is the same verifier"
    assert len({cell.identity.control_hash for cell in cells}) == 1
