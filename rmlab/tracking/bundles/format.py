"""The format of a bundle: the entries of the manifest, the record of a run, and the checks that reject other archives."""

import json
import math
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from rmlab.errors import DataError
from rmlab.tracking.weights import MODEL, SUFFIXES

FORMAT, VERSION = "rmlab-bundle", 1
MANIFEST = "manifest.json"
PACKED_RUNS = "runs.zip"
"""The one file of a bundle that is packed as a whole (see study.py): another archive, which is the bundle."""
PACKED = (*SUFFIXES, ".parquet", ".png", ".gz", ".zst", ".zip")  # what packing does not make smaller
LARGEST_TEXT = 256 << 20  # bytes; manifest, record and metrics of a run are held in memory
LARGEST_FILE, MOST_FILES = 64 << 30, 1_000_000

_RUN_ID = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
MetricRow = tuple[str, float, int, int]
"""name, value, step, milliseconds"""


@dataclass(frozen=True)
class BundledFile:
    """path: below the run's artifacts, or the name of its record or metrics."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class BundleEntry:
    """A run as the manifest lists it. left_out: artifacts that it had and the bundle has not, with their size in bytes."""

    run_id: str
    experiment: str
    name: str
    record: BundledFile
    metrics: BundledFile
    artifacts: tuple[BundledFile, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    def member(self, file: BundledFile) -> str:
        """The name of a file in the archive."""
        inner = file.path if file is self.record or file is self.metrics else f"artifacts/{file.path}"
        return f"runs/{self.run_id}/{inner}"

    @property
    def files(self) -> tuple[BundledFile, ...]:
        return (self.record, self.metrics, *self.artifacts)


@dataclass(frozen=True)
class Record:
    """What run.json holds. status: MLflow's. inputs: data sets, each {name, digest, source_type, source, schema, profile, tags}."""

    name: str
    status: str
    start_time: int
    end_time: int | None
    params: Mapping[str, str]
    tags: Mapping[str, str]
    inputs: tuple[Mapping[str, Any], ...] = ()


def manifest_text(
    origin: Mapping[str, str], experiments: Mapping[str, Mapping[str, str]], entries: Iterable[BundleEntry]
) -> str:
    """The manifest of a bundle that holds these runs."""
    runs = [asdict(entry) for entry in entries]
    return json.dumps(
        {"format": FORMAT, "version": VERSION, "origin": dict(origin), "experiments": dict(experiments), "runs": runs},
        indent=1,
    )


def metric_line(name: str, value: float, step: int, when: int) -> str:
    """One line of metrics.jsonl; nan and infinities, which JSON has not, as text."""
    return json.dumps([name, value if math.isfinite(value) else str(value), step, when]) + "\n"


def entry_of(raw: Mapping[str, Any]) -> BundleEntry:
    """A run's entry from the manifest."""
    run_id = str(raw["run_id"])
    if not _RUN_ID.fullmatch(run_id):
        raise DataError(f"{run_id!r} is not a run id")
    return BundleEntry(
        run_id,
        str(raw["experiment"]),
        str(raw["name"]),
        _file(raw["record"]),
        _file(raw["metrics"]),
        tuple(_file(one) for one in raw["artifacts"]),
        {str(k): int(v) for k, v in raw["left_out"].items()},
    )


def _file(raw: Mapping[str, Any]) -> BundledFile:
    file = BundledFile(str(raw["path"]), int(raw["bytes"]), str(raw["sha256"]))
    if not _SHA256.fullmatch(file.sha256):
        raise DataError(f"{file.path!r} has no SHA-256")
    return file


def weights(files: Mapping[str, int]) -> dict[str, int]:
    """What is a model among a run's artifacts, with its bytes: the folder `model` that holds weights (several where each fold has its
    own, `folds/1/model`), else the top folder that does, or a file of weights itself."""
    models = set()
    for parts in (path.split("/") for path in files if path.endswith(SUFFIXES)):
        models.add("/".join(parts[: parts.index(MODEL) + 1]) if MODEL in parts else parts[0])
    return {model: sum(size for path, size in files.items() if within(path, [model])) for model in sorted(models)}


def within(path: str, folders: Iterable[str]) -> bool:
    """Whether an artifact is one of these, or lies below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


@contextmanager
def member(archive: zipfile.ZipFile, name: str, packing: int | None = None) -> Iterator[IO[bytes]]:
    """A file of the archive to write to; no date and no owner, so that the same runs give the same bytes.

    packing: of the zip module; None = deflated where that makes it smaller.
    """
    info = zipfile.ZipInfo(name)
    useful = zipfile.ZIP_STORED if name.endswith(PACKED) else zipfile.ZIP_DEFLATED
    info.compress_type = useful if packing is None else packing
    info.external_attr = 0o100644 << 16
    with archive.open(info, "w", force_zip64=True) as out:
        yield out


def refusal(info: zipfile.ZipInfo) -> str:
    """Why a member of an archive is none of a bundle; empty where it may be."""
    name, mode = info.orig_filename, info.external_attr >> 16
    parts = name.split("/")
    if stat.S_ISLNK(mode) or (stat.S_IFMT(mode) and not stat.S_ISREG(mode)):
        return "is not a regular file"
    if (
        name != info.filename
        or "\\" in name
        or any(part in ("", ".", "..") for part in parts)
        or not name.isprintable()
    ):
        return "is not a valid path within the bundle"
    if any(len(part.encode()) > 255 for part in parts) or len(name) > 2000:
        return "has a name that is too long"
    if info.flag_bits & 1:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is packed in a way that bundles do not use"
    return f"has {info.file_size:,} bytes, and the limit is {LARGEST_FILE:,}" if info.file_size > LARGEST_FILE else ""


def texts(raw: Mapping[str, Any]) -> dict[str, str]:
    """A mapping from text to text. Raises TypeError for any other."""
    if any(not isinstance(value, str) for value in raw.values()):
        raise TypeError("a value is not text")
    return dict(raw)


def parsed(text: str | bytes, where: str) -> Any:
    """The value of a JSON text. Raises DataError that names `where`."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{where} is not JSON: {error}") from error


@contextmanager
def sense(where: str) -> Iterator[None]:
    """Turns what goes wrong while a record is taken apart into one line that names it."""
    try:
        yield
    except DataError as error:
        raise error if str(error).startswith(where.split(":")[0]) else DataError(f"{where}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{where} lacks required content: {error!r}") from error
