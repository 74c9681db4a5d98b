"""`rmlab browse`: shows scored trajectories, the most confident mistakes first, as a page or on a local server."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import PAGE, check_output
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.pages.browse import ScoredAttempts

app = typer.Typer()

SAME_SCORE = 1e-3  # scores that other batches of one prompt may differ by at most


@app.command(epilog="Example: `rmlab browse scores.parquet rmlab/starter/trajectories.parquet --serve`")
def browse(
    scores: Annotated[Path, typer.Argument(help="A score table. Rows are matched as in rmlab evaluate.")],
    trajectories: Annotated[Path, typer.Argument(help="The trajectories that the table scores (Parquet).")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a page: the table, and the turns of the 200 most confident mistakes."),
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve all attempts on 127.0.0.1 until Ctrl-C.")] = False,
    port: Annotated[int | None, typer.Option(help="Port for --serve. Default: any free port.")] = None,
    turns: Annotated[
        Path | None,
        typer.Option(help="Scores after every turn. Default: NAME.turns.parquet next to the table, if it exists."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="ROLE=COLUMN,... where the table uses other names, as in rmlab evaluate.")
    ] = None,
) -> None:
    """Read scored trajectories, the most confident mistakes first: as a page, or on a server for tables of any size."""
    if (out is None) == (not serve):
        raise UsageError(
            "name a page to write with -o PAGE.html, or use --serve"
            if out is None
            else "-o and --serve exclude each other: choose one"
        )
    if port is not None and not serve:
        raise UsageError("--port needs --serve")
    if out is not None:
        check_output(out, [scores, trajectories, *([turns] if turns else [])], PAGE)
    attempts = read(scores, trajectories, turns, columns or [])
    print(*attempts.notes, sep="\n")
    title = scores.name
    if out is not None:
        from rmlab.pages.browse import write_browse_page

        write_browse_page(out, title, attempts)
        print(f"{out}: {counted(len(attempts), 'attempt')}, {out.stat().st_size / 1e6:.1f} MB")
        return
    from rmlab.pages.browse import HOST, browse_server

    with browse_server(title, attempts, port or 0) as server:
        print(
            f"{counted(len(attempts), 'attempt')} at http://{HOST}:{server.server_port}/  (Ctrl-C ends it)", flush=True
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def read(scores: Path, trajectories: Path, turns: Path | None, columns: Sequence[str] = ()) -> "ScoredAttempts":
    """The attempts that a score table scores, joined with their trajectories as `rmlab evaluate` joins them. Raises DataError for
    turns of another scoring."""
    from rmlab.pages.browse import most_wrong_first
    from rmlab.scores.columns import column_names
    from rmlab.scores.joining import join
    from rmlab.scores.table import read_table
    from rmlab.trajectories.store import read_trajectories
    from rmlab.verifiers.per_turn import read_turn_scores, turns_path

    pool = read_trajectories(trajectories)
    joined = join(read_table(scores, column_names(columns), joined=True), scores, pool, trajectories)
    table = joined.table.scores
    where = turns if turns is not None else turns_path(scores)
    turn_scores = read_turn_scores(where) if turns is not None or where.is_file() else {}
    score = dict(zip(table.trajectory_id.tolist(), table.score.tolist(), strict=True))
    for name, after in turn_scores.items():
        last = after[-1][1]
        if last is not None and name in score and not abs(last - score[name]) < SAME_SCORE:
            raise DataError(
                f"{where}: {name} ends at {last}, but {scores} has {score[name]}: these turns belong to another scoring. "
                "Score again with --per-turn, or move the file away."
            )
    return most_wrong_first(table, joined.trajectories, turn_scores, joined.table.notes)
