"""What the commands of programs share: overrides, their completion in a shell, and Hydra's options that show a configuration without
running anything.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from rmlab.errors import UsageError
from rmlab.paths import CONF, SWEEPS

PROGRAMS_OF = {
    "train": "train_verifier",
    "warm-start": "train_policy",
    "build": "build_tasks",
    "collect": "collect",
    "pretrain": "pretrain",
    "rl": "rl",
}
"""Commands of programs, by the last word of their name."""


def groups(program: str) -> dict[str, list[str]]:
    """The groups that `conf/PROGRAM.yaml` names, each with its choices: names of files."""
    import yaml

    entries = yaml.safe_load((CONF / f"{program}.yaml").read_text(encoding="utf-8")).get("defaults", [])
    heads = [str(next(iter(entry))) for entry in entries if isinstance(entry, dict)]
    named = [
        head.removeprefix("override ").lstrip("/") for head in heads if not head.startswith("optional ")
    ]  # a file of an optional group is added automatically, by what is chosen elsewhere
    return {name: choices(CONF / name) for name in named}


def choices(folder: Any) -> list[str]:
    """Names of the files in a group's folder."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def sweep_names(incomplete: str) -> list[str]:
    """Sweeps of sweeps/ that begin so."""
    return [name for name in choices(SWEEPS) if name.startswith(incomplete)]


def complete_plan(incomplete: str) -> list[str]:
    """What `rmlab plan` can be asked of."""
    names = [*(name for name in PROGRAMS_OF if name != "build"), "cross-validate", "sweep"]
    return [name for name in names if name.startswith(incomplete)]


def complete_overrides(ctx: Any, incomplete: str) -> list[str]:
    """GROUP=CHOICE of the command's program."""
    return _complete(groups(PROGRAMS_OF[ctx.command.name]), ctx.params.get("overrides"), incomplete)


def complete_sweep(ctx: Any, incomplete: str) -> list[str]:
    """`preset=P`, `hydra/launcher=NAME` and GROUP=CHOICE of the sweep's program."""
    import yaml

    path = SWEEPS / f"{ctx.params.get('name')}.yaml"
    sweep = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    program = str(sweep.get("program", "train_verifier"))
    groups_there = groups(program) if (CONF / f"{program}.yaml").is_file() else {}
    own = {"preset": choices(CONF / "preset"), "hydra/launcher": choices(CONF / "hydra" / "launcher")}
    return _complete(groups_there | own, ctx.params.get("arguments"), incomplete)


def _complete(known: dict[str, list[str]], before: Sequence[str] | None, incomplete: str) -> list[str]:
    """Bash takes `preset=de` for the words `preset`, `=` and `de`, and wants the last one completed; other shells for one word.

    before: the overrides in front of the word at the cursor, which click gives as "" where it is the `=` itself.
    """
    words = list(before or ())
    if not incomplete and words and words[-1] in known:
        return known[words[-1]]
    if len(words) > 1 and words[-1] == "=" and words[-2] in known:
        return [choice for choice in known[words[-2]] if choice.startswith(incomplete)]
    whole = [f"{group}={choice}" for group, chosen in known.items() for choice in chosen]
    return [word for word in whole if word.startswith(incomplete)]


Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[OVERRIDE]...",
        help="KEY=VALUE or GROUP=CHOICE of the configuration; `--info` lists the groups, `--cfg job` the keys.",
        show_default=False,
        autocompletion=complete_overrides,
    ),
]


class Shown(StrEnum):
    """What `--cfg` prints, in Hydra's words. `hydra` and `all` are there to be refused with a reason."""

    job = "job"
    hydra = "hydra"
    all = "all"


Cfg = Annotated[
    Shown | None,
    typer.Option("--cfg", "-c", help="`job`: print the configuration without running anything.", metavar="job"),
]
Package = Annotated[str | None, typer.Option("--package", "-p", help="With --cfg: print only this part, e.g. `data`.")]
Resolve = Annotated[bool, typer.Option("--resolve", help="With --cfg: replace references (`${...}`) by their values.")]
Info = Annotated[
    bool,
    typer.Option(
        "--info",
        "-i",
        help="Print the groups and their choices without running anything. Hydra's own topics work too: `--info` defaults, defaults-tree, "
        "searchpath, plugins, config or all.",
    ),
]
QUESTIONS = {"cfg": (Cfg, None), "package": (Package, None), "resolve": (Resolve, False), "info": (Info, False)}


