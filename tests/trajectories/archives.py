"""Archives of every kind that hold the same files, and what reading one gives."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from rmlab.trajectories.ingest.containers import batches
from rmlab.trajectories.ingest.entries import ImportLimits
from rmlab.trajectories.ingest.skipped import Skipped

FILES = {"run/a.json": b'{"a": 1}', "run/b/c.jsonl": b'{"b": 1}\n{"b": 2}\n', "é ü.txt": "ä".encode()}


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def tarred(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def zst(path: Path, files: dict[str, bytes]) -> Path:
    plain = tarred(path.with_suffix(".plain"), files).read_bytes()
    with pa.OSFile(str(path), "wb") as raw, pa.CompressedOutputStream(raw, "zstd") as stream:
        stream.write(plain)
    return path


def folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


MAKERS: dict[str, Callable[[Path], Path]] = {
    "x.zip": lambda p: zipped(p, FILES),
    "x.tar": lambda p: tarred(p, FILES),
    "x.tar.gz": lambda p: tarred(p, FILES, "w:gz"),
    "x.tgz": lambda p: tarred(p, FILES, "w:gz"),
    "x.tar.zst": lambda p: zst(p, FILES),
    "x.tar.bz2": lambda p: tarred(p, FILES, "w:bz2"),
    "x.tar.xz": lambda p: tarred(p, FILES, "w:xz"),
    "folder": lambda p: folder(p, FILES),
}


def listed(path: Path, limits: ImportLimits | None = None) -> tuple[dict[str, bytes], dict[str, str]]:
    """Contents of what can be read, and reasons of what cannot."""
    read, refused = {}, {}
    for batch in batches(path, limits):
        for one in batch:
            if isinstance(one, Skipped):
                refused[one.location.path or str(one.location)] = one.reason
            else:
                try:
                    read[one.location.path] = one.read()
                except Skipped as reason:
                    refused[one.location.path] = str(reason)
    return read, refused
