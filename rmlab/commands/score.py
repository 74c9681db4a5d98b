"""`rmlab score`: scores trajectories with a trained verifier, or with any local model and a prompt template."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmlab.errors import DataError, UsageError
from rmlab.files import check_output, only_writer
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.wording import counted

if TYPE_CHECKING:
    from rmlab.models.tokenizer import Tokenizer
    from rmlab.trajectories.record import Trajectory
    from rmlab.verifiers.judge_model import JudgeModel
    from rmlab.verifiers.judge_prompt import JudgePrompt
    from rmlab.verifiers.verifier import Verifier

app = typer.Typer()

ALL = "all"
DTYPES = ("float32", "bfloat16")
JUDGES = "for a model that rmlab has not trained"


@app.command(epilog="Example: `rmlab score --model RUN_ID rmlab/starter/trajectories.parquet -o scores.parquet`")
def score(
    trajectories: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="A run, a cell (data_scale/demo/4000/s0) or the folder of a verifier; or any folder, or hf:NAME on the hub, with a causal "
            "language model or a classification head of one label.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The score table to write (.parquet, .csv or .jsonl).", show_default=False),
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="The part to score, or all. Default: evaluation if the set has parts.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto (cuda if available).")] = "cpu",
    per_turn: Annotated[
        bool,
        typer.Option(
            "--per-turn", help="Also write the score after every turn (NAME.turns.parquet), one pass per turn."
        ),
    ] = False,
    show_prompt: Annotated[
        bool, typer.Option("--show-prompt", help="Print the prompt of the first attempt without scoring anything.")
    ] = False,
    template: Annotated[
        Path | None,
        typer.Option(help=f"File with {{turns}}, {{patch}}, {{issue}}, {{yes}}, {{no}} in its text; {JUDGES}."),
    ] = None,
    answers: Annotated[
        str | None, typer.Option(help=f"The answers for resolved and unresolved, YES,NO by default; {JUDGES}.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(help=f"Context in tokens. Default: all positions of the model; {JUDGES}.")
    ] = None,
    dtype: Annotated[str, typer.Option(help=f"Precision, float32 or bfloat16; {JUDGES}.")] = "float32",
    force: Annotated[bool, typer.Option("--force", help="Score even if the output exists, and replace it.")] = False,
) -> None:
    """Score trajectories with a trained verifier, or with any language model as a judge. A finished table (Parquet) is not scored again."""
    from rmlab.made_before import made_before
    from rmlab.scores.writing import table_writer
    from rmlab.tracking.tags import command_line
    from rmlab.training.device import prepare_device
    from rmlab.verifiers.per_turn import turns_path
    from rmlab.verifiers.prompt import check_leaks
    from rmlab.verifiers.scoring import BATCH_TOKENS
    from rmlab.verifiers.verifier import load_verifier

    if out is not None:
        check_output(out, [trajectories, *filter(None, [template])])
        table_writer(out)
    elif not show_prompt:
        raise UsageError("name the score table to write with --out, e.g. -o scores.parquet")
    if dtype not in DTYPES:
        raise UsageError(f"--dtype {dtype}: must be {' or '.join(DTYPES)}")
    where = prepare_device(device)
    chosen, part = _chosen(trajectories, part)
    check_leaks(chosen)
    asked = _Asked(template, answers, max_tokens, dtype)
    if show_prompt or out is None:
        _show_prompt(model, asked, chosen)
        return
    folder, is_own = _model(model, asked)
    request = asked.request(folder, chosen, per_turn)
    with only_writer(out, "the score table"):
        is_whole = not per_turn or turns_path(out).exists()
        if not force and made_before(out, request) and is_whole:
            print(f"finished already: {out} (--force scores again)")
            return
        scorer = load_verifier(folder, where) if is_own else _judge(model, folder, asked, chosen)
        scorer.model.to(where)
        _write(
            out,
            scorer,
            chosen,
            part,
            BATCH_TOKENS[where],
            per_turn,
            {"command": command_line(), "config_hash": request},
        )


def _write(
    out: Path,
    scorer: "Verifier | JudgeModel",
    chosen: "Sequence[Trajectory]",
    part: str,
    batch_tokens: int,
    per_turn: bool,
    made_by: dict[str, str],
) -> None:
    """Scores, writes the table and says what is in it. Raises DataError where nothing fits the context."""
    from rmlab.scores.writing import write_score_table
    from rmlab.verifiers.encoding import cut_counts, cut_words, unfit_counts

    encoded = scorer.encode(chosen, show=True)
    if all(one.ids is None for one in encoded):
        raise DataError(
            f"none of the {counted(len(encoded), 'attempt')} fits the context ({', '.join(unfit_counts(encoded))}), so nothing can be "
            "scored. Raise --max-tokens, or use a verifier with a longer context."
        )
    table = scorer.score(encoded, batch_tokens=batch_tokens, show=True)
    if per_turn:  # written before the table, which says that both are there; one of another request goes first
        from rmlab.verifiers.per_turn import score_turns, turns_path, write_turn_scores

        turns = score_turns(scorer, chosen, batch_tokens=batch_tokens, show=True)
        out.unlink(missing_ok=True)
        write_turn_scores(turns_path(out), turns)
        print(f"{turns_path(out)}: scores after {sum(map(len, turns.values())):,} turns")
    write_score_table(out, table, made_by)
    unfit = unfit_counts(encoded)
    words = "; ".join(f"{of}: {many:,}" for of, many in unfit.items())
    cut = cut_words(cut_counts(encoded))
    print(
        f"{out}: {counted(len(table), 'attempt')} (part: {part})"
        + (f", {cut}" if cut else "")
        + (f", {sum(unfit.values())} do not fit the context ({words})" if unfit else "")
    )


def _chosen(path: Path, part: str | None) -> "tuple[list[Trajectory], str]":
    """The trajectories to score, and which part they are."""
    from rmlab.trajectories.record import SPLITS
    from rmlab.trajectories.store import read_trajectories

    if part not in (None, ALL, *SPLITS):
        raise UsageError(f"--part {part}: must be one of {', '.join(SPLITS)}, or {ALL}")
    pool = read_trajectories(path)
    if part is None:
        part = "evaluation" if any(t.split is not None for t in pool.trajectories) else ALL
    chosen = [t for t in pool.trajectories if part == ALL or t.split == part]
    if not pool.trajectories:
        raise DataError(f"{path} has no trajectories: collect or import some")
    if not chosen:
        raise DataError(f"{path} has no trajectories of part {part}: choose another with --part, or --part {ALL}")
    return chosen, part


@dataclass(frozen=True)
class _Asked:
    """How to prompt a model that rmlab has not trained, from the options."""

    template: Path | None
    answers: str | None
    max_tokens: int | None
    dtype: str

    def prompt(self, folder: Path) -> "JudgePrompt":
        """For the model of a folder."""
        from rmlab.verifiers.judge_model import judge_prompt
        from rmlab.verifiers.judge_prompt import answer_words, read_template

        return judge_prompt(
            folder,
            read_template(self.template) if self.template else None,
            answer_words(self.answers) if self.answers is not None else None,
            self.max_tokens,
        )

    def request(self, folder: Path, chosen: "Sequence[Trajectory]", per_turn: bool) -> str:
        """Hash of everything that can change the scores but for rounding."""
        from rmlab.models.load import folder_identity
        from rmlab.trajectories.store import TrajectorySet
        from rmlab.verifiers.config import SEMANTICS
        from rmlab.verifiers.judge_prompt import read_template

        return fingerprint(
            {
                "program": "score",
                "model": [folder_identity(folder), *map(file_fingerprint, sorted(folder.glob("*.jinja")))],
                "template": read_template(self.template) if self.template else None,
                "asked": [self.answers, self.max_tokens, self.dtype],
                "trajectories": TrajectorySet(tuple(chosen), {}).fingerprint,
                "per_turn": per_turn,
                "semantics": [SEMANTICS["render"], SEMANTICS["score"]],
            }
        )

    def check_unused(self, model: str) -> None:
        """Raises UsageError for an option that a verifier of rmlab does not take."""
        given = {"--template": self.template, "--answers": self.answers, "--max-tokens": self.max_tokens}
        named = [name for name, value in given.items() if value is not None]
        named += ["--dtype"] if self.dtype != "float32" else []
        if named:
            raise UsageError(
                f"{named[0]} is {JUDGES}; {model} is a verifier of rmlab, which is always prompted as in training"
            )


def _model(model: str, asked: _Asked) -> tuple[Path, bool]:
    """The folder of a model, and whether it is a verifier of rmlab."""
    from rmlab.tracking.references import find_model
    from rmlab.verifiers.judge_model import local_folder

    if (folder := local_folder(model)) is not None:
        return folder, False
    asked.check_unused(model)
    return find_model(model, "verifier.json").folder, True


def _judge(model: str, folder: Path, asked: _Asked, chosen: "Sequence[Trajectory]") -> "JudgeModel":
    from rmlab.verifiers.judge_model import load_judge

    judge = load_judge(folder, asked.prompt(folder), chosen, asked.dtype)
    print(f"{model}: {judge.prompt.summary(judge.answer)}; --show-prompt shows what it reads")
    return judge


def _show_prompt(model: str, asked: _Asked, chosen: "Sequence[Trajectory]") -> None:
    """Prints the template, and the first attempt's prompt as it is read."""
    from rmlab.verifiers.verifier import load_verifier

    tokenizer: Tokenizer
    folder, is_own = _model(model, asked)
    if is_own:
        verifier = load_verifier(folder)
        (encoded,), tokenizer = verifier.encode(chosen[:1]), verifier.tokenizer
    else:
        prompt = asked.prompt(folder)
        print(f"--- template (to use your own: --template FILE)\n{prompt.template}\n---")
        prompt, answer = prompt.proven(chosen)
        print(f"{model}: {prompt.summary(answer)}")
        (encoded,), tokenizer = prompt.encode(chosen[:1]), prompt.tokenizer
    if encoded.ids is None:
        print(f"--- {chosen[0].trajectory_id} has {encoded.n_tokens:,} tokens and does not fit the context")
        return
    print(f"--- the prompt of {chosen[0].trajectory_id}: {len(encoded.ids):,} of {encoded.n_tokens:,} tokens")
    print(tokenizer.decode(encoded.ids.tolist()))
