import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rmlab.errors import DataError, UsageError
from rmlab.paths import REPOSITORY
from rmlab.selection.pool import read_index
from rmlab.sweep.cells import identify, tokenizer_identity
from rmlab.sweep.factors import Factor, find_factors
from rmlab.training.config import Match, TrainingConfig, canonical
from rmlab.trajectories.record import SPLITS
from rmlab.trajectories.store import read_trajectories, write_trajectories
from tests.verifiers.examples import episodes

CONFIG = {
    "seed": 1,
    "data": {"path": "/here/pool.parquet", "scale": 500, "label_ratio": "1:1"},
    "training": {"epochs": 2.0, "match": "epochs", "reference_scale": 2000, "threads": 1, "dtype": "float32"},
    "tracking": {"uri": None, "name": "a"},
    "runtime": {"device": "cpu"},
}


def hashes(changes=None, factors=("data_scale",), **inputs):
    config = OmegaConf.merge(OmegaConf.create(CONFIG), OmegaConf.create(changes or {}))
    inputs = {"pool": "p", "tokenizer": "t", "semantics": {"render": 1, "train": 1}, **inputs}
    found = identify(config, factors=find_factors(factors), **inputs)
    return found.config_hash, found.control_hash


@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"path": "/there/pool.parquet"}},
        {"tracking": {"name": "b", "uri": "http://x"}},
        {"runtime": {"device": "cuda"}},
        {"training": {"reference_scale": 4000}},
    ],
)
def test_what_changes_no_result_changes_no_config_hash(changes) -> None:
    assert hashes(changes)[0] == hashes()[0]


@pytest.mark.parametrize(
    ("changes", "inputs"),
    [
        ({"data": {"label_ratio": "2:1"}}, {}),
        ({"training": {"threads": 2}}, {}),
        ({"training": {"dtype": "bfloat16"}}, {}),
        ({"training": {"match": "steps"}}, {}),
        ({}, {"pool": "other"}),
        ({}, {"tokenizer": "other"}),
        ({}, {"semantics": {"render": 2, "train": 1}}),
    ],
)
def test_what_can_change_a_result_changes_both_hashes(changes, inputs) -> None:
    config_hash, control_hash = hashes(changes, **inputs)
    assert config_hash != hashes()[0]
    assert control_hash != hashes()[1]


def test_a_level_and_a_seed_change_the_config_hash_alone() -> None:
    for changes in ({"seed": 2}, {"data": {"scale": 1000}}):
        assert hashes(changes)[0] != hashes()[0]
        assert hashes(changes)[1] == hashes()[1]
    assert hashes({"data": {"scale": 1000}}, factors=())[1] != hashes(factors=())[1], "nobody declared it"


def test_a_factor_that_changes_the_pool_owns_its_fingerprint() -> None:
    evidence = Factor("evidence", ("data.evidence",), (), "", owns_pool=True)
    one, other = (identify(CONFIG, pool=pool, tokenizer="t", semantics={}, factors=[evidence]) for pool in "ab")
    assert one.control_hash == other.control_hash
    assert one.config_hash != other.config_hash


def test_matched_steps_at_the_scale_of_reference_are_fixed_epochs() -> None:
    at_reference = {"data": {"scale": 2000}}
    assert hashes({**at_reference, "training": {"match": "steps"}})[0] == hashes(at_reference)[0]
    assert hashes({"training": {"match": "steps"}})[0] != hashes()[0]
    half = {**at_reference, "training": {"epochs": 1.5}}
    cut = {**at_reference, "training": {"epochs": 1.5, "match": "steps"}}
    assert hashes(half)[0] != hashes(cut)[0], "half an epoch and a plan that is cut off take other batches"


def test_what_is_hashed_alike_is_trained_alike() -> None:
    steps = TrainingConfig(match=Match.steps, reference_scale=2000)
    assert canonical(steps, 2000) == canonical(TrainingConfig(reference_scale=4000), 2000)
    assert canonical(steps, 1000) == steps


def test_a_value_that_is_missing_has_no_hash() -> None:
    with pytest.raises(UsageError, match="seed has no value"):
        identify(OmegaConf.create({"seed": "???"}), pool="p", tokenizer="t", semantics={})


def test_the_hash_is_the_same_in_another_process_and_folder(tmp_path: Path) -> None:
    code = f"""
from rmlab.sweep.cells import identify
print(identify({CONFIG!r}, pool="p", tokenizer="t", semantics={{"train": 1, "render": 1}}).config_hash)
"""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": str(REPOSITORY)},
    )
    assert answer.stdout.strip() == hashes()[0]


def test_an_index_is_the_pool_without_its_text(tmp_path: Path) -> None:
    made = [t for part in SPLITS for t in episodes(3, part, 100 * SPLITS.index(part))]
    pool = write_trajectories(tmp_path / "pool.parquet", made)
    index = read_index(tmp_path / "pool.parquet")
    assert index.fingerprint == pool.fingerprint == read_trajectories(tmp_path / "pool.parquet").fingerprint
    for part in SPLITS:
        assert index.part(part) == pool.part(part).fingerprint
    config = {"vocab_size": 2048}
    assert tokenizer_identity(config, index.part("supervised"), 1) == tokenizer_identity(
        config, pool.part("supervised").fingerprint, 1
    )
    assert tokenizer_identity(config, "x", 1) != tokenizer_identity(config, "x", 2)


def test_a_file_that_is_no_pool(tmp_path: Path) -> None:
    (tmp_path / "pool.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataError, match="not a readable trajectory file"):
        read_index(tmp_path / "pool.parquet")
    with pytest.raises(DataError, match="no such file"):
        read_index(tmp_path / "none.parquet")
