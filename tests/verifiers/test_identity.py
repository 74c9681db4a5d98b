"""Both hashes of a verifier's run: the same wherever and whenever, others where anything changed that can change a result."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from omegaconf import DictConfig, OmegaConf

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, RmlabError, UsageError
from rmlab.models.config import ModelConfig, TokenizerConfig
from rmlab.models.load import scratch_model, tasks_of_base
from rmlab.paths import REPOSITORY, STARTER
from rmlab.sweep.factors import FACTORS
from rmlab.tracking.query import get_run
from rmlab.tracking.store import Store
from rmlab.trajectories.store import TrajectorySet, write_trajectories
from rmlab.verifiers.answer import verifier_tokenizer
from rmlab.verifiers.dataset import check_pretraining
from tests.verifiers.examples import episode, episodes

PARTS = [
    *episodes(30, "supervised", 0, 1),
    *episodes(80, "verifier", 1000),
    *episodes(6, "validation", 2000, 4),
    *episodes(6, "evaluation", 3000, 4),
]
TASKS = {"tasks_fingerprint": "a" * 16}


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    write_trajectories(tmp_path / "pool.parquet", PARTS, TASKS)
    return tmp_path / "pool.parquet"


@pytest.fixture(scope="module")
def tokenizer():
    return verifier_tokenizer(episodes(40, "supervised"), TokenizerConfig(512))


@pytest.fixture
def base(tmp_path: Path, tokenizer) -> Path:
    """A pretrained base as `rmlab pretrain` leaves it."""
    folder = tmp_path / "base"
    shape = ModelConfig(
        hidden_size=32, layers=1, heads=2, kv_heads=2, head_dim=16, intermediate_size=48, max_positions=600
    )
    scratch_model(shape, tokenizer.size, 0).save_pretrained(str(folder))
    tokenizer.save(folder)
    (folder / "base.json").write_text(json.dumps(TASKS))
    (folder / "log.json").write_text("[]")
    return folder


def hashes(pool: Path, *more: str, factors: str = "[]") -> tuple[str, str]:
    found = load_program("train_verifier").identity(
        compose("train_verifier", ["preset=smoke", f"data.path={pool}", f"tracking.factors={factors}", *more])
    )
    return found.config_hash, found.control_hash


def pretrained(base: Path) -> list[str]:
    return ["model=path", f"model.pretrained={base}", "prompt.max_tokens=600"]


@pytest.mark.slow
def test_the_same_cold_warm_in_another_process_and_from_another_folder(pool: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    overrides = ["preset=smoke", f"data.path={pool}", "data.scale=96", "runtime.progress=false"]
    program = load_program("train_verifier")
    cold = program.identity(compose("train_verifier", overrides))
    code = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n"
        "from rmlab.configuration import compose, load_program\n"
        f"found = load_program('train_verifier').identity(compose('train_verifier', {overrides!r}))\n"
        "print(found.config_hash, found.control_hash)"
    )
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "pool.parquet").write_bytes(pool.read_bytes())
    for text in (code, code.replace(str(pool), str(other / "pool.parquet"))):
        said = subprocess.run(
            [sys.executable, "-c", text],
            cwd=other,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "RMLAB_RUNS": str(tmp_path / "none"), "PYTHONHASHSEED": "5"},
        ).stdout.split()
        assert said == [cold.config_hash, cold.control_hash]
    program.prepare([compose("train_verifier", overrides)])
    assert list((tmp_path / "runs" / "cache" / "tokenizers").iterdir())
    assert program.identity(compose("train_verifier", overrides)) == cold, "warm"


def test_other_data_is_another_run_of_another_sweep(pool: Path, tmp_path: Path) -> None:
    before = hashes(pool)
    for i, changed in enumerate(
        [
            [replace(PARTS[-1], resolved=not PARTS[-1].resolved), *PARTS[:-1]],  # a label
            [*PARTS, episode(9000, True)],  # an attempt
            [replace(PARTS[0], cluster="elsewhere"), *PARTS[1:]],
        ]
    ):
        path = tmp_path / f"{i}.parquet"
        write_trajectories(path, changed, TASKS)
        assert all(a != b for a, b in zip(hashes(path), before, strict=True))


@pytest.mark.parametrize("stage", ["render", "train", "score"])
def test_a_new_version_of_a_stage_changes_both(pool: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from rmlab.verifiers.config import SEMANTICS

    before = hashes(pool)
    monkeypatch.setitem(SEMANTICS, stage, SEMANTICS[stage] + 1)
    assert all(a != b for a, b in zip(hashes(pool), before, strict=True))


def test_a_pretrained_models_files_change_both_and_architecture_owns_them(
    pool: Path, base: Path, tmp_path: Path
) -> None:
    before, owned = hashes(pool, *pretrained(base)), hashes(pool, *pretrained(base), factors="[architecture]")
    moved = base.rename(tmp_path / "moved")
    assert hashes(pool, *pretrained(moved)) == before
    content = json.loads((moved / "tokenizer.json").read_text())
    content["model"]["merges"].pop()
    (moved / "tokenizer.json").write_text(json.dumps(content))
    after = hashes(pool, *pretrained(moved))
    assert all(a != b for a, b in zip(after, before, strict=True))
    assert hashes(pool, *pretrained(moved), factors="[architecture]")[1] == owned[1]
    assert hashes(pool, factors="[architecture]")[1] == hashes(pool, "model=tiny_moe", factors="[architecture]")[1]


def test_labels_by_fewer_tests_are_another_pool_that_label_noise_owns(pool: Path, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.parquet"
    tasks.write_bytes(b"one")
    weak = ["data.hidden_tests=1", f"data.tasks={tasks}"]
    full, few = hashes(pool, factors="[label_noise]"), hashes(pool, *weak, factors="[label_noise]")
    assert few[0] != full[0]
    assert few[1] == full[1]
    assert hashes(pool, *weak)[1] != hashes(pool)[1], "nobody declared it"
    tasks.write_bytes(b"other")
    assert hashes(pool, *weak, factors="[label_noise]")[0] != few[0]
    tasks.unlink()
    with pytest.raises(DataError, match=r"data\.tasks=.*there is no such file"):
        hashes(pool, *weak)


@pytest.fixture(scope="module")
def programs() -> list[DictConfig]:
    return [compose(program) for program in ("train_verifier", "rl")]


@pytest.mark.parametrize("name", sorted(FACTORS))
def test_every_factor_owns_keys_that_are_there_and_its_overrides_touch_no_other(
    name: str, programs: list[DictConfig]
) -> None:
    factor = FACTORS[name]
    assert any(
        all(OmegaConf.select(config, key, default="absent") != "absent" for key in factor.owns) for config in programs
    )
    for text in factor.sets:
        assert factor.owns_key(text.partition("=")[0])


def test_the_shipped_base_was_kept_clear_of_both_shipped_sets() -> None:
    """The attempts of language models name fewer tasks: those that held under the Python of the machine where they were collected."""
    clear = f"kept clear of the pool's tasks ({tasks_of_base(STARTER / 'base')})"
    for name in ("trajectories", "language_attempts"):
        path = STARTER / f"{name}.parquet"
        text = {one.decode(): value.decode() for one, value in pq.read_schema(path).metadata.items()}
        ids = pq.read_table(path, columns=["task_id"]).column(0).unique().to_pylist()
        pool = TrajectorySet(tuple(replace(episode(0, True), task_id=task) for task in ids), text)
        assert check_pretraining(STARTER / "base", pool) == clear
    elsewhere = TrajectorySet(
        (replace(episode(0, True), task_id="algorithms/none/0"),), {"tasks_fingerprint": "a" * 16}
    )
    with pytest.raises(DataError, match="the pool was collected on the tasks aaaa"):
        check_pretraining(STARTER / "base", elsewhere)


@pytest.mark.slow
def test_a_base_is_trained_from_where_it_belongs_to_the_pool(
    pool: Path, base: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    overrides = [
        "preset=smoke",
        f"data.path={pool}",
        "data.scale=64",
        "runtime.progress=false",
        "evaluation.replicates=20",
    ]
    program = load_program("train_verifier")

    def prepared(*more: str) -> None:
        program.prepare([compose("train_verifier", [*overrides, *pretrained(base), *more])])

    run = get_run(Store.open(), program.main([*overrides, *pretrained(base)]))
    assert run.tags["pretraining"] == f"kept clear of the pool's tasks ({'a' * 16})"
    assert (run.params["hidden_size"], run.params["layers"]) == ("32", "1"), (
        "of the real model, not of the configuration"
    )
    with pytest.raises(RmlabError, match=r"prompt\.max_tokens=601 is longer than the 600 positions of .*base"):
        program.main([*overrides, *pretrained(base), "prompt.max_tokens=601"])
    (base / "base.json").write_text(json.dumps({"tasks_fingerprint": "b" * 16}))
    with pytest.raises(
        DataError, match=r"was kept clear of the tasks bbbb.*, but the pool was collected on the tasks aaaa"
    ):
        prepared()
    (base / "base.json").write_text("{}")
    with pytest.raises(DataError, match=r"base\.json does not say which tasks"):
        prepared()
    (base / "base.json").unlink()
    with pytest.raises(DataError, match=r"without its base\.json"):
        prepared()
    (base / "log.json").unlink()
    prepared()  # a model from elsewhere: nothing is known, and the run says so
    with pytest.raises(DataError, match=r"model\.pretrained=.*nowhere: there is no such folder, and no run or cell"):
        hashes(pool, *pretrained(tmp_path / "nowhere"))


def test_training_prompts_that_the_context_would_cut_are_refused(pool: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    program = load_program("train_verifier")
    config = compose(
        "train_verifier",
        ["preset=smoke", f"data.path={pool}", "data.scale=64", "data.fits=400", "prompt.max_tokens=300"],
    )
    with pytest.raises(UsageError, match=r"data\.fits=400 is longer than the context, prompt\.max_tokens=300"):
        program.prepare([config])
