"""The text of a few small packages: what is in it, what is not, and that it comes out the same again."""

import ast
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rmlab.errors import DataError
from rmlab.microswe.task import read_tasks, write_tasks
from rmlab.models.tokenizer import IM_END, IM_START
from rmlab.paths import STARTER
from rmlab.pretraining.corpus import CorpusConfig, Kind, build_corpus, read_corpus, write_corpus
from rmlab.pretraining.sources import held_out_functions
from rmlab.trajectories.record import Message, Trajectory
from rmlab.trajectories.store import write_trajectories
from rmlab.verifiers.prompt import OPEN_ANSWER, render

pytest.importorskip("toolz", reason="the extra `tasks` is not installed")
PACKAGES = ["toolz", "sortedcontainers"]


@pytest.fixture(scope="module")
def tasks():
    """A twelfth of the shipped tasks, and all of toolz."""
    shipped = read_tasks(STARTER / "tasks.parquet")[0]
    return [task for i, task in enumerate(shipped) if i % 12 == 0 or task.package == "toolz"]


def attempt(task, number=0, resolved=True):
    return Trajectory(
        task_id=task.task_id,
        cluster=task.cluster,
        source=task.source,
        policy="p",
        attempt=number,
        patch=None,
        messages=(Message("user", f"{task.task_id} is broken"), Message("assistant", "submit")),
        exit_status="submitted",
        resolved=resolved,
        split=task.part,
    )


@pytest.fixture(scope="module")
def config(tasks, tmp_path_factory):
    """A supervised task of toolz is held out for the test: its function must not be in the text."""
    folder = tmp_path_factory.mktemp("corpus")
    supervised = [t for t in tasks if t.part == "supervised"][:3]
    evaluation = next(t for t in tasks if t.part == "evaluation")
    write_trajectories(folder / "episodes.parquet", [*(attempt(t) for t in supervised), attempt(evaluation)])
    held = [replace(t, part="evaluation") if t.package == "toolz" else t for t in tasks]
    write_tasks(folder / "tasks.parquet", held, {})
    return CorpusConfig(
        tasks=str(folder / "tasks.parquet"), episodes=[str(folder / "episodes.parquet")], packages=PACKAGES, repairs=50
    )


@pytest.fixture(scope="module")
def corpus(config):
    return build_corpus(config, STARTER)


def test_code_is_whole_plain_functions_each_once(corpus):
    texts = [d.text for d in corpus.of(Kind.code)]
    assert len(texts) == len(set(texts)) > 100
    for text in texts:
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef)
        assert ast.get_docstring(function) is None
        assert ast.unparse(function) == text


def test_functions_of_held_out_tasks_are_not_in_it_and_others_are(corpus, tasks):
    texts = "\n\n".join(d.text for d in corpus.documents)
    held_out = [t.original for t in tasks if t.package == "toolz"]
    assert held_out
    assert not [code for code in held_out if code in texts]
    assert "a near copy of a held-out function" in corpus.metadata["left_out"]


def test_a_repair_mends_the_line_that_it_names(corpus):
    repairs = [d.text for d in corpus.of(Kind.repair)]
    assert len(repairs) > 30
    for text in repairs:
        user, assistant = text.removesuffix(f"{IM_END}\n").split(f"{IM_END}\n")
        numbered = user.removeprefix(f"{IM_START}user\n").split("\n")
        number, line = assistant.removeprefix(f"{IM_START}assistant\nedit ").split(": ", 1)
        broken = [entry.split(" ", 1)[1] for entry in numbered]
        old = broken[int(number) - 1]
        mended = [*broken]
        mended[int(number) - 1] = old[: len(old) - len(old.lstrip())] + line
        assert mended != broken
        ast.parse("\n".join(mended))


def test_episodes_are_prompts_without_answers_of_the_supervised_part_alone(corpus, tasks):
    supervised = [t for t in tasks if t.part == "supervised" and t.package != "toolz"][:3]
    texts = [d.text for d in corpus.of(Kind.episode)]
    assert set(texts) <= {render(attempt(t)) for t in tasks if t.part == "supervised"}
    assert all(text.endswith(OPEN_ANSWER) for text in texts)
    assert len(texts) == len(supervised)


def test_read_back_it_is_the_same(corpus, tmp_path):
    write_corpus(tmp_path / "corpus.parquet", corpus)
    back = read_corpus(tmp_path / "corpus.parquet")
    assert (back.documents, back.metadata) == (corpus.documents, corpus.metadata)


@pytest.mark.slow
def test_built_again_from_other_labels_and_outcomes_it_is_the_same(corpus, config, tasks, tmp_path):
    supervised = [t for t in tasks if t.part == "supervised"][:3]
    write_trajectories(tmp_path / "episodes.parquet", [attempt(t, resolved=False) for t in supervised])
    other = build_corpus(replace(config, episodes=[str(tmp_path / "episodes.parquet")]), STARTER)
    assert other.fingerprint == corpus.fingerprint


@pytest.mark.slow
def test_episodes_of_other_tasks_are_refused(config, tasks, tmp_path):
    stranger = replace(attempt(next(t for t in tasks if t.part == "evaluation")), split="supervised")
    write_trajectories(tmp_path / "episodes.parquet", [stranger])
    with pytest.raises(DataError, match="not in the supervised part"):
        build_corpus(replace(config, episodes=[str(tmp_path / "episodes.parquet")]), STARTER)


def test_a_missing_package_and_an_altered_file_say_what_to_do(config, corpus, tmp_path):
    with pytest.raises(DataError, match="no_such_package is not installed"):
        build_corpus(replace(config, packages=["no_such_package"]), STARTER)
    (tmp_path / "corpus.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"corpus\.parquet is not a readable corpus"):
        read_corpus(tmp_path / "corpus.parquet")


def test_helpers_that_travel_with_held_out_tasks_are_held_out(tasks):
    held_out = held_out_functions(tasks)
    task = next(t for t in tasks if t.part == "evaluation" and "def " in t.context)
    helper = next(n for n in ast.walk(ast.parse(task.context)) if isinstance(n, ast.FunctionDef))
    assert ast.unparse(helper) in held_out


def test_a_text_of_another_kind_says_what_to_do(corpus, tmp_path):
    path = tmp_path / "corpus.parquet"
    write_corpus(path, corpus)
    table = pq.read_table(path)
    pq.write_table(
        table.set_column(table.schema.get_field_index("kind"), "kind", pa.array(["poem"] * len(table))), path
    )
    with pytest.raises(DataError, match=r"poem.*Delete it"):
        read_corpus(path)
