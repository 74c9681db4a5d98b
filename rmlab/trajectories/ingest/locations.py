"""Where a record stands: the path that was given, the file within it, the line; and the names that such a path carries.

Everything that an import says (skipped, removed, in conflict) is said with a place.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rmlab.trajectories.ingest.compression import plain_name
from rmlab.trajectories.record import bare, clean, family

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")
ENDINGS = (".traj.json", ".json", ".jsonl", ".ndjson", ".traj", ".parquet", ".arrow", ".md", ".csv", ".tsv")
# Folders and files that every harness makes: they name no run.
COMMON = frozenset({
    "trajs", "traj", "trajectories", "logs", "output", "outputs", "run_evaluation", "evaluation_logs",
    "event_service", "events", "llm_completions", "results", "result", "results_summary", "report", "eval_results",
    "final_results", "final_report", "swebench_eval", "sb_cli_reports", "preds", "all_preds", "predictions", "eval",
    "evals", "evaluation", "evaluations", "reports", "labels", "data", "train", "test", "tests",
})  # fmt: skip
GENERIC = frozenset({"trajectory", "messages", "history", "conversation", "agent", "log", "run"})
"""Files that agents write one of into an instance's folder, besides the common ones."""
COUNTED = frozenset({
    "round", "step", "turn", "iteration", "iter", "snapshot", "checkpoint", "state", "message", "chat", "dialog",
    "call",
})  # fmt: skip
"""Files that agents write several of into an instance's folder, with a number behind."""


@dataclass(frozen=True)
class Location:
    """root: the path given on the line, its last part only (more of it where another path ends alike). path: the file within
    it, with `/`; "" where root is the file.

    line: from 1, where the file has one record a line.
    """

    root: str
    path: str
    line: int | None = None

    def __str__(self) -> str:
        whole = clean(f"{self.root}/{self.path}" if self.path else self.root)  # a file's name need not be UTF-8
        return whole if self.line is None else f"{whole}:{self.line}"

    def at_line(self, line: int) -> "Location":
        """The same file, one record of it."""
        return Location(self.root, self.path, line)

    @property
    def name(self) -> str:
        return (self.path or self.root).rsplit("/", 1)[-1]

    @property
    def stem(self) -> str:
        """The file's name without its ending: `x.traj.json` → `x`."""
        return stem(self.name)

    @property
    def subject(self) -> str:
        """What the file is about, by its name: by its folder's where every agent calls the file so (`x/trajectory.json` → `x`),
        or numbers it within an instance's folder (`o__n-1/round_2.json` → `o__n-1`). Without the time of the run or the
        number of a snapshot."""
        if not self.path:
            return bare(self.stem)
        around = [bare(folder) for folder in reversed(self.folders)]
        instance = next((f for f in around if not is_counted(f)), "")
        named = family(instance) != "other"
        if token(self.stem) in COMMON | GENERIC:
            return instance if named else around[0]
        return instance if named and is_counted(self.stem) else bare(self.stem)

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders around the file, outermost first: the root without its ending, then those within it. An archive within a
        folder is a world of its own: what is around it does not count."""
        inner = self.path.split("/")[:-1] if self.path else []
        start = max((i for i, name in enumerate(inner) if name.lower().endswith(ARCHIVES)), default=None)
        return tuple(map(stem, inner[start:])) if start is not None else (*map(stem, self.root.split("/")), *inner)

    @property
    def scope(self) -> frozenset[str]:
        """Names of the folders down to the first that every harness makes: a report there is about what lies in that folder."""
        named = []
        for folder in self.folders:
            if token(folder) in COMMON:
                break
            named.append(folder)
        return tokens(named)


def roots(paths: Sequence[Path]) -> list[str]:
    """What each path is called: its last part, with as many of those before it as tell it from the others that end alike."""
    parts = [
        Path(os.path.normpath(path.absolute())).parts for path in paths
    ]  # a link goes by its own name, not by what it leads to
    called = []
    for one in parts:
        others = {other for other in parts if other != one}
        size = next((n for n in range(1, len(one)) if not any(other[-n:] == one[-n:] for other in others)), len(one))
        called.append("/".join(one[-size:]).lstrip("/") or "root")
    return called


def is_counted(name: str, words: frozenset[str] = COMMON | GENERIC | COUNTED) -> bool:
    """Whether a name is a number, or one behind words that name no instance (`round_2`): one of several of a thing."""
    parts = re.findall(r"[a-z]+|\d+", name.lower())
    return parts[-1:] != [] and parts[-1].isdecimal() and all(p.isdecimal() or p in words for p in parts)


def stem(name: str) -> str:
    """A file's name without the ending of a format or container."""
    archive = max((ending for ending in ARCHIVES if name.lower().endswith(ending)), key=len, default="")
    name = (name[: len(name) - len(archive)] or name) if archive else plain_name(name)
    ending_there = next((ending for ending in ENDINGS if not archive and name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending_there)] or name


def token(name: str) -> str:
    """A name as it is compared: `deepseek/deepseek-chat`, `deepseek__deepseek-chat` and `deepseek_deepseek_chat` are one."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def tokens(names: Iterable[str]) -> frozenset[str]:
    """The tokens of names, without empty ones and folders that name no run."""
    return frozenset(token(name) for name in names) - COMMON - {""}


def natural(text: str) -> list[tuple[int, int | str]]:
    """Sorts `run_10` behind `run_9`."""
    return [(0, int(part)) if part.isdecimal() and len(part) < 19 else (1, part) for part in re.split(r"(\d+)", text)]
