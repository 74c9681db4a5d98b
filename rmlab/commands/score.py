"""`rmlab score`: the score table of trajectories under a trained verifier."""

from pathlib import Path
from typing import Annotated

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output
from rmlab.wording import counted

app = typer.Typer()

ALL = "all"
BATCH_TOKENS = 16384


@app.command(epilog="Example: `rmlab score --model RUN_ID rmlab/starter/trajectories.parquet -o scores.parquet`")
def score(
    trajectories: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    model: Annotated[
        str, typer.Option("--model", "-m", help="A run, a cell (data_scale/demo/8000/s0) or the folder of a verifier.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The score table to write (.parquet, .csv or .jsonl).")],
    part: Annotated[
        str | None, typer.Option(help="A part, or all. Default: evaluation where the set has parts.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto (cuda where there is one).")] = "cpu",
    per_turn: Annotated[
        bool, typer.Option("--per-turn", help="The score after every turn too (NAME.turns.parquet); one pass each.")
    ] = False,
) -> None:
    """Score trajectories with a trained verifier."""
    from rmlab.scores.table import table_writer, write_score_table
    from rmlab.tracking.query import find_model
    from rmlab.training.device import resolve_device
    from rmlab.trajectories.record import SPLITS
    from rmlab.trajectories.store import read_trajectories
    from rmlab.verifiers.encoding import cut_counts, cut_words, unfit_counts
    from rmlab.verifiers.leaks import check_leaks
    from rmlab.verifiers.verifier import load_verifier

    if part not in (None, ALL, *SPLITS):
        raise UsageError(f"--part {part}: it is one of {', '.join(SPLITS)}, or {ALL}")
    check_output(out, [trajectories])
    table_writer(out)
    where = resolve_device(device)
    pool = read_trajectories(trajectories)
    if part is None:
        part = "evaluation" if any(t.split is not None for t in pool.trajectories) else ALL
    chosen = [t for t in pool.trajectories if part == ALL or t.split == part]
    if not pool.trajectories:
        raise DataError(f"{trajectories} has no trajectories: collect or import some")
    if not chosen:
        raise DataError(f"{trajectories} has no trajectories of part {part}: name another with --part, or --part {ALL}")
    check_leaks(chosen)
    verifier = load_verifier(find_model(model, "verifier.json").folder)
    verifier.model.to(where)
    encoded = verifier.encode(chosen, show=True)
    table = verifier.score(encoded, batch_tokens=BATCH_TOKENS, show=True)
    write_score_table(out, table)
    unfit = unfit_counts(encoded)
    words = "; ".join(f"{of}: {many:,}" for of, many in unfit.items())
    cut = cut_words(cut_counts(encoded))
    print(
        f"{out}: {counted(len(table), 'attempt')} (part: {part})"
        + (f", {cut}" if cut else "")
        + (f", {sum(unfit.values())} do not fit the context ({words})" if unfit else "")
    )
    if per_turn:
        from rmlab.verifiers.per_turn import score_turns, turns_path, write_turn_scores

        turns = score_turns(verifier, chosen, batch_tokens=BATCH_TOKENS, show=True)
        write_turn_scores(turns_path(out), turns)
        print(f"{turns_path(out)}: scores after {sum(map(len, turns.values())):,} turns")
