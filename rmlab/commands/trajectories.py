"""`rmlab import` and `rmlab trajectories ...`: sets of trajectories, read, looked at, measured and split."""

from pathlib import Path
from typing import Annotated

import typer

from rmlab.commands.common import program
from rmlab.trajectories.readers.registry import format_names

app = typer.Typer(no_args_is_help=True, help="Sets of trajectories: look at them, measure them, split them.")


@app.callback()
def group() -> None:
    """Sets of trajectories: look at them, measure them, split them."""


def import_trajectories(
    format_name: Annotated[
        str,
        typer.Argument(metavar="FORMAT", help=f"auto, or one of {', '.join(format_names())}; rmlab is its own sets."),
    ],
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Folders, files, .zip, .tar (plain, .gz, .zst, .bz2, .xz), or hf:NAME of a hub's set.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The trajectory set to write (Parquet).")],
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="Reports that stand elsewhere; those within the paths are found anyway. May be given several times."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first record that is skipped, mended or in conflict.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as one JSON object on standard output.")] = False,
    leaks: Annotated[
        str, typer.Option(help="Attempts whose prompt holds an outcome: report them, or drop them.")
    ] = "report",
    source: Annotated[
        str, typer.Option(help="The source of all records. Default: by the task's id (swe-bench, swe-smith, ...).")
    ] = "",
) -> None:
    """Read trajectories in the wild and join the labels that lie beside them."""
    program("import_trajectories").main(
        format_name, paths, out, labels or [], strict=strict, as_json=as_json, leaks=leaks, source=source
    )


@app.command("lengths", epilog="Example: `rmlab trajectories lengths runs/real.parquet --tokenizer models/qwen3`")
def lengths(
    path: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    tokenizer: Annotated[
        str, typer.Option(help="A folder with tokenizer.json, or starter: the one of the shipped trajectories.")
    ] = "starter",
    budget: Annotated[
        list[int] | None,
        typer.Option(help="Context in tokens; may be given several times. Default: 8k, 32k, 128k, 256k."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """How many trajectories fit a context, by label: as they are, and with their observations cut in the middle."""
    program("trajectory_lengths").main(path, tokenizer, budget or [], as_json)


@app.command(
    "split",
    epilog="Example: `rmlab trajectories split runs/real.parquet -o runs/split.parquet --by repository --part verifier=0.7 "
    "--part validation=0.1 --part evaluation=0.2`",
)
def split(
    path: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The set to write.")],
    by: Annotated[str, typer.Option(help="repository, task, or time (the oldest attempts first).")] = "repository",
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="PART=SHARE; may be given several times. Default: verifier=0.7 validation=0.1 evaluation=0.2."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Which repositories or tasks come first; time needs none.")] = 0,
    near: Annotated[
        float,
        typer.Option(help="Issues whose words overlap by this share (Jaccard) go into one part. 0 = do not look."),
    ] = 0.8,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Split a set into parts that share no repository (or task), nor an issue that is almost the same."""
    program("split_trajectories").main(path, out, by, part or [], seed, near, as_json)


@app.command("show", epilog="Example: `rmlab trajectories show runs/real.parquet django__django-11066`")
def show(
    path: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    which: Annotated[
        str | None,
        typer.Argument(
            help="A trajectory_id (or its start) or a task_id; none = a table of policies.", show_default=False
        ),
    ] = None,
    width: Annotated[int, typer.Option(help="Characters of each turn that are shown; 0 = all.")] = 600,
) -> None:
    """Show a set's policies and labels, or one trajectory turn by turn."""
    program("show_trajectories").main(path, which, width)
