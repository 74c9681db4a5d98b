"""The `rmlab` command: it joins the commands of rmlab/commands, and turns errors into one line and an exit code.

Nothing heavy is imported before a command runs. 0 = success, 2 = called wrongly, 130 = interrupted, 1 = anything else.
"""

import io
import os
import sys
from typing import Annotated, Any

import typer

from rmlab.commands import (
    bench,
    browse,
    compare,
    doctor,
    evaluate,
    experiments,
    figures,
    import_trajectories,
    models,
    plan,
    runs,
    score,
    sweep,
    tasks,
    trajectories,
    ui,
)
from rmlab.commands.common import instead_of_option
from rmlab.commands.verbosity import tells_progress, word_while_starting
from rmlab.errors import RmlabError
from rmlab.gpu_memory import explains_full_memory
from rmlab.stopping import INTERRUPTED, end_on_sigterm

app = typer.Typer(
    name="rmlab",
    help="Train verifiers of software-engineering agents under controlled conditions, and find out which choices matter.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from rmlab import __version__
        from rmlab.tracking.tags import commit

        print(f"rmlab {__version__} (commit {commit()})")
        raise typer.Exit


for single in (
    import_trajectories,
    sweep,
    experiments,
    plan,
    score,
    evaluate,
    browse,
    compare,
    figures,
    ui,
    bench,
    doctor,
):
    app.registered_commands += single.app.registered_commands
for name, group in {"models": models, "runs": runs, "tasks": tasks, "trajectories": trajectories}.items():
    app.add_typer(group.app, name=name)


@app.callback()
def whole(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and the commit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """What the command takes before the name of one of its own."""


SHOW_PROGRESS = (
    *(
        sweep.sweep,
        experiments.collect,
        experiments.train,
        experiments.rl,
        experiments.pretrain,
        experiments.warm_start,
    ),
    *(score.score, import_trajectories.import_trajectories, tasks.build, trajectories.lengths, trajectories.split),
    *(runs.export, runs.import_runs),
)
"""The commands that take -q and -v."""

for commands in (app, runs.app, tasks.app, trajectories.app):
    for registered in commands.registered_commands:
        if registered.callback in SHOW_PROGRESS:
            registered.callback = tells_progress(registered.callback)


# typer carries click's exceptions, from click itself or from a copy of its own: taken by their place in the family.
UsageProblem: type[Exception] = typer.BadParameter.__mro__[1]
CommandProblem: type[Exception] = typer.BadParameter.__mro__[2]


def _print_anything() -> None:
    """Characters that the output's encoding lacks (LC_ALL=C, a name that is no UTF-8) are printed as escapes: here, and in what is
    started from here."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            os.environ["PYTHONIOENCODING"] = f"{stream.encoding}:backslashreplace"


def main() -> None:
    """The console script. SIGTERM (a scheduler, `kill`) ends it as Ctrl-C does: with a checkpoint, and a word on how to go on."""
    try:
        end_on_sigterm()
        _print_anything()
        with word_while_starting(), explains_full_memory():
            answer = app(
                standalone_mode=False
            )  # what the command returned, for those who call it from Python; or a code
        code = answer if isinstance(answer, int) else 0
        if code == INTERRUPTED:  # typer turns Ctrl-C into this code, without a word
            code = _complain("interrupted", INTERRUPTED)
    except RmlabError as error:
        code = _complain(str(error), error.exit_code)
    except UsageProblem as error:
        context: Any = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), end="")  # nothing where typer has printed the help itself
            code = 2
        else:
            code = _complain(f"{_line(error)} ({_hint(error, context)}`{context.command_path} --help` shows how)", 2)
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
    sys.exit(code)


def _line(error: Any) -> str:
    return " ".join(error.format_message().split())


def _hint(error: Any, context: Any) -> str:
    """What to write in place of an option that is not there, where the command takes KEY=VALUE."""
    option = getattr(error, "option_name", None) if type(error).__name__ == "NoSuchOption" else None
    takes = context is not None and any(
        "OVERRIDE" in (getattr(one, "metavar", None) or "") for one in context.command.params
    )
    if option and any(known.startswith(option) for known in getattr(error, "possibilities", None) or ()):
        return ""  # an option of ours that was cut: click has named it
    return f"{instead_of_option(option, sys.argv[1:])}; " if option and takes else ""


def _complain(line: str, code: int) -> int:
    print(f"rmlab: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
