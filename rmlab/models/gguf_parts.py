"""A model in GGUF as a few files that travel: parts of bounded size, to be joined on a machine without a network.

A part is a safetensors file of blocks as they are, compressed (zstd); carried.json names what belongs together. Joining needs
neither the GGUF file nor the package that reads it.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rmlab.errors import DataError
from rmlab.files import atomic_folder, write_text
from rmlab.fingerprint import file_fingerprint
from rmlab.models.gguf_llama import GgufLlama, Packed

FORMAT, INDEX = 1, "carried.json"
LEVEL = 12  # of zstd: more takes minutes and saves nothing on 4-bit blocks


def pack(llama: GgufLlama, folder: Path, part_mb: float, record: dict[str, Any]) -> list[Path]:
    """Writes the parts (each under `part_mb` MB) and their index into a folder, and returns all its files.

    Raises DataError where a single tensor is larger than a part.
    """
    from safetensors.numpy import save

    room = int(part_mb * 1e6)
    groups: list[dict[str, Packed]] = [{}]
    filled = 0
    for name, packed in llama.tensors.items():
        if packed.raw.nbytes > room:
            raise DataError(
                f"{name} takes {packed.raw.nbytes / 1e6:.0f} MB, more than a part of {part_mb} MB: "
                "cut the vocabulary (--vocabulary 6000), or allow larger parts"
            )
        if filled + packed.raw.nbytes > room:
            groups.append({})
            filled = 0
        groups[-1][name] = packed
        filled += packed.raw.nbytes
    with atomic_folder(folder, (INDEX,)) as temporary:
        parts = []
        for number, group in enumerate(groups):
            plain = save({name: packed.raw for name, packed in group.items()})
            path = temporary / f"part-{number}.zst"
            path.write_bytes(bytes(pa.Codec("zstd", LEVEL).compress(plain)))
            parts.append(
                {
                    "file": path.name,
                    "bytes": len(plain),
                    "fingerprint": file_fingerprint(path),
                    "tensors": {name: {"kind": packed.kind, "heads": packed.heads} for name, packed in group.items()},
                }
            )
        text = {"config": llama.config, "tokens": llama.tokens, "merges": llama.merges, "special": llama.special}
        write_text(temporary / INDEX, json.dumps({"format": FORMAT, "record": record, "parts": parts, **text}) + "\n")
    return sorted(folder.iterdir())


def unpack(folder: Path) -> tuple[GgufLlama, dict[str, Any]]:
    """The model of a folder of parts, and what is recorded of it. Raises DataError where a part is missing or altered."""
    if not (folder / INDEX).is_file():
        raise DataError(f"{folder} holds no {INDEX}: it is no model that `rmlab models pack` wrote")
    try:
        return _joined(folder, json.loads((folder / INDEX).read_bytes()))
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
    ) as error:  # JSON, or what it says, is not what `pack` writes
        raise DataError(
            f"{folder / INDEX} is not what `rmlab models pack` wrote ({type(error).__name__}: {error}). Copy it again."
        ) from error


def _joined(folder: Path, index: dict[str, Any]) -> tuple[GgufLlama, dict[str, Any]]:
    from safetensors.numpy import load

    tensors: dict[str, Packed] = {}
    for part in index["parts"]:
        path = folder / part["file"]
        if not path.is_file():
            raise DataError(f"{path} is missing: {len(index['parts'])} parts belong together. Bring it along too.")
        if file_fingerprint(path) != part["fingerprint"]:
            raise DataError(f"{path} is not the part that was packed (its content differs). Copy it again.")
        plain = load(bytes(pa.Codec("zstd").decompress(path.read_bytes(), part["bytes"])))
        tensors |= {
            name: Packed(about["kind"], np.asarray(plain[name]), about["heads"])
            for name, about in part["tensors"].items()
        }
    return GgufLlama(
        index["config"], tensors, tuple(index["tokens"]), tuple(index["merges"]), tuple(index["special"])
    ), index["record"]
