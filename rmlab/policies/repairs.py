"""Many repairs per function: one-line mistakes in each function of a corpus, and the edits that fix them.

A base model has read one repair of each function; a policy of random habits needs many more before it finds a wrong line in
a function that it has not seen. Nothing is run. No text is a near copy of a held-out function.
"""

import random
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.microswe.build.operators import mutants
from rmlab.microswe.task import Task
from rmlab.models.tokenizer import IM_END, IM_START
from rmlab.paths import runs_folder
from rmlab.pretraining.corpus import Kind, read_corpus
from rmlab.pretraining.sources import NearCopies, as_long_as_a_task, held_out_functions
from rmlab.progress import progress
from rmlab.verifiers.prompt import escape

CHUNK = 256  # functions that a process takes at once
SEMANTICS = 2  # bumped when the same functions and seed give other repairs: drawings that are kept are found by it

_forbidden: NearCopies | None = None  # of this worker process


def corpus_repairs(corpus: Path, tasks: Sequence[Task], each: int, seed: int, workers: int, show: bool) -> list[str]:
    """Repairs of the functions of a corpus file, none of them a near copy of a function of `tasks` that is held out.

    Kept in the cache folder. Forks processes: call it before torch is imported.
    """
    held_out = held_out_functions(tasks)
    python = list(sys.version_info[:2])  # whose way of writing code the broken lines have

    def draw() -> list[str]:
        codes = [document.text for document in read_corpus(corpus).of(Kind.code)]
        with progress("repairs", len(codes), "functions", show) as advance:
            return drawn_repairs(codes, held_out, each, seed, workers, advance)

    name = fingerprint([file_fingerprint(corpus), sorted(held_out), each, seed, python])
    return kept_repairs(runs_folder() / "cache", name, draw)


def drawn_repairs(
    codes: Iterable[str],
    held_out: Sequence[str],
    each: int,
    seed: int,
    workers: int,
    done: Callable[[int], None] | None = None,
) -> list[str]:
    """At most `each` repairs of every function of a task's size, in the order of the functions.

    codes: texts of functions. held_out: functions that must not be read (`near_copies.held_out_functions`). Operators are
    drawn before mutants, so that the frequent ones do not crowd out the others. Forks processes: call it before torch is
    imported. done: is told how many functions are done.
    """
    fitting = [code for code in codes if as_long_as_a_task(code)]
    chunks = [(fitting[start : start + CHUNK], each, seed) for start in range(0, len(fitting), CHUNK)]
    repairs: list[str] = []
    with ProcessPoolExecutor(workers, get_context("fork"), _read_held_out, (list(held_out),)) as processes:
        for chunk, texts in zip(chunks, processes.map(_repairs_of, chunks), strict=True):
            repairs += texts
            if done is not None:
                done(len(chunk[0]))
    return repairs


def kept_repairs(folder: Path, name: str, draw: Callable[[], list[str]]) -> list[str]:
    """What `draw` gives, kept in a file of `folder`: drawing takes minutes of CPU time. name: of everything that it depends on."""
    path = folder / f"repairs-{SEMANTICS}-{name}.parquet"
    if path.is_file():
        try:
            kept: list[str] = pq.read_table(path)["text"].to_pylist()
        except (pa.ArrowInvalid, KeyError) as error:
            raise DataError(f"{path}: damaged ({error}). Delete it; the repairs are then drawn again.") from error
        return kept
    texts = draw()
    with atomic_path(path) as temporary:
        pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), temporary, compression="zstd")
    return texts


def _read_held_out(held_out: Sequence[str]) -> None:
    global _forbidden
    _forbidden = NearCopies(held_out)


def _repairs_of(chunk: tuple[Sequence[str], int, int]) -> list[str]:
    codes, each, seed = chunk
    assert _forbidden is not None
    return [text for code in codes for text in function_repairs(code, _forbidden, each, seed)]


def function_repairs(code: str, forbidden: NearCopies, each: int, seed: int) -> list[str]:
    """At most `each` repairs of one function: the broken text with numbered lines, and `edit N: line`; none of a near copy."""
    if forbidden.found(code):
        return []
    drawn = random.Random(int(fingerprint([seed, code]), 16))
    by_operator: dict[str, list[tuple[int, str]]] = {}
    for mutant in mutants(code):
        by_operator.setdefault(mutant.operator, []).append((mutant.line, mutant.code))
    for choices in by_operator.values():
        drawn.shuffle(choices)
    lines = code.split("\n")
    texts: list[str] = []
    while by_operator and len(texts) < each:
        operator = drawn.choice(sorted(by_operator))
        line, broken = by_operator[operator].pop()
        if not by_operator[operator]:
            del by_operator[operator]
        if not forbidden.found(broken):
            texts.append(_text(broken, line, lines[line - 1].strip()))
    return texts


def _text(broken: str, line: int, right: str) -> str:
    numbered = "\n".join(f"{n} {text}" for n, text in enumerate(broken.split("\n"), start=1))
    turns = (("user", numbered), ("assistant", f"edit {line}: {right}"))
    return "".join(f"{IM_START}{role}\n{escape(content)}{IM_END}\n" for role, content in turns)
