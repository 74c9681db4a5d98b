"""The `rmlab` command: it parses the line, loads the program by its file, and turns errors into one line and an exit code.

Nothing heavy is imported before a command runs. 0 = success, 2 = called wrongly, 130 = interrupted, 1 = anything else.
"""

import io
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from rmlab.commands import models, runs, tasks, trajectories
from rmlab.commands.common import Overrides, program
from rmlab.errors import RmlabError, UsageError

app = typer.Typer(
    name="rmlab",
    help="Train verifiers of software-engineering agents under controlled conditions, and find out which choices matter.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.add_typer(models.app, name="models")
app.add_typer(runs.app, name="runs")
app.add_typer(tasks.app, name="tasks")
app.add_typer(trajectories.app, name="trajectories")
app.command("import", epilog="Example: `rmlab import auto ../20240623_moatless.zip -o runs/real.parquet`")(
    trajectories.import_trajectories
)


class OnError(StrEnum):
    """What a failed cell does to its sweep."""

    stop = "stop"
    cont = "continue"


@app.command(epilog="Example: `rmlab sweep data_scale preset=smoke --workers 2`")
def sweep(
    name: Annotated[str, typer.Argument(help="A file of sweeps/, without .yaml.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[preset=P] [OVERRIDE]...",
            help="preset, levels, seeds, arms, baseline or trials choose within the sweep; hydra/launcher=NAME says where cells run; "
            "anything else is set in every cell.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells, which are finished, and the cost.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print what all cells share and, as a diff, how they differ.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(help="Cells at once. Default: as many as the cores (or GPUs) hold; results do not depend on it."),
    ] = None,
    cells_per_gpu: Annotated[
        int | None,
        typer.Option(help="Cells that share a GPU, and its memory. Default: 1; small cells leave a card idle."),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="After a failed cell: start no more, or go on with the rest.")
    ] = OnError.stop,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run cells again that failed before.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Run finished cells again; the new runs take their place.")
    ] = False,
    redo_before: Annotated[
        str | None,
        typer.Option(help="Run cells again that began before this time: goes on with an interrupted --force."),
    ] = None,
    rerun_stale: Annotated[
        bool, typer.Option("--rerun-stale", help="Run cells again that another commit finished.")
    ] = False,
) -> None:
    """Launch a sweep, or go on with it where it stopped. Finished cells are not run again unless asked."""
    given = [
        *(arguments or []),
        *([f"hydra.launcher.cells_per_gpu={cells_per_gpu}"] if cells_per_gpu is not None else []),
    ]
    program("sweep").main(
        name,
        given,
        dry_run=dry_run,
        explain=explain,
        workers=workers,
        on_error=on_error.value,
        retry_failed=retry_failed,
        force=force,
        redo_before=redo_before,
        rerun_stale=rerun_stale,
    )


@app.command(epilog="Example: `rmlab collect output=runs/few.parquet parts.verifier.tasks=20 parts.evaluation.tasks=0`")
def collect(overrides: Overrides = None) -> None:
    """Roll policies out in micro-SWE and write a trajectory set."""
    program("collect").main(overrides or [])


