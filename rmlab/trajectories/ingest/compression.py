"""Streams that are packed with gzip, zstd, bzip2 or xz: known by their first bytes, whatever the file is called."""

import bz2
import gzip
import lzma
from typing import IO, Any, cast

MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
ENDINGS = (".gz", ".zst", ".bz2", ".xz")


def compression(head: bytes) -> str | None:
    """How a file that begins like this is packed; None where it is not."""
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)


def unpacked(stream: IO[bytes], kind: str) -> IO[bytes]:
    """The stream's content. Reading it raises what the standard library raises on damaged data (OSError, EOFError, ...)."""
    if kind == "zstd":
        import pyarrow as pa

        return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd"))
    opened: Any = {"gzip": gzip.GzipFile, "bzip2": bz2.BZ2File, "xz": lzma.LZMAFile}[kind]
    return cast(IO[bytes], opened(fileobj=stream) if kind == "gzip" else opened(stream))


def plain_name(name: str) -> str:
    """A file's name without the ending of its compression: `output.jsonl.gz` → `output.jsonl`."""
    ending = next((one for one in ENDINGS if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)] or name
