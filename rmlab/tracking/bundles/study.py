"""The bundle of a study, which travels with the repository: small, and without a path, host or user name of the machine that made its runs.

It holds what figures, tables and comparisons read: parameters, tags, metrics, reports, scores of evaluation; and of trainings that
failed what they say of it, so that a page can count and name them. Weights, pages and pictures stay behind. Runs of one study repeat each
other (the same attempts are scored in each), so their files lie side by side, score tables unpacked, in one archive that is packed as
a whole: 80 tasks x 32 attempts take about 15 kB a run instead of 75.
"""

import re
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rmlab.errors import UsageError
from rmlab.paths import portable
from rmlab.tracking.bundles.format import PACKED_RUNS, Record, member, weights, within
from rmlab.tracking.run_index import RunInfo
from rmlab.tracking.tags import (
    AT_WORK,
    CONFIG_HASH,
    CONTROL_HASH,
    FAILED,
    FINISHED,
    HOST,
    IMPORTED_AT,
    REUSED,
    SOURCE_RUN,
)

KINDS = ("verifier", "rl")
"""Of runs that are figures' and tables' source; a summary is drawn again from these."""
TEXTS = (".json", ".jsonl", ".yaml", ".yml", ".csv", ".md", ".txt")
TABLE = ".parquet"
SCORES = f"_scores{TABLE}"
OF_MACHINE = (HOST, *AT_WORK, IMPORTED_AT, SOURCE_RUN, "mlflow.user")
TOPS = ("rmlab", "conf", "sweeps", "experiments", "analysis", "tests", "runs", ".venv")
"""Folders of the repository: of a path on another machine, what lies below its clone is known by them."""

_PART = r"[^\s/\"'`<>|:;,=(){}\[\]\\]+"
_ABSOLUTE = re.compile(
    rf"/(?:(?<=sqlite:////)|(?<=file:///)|(?<=\\[nrt]/)|(?<![\w.~/:@%+-]/)){_PART}/(?:{_PART}/)*(?:{_PART})?"
)  # each begins with plain characters and looks back over them: those are searched for many times as fast as what may stand before
_OF_STORE = re.compile(r"(tracking\.uri=)(?<!\wtracking\.uri=)[^\s'\"]+")
_STORE_LINE = re.compile(r"(  uri: )(?<![^\n]  uri: ).+")


def latest(infos: Sequence[RunInfo], by_sweep: bool) -> list[RunInfo]:
    """Of finished runs that figures are drawn from, the newest of each cell, as figures take it; and those that failed in the same
    sweep, preset and control hash. The order stays.

    by_sweep: runs were chosen by sweep and not one by one, so what figures would draw apart is refused.
    Raises UsageError where runs of a sweep and preset differ in more than factor and seed.
    """
    of_kind = [h for h in infos if h.tags.get("kind") in KINDS]
    drawn = [h for h in of_kind if h.status == FINISHED]
    newest: dict[tuple[str, ...], RunInfo] = {}
    for info in drawn:
        place = (info.tags.get(name, "") for name in ("sweep", "preset", "level", "arm"))
        cell = (info.tags.get(CONFIG_HASH, info.run_id), *place)  # an arm may reuse a cell of another one
        if cell not in newest or newest[cell].start_time <= info.start_time:
            newest[cell] = info
    ids = {info.run_id for info in newest.values()}
    kept = [info for info in drawn if info.run_id in ids]
    if not kept:
        raise UsageError(
            f"none of {len(infos)} runs is a finished verifier or RL run, and the figures of a study need such runs"
        )
    groups: dict[str, dict[str, int]] = {}
    for info in (info for info in kept if "sweep" in info.tags):
        controls = groups.setdefault(f"sweep {info.tags['sweep']}, preset {info.tags.get('preset')}", {})
        controls[info.tags.get(CONTROL_HASH, "")] = controls.get(info.tags.get(CONTROL_HASH, ""), 0) + 1
    for group, controls in groups.items():
        if by_sweep and len(controls) > 1:
            found = ", ".join(f"{control} ({runs} runs)" for control, runs in controls.items())
            raise UsageError(
                f"{group} has runs that do not share figures, by control hash: {found}. Choose one with --control."
            )
    if by_sweep and len(groups) > 1:
        raise UsageError(
            f"a study is one sweep at one preset, and these are {'; '.join(groups)}: choose with --sweep and --preset, or name runs"
        )
    shown = {_group(info) for info in kept if "sweep" in info.tags}
    ids |= {info.run_id for info in of_kind if info.status == FAILED and _group(info) in shown}
    return [info for info in of_kind if info.run_id in ids]