@app.command(epilog="Example: `rmlab train preset=smoke data.scale=64 seed=1`")
def train(
    overrides: Overrides = None,
    multirun: Annotated[
        bool,
        typer.Option(
            "--multirun", "-m", help="Hydra's multirun: +sweep=NAME, or several values of a key; hydra/launcher=NAME."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Train though this configuration is finished.")] = False,
) -> None:
    """Train, score and report one verifier. One that is finished, or being trained, is not trained a second time."""
    if multirun or any(text.lstrip("+").startswith("sweep=") for text in overrides or []):
        program("multirun").main("train_verifier", overrides or [])
    else:
        program("train_verifier").main(overrides or [], force)


@app.command(epilog="Example: `rmlab rl start=runs/policies/starter-s0 reward=hybrid verifier=data_scale/demo/8000/s0`")
def rl(
    overrides: Overrides = None,
    force: Annotated[bool, typer.Option("--force", help="Train though this configuration is finished.")] = False,
) -> None:
    """Train one policy in micro-SWE, paid by execution or by a verifier, and measure what became of it."""
    program("rl").main(overrides or [], force)


@app.command(epilog="Example: `rmlab pretrain model=base_128x2 runtime=cuda runtime.compiled=true`")
def pretrain(overrides: Overrides = None) -> None:
    """Train the base model that small verifiers start from, on unlabelled text."""
    program("pretrain").main(overrides or [])


@app.command(
    "warm-start", epilog="Example: `rmlab warm-start model=path model.pretrained=FOLDER runtime=cuda engine=cuda`"
)
def warm_start(
    overrides: Overrides = None,
    force: Annotated[
        bool, typer.Option("--force", help="Train though the output folder holds this very policy.")
    ] = False,
) -> None:
    """Teach a language model to act in micro-SWE from demonstrations, and measure it on held-out tasks."""
    program("train_policy").main(overrides or [], force)


@app.command(epilog="Example: `rmlab score --model RUN_ID rmlab/starter/trajectories.parquet -o scores.parquet`")
def score(
    trajectories: Annotated[Path, typer.Argument(help="A trajectory set (Parquet).")],
    model: Annotated[str, typer.Option("--model", "-m", help="A tracked run's id, or the folder of a model.")],
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
    program("score").main(model, trajectories, out, part=part, device=device, per_turn=per_turn)


@app.command(
    epilog="Example: `rmlab evaluate scores.csv --columns score=final_probe,resolved=label,task_id=iid --html report.html`"
)
def evaluate(
    scores: Annotated[
        list[Path],
        typer.Argument(
            help="A score table (CSV, JSONL, JSON, Parquet) with task_id, score, resolved; or reports of a test harness, one attempt each."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="ROLE=COLUMN,... of a table with other names: task_id, score, resolved (COLUMN==VALUE: that value is resolved), policy, "
            "...; logprobs, or yes_logprob and no_logprob, make a score; regression and reproduction are test results."
        ),
    ] = None,
    trajectories: Annotated[
        Path | None, typer.Option(help="The trajectories that it scores; adds the baselines that read them.")
    ] = None,
    validation: Annotated[
        Path | None,
        typer.Option(
            help="A score table of other tasks to fit temperature, Platt and isotonic on. Default: its own folds."
        ),
    ] = None,
    training_prior: Annotated[
        float | None,
        typer.Option(help="Share of resolved examples in training: with --validation, the prior-corrected ECE."),
    ] = None,
    incomplete: Annotated[
        str, typer.Option(help="What a task is that a report lists as incomplete: unresolved or unlabelled.")
    ] = "unresolved",
    html: Annotated[
        Path | None, typer.Option(help="A page to write: figures, intervals, worst errors; it loads nothing.")
    ] = None,
) -> None:
    """All metrics of a score table: selection, discrimination, calibration, what the gradient sees."""
    program("evaluate").main(
        scores,
        as_json,
        trajectories,
        validation,
        columns=columns or [],
        training_prior=training_prior,
        incomplete=incomplete,
        html=html,
    )


@app.command(epilog="Example: `rmlab browse scores.parquet rmlab/starter/trajectories.parquet --serve`")
def browse(
    scores: Annotated[Path, typer.Argument(help="A score table with trajectory_id.")],
    trajectories: Annotated[Path, typer.Argument(help="The trajectories that it scores (Parquet).")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A page to write: the table, and the turns of 200 mistakes.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve all attempts on 127.0.0.1 until Ctrl-C.")] = False,
    port: Annotated[int | None, typer.Option(help="Of --serve. Default: a free one.")] = None,
    turns: Annotated[
        Path | None,
        typer.Option(help="Scores after every turn. Default: NAME.turns.parquet beside the table, where it is."),
    ] = None,
    columns: Annotated[
        list[str] | None, typer.Option(help="ROLE=COLUMN,... of a table with other names, as in rmlab evaluate.")
    ] = None,
) -> None:
    """Read scored trajectories, the most confident mistakes first: a page, or a server for tables of any size."""
    program("browse").main(scores, trajectories, out, serve=serve, port=port, turns=turns, columns=columns or [])


@app.command(epilog="Example: `rmlab compare data_scale=8000 data_scale=3000 --sweep data_scale`")
def compare(
    a: Annotated[
        str | None,
        typer.Argument(help="A score table, a tracked run's id, or with --sweep a level.", show_default=False),
    ] = None,
    b: Annotated[str | None, typer.Argument(help="Another on the same trajectories.", show_default=False)] = None,
    sweep: Annotated[
        str | None, typer.Option(help="A and B are levels of this sweep: seeds in pairs, Holm's correction.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Of the sweep. Default: the one that has finished runs.")] = None,
    halves: Annotated[
        bool, typer.Option("--halves", help="Compare the seeds of one level with each other (A/A).")
    ] = False,
    source: Annotated[
        str | None, typer.Option("--from", help="A store's URL or file; with --sweep a bundle too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Paired comparison of two runs (verifiers or policies), score tables or levels of a sweep: differences and their intervals."""
    if halves and sweep and b is None:
        program("compare_levels").halves(sweep, level=a, preset=preset, as_json=as_json, source=source)
    elif a is None or b is None or halves:
        raise UsageError(
            "name two: `rmlab compare A B`, `rmlab compare LEVEL LEVEL --sweep NAME` or "
            "`rmlab compare --halves --sweep NAME`"
        )
    elif sweep:
        program("compare_levels").main(a, b, sweep, preset=preset, as_json=as_json, source=source)
    else:
        program("compare").main(a, b, as_json, source)


@app.command(epilog="Example: `rmlab figures data_scale -o figures`")
def figures(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Sweeps or figures; none = all.", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="A store's URL or file, or a bundle. Default: the project's own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder. Default: figures/ in the runs folder.")
    ] = None,
) -> None:
    """Draw figures again from tracked runs: PDF, PNG and the CSV that each is drawn from."""
    for path in program("figures").main(names or [], source, out):
        print(path)


@app.command(epilog="Example: `rmlab ui --port 5005`")
def ui(
    port: Annotated[int | None, typer.Option(help="Default: the first free one from 5000 on.")] = None,
    store: Annotated[str | None, typer.Option(help="A sqlite URI. Default: the project's own store.")] = None,
) -> None:
    """Open the MLflow UI over the project's store, on 127.0.0.1."""
    from rmlab.tracking.store import Store
    from rmlab.tracking.ui import choose_port, serve

    chosen = choose_port(port)
    serve(Store.open(store), chosen)


@app.command(epilog="Example: `rmlab doctor`")
def doctor() -> None:
    """Say what works on this machine: packages, GPUs, store, sandbox, shipped data, disk."""
    program("doctor").main()


# typer carries click's exceptions, from click itself or from a copy of its own: taken by their place in the family.
UsageProblem: type[Exception] = typer.BadParameter.__mro__[1]
CommandProblem: type[Exception] = typer.BadParameter.__mro__[2]


INTERRUPTED = 130


def _print_anything() -> None:
    """Characters that the output's encoding lacks (LC_ALL=C, a name that is no UTF-8) are printed as escapes: here, and in what is
    started from here."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            os.environ["PYTHONIOENCODING"] = f"{stream.encoding}:backslashreplace"


def main() -> None:
    """The console script."""
    _print_anything()
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this code, without a word
            code = _complain("interrupted", INTERRUPTED)
    except RmlabError as error:
        code = _complain(str(error), error.exit_code)
    except UsageProblem as error:
        context: Any = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            print(context.get_help())
            code = 2
        else:
            code = _complain(f"{_line(error)} (`{context.command_path} --help` shows how)", 2)
    except CommandProblem as error:
        code = _complain(_line(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = _complain("interrupted", INTERRUPTED)
    except (
        UnicodeEncodeError
    ) as error:  # a name that is no UTF-8 (on the command line, or of a file), in a text that is
        code = _complain(f"{error.object!a} has characters that are no UTF-8: use another name, or a UTF-8 locale", 1)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        code = 1
        sys.stderr.close()
    except OSError as error:  # the machine says no: a full disk, missing rights, a link that goes round in circles
        place = f"{error.filename}: " if error.filename is not None else ""
        code = _complain(f"{place}{error.strerror or error}. Mend that, or name another place.", 1)
    sys.exit(code or 0)


def _line(error: Any) -> str:
    return " ".join(error.format_message().split())


def _complain(line: str, code: int) -> int:
    print(f"rmlab: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
