"""`rmlab score`: the score table of trajectories under a trained verifier.

    rmlab score --model RUN_OR_PATH trajectories.parquet -o scores.parquet [--per-turn]

A set that has parts is scored on its evaluation part unless another is named: a verifier was trained on the others.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output
from rmlab.paths import runs_folder
from rmlab.trajectories.record import SPLITS
from rmlab.trajectories.store import read_trajectories
from rmlab.verifiers.leaks import check_leaks
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.scores.scores import Scores

ALL = "all"


def main(
    model: str,
    trajectories: Path,
    output: Path,
    *,
    part: str | None = None,
    device: str = "cpu",
    batch_tokens: int = 16384,
    uri: str | None = None,
    show: bool = True,
    per_turn: bool = False,
) -> "Scores":
    """Scores trajectories of a set and writes the table; returns it.

    part: a part, or `all`; None = evaluation where the set has parts, else all.
    model: an MLflow run id of a finished verifier run, or a folder with a saved verifier. output: .csv, .jsonl or .parquet.
    uri: store of the run, None = the project's own. per_turn: the score after every turn too, beside the table as
    `NAME.turns.parquet`. Raises DataError for an empty set, a prompt that holds its outcome or a
    folder that is no verifier, StoreError for a run that is not there.
    """
    from rmlab.scores.table import table_writer, write_score_table
    from rmlab.training.device import resolve_device
    from rmlab.verifiers.encoding import cut_counts, cut_words, unfit_counts
    from rmlab.verifiers.verifier import load_verifier

    if part not in (None, ALL, *SPLITS):
        raise UsageError(f"--part {part}: it is one of {', '.join(SPLITS)}, or {ALL}")
    check_output(output, [trajectories])
    table_writer(output)
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
    verifier = load_verifier(model_folder(model, uri))
    verifier.model.to(where)
    encoded = verifier.encode(chosen, show)
    table = verifier.score(encoded, batch_tokens=batch_tokens, show=show)
    write_score_table(output, table)
    unfit = unfit_counts(encoded)
    words = "; ".join(f"{of}: {many:,}" for of, many in unfit.items())
    cut = cut_words(cut_counts(encoded))
    print(
        f"{output}: {counted(len(table), 'attempt')} (part: {part})"
        + (f", {cut}" if cut else "")
        + (f", {sum(unfit.values())} do not fit the context ({words})" if unfit else "")
    )
    if per_turn:
        from rmlab.verifiers.per_turn import score_turns, turns_path, write_turn_scores

        turns = score_turns(verifier, chosen, batch_tokens=batch_tokens, show=show)
        write_turn_scores(turns_path(output), turns)
        print(f"{turns_path(output)}: scores after {sum(map(len, turns.values())):,} turns")
    return table


def model_folder(model: str, uri: str | None = None) -> Path:
    """The folder of a saved verifier: itself, or the artifact `model` of a run."""
    from rmlab.tracking.query import get_run
    from rmlab.tracking.store import Store

    folder = Path(model)
    if folder.is_dir():
        return folder / "model" if not (folder / "verifier.json").is_file() and (folder / "model").is_dir() else folder
    store = Store.existing(uri)
    if store is None:
        raise DataError(
            f"--model {model}: there is no such folder, and no run either: {runs_folder()} has no store yet"
        )
    return get_run(store, model).artifact("model")
