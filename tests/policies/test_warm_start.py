import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError, UsageError
from rmlab.files import Busy, only_writer
from rmlab.fingerprint import file_fingerprint
from rmlab.models.tokenizer import load_tokenizer
from rmlab.policies.demonstrations import ended_well
from rmlab.policies.success import held_out_tasks
from rmlab.tracking.query import runs
from rmlab.tracking.references import find_model
from rmlab.tracking.store import Store
from rmlab.trajectories.store import TrajectorySet, read_trajectories, write_trajectories

QUICK = [
    "tracked=false",
    "runtime=cpu",
    "runtime.progress=false",
    "training.threads=1",
    "training.epochs=1",
    "training.batch_size=8",
    "training.micro_batch_size=8",
    "engine.slots=8",
    "engine.capacity=448",
    "demonstrations.capacity=320",
    "held_out.tasks=2",
    "held_out.attempts=2",
    "held_out.max_action_tokens=8",
    "held_out.parts=[validation]",
]


def assert_found_again(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command trains nothing, another seed or --force does."""
    written = (folder / "policy.json").stat().st_mtime_ns
    capsys.readouterr()
    assert load_program("train_policy").main(arguments) == folder
    assert capsys.readouterr().out == f"finished already: {folder} (--force trains it again)\n"
    assert (folder / "policy.json").stat().st_mtime_ns == written
    load_program("train_policy").main(arguments, force=True)
    assert (folder / "policy.json").stat().st_mtime_ns > written
    (folder / "model.safetensors").unlink()
    load_program("train_policy").main(arguments)
    assert (folder / "model.safetensors").is_file(), "a record without weights is no policy"
    capsys.readouterr()
    load_program("train_policy").main([*arguments, "seed=1"])
    assert capsys.readouterr().out.startswith(f"{folder} already holds a policy, which this one will replace")
    assert json.loads((folder / "policy.json").read_text())["seed"] == 1


def test_played_under_another_rule_of_edits(base_folder: Path, few_attempts: TrajectorySet, tmp_path: Path) -> None:
    demonstrations = tmp_path / "demonstrations.parquet"
    write_trajectories(demonstrations, few_attempts.trajectories)
    with pytest.raises(
        UsageError, match=r"collected with environment\.edits=build_up, but environment\.edits=start_over is"
    ):
        load_program("train_policy").main(
            [
                *QUICK,
                "model=path",
                f"model.pretrained={base_folder}",
                "environment=start_over",
                f"demonstrations.paths=[{demonstrations}]",
                f"output={tmp_path / 'policy'}",
            ]
        )


def test_two_at_once_into_one_folder(base_folder: Path, few_attempts: TrajectorySet, tmp_path: Path) -> None:
    demonstrations = tmp_path / "demonstrations.parquet"
    write_trajectories(demonstrations, few_attempts.trajectories)
    program, folder = load_program("train_policy"), tmp_path / "policy"
    with only_writer(folder), pytest.raises(Busy, match=r"the model folder .*policy is held by process \d+ on"):
        program.main(
            [
                *QUICK,
                "model=path",
                f"model.pretrained={base_folder}",
                f"demonstrations.paths=[{demonstrations}]",
                f"output={folder}",
            ]
        )
    assert not folder.exists()


@pytest.mark.slow
def test_from_a_base_to_a_policy_that_collects(
    base_folder: Path,
    few_attempts: TrajectorySet,
    empty_database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    demonstrations, store = tmp_path / "demonstrations.parquet", tmp_path / "mlflow.db"
    shutil.copy(empty_database, store)
    write_trajectories(demonstrations, few_attempts.trajectories)
    folder = load_program("train_policy").main(
        [
            *QUICK,
            "model=path",
            f"model.pretrained={base_folder}",
            f"demonstrations.paths=[{demonstrations}]",
            f"output={tmp_path / 'policy'}",
            "snapshots=[0.5]",
            "tracked=true",
            f"tracking.uri=sqlite:///{store}",
        ]
    )
    (run,) = runs(Store.open(f"sqlite:///{store}"), ["policies"])
    assert (run.tags["kind"], run.status) == ("warm_start", "finished")
    assert run.series("train/loss")
    assert find_model(run.run_id, "config.json", f"sqlite:///{store}").folder == run.artifact("model")
    assert len(run.tags["config_hash"]) == 16
    assert run.tags["device"] == "cpu"
    weaker = json.loads((tmp_path / "policy-at-0.5" / "policy.json").read_text())
    assert weaker["trained"] == 0.5
    assert weaker["held_out"]["validation_greedy"]["attempts"] == 2
    assert file_fingerprint(tmp_path / "policy-at-0.5" / "model.safetensors") != file_fingerprint(
        folder / "model.safetensors"
    )
    record = json.loads((folder / "policy.json").read_text())
    assert record["counts"]["attempts"] == 60
    assert record["counts"]["of_other_parts"] == {"validation": 5}
    assert record["counts"]["lessons"] + sum(record["counts"]["left_out"].values()) == 60
    assert set(record["held_out"]) == {"validation_sampled", "validation_greedy"}
    assert record["held_out"]["validation_sampled"]["attempts"] == 4
    assert record["tokenizer_fingerprint"] == load_tokenizer(folder).fingerprint
    assert "pass@1" in capsys.readouterr().out
    assert record["shown_clusters"] == sorted({t.cluster for t in few_attempts.trajectories if t.split == "supervised"})
    kept = load_program("train_policy").is_finished
    settings = OmegaConf.to_object(
        compose(
            "train_policy",
            [f"output={tmp_path / 'policy'}", "snapshots=[0.5]", "tracked=true", f"tracking.uri=sqlite:///{store}"],
        )
    )
    assert kept(settings, record["config_hash"])
    assert not kept(replace(settings, output=str(tmp_path / "policy-at-0.5"), snapshots=[]), record["config_hash"]), (
        "a half-trained one"
    )
    assert not kept(replace(settings, snapshots=[0.5, 0.7]), record["config_hash"])
    assert not kept(settings, "0" * 16)
    shutil.copy(empty_database, tmp_path / "other.db")
    elsewhere = replace(settings, tracking=replace(settings.tracking, uri=f"sqlite:///{tmp_path / 'other.db'}"))
    assert not kept(elsewhere, record["config_hash"]), "no run of it there"
    ended = load_program("train_policy").main(
        [
            *QUICK,
            "model=path",
            f"model.pretrained={base_folder}",
            f"demonstrations.paths=[{demonstrations}]",
            "demonstrations.finished_only=true",
            f"output={tmp_path / 'ended'}",
            "held_out.tasks=0",
        ]
    )
    counts = json.loads((ended / "policy.json").read_text())["counts"]
    taught = [t for t in few_attempts.trajectories if t.split == "supervised" and ended_well(t, 6)]
    assert counts["attempts"] == len(taught) == 60 - counts["not_ended_well"]
    assert 0 < len(taught) < 60
    assert_found_again(
        [
            *QUICK,
            "model=path",
            f"model.pretrained={base_folder}",
            f"demonstrations.paths=[{demonstrations}]",
            "demonstrations.finished_only=true",
            f"output={tmp_path / 'ended'}",
            "held_out.tasks=0",
        ],
        ended,
        capsys,
    )

    written = load_program("collect").main(
        [
            "tracked=false",
            "progress=false",
            "policy=[careful,language]",
            f"language.language.model={folder}",
            "language.language.device=cpu",
            "language.language.engine.slots=4",
            "language.language.engine.capacity=448",
            "language.language.max_action_tokens=8",
            f"output={tmp_path / 'mixed.parquet'}",
            "parts.supervised.tasks=0",
            "parts.validation.tasks=0",
            "parts.evaluation.tasks=0",
            "parts.verifier.tasks=2",
            "parts.verifier.attempts=2",
        ]
    )
    collected = read_trajectories(written.path)
    assert [t.policy for t in collected.trajectories] == ["careful", "careful", "language", "language"] * 2
    stated = json.loads(collected.metadata["language_policies"])["language"]
    assert stated["temperature"] == 1.0
    assert stated["pass_at_1"] == {name: found["pass_at_1"] for name, found in record["held_out"].items()}


def test_what_is_missing_is_said(base_folder: Path, few_attempts: TrajectorySet, tmp_path: Path) -> None:
    program = load_program("train_policy")
    with pytest.raises(UsageError, match="model=tiny has no weights"):
        program.main(["model=tiny"])
    none = tmp_path / "none.parquet"
    write_trajectories(none, few_attempts.part("validation").trajectories[:3])
    with pytest.raises(DataError, match="no attempt of the supervised part"):
        program.main(
            [
                *QUICK,
                "model=path",
                f"model.pretrained={base_folder}",
                f"demonstrations.paths=[{none}]",
                f"output={tmp_path}/p",
            ]
        )
    never = tmp_path / "never.parquet"
    write_trajectories(
        never, [t for t in few_attempts.trajectories if t.split == "supervised" and not ended_well(t, 6)][:5]
    )
    with pytest.raises(DataError, match="none of 5 attempts was submitted resolved"):
        program.main(
            [
                *QUICK,
                "model=path",
                f"model.pretrained={base_folder}",
                f"demonstrations.paths=[{never}]",
                f"output={tmp_path}/p",
                "demonstrations.finished_only=true",
            ]
        )
    demonstrations = tmp_path / "some.parquet"
    write_trajectories(demonstrations, few_attempts.part("supervised").trajectories[:3])
    with pytest.raises(
        UsageError, match=r"held_out\.tasks=100000: that part has \d+ tasks here"
    ):  # and nothing was trained
        program.main(
            [
                *QUICK,
                "model=path",
                f"model.pretrained={base_folder}",
                f"demonstrations.paths=[{demonstrations}]",
                f"output={tmp_path}/p",
                "held_out.tasks=100000",
                "training.epochs=1000000",
            ]
        )
    with pytest.raises(UsageError, match=r"held_out\.parts=supervised"):
        held_out_tasks(type("L", (), {"tasks": ()}), "supervised", 1, 0)
    with pytest.raises(UsageError, match="the name of a script and of a language model"):
        load_program("collect").main(
            ["tracked=false", "policy=[careful]", "language={careful: {model: x}}", f"output={tmp_path}/x"]
        )


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    program = load_program("train_policy")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        program.main(["seed=1"], force=True)
    said = capsys.readouterr().err
    assert said == "\nStopped. Continue from the last checkpoint with: rmlab warm-start seed=1 --force\n"


def test_shipped_configurations_compose() -> None:
    cuda = compose("train_policy", ["engine=cuda", "model=base_512x8", "runtime=cuda"])
    assert cuda.engine.dtype == "bfloat16"
    assert compose("train_policy").engine.overlap is False
    assert compose("collect", ["policy=[language]", "language.language.model=x"]).language.language.temperature == 1.0
    assert compose("train_verifier", ["model=smollm2_135m"]).model.pretrained.endswith("cache/models/smollm2_135m")
    assert compose("train_verifier", ["model=path", "model.pretrained=x"]).model.pretrained == "x"
