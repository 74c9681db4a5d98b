"""Warm start: functions that RL will train on are not mended before, whichever tasks file they stand in."""

from dataclasses import replace
from pathlib import Path

import pytest

from rmlab.configuration import compose, load_program
from rmlab.errors import DataError
from rmlab.microswe.task import write_tasks
from rmlab.pretraining.corpus import Corpus, Document, Kind, write_corpus
from tests.rl.easy_family import easy_task, easy_tasks

FAR = "def far(x):\n    low = 3 - x\n    return abs(low) * 2"
KEPT = "def kept(words):\n    found = {}\n    for word in words:\n        found[word] = len(word)\n    return found"


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A corpus of two functions, a tasks file that knows neither, and a file beside it with a task of the first."""
    monkeypatch.setenv("RMLAB_RUNS", str(tmp_path / "runs"))
    write_corpus(tmp_path / "corpus.parquet", Corpus((Document(Kind.code, FAR), Document(Kind.code, KEPT)), {}))
    write_tasks(tmp_path / "tasks.parquet", easy_tasks(), {})
    far = replace(
        easy_task("rl", "far", 2), original=FAR, code=FAR.replace("abs(low)", "low"), lines=(3,), outputs=("2", "4")
    )
    for name in ("more", "copy"):
        write_tasks(tmp_path / f"{name}.parquet", [far], {})
    return [
        f"tasks={tmp_path / 'tasks.parquet'}",
        f"repairs.corpus={tmp_path / 'corpus.parquet'}",
        "repairs.each=4",
        "runtime.progress=false",
    ]


def settings(*overrides: str):  # type: ignore[no-untyped-def]
    from omegaconf import OmegaConf

    load_program("train_policy")
    return OmegaConf.to_object(compose("train_policy", list(overrides)))


def test_no_repair_is_drawn_of_a_function_of_a_further_file(given: list[str], tmp_path: Path) -> None:
    program = load_program("train_policy")
    alone = program.drawn_from_corpus(settings(*given))
    joined = program.drawn_from_corpus(settings(*given, f"more_tasks=[{tmp_path}/more.parquet]"))
    assert any("def far" in text for text in alone)
    assert joined == [text for text in alone if "def far" not in text] != []


def test_further_files_are_hashed_by_content_and_only_where_there_are_any(given: list[str], tmp_path: Path) -> None:
    program = load_program("train_policy")
    base = Path(__file__).parents[2] / "rmlab" / "starter" / "base"

    def config_hash(*more: str) -> str:
        found: str = program.config_hash(
            compose("train_policy", [*given, f"model.pretrained={base}", *more]), [], "tasks"
        )
        return found

    joined = {config_hash(f"more_tasks=[{tmp_path}/{name}.parquet]") for name in ("more", "copy")}
    assert len(joined) == 1
    assert config_hash() == config_hash("more_tasks=[]") not in joined


def test_a_file_with_other_parts_is_refused(given: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it has tasks of the part evaluation"):
        load_program("train_policy").drawn_from_corpus(settings(*given, f"more_tasks=[{tmp_path}/tasks.parquet]"))
