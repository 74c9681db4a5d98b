"""Models: fetches SmolLM2, cuts its vocabulary, and packs it for machines without a network.

rmlab models fetch smollm2
rmlab models pack smollm2 -o runs/carried --vocabulary 6000 --corpus rmlab/starter/trajectories.parquet
rmlab models unpack runs/carried -o runs/cache/models/smollm2_135m
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmlab.errors import DataError, UsageError
from rmlab.files import MODEL, atomic_folder, check_folder

if TYPE_CHECKING:
    from rmlab.models.gguf import GgufLlama

SMOLLM2 = "smollm2"


def fetch(name: str, vocabulary: int | None, corpus: Sequence[Path], wheel: Path | None, out: Path | None) -> Path:
    """Writes the model folder and returns it; one that is there already is left as it is."""
    from rmlab.models.gguf import write_model
    from rmlab.models.smollm2 import NAME, models_cache

    _known(name)
    folder = out or models_cache() / (NAME if vocabulary is None else f"{NAME}-{vocabulary}")
    if (folder / "config.json").is_file():
        print(f"{folder}: it is there already")
        return folder
    check_folder(folder, MODEL)
    llama, record = the_model(vocabulary, corpus, wheel)
    write_model(llama, folder, record)
    print(f"{folder}: {_size(folder):.0f} MB, {len(llama.tokens):,} tokens")
    return folder


def pack(
    name: str, out: Path, vocabulary: int | None, corpus: Sequence[Path], wheel: Path | None, part_mb: float
) -> list[Path]:
    """Writes the parts and returns them."""
    from rmlab.models.smollm2 import INDEX
    from rmlab.models.smollm2 import pack as pack_parts

    _known(name)
    if not 0 < part_mb < float("inf"):
        raise UsageError(f"--part-mb {part_mb:g}: it is a number of megabytes above 0")
    check_folder(out, (INDEX,))
    llama, record = the_model(vocabulary, corpus, wheel)
    files = pack_parts(llama, out, part_mb, record)
    for file in files:
        print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    print(f"{out}: {_size(out):.1f} MB in all, {len(llama.tokens):,} tokens")
    return files


def unpack(folder: Path, out: Path) -> Path:
    """Writes the model folder and returns it."""
    from rmlab.models.gguf import write_model
    from rmlab.models.smollm2 import unpack as unpack_parts

    check_folder(out, MODEL)
    llama, record = unpack_parts(folder)
    write_model(llama, out, record)
    print(f"{out}: {_size(out):.0f} MB, {len(llama.tokens):,} tokens")
    return out


def merge(base: Path, adapters: Path, out: Path) -> Path:
    """Writes the model with its adapters in it (bfloat16) and the base's tokenizer; returns the folder."""
    import torch

    from rmlab.models.load import load_model
    from rmlab.models.lora import load_adapters
    from rmlab.models.tokenizer import load_tokenizer

    check_folder(out, MODEL)
    model = load_adapters(load_model(base), adapters).merge_and_unload()
    with atomic_folder(out, MODEL) as temporary:
        model.to(torch.bfloat16).save_pretrained(str(temporary))
        load_tokenizer(base).save(temporary)
    print(f"{out}: {_size(out):.0f} MB")
    return out


def the_model(vocabulary: int | None, corpus: Sequence[Path], wheel: Path | None) -> "tuple[GgufLlama, dict[str, Any]]":
    """SmolLM2 with all its tokens or some, and what it was made from."""
    from rmlab.models.gguf import cut_vocabulary, read_gguf, with_words
    from rmlab.models.smollm2 import FILE, FINGERPRINT, REQUIREMENT, gguf_file
    from rmlab.verifiers.prompt import NO, YES

    if (vocabulary is None) != (not corpus):
        raise UsageError(
            "--vocabulary and --corpus go together: how many tokens, and which texts say what they are used for"
        )
    llama = with_words(read_gguf(gguf_file(wheel)), (YES, NO))
    record: dict[str, Any] = {"from": REQUIREMENT, "file": FILE, "fingerprint": FINGERPRINT, "license": "Apache-2.0"}
    if vocabulary is not None:
        llama = cut_vocabulary(llama, (text for path in corpus for text in texts_of(path)), vocabulary)
        record["vocabulary"] = {
            "asked": vocabulary,
            "tokens": len(llama.tokens),
            "corpus": [path.name for path in corpus],
        }
    return llama, record


def texts_of(path: Path) -> Iterator[str]:
    """What is read of a trajectory set (as verifiers read it) or of a pretraining corpus."""
    import pyarrow.parquet as pq

    from rmlab.pretraining.corpus import read_corpus
    from rmlab.trajectories.store import read_trajectories
    from rmlab.verifiers.prompt import NO, YES, render

    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    if "trajectory_id" in pq.read_schema(path).names:
        for number, trajectory in enumerate(read_trajectories(path).trajectories):
            yield render(trajectory) + (YES, NO)[number % 2]
    else:
        yield from (document.text for document in read_corpus(path).documents)


def _known(name: str) -> None:
    if name != SMOLLM2:
        raise UsageError(
            f"there is no model {name!r} to fetch; there is: {SMOLLM2}. Any local folder serves too: model=path "
            "model.pretrained=FOLDER."
        )


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