def with_options(
    command: Callable[..., Any], around: Callable[..., Any], options: Mapping[str, tuple[Any, Any]]
) -> Callable[..., Any]:
    """`around` with the signature that typer reads: that of the command, and behind it options, name to (type, default)."""
    signature = inspect.signature(command)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    ]
    around.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    around.__annotations__ = command.__annotations__ | {name: kind for name, (kind, _) in options.items()}
    return around


def of_program(program: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command of `experiments/programs/PROGRAM.py`, which takes `overrides`, Hydra's flags --cfg, --package, --resolve, --info."""

    def with_questions(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command)

        @functools.wraps(command)
        def asked(*args: Any, **given: Any) -> Any:
            cfg, package, resolve, info = (given.pop(name, default) for name, (_, default) in QUESTIONS.items())
            overrides = list(signature.bind_partial(*args, **given).arguments.get("overrides") or [])
            if (package is not None or resolve) and cfg is None:
                raise UsageError(
                    "--resolve and --package change how the configuration is printed: use them with --cfg job"
                )
            if cfg is not None:
                return show_configuration(program, overrides, cfg, package, resolve)
            if info:
                return show_info(program, overrides)
            return command(*args, **given)

        return with_options(command, asked, QUESTIONS)

    return with_questions


NOT_TAKEN = {
    "--config-name": "each command has one configuration; change it with KEY=VALUE or GROUP=CHOICE",
    "--config-path": "add folders of groups with hydra.searchpath=[file://FOLDER]",
    "--config-dir": "add folders of groups with hydra.searchpath=[file://FOLDER]",
    "--dry-run": "--cfg job prints the configuration without running it; `rmlab plan` estimates what a run will cost",
    "--run": "a command without -m is a single run",
    "--hydra-help": "--help and --info show what a command takes",
    "--shell-completion": "`rmlab --install-completion` installs it",
    "--experimental-rerun": "the MLflow run holds its command (Source) and its configuration (artifact config.yaml)",
}
"""Options of Hydra's, or of other commands, that a command does not have, and what does their work here."""


def instead_of_option(option: str, arguments: Sequence[str]) -> str:
    """What to write in place of an option that a command with overrides does not have: `preset=demo` for `--preset demo`."""
    if option in NOT_TAKEN:
        return NOT_TAKEN[option]
    value = "VALUE"
    for place, text in enumerate(arguments):
        if text.startswith(f"{option}="):
            value = text.partition("=")[2]
        elif text == option and place + 1 < len(arguments) and not arguments[place + 1].startswith("-"):
            value = arguments[place + 1]
    return f"configuration keys are written without dashes: {option.lstrip('-')}={value}"


def show_configuration(
    program: str, overrides: Sequence[str], shown: Shown = Shown.job, package: str | None = None, resolve: bool = False
) -> None:
    """Prints the configuration under the overrides as YAML, or the part of it that `package` names (a dotted key)."""
    from omegaconf import OmegaConf

    from rmlab.configuration import compose, keys_of
    from rmlab.wording import near

    if shown != Shown.job:
        raise UsageError(
            f"--cfg {shown}: Hydra's own settings have no effect, because rmlab starts the run. --cfg job prints the configuration"
        )
    config: Any = compose(program, overrides)
    if package is not None and (config := OmegaConf.select(config, package)) is None:
        known = keys_of(compose(program, overrides))
        raise UsageError(f"--package {package}: the configuration has no such key, or it is null{near(package, known)}")
    if OmegaConf.is_config(config):
        print(OmegaConf.to_yaml(config, resolve=resolve), end="")
    else:
        print(config)


TOPICS = ("groups", "all", "config", "defaults", "defaults-tree", "plugins", "searchpath")


def show_info(program: str, overrides: Sequence[str]) -> None:
    """Prints the groups of a program, their choices and the one in use; or, where a word of TOPICS is among the overrides, what Hydra's
    own `--info` prints for it."""
    from rmlab.configuration import compose, config_folder, hydra_of, taken_choices
    from rmlab.overrides import refuse_unread

    topic = next((text for text in overrides if text in TOPICS), "groups")
    asked = [text for text in overrides if text not in TOPICS]
    compose(program, asked)  # says what is wrong in one line
    refuse_unread(asked, multirun=False)
    if topic != "groups":
        from hydra.types import RunMode

        hydra_of(program).show_info(topic, config_name=program, overrides=asked, run_mode=RunMode.RUN)
        return
    print(f"groups of {program} (GROUP=CHOICE on the command line), files of {config_folder(program)}:")
    none = {group: (["null"], choices) for group, choices in groups(program).items()}
    for group, (taken, choices) in (none | taken_choices(program, asked)).items():
        one = f"[{','.join(taken)}]" if len(taken) > 1 else taken[0]
        print(f"  {f'{group}={one}':<32}", ", ".join(choices))
