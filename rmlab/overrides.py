"""Overrides on the command line: how values are quoted, and one-line messages for invalid overrides.

Hydra composes the configuration of every run, but rmlab runs it, so Hydra makes no folder and no log for it. Hydra starts the jobs of
a multirun (`rmlab train -m`, `rmlab sweep NAME hydra/launcher=...`) with its launchers and sweepers. Settings of Hydra itself
(`hydra.KEY`, `hydra/GROUP`) that would have no effect are refused.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from rmlab.errors import UsageError
from rmlab.paths import CONF
from rmlab.wording import near

HYDRA_SAYS = {
    "unknown key": re.compile(r"Could not override '([^']+)'"),
    "unknown choice": re.compile(r"Could not (?:find|load) '([^']+)'"),
    "choices": re.compile(r"Available options in '[^']*':\s*(.*?)(?:Config search path|$)", re.DOTALL),
    "wrong value": re.compile(r"Error merging override (.*)"),
    "several values": re.compile(r"Ambiguous value for argument '(.*)'"),
}
"""What Hydra's messages have in common with the errors they stand for: it has one exception for most of them. A test makes each."""


def quoted(text: str) -> str:
    """A text as a value of an override, whatever characters it has."""
    escaped = re.sub(r"(\\*)'", r"\1\1\\'", text)
    escaped = re.sub(r"(\\+)$", r"\1\1", escaped)
    return f"'{escaped}'"


def unquoted(overrides: Iterable[str]) -> str | None:
    """What is wrong with the first override that Hydra's grammar refuses, and how to write it; None where it takes them all."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    for text in overrides:
        try:
            OverridesParser.create().parse_override(text)
        except HydraException:
            found = re.fullmatch(r"([+~]*[A-Za-z_][\w./@:-]*)=(.*)", text, re.ASCII | re.DOTALL)
            if found is None or not text.isprintable():
                return f"{text!r} is not an override: write KEY=VALUE, for example data.scale=500"
            key, value = found.groups()
            if value.startswith(("[", "{")):
                example = shlex.quote(f"{key}=['a text']")
                return (
                    f"{text}: the list or mapping cannot be read. Close its brackets, and quote any text in it that has other "
                    f"characters than letters, digits and / - . _: {example}"
                )
            if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
                value = value[1:-1]
            value = str(Path(value).expanduser()) if value.startswith("~") else value
            return (
                f"{text}: the value has characters with a meaning in overrides, so it is quoted twice, for Hydra and for "
                f"the shell: {shlex.quote(f'{key}={quoted(value)}')}"
            )
    return None


def opened(overrides: list[str], error: str, base: DictConfig) -> list[str] | None:
    """The overrides again where Hydra refused a new name in a mapping of free names (`data.policies={careful: 2}`), else None."""
    found = HYDRA_SAYS["unknown key"].search(error)
    if found is None:
        return None
    key = found[1]
    for name in (key, key.rpartition(".")[0]):
        node = OmegaConf.select(base, name) if name else None
        if (
            isinstance(node, DictConfig)
            and OmegaConf.get_type(node) is dict
            and any(text.startswith(f"{key}=") for text in overrides)
        ):
            return [f"++{text}" if text.startswith(f"{key}=") else text for text in overrides]
    return None


def one_line(error: Exception, program: str, known: list[str], renamed: Mapping[str, str]) -> str:
    """Hydra's words in one line, with the near matches that Hydra does not name.

    renamed: a key of before -> the key to give in its place or, where none does the same, what to do now.
    """
    text = str(error)
    if found := HYDRA_SAYS["unknown key"].search(text):
        if found[1] in renamed:
            now = renamed[found[1]]
            return f"{program} no longer has a key {found[1]!r}: {now if ' ' in now else f'use {now} instead'}."
        return (
            f"{program} has no key {found[1]!r}{near(found[1], known)}. Its keys are in the configuration classes that "
            "conf/README.md names."
        )
    if found := HYDRA_SAYS["unknown choice"].search(text):
        group, _, choice = found[1].rpartition("/")
        options = HYDRA_SAYS["choices"].search(text)
        there = options[1].split() if options else sorted(one.stem for one in (CONF / group).glob("*.yaml"))
        return f"{group or program}={choice}: there is no such choice{near(choice, there)}; there are: {', '.join(there) or 'none'}"
    if found := HYDRA_SAYS["wrong value"].search(text):
        reason = str(error.__cause__).splitlines()[0] if error.__cause__ else "it does not fit"
        return f"{found[1].strip()}: {lower_first(reason)}"
    if found := HYDRA_SAYS["several values"].search(text):
        return f"{found[1]}: give one value at a time; write a list as KEY=[a,b]"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{program}: {'; '.join(lines[:2])}"


def lower_first(sentence: str) -> str:
    """A sentence as a part of another one."""
    return sentence[:1].lower() + sentence[1:]


NOWHERE = {
    ("hydra.run", "hydra.output_subdir"): (
        "a run writes to its MLflow run and the runs folder; set RMLAB_RUNS=FOLDER for another one"
    ),
    ("hydra.verbose", "hydra.job_logging", "hydra/job_logging", "hydra.hydra_logging", "hydra/hydra_logging"): (
        "-v shows more progress, and -q none"
    ),
    ("hydra.job.name",): "tracking.name=NAME names a run",
    ("hydra.help", "hydra/help", "hydra.hydra_help", "hydra/hydra_help"): "--help and --info show what a command takes",
}
"""Settings that nothing reads, in a multirun neither, and what does their work here."""
JOBS = ("hydra.launcher", "hydra/launcher", "hydra.sweeper", "hydra/sweeper", "hydra.sweep", "hydra.mode")
EVERYWHERE = ("hydra.searchpath",)
MAPPINGS = ("hydra", "hydra.launcher", "hydra.sweeper")
"""What has keys of its own, so that a single value cannot take its place."""


def refuse_unread(overrides: Iterable[str], *, multirun: bool) -> None:
    """Raises UsageError for the first override of a setting of Hydra's that nothing would read."""
    for text in overrides:
        key = text.partition("=")[0].lstrip("+~")
        if (key != "hydra" and not key.startswith(("hydra.", "hydra/"))) or _is(key, EVERYWHERE):
            continue
        if multirun and key in MAPPINGS and not text.partition("=")[2].startswith("{"):
            choose = f", or choose one with {key.replace('.', '/')}=NAME" if "." in key else ""
            raise UsageError(f"{text}: {key} is a mapping. Set its keys, {key}.KEY=VALUE{choose}")
        for keys, instead in NOWHERE.items():
            if _is(key, keys):
                raise UsageError(
                    f"{text}: Hydra only composes the configuration, so this has no effect here; {instead}"
                )
        if multirun:
            continue
        if _is(key, JOBS):
            raise UsageError(
                f"{text} is for several runs and has no effect in a single one. Start several with "
                "`rmlab train -m KEY=1,2` or `rmlab sweep NAME`, or remove it"
            )
        raise UsageError(f"{text}: Hydra only composes the configuration, so this has no effect here. Remove it")


def _is(key: str, names: Iterable[str]) -> bool:
    return any(key == name or key.startswith(f"{name}.") or key.startswith(f"{name}@") for name in names)
