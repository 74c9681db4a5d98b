"""`rmlab plan` of every program: counted work, a verdict, and what would fit; without torch."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rmlab.commands.plan import PLANNED, plan
from rmlab.configuration import compose
from rmlab.errors import DataError, UsageError
from rmlab.models.cost import KNOWN, known_shape, reading, training_flops
from rmlab.paths import REPOSITORY, STARTER
from rmlab.planning.advice import WORK, work_of
from rmlab.planning.assumed import Assumed, named_shape, read_texts
from rmlab.planning.cards import find_card
from rmlab.planning.phases import TrainingPhase
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories

NEEDED = {"rl": ["start=SmolLM2-135M"], "collect": ["policy=[language]", "language.language.model=SmolLM2-135M"]}
NEEDED["cross-validate"] = ["data.path="]


def planned(capsys: pytest.CaptureFixture[str], program: str, *overrides: str, **options: Any) -> dict[str, Any]:
    chosen: dict[str, Any] = {"card": "h100", "gpus": 1, **options}
    plan(program, list(overrides), as_json=True, **chosen)
    return dict(json.loads(capsys.readouterr().out))


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 attempts of each part, of 1,000 to 12,000 characters in one message."""
    path = tmp_path_factory.mktemp("pool") / "set.parquet"
    rows = [
        Trajectory(
            f"t{i}-{part}",
            f"c{part}",
            "s",
            "p",
            0,
            (Message("user", "x" * 1000 * (i + 1)),),
            "",
            "submitted",
            i % 2 == 0,
            split=part,
        )
        for part in ("verifier", "validation", "evaluation")
        for i in range(12)
    ]
    write_trajectories(path, rows)
    return path


@pytest.mark.parametrize("program", PLANNED)
def test_every_program_has_a_plan(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, program, *NEEDED.get(program, []))
    assert found["phases"]
    for phase in found["phases"]:
        assert min(phase["tokens"], phase["flops"]["total"], phase["seconds"]["total"], phase["memory"]["total"]) > 0
    assert found["seconds"] == pytest.approx(sum(phase["seconds"]["total"] for phase in found["phases"]))
    assert found["fits"]
    assert found["command"].startswith(f"rmlab {program}")


def test_every_program_with_a_device_is_planned() -> None:
    assert set(PLANNED.values()) == set(WORK)


