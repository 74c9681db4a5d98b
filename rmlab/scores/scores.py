"""The scores record, which every metric reads: columns of one score table as arrays of length N.

Patches are stored as hashes, which are equal for equivalent patches. In a real diff, only the changed lines of each file
count: not the order of its files, context lines, line numbers, blank lines, or spaces within and after a line (indentation counts,
since it has a meaning in Python). A patch of micro-SWE is hashed exactly.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rmlab.errors import DataError
from rmlab.fingerprint import fingerprint
from rmlab.trajectories.record import Trajectory, instance, repository

HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
HASH = re.compile(r"[0-9a-f]{16}")


def patch_hash(patch: str) -> str:
    """16 hex digits, equal for equal patches; a text that is such a hash already stays as it is."""
    return patch if HASH.fullmatch(patch) else fingerprint(_changes(patch) or patch.strip())


def _changes(patch: str) -> list[list[str]]:
    """[file, changed line, ...] of each file of a unified diff, sorted by file; empty where the text is none.

    Lines are counted as the head of their hunk says, so that a deleted line `-- x` is no head of a file.
    """
    lines_of: dict[str, list[str]] = defaultdict(list)
    name, old, new = "", 0, 0
    for line in patch.splitlines():
        if old > 0 or new > 0:
            old -= line[:1] in ("-", " ", "")
            new -= line[:1] in ("+", " ", "")
            text = line[1:].rstrip()
            if line[:1] in ("-", "+") and text:
                indent = len(text) - len(text.lstrip())
                lines_of[name].append(line[0] + text[:indent].expandtabs() + " ".join(text.split()))
        elif hunk := HUNK.match(line):
            old, new = (int(count or 1) for count in hunk.groups())
        elif line.startswith(("--- ", "+++ ")) and not line.endswith("/dev/null"):
            name = line[4:].split("\t")[0].strip().removeprefix("a/").removeprefix("b/")
        elif line.startswith(("Binary files ", "GIT binary", "rename ", "new file mode", "deleted file mode")):
            lines_of[name].append(line)
    return [[file, *lines] for file, lines in sorted(lines_of.items())]


def cluster_of(task: str) -> str:
    """The cluster of a task of which nothing else is known: the repository that its id names, as importing has it, else itself.

    So the same attempts have the same clusters, and intervals, as a table without that column and as an imported set.
    """
    return repository(instance(task))


@dataclass(frozen=True)
class Scores:
    """N scored attempts.

    task_id, policy, cluster: strings (policy "" where the table has none; cluster = `cluster_of(task_id)` where it has none).
    score: float in [0, 1], NaN = not scored. resolved: float 1, 0, NaN = unlabelled.
    trajectory_id, source: strings, "" where absent; n_tokens: float, NaN where absent.
    patch: its hash (`patch_hash`), "" where there is none: equal for attempts with one patch.
    Raises DataError for a score outside [0, 1], unequal lengths, or a repeated trajectory_id.
    """

    task_id: NDArray[np.str_]
    score: NDArray[np.float64]
    resolved: NDArray[np.float64]
    trajectory_id: NDArray[np.str_]
    policy: NDArray[np.str_]
    source: NDArray[np.str_]
    cluster: NDArray[np.str_]
    n_tokens: NDArray[np.float64]
    patch: NDArray[np.str_]

    def __post_init__(self) -> None:
        lengths = {name: len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(set(lengths.values())) > 1:
            raise DataError(f"columns of a score table differ in length: {lengths}")
        outside = ~np.isnan(self.score) & ((self.score < 0) | (self.score > 1))
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise DataError(
                f"row {row + 1} (task {self.task_id[row]}): score {self.score[row]} is outside [0, 1]. "
                "Scores are probabilities of `resolved`; map logits through a sigmoid first."
            )
        labelled = self.resolved[~np.isnan(self.resolved)]
        if not np.isin(labelled, (0.0, 1.0)).all():
            raise DataError("column resolved must hold 0, 1, true, false or be empty")
        named = self.trajectory_id[self.trajectory_id != ""]
        names, counts = np.unique(named, return_counts=True)
        if (counts > 1).any():
            raise DataError(
                f"trajectory_id {names[counts > 1][0]} occurs {counts.max()} times: every attempt must be scored once"
            )

    @classmethod
    def of(
        cls,
        task_id: ArrayLike,
        score: ArrayLike,
        resolved: ArrayLike,
        *,
        trajectory_id: ArrayLike | None = None,
        policy: ArrayLike | None = None,
        source: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        n_tokens: ArrayLike | None = None,
        patch: ArrayLike | None = None,
    ) -> "Scores":
        """A table of what is there; None = absent. Lists and arrays of N; None or NaN within score and resolved as in the record."""
        task = np.asarray(task_id, dtype=np.str_)

        def text(column: ArrayLike | None) -> NDArray[np.str_]:
            return np.full(len(task), "", dtype=np.str_) if column is None else np.asarray(column, dtype=np.str_)

        return cls(
            task_id=task,
            score=np.asarray(score, dtype=np.float64),
            resolved=np.asarray(resolved, dtype=np.float64),
            trajectory_id=text(trajectory_id),
            policy=text(policy),
            source=text(source),
            cluster=text([cluster_of(str(name)) for name in task] if cluster is None else cluster),
            n_tokens=np.full(len(task), np.nan) if n_tokens is None else np.asarray(n_tokens, dtype=np.float64),
            patch=text(patch),
        )

    @classmethod
    def of_trajectories(
        cls, trajectories: Sequence[Trajectory], score: ArrayLike | None = None, n_tokens: ArrayLike | None = None
    ) -> "Scores":
        """The table of these attempts. score, n_tokens: one an attempt; None = not scored, not known."""
        return cls.of(
            [t.task_id for t in trajectories],
            np.full(len(trajectories), np.nan) if score is None else score,
            [np.nan if t.resolved is None else float(t.resolved) for t in trajectories],
            trajectory_id=[t.trajectory_id for t in trajectories],
            policy=[t.policy for t in trajectories],
            source=[t.source for t in trajectories],
            cluster=[t.cluster for t in trajectories],
            n_tokens=n_tokens,
            patch=["" if t.patch is None else patch_hash(t.patch) for t in trajectories],
        )

    def __len__(self) -> int:
        return len(self.score)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> "Scores":
        """The rows of a mask or of indices."""
        return Scores(**{name: getattr(self, name)[rows] for name in self.__dataclass_fields__})
