"""What a shell completes: sweeps, and the groups of a program with their choices (presets among them). Reads file names alone."""

from collections.abc import Sequence
from typing import Any

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
    named = [
        str(next(iter(entry))).removeprefix("override ").lstrip("/") for entry in entries if isinstance(entry, dict)
    ]
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
