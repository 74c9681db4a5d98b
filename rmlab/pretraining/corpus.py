"""The text that a base model reads, as one file: code, repairs, and episodes of the supervised part.

No function of the verifier, validation, RL and evaluation parts stands in it, nor a near copy (`near_copies`). Episodes are
rendered as verifiers read them, without the answer: no label goes in. The same packages, tasks and episodes give the same
text; documents stand in the order of their hash, so the order holds no information and the first ones are a fair sample.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rmlab.errors import DataError
from rmlab.files import atomic_path
from rmlab.fingerprint import fingerprint_lines
from rmlab.microswe.task import Task, read_tasks, tasks_fingerprint
from rmlab.pretraining.sources import PACKAGES, Code, NearCopies, functions, held_out_functions, repairs, versions
from rmlab.progress import progress
from rmlab.trajectories.record import Trajectory
from rmlab.trajectories.store import read_trajectories
from rmlab.verifiers.prompt import render

NO_VALUE = "got no value ("
"""Of a program that ran into a limit, among others: a busy machine may show it where another shows a value."""


class Kind(StrEnum):
    """Where a document comes from."""

    code = "code"
    repair = "repair"
    episode = "episode"


@dataclass
class CorpusConfig:
    """What the text is made of.

    tasks: the file whose held-out functions must not be read. episodes: trajectory sets whose supervised part is
    read. packages: import names, which may include `stdlib`. repairs: their largest number, one per function.
    """

    tasks: str = ""
    episodes: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=lambda: list(PACKAGES))
    repairs: int = 60_000


@dataclass(frozen=True)
class Document:
    """One function, one repair or one episode."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Corpus:
    """documents: in the order of their hash. metadata: what it was made from, and how much was left out for which reason."""

    documents: tuple[Document, ...]
    metadata: dict[str, str]

    @cached_property
    def fingerprint(self) -> str:
        """Of every document in order, 16 hex digits."""
        return fingerprint_lines(json.dumps([d.kind, d.text]) for d in self.documents)

    def of(self, kind: Kind) -> list[Document]:
        """The documents of one kind, in order."""
        return [d for d in self.documents if d.kind is kind]


def build_corpus(config: CorpusConfig, root: Path, show: bool = False) -> Corpus:
    """Reads packages, tasks and episodes and makes the text. root: of relative paths.

    Raises DataError where a package or file is missing, or an episode is of a task that is not in the supervised part.
    """
    installed = versions(config.packages)  # what is missing is said before minutes of work
    pools = [read_trajectories(root / path, parts=["supervised"]) for path in config.episodes]
    tasks, _ = read_tasks(root / config.tasks)
    forbidden = NearCopies(held_out_functions(tasks))
    left_out: Counter[str] = Counter()
    codes, packages = [], {}
    with progress("reading packages", len(config.packages), "packages", show) as advance:
        for package in config.packages:
            own = package_code(package, forbidden, left_out)
            packages[package] = fingerprint_lines(code.text for code in own)
            codes += own
            advance(1, package)
    texts = [(Kind.code, code.text) for code in codes]
    texts += [(Kind.repair, text) for text in repairs(codes, forbidden, config.repairs)]
    texts += [
        (Kind.episode, text) for pool in pools for text in _episodes(pool.trajectories, tasks, forbidden, left_out)
    ]
    unique = dict.fromkeys(texts)
    left_out["repeated"] += len(texts) - len(unique)
    ordered = sorted(unique, key=lambda pair: hashlib.sha256(pair[1].encode()).digest())
    documents = tuple(Document(kind, text) for kind, text in ordered)
    return Corpus(
        documents,
        {
            "versions": json.dumps(installed),
            "tasks_fingerprint": tasks_fingerprint(tasks),
            "packages": json.dumps(packages),
            "episodes": json.dumps([{"fingerprint": p.fingerprint, **p.metadata} for p in pools]),
            "counts": json.dumps({k.value: {"documents": n, "characters": c} for k, n, c in _sizes(documents)}),
            "left_out": json.dumps(dict(left_out.most_common())),
        },
    )


def package_code(package: str, forbidden: NearCopies, left_out: Counter[str]) -> list[Code]:
    """The functions of one package that may be read. left_out: counts the others, by reason."""
    kept = []
    for code in functions([package], left_out):
        if forbidden.found(code.text, code.tree):
            left_out["a near copy of a held-out function"] += 1
        else:
            kept.append(code)
    return kept


def write_corpus(path: Path, corpus: Corpus) -> None:
    """Writes the text whole or not at all (Parquet, zstd)."""
    table = pa.table(
        {
            "kind": pa.array([d.kind.value for d in corpus.documents]).dictionary_encode(),
            "text": [d.text for d in corpus.documents],
        }
    )
    table = table.replace_schema_metadata({**corpus.metadata, "fingerprint": corpus.fingerprint})
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=12)


def read_corpus(path: Path) -> Corpus:
    """Reads a text file of `write_corpus` and proves its fingerprint. Raises DataError."""
    try:
        table = pq.read_table(path)
        documents = tuple(
            Document(Kind(k), t) for k, t in zip(table["kind"].to_pylist(), table["text"].to_pylist(), strict=True)
        )
    except (pa.ArrowInvalid, OSError, KeyError, ValueError) as error:
        raise DataError(
            f"{path} is not a readable corpus ({str(error).splitlines()[0]}). Delete it: `rmlab pretrain` builds it "
            "again."
        ) from error
    metadata = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items() if k != b"ARROW:schema"}
    stated = metadata.pop("fingerprint", None)
    corpus = Corpus(documents, metadata)
    if stated != corpus.fingerprint:
        raise DataError(
            f"{path}: fingerprint {corpus.fingerprint} instead of {stated}: the text was modified. Build it again."
        )
    return corpus


def _episodes(
    trajectories: Sequence[Trajectory], tasks: Iterable[Task], forbidden: NearCopies, left_out: Counter[str]
) -> list[str]:
    supervised = {task.task_id: task for task in tasks if task.part == "supervised"}
    alike: dict[str, bool] = {}
    texts = []
    for trajectory in trajectories:
        task = supervised.get(trajectory.task_id)
        if task is None:
            raise DataError(
                f"the episode {trajectory.trajectory_id} is for task {trajectory.task_id}, which is not in the supervised part of "
                "the tasks: only that part may be read. Collect the episodes again from these tasks."
            )
        if task.task_id not in alike:
            alike[task.task_id] = forbidden.found(task.original) or forbidden.found(task.code)
        if alike[task.task_id]:
            left_out["an episode at a near copy of a held-out function"] += 1
        elif any(NO_VALUE in message.content for message in trajectory.messages):
            left_out["an episode that ran into a limit, or showed what has no text"] += 1
        else:
            texts.append(render(trajectory))
    return texts


def _sizes(documents: Sequence[Document]) -> list[tuple[Kind, int, int]]:
    return [
        (kind, len(own), sum(map(len, own))) for kind in Kind for own in [[d.text for d in documents if d.kind is kind]]
    ]