def test_tokens_are_those_of_the_file(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """12 labelled attempts, two epochs: characters × 0.30 + 5 a message + 50, in a vocabulary of 151,936."""
    overrides = [
        "model=hf",
        "model.pretrained=Qwen3-0.6B",
        f"data.path={pool}",
        "data.scale=12",
        "prompt.max_tokens=8192",
    ]
    training, scoring = planned(capsys, "train", *overrides)["phases"]
    each = [round(1000 * (i + 1) * 0.30) + 55 for i in range(12)]
    assert training["tokens"] == pytest.approx(2 * sum(each), rel=1e-3)
    assert scoring["tokens"] == pytest.approx(2 * sum(each), rel=1e-3)
    assert training["steps"] == 2
    flops = training_flops(KNOWN["Qwen3-0.6B"], reading(each * 2))
    assert training["flops"]["total"] == pytest.approx(flops.total, rel=1e-3)
    few = planned(capsys, "train", *overrides[:-1], "prompt.max_tokens=2048", "data.scale=6")
    assert few["phases"][0]["tokens"] < 2 * 6 * 2048
    with pytest.raises(DataError, match="no labelled attempt of part verifier that fits 100 tokens"):
        planned(capsys, "train", *overrides[:-1], "prompt.max_tokens=100")


def test_without_data_the_assumption_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["data=real", "model=hf", "model.pretrained=Qwen3-0.6B", "data.scale=1000", "prompt.max_tokens=32768"]
    found = planned(capsys, "train", *asked)
    assert "no data.path: attempts of 25,000 tokens on average" in found["assumed"][0]
    shorter = planned(capsys, "train", *asked, mean_tokens=5000)
    assert shorter["phases"][0]["tokens"] == pytest.approx(3 * 1000 * 5000, rel=0.05)


def test_what_does_not_fit_is_told_what_would(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["data=real", "model=hf", "model.pretrained=Qwen3-4B", "prompt.max_tokens=32768", "runtime=cuda"]
    found = planned(capsys, "train", *asked)
    assert not found["fits"]
    assert found["memory"]["total"] > found["room"]
    ways = {tuple(way["settings"]): way for way in found["fits_with"]}
    adapters = ("lora.rank=16", "training.micro_batch_size=1", "training.checkpointing=true")
    assert adapters in ways
    assert all(way["held"] < found["room"] for way in ways.values())
    assert planned(capsys, "train", *asked, *adapters)["memory"]["total"] == pytest.approx(ways[adapters]["held"])
    plan("train", asked)
    said = capsys.readouterr().out
    assert f"either with {' '.join(adapters)}: torch is taken to hold" in said
    assert "fits        no: H100 SXM 80 GB has 79.2 GiB, of which 1.5 GiB are kept free" in said


def test_more_gpus_take_less_memory_each_and_less_time(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["data=real", "model=hf", "model.pretrained=Qwen3-8B", "training.checkpointing=true"]
    one, four = (planned(capsys, "train", *asked, gpus=gpus) for gpus in (1, 4))
    assert four["memory"]["moments"] == one["memory"]["moments"] / 4
    assert one["seconds"] / four["seconds"] == pytest.approx(4 * 0.9)


def test_a_model_that_fits_is_whole_on_each_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["data=real", "model=hf", "model.pretrained=Qwen3-0.6B", "runtime=multi_gpu"]
    one, two = (planned(capsys, "train", *asked, gpus=gpus) for gpus in (1, 2))
    assert two["memory"] == one["memory"]
    sharded = planned(capsys, "train", *asked, "runtime.parallel=fsdp", gpus=2)
    assert sharded["memory"]["moments"] == one["memory"]["moments"] / 2
    plan("train", asked, gpus=2)
    assert "at the peak on each of 2 GPUs, which holds the whole model" in capsys.readouterr().out
    plan("train", [*asked, "runtime.parallel=fsdp"], gpus=2)
    assert "at the peak on each of 2 GPUs, which holds a part of every weight" in capsys.readouterr().out


def test_sharding_is_told_where_a_whole_model_leaves_too_little_for_long_attempts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["data=real", "model=hf", "model.pretrained=Qwen3-1.7B", "prompt.max_tokens=131072"]
    asked += ["training.checkpointing=true", "data.scale=3000", "training.micro_batch_size=1"]
    found = planned(capsys, "train", *asked, "runtime=multi_gpu", gpus=4)
    assert not found["fits"]
    ways = {tuple(way["settings"]): way["held"] for way in found["fits_with"]}
    sharded = planned(capsys, "train", *asked, "runtime=multi_gpu", "runtime.parallel=fsdp", gpus=4)
    assert sharded["fits"]
    on_four = ("runtime.parallel=fsdp", "runtime=multi_gpu", "runtime.processes=4")
    assert ways[on_four] == sharded["memory"]["total"]
    more = {tuple(way["settings"]) for way in planned(capsys, "train", *asked)["fits_with"]}
    assert ("runtime.parallel=fsdp", "runtime=multi_gpu", "runtime.processes=2") in more


def test_an_mfu_that_is_given_makes_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["data=real", "model=hf", "model.pretrained=Qwen3-0.6B"]
    found = planned(capsys, "train", *asked, mfu=0.5)
    model = sum(phase["flops"]["total"] for phase in found["phases"])
    assert found["seconds"] == pytest.approx(model / (0.5 * 989e12))


def test_a_sweep_is_the_sum_of_its_cells(capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, "sweep", "data_scale", "preset=smoke")
    assert list(found["cells"]) == ["data_scale=64", "data_scale=128", "data_scale=64 steps", "data_scale=128 steps"]
    assert found["seconds"] == pytest.approx(sum(cell["seconds"] for cell in found["cells"].values()))
    plan("sweep", ["data_scale", "preset=smoke"])
    assert "4 levels x 1 of each" in capsys.readouterr().out


def test_the_command_of_a_sweep_does_what_was_planned(capsys: pytest.CaptureFixture[str]) -> None:
    """With the GPUs that were asked for, what makes the largest cell fit, and a word for what only a plan takes."""
    asked = ["data_scale", "preset=small", "data=real", "model=hf", "model.pretrained=Qwen3-0.6B"]
    two = ["runtime=multi_gpu", "runtime.processes=2"]
    fitting = ["training.micro_batch_size=1", "evaluation.batch_tokens=768", "runtime.micro_batch_tokens=null"]
    command = ["rmlab", "sweep", *asked[:-1], "model.pretrained=FOLDER"]
    plan("sweep", [*asked, *fitting], gpus=2)
    said = capsys.readouterr().out
    assert f"command     {shlex.join([*command, *fitting, *two])}\n" in said
    assert "            model.pretrained=FOLDER: a folder with a model, or hf:NAME; a plan alone" in said
    found = planned(capsys, "sweep", *asked[:-1], "model.pretrained=Qwen3-4B", gpus=2)
    assert shlex.split(found["command"]) == [*command, *fitting, *two]
    assert all(cell["command"] == found["command"] for cell in found["cells"].values())
    paid = planned(capsys, "sweep", "reward_modes", "preset=smoke", "start=SmolLM2-135M")["command"]
    assert paid == "rmlab sweep reward_modes preset=smoke start=POLICY verifier=VERIFIER", "one of the levels needs it"


def test_the_command_of_a_sweep_leaves_what_the_sweep_varies(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["preset=smoke", "start=SmolLM2-135M", "levels=[Qwen3-0.6B]", "baseline=Qwen3-0.6B"]
    plan("sweep", ["verifier_to_rl", *asked])
    said = capsys.readouterr().out
    assert f"command     rmlab sweep verifier_to_rl preset=smoke start=POLICY '{asked[2]}' {asked[3]}\n" in said
    assert "            the levels set verifier: give each a run, a cell or a folder (`rmlab train` makes one)" in said
    adapters = ["preset=small", "data=real", "model=hf", "model.pretrained=Qwen3-8B"]
    plan("sweep", ["lora", *adapters])
    said = capsys.readouterr().out
    assert "does not fit" in said
    assert "lora.rank" not in said.partition("fits  ")[2]
    with pytest.raises(UsageError, match=r"this sweep varies data\.scale"):
        plan("sweep", ["data_scale", "preset=smoke", "data.scale=3"])
    plan("sweep", ["architecture", "preset=paper"])
    said = capsys.readouterr().out
    assert (
        "            the levels set model.pretrained to the name of a folder: start the sweep where that folder, or"
        in said
    )


def test_the_largest_cell_of_a_sweep_decides_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, "sweep", "context_length", "preset=paper", "model.pretrained=Qwen3-30B-A3B", gpus=8)
    assert [cell["fits"] for cell in found["cells"].values()][:: len(found["cells"]) - 1] == [True, False]
    assert found["command"].endswith(" lora.rank=16"), "though the first one fits as it is"


@pytest.mark.parametrize(
    ("program", "overrides", "words"),
    [
        ("trian", [], r"there is no program 'trian' .did you mean train"),
        (None, [], "name what to plan"),
        ("sweep", ["preset=smoke"], "name the sweep"),
        ("rl", [], "start must be given: start=FOLDER"),
        ("train", ["data.scal=3"], "did you mean data.scale"),
    ],
)
def test_wrong_usage_is_one_line(program: str | None, overrides: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan(program, overrides)


def test_names_of_open_models() -> None:
    for name in ("Qwen/Qwen3-0.6B", "hf:Qwen/Qwen3-0.6B@main", "models/qwen3_0.6b", "Qwen3-0.6B-Base"):
        assert known_shape(name) == (KNOWN["Qwen3-0.6B"], "Qwen3-0.6B")
    assert known_shape("nothing") is None
    assert named_shape(str(STARTER / "base"))[0].layers == 4
    with pytest.raises(DataError, match="nothing: there is no such folder, and the shape of no open model"):
        named_shape("nothing")
    with pytest.raises(UsageError, match=r"no such card .did you mean h100"):
        find_card("h10")


def test_a_model_that_is_not_there_has_the_shape_that_its_configuration_states(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = planned(capsys, "train", "model=smollm2_135m", "data=real", "model.pretrained=nowhere/x")
    assert "nowhere/x does not exist: the shape stated by model=smollm2_135m is used" in found["assumed"]
    assert "attempts of 4,095 tokens on average" in found["assumed"][1]
    for model in ("hf", "path"):
        with pytest.raises(DataError, match="nowhere/x: there is no such folder"):
            planned(capsys, "train", f"model={model}", "data=real", "model.pretrained=nowhere/x")


def test_the_table_of_memory(capsys: pytest.CaptureFixture[str]) -> None:
    plan(table=True)
    table = capsys.readouterr().out
    assert table.startswith("| model | trained | 8,192 | 32,768 | 131,072 |")
    plan(table=True, as_csv=True)
    shipped = (REPOSITORY / "experiments" / "benchmarks" / "memory.csv").read_text(encoding="utf-8")
    assert capsys.readouterr().out == shipped, (
        "rmlab plan --table --csv > experiments/benchmarks/memory.csv, and README's table"
    )
    plan(table=True, as_json=True)
    rows = {(row["model"], row["trained"]): row for row in json.loads(capsys.readouterr().out)}
    assert rows["Qwen3-0.6B", "all weights"]["32768"] > rows["Qwen3-0.6B", "all weights; checkpointing"]["32768"]


def test_micro_batches_by_tokens_are_what_is_read_at_once(pool: Path) -> None:
    asked = ["model=hf", "model.pretrained=Qwen3-0.6B", f"data.path={pool}", "data.scale=12", "prompt.max_tokens=8192"]
    for more, expected in (
        ([], (8000, 2)),
        (["runtime.packed=false"], (2 * 3655, 2)),
        (["training.dtype=float32"], (2 * 3655, 2)),
    ):
        config = compose("train_verifier", [*asked, "runtime.micro_batch_tokens=8000", *more])
        phase = work_of("train_verifier", OmegaConf.to_object(config), Assumed()).phases[0]
        assert isinstance(phase, TrainingPhase)
        assert (phase.run.tokens, phase.run.sequences) == expected
        assert phase.run.packed_layers == (not more)


def test_a_file_that_is_no_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(DataError, match="not a readable trajectory file"):
        read_texts(tmp_path / "x.parquet")


def test_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['rmlab', 'plan', 'train', 'preset=smoke']\n"
        "from rmlab.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'transformers', 'mlflow', 'pandas', 'matplotlib', 'scipy', 'sklearn'} & set(sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={"PYTHONPATH": str(REPOSITORY)}
    )
    assert answer.returncode == 0, answer.stderr
    assert "weights" in answer.stdout