def _group(info: RunInfo) -> tuple[str | None, ...]:
    return tuple(info.tags.get(name) for name in ("sweep", "preset", CONTROL_HASH))


def left_out(files: Mapping[str, int]) -> dict[str, int]:
    """What stays behind, with its bytes: models, whatever is neither text nor table, and scores that no figure reads (of validation
    and of further pools; their reports travel). A folder of such files is named once."""
    out = weights(files)
    rest = {path: size for path, size in files.items() if not within(path, out)}
    out |= {
        path: size
        for path, size in rest.items()
        if path.endswith(SCORES) and f"{path.removesuffix(SCORES)}_report.json" in rest
    }
    useless = {path: size for path, size in rest.items() if not path.endswith((*TEXTS, TABLE))}
    for path, size in useless.items():
        top = path.split("/")[0]
        whole = all(other in useless for other in rest if other.split("/")[0] == top)
        name = top if whole else path
        out[name] = out.get(name, 0) + size
    return out


def anonymous(text: str) -> str:
    """A text without paths and stores of any machine: a path in a clone is relative to it, of another the last part is left."""
    text = portable(text)
    text = _STORE_LINE.sub(r"\1null", _OF_STORE.sub(r"\1null", text))
    return _ABSOLUTE.sub(lambda found: _below_the_clone(found[0]), text)


def _below_the_clone(path: str) -> str:
    parts = path.rstrip("/").split("/")
    top = max((i for i, part in enumerate(parts) if part in TOPS), default=len(parts) - 1)
    return "/".join(parts[top:])


def anonymous_record(record: Record) -> Record:
    """A run's record without the machine: who, where, and when it was carried; what it reuses is its own here."""
    return replace(
        record,
        name=anonymous(record.name),
        params=_texts(record.params),
        tags=_texts({name: value for name, value in record.tags.items() if name not in OF_MACHINE})
        | ({REUSED: "yes"} if SOURCE_RUN in record.tags else {}),
        inputs=tuple(
            {key: _texts(value) if key == "tags" else value and anonymous(value) for key, value in one.items()}
            for one in record.inputs
        ),
    )


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    return {name: anonymous(value) for name, value in values.items()}


def rewritten(local: Path, target: Path) -> Path:
    """Writes an artifact as a study's bundle has it: a text without the machine's paths, a table without compression of its own."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if local.suffix != TABLE:
        target.write_text(anonymous(local.read_text(encoding="utf-8")), encoding="utf-8")
        return target
    import pyarrow.parquet as pq

    table = pq.read_table(local)
    said = {key: anonymous(value.decode()).encode() for key, value in (table.schema.metadata or {}).items()}
    pq.write_table(table.replace_schema_metadata(said), target, compression="none", use_dictionary=False)
    return target


def pack(bundle: Path, target: Path) -> None:
    """Packs a bundle as a whole, files of one name side by side."""
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(target, "w") as outer:
        names = sorted(source.namelist(), key=lambda name: (name.split("/")[2:], name))
        with member(outer, PACKED_RUNS, zipfile.ZIP_LZMA) as out, zipfile.ZipFile(out, "w") as inner:
            for name in names:
                with source.open(name) as file, member(inner, name, zipfile.ZIP_STORED) as copy:
                    shutil.copyfileobj(file, copy)
