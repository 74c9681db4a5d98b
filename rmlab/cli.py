"""The `rmlab` command: it joins the commands of rmlab/commands, and turns errors into one line and an exit code.

Nothing heavy is imported before a command runs. 0 = success, 2 = called wrongly, 130 = interrupted, 1 = anything else.
"""

import io
import os
import sys
from typing import Annotated, Any, cast

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
    study,
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
    study,
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
    """Options of `rmlab` itself, given before the name of a command."""


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
    """Characters that the output's encoding lacks (LC_ALL=C, a name that is not UTF-8) are printed as escapes: in this
    process and in those that it starts."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
            os.environ["PYTHONIOENCODING"] = f"{stream.encoding}:backslashreplace"


def main() -> None:
    """The console script. SIGTERM (a scheduler, `kill`) ends it as Ctrl-C does: with a checkpoint and a note on how to continue."""
    try:
        end_on_sigterm()
        _print_anything()
        with word_while_starting(), explains_full_memory():
            answer = app(standalone_mode=False)  # the return value, for callers from Python; or an exit code
        code = answer if isinstance(answer, int) else 0
        if code == INTERRUPTED:  # typer turns Ctrl-C into this code without a message
            code = _complain("interrupted", INTERRUPTED)
    except RmlabError as error:
        code = _complain(str(error), error.exit_code)
    except UsageProblem as error:
        context: Any = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            if text := cast(Any, error).format_message():  # nothing where typer has printed the help itself
                print(text)
            code = 2
        else:
            code = _complain(f"{_line(error)} ({_hint(error, context)}`{context.command_path} --help` shows how)", 2)
    except CommandProblem as error:
        code = _complain(_line(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = _complain("interrupted", INTERRUPTED)
    except UnicodeEncodeError as error:  # a name (an argument or a file's) that is not UTF-8, in text that is
        code = _complain(f"{error.object!a} has characters that are not UTF-8: use another name or a UTF-8 locale", 1)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        code = 1
        sys.stderr.close()
    except OSError as error:  # a full disk, missing permissions, a symbolic link that points to itself
        place = f"{error.filename}: " if error.filename is not None else ""
        code = _complain(f"{place}{error.strerror or error}. Fix that, or choose another path.", 1)
    sys.exit(code)


def _line(error: Any) -> str:
    return " ".join(error.format_message().split())


def _hint(error: Any, context: Any) -> str:
    """What to write instead of an unknown option, where the command takes KEY=VALUE."""
    option = getattr(error, "option_name", None) if type(error).__name__ == "NoSuchOption" else None
    takes = context is not None and any(
        "OVERRIDE" in (getattr(one, "metavar", None) or "") for one in context.command.params
    )
    if option and any(known.startswith(option) for known in getattr(error, "possibilities", None) or ()):
        return ""  # one of our options, abbreviated: click has named it
    return f"{instead_of_option(option, sys.argv[1:])}; " if option and takes else ""


def _complain(line: str, code: int) -> int:
    print(f"rmlab: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
