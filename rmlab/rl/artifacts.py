"""Files that an RL run makes while it trains: episode pages, tables of its evaluations.

They are first kept beside the checkpoint and then sent to the run. A run that continues after a kill or a time limit is a new
tracked run; it also gets the files of the earlier slices, whose metrics are logged in it too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rmlab.files import write_text
from rmlab.pages.html import page, text
from rmlab.rl.batch import Batch
from rmlab.scores.scores import Scores
from rmlab.trajectories.record import Trajectory

Send = Callable[[Path, str | None], None]
"""Takes a file, and the folder of the run's artifacts that it belongs in."""


class ArtifactBuffer:
    """folder: where the files lie, below it by their path in the run. send: to the tracked run."""

    def __init__(self, folder: Path, send: Send) -> None:
        self.folder, self.send = folder, send

    def text(self, path: str, content: str) -> None:
        file = self._file(path)
        write_text(file, content)
        self._send(file)

    def scores(self, path: str, scores: Scores) -> None:
        from rmlab.scores.writing import write_score_table

        file = self._file(path)
        write_score_table(file, scores)
        self._send(file)

    def send_again(self) -> None:
        """Sends what earlier slices made; what is made again takes its place."""
        for file in sorted(self.folder.rglob("*")):
            if file.is_file() and not file.name.startswith("."):
                self._send(file)

    def _file(self, path: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _send(self, file: Path) -> None:
        parent = file.relative_to(self.folder).parent
        self.send(file, None if parent == Path() else parent.as_posix())


STYLE = """body{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
article{border:1px solid #ccc;border-radius:6px;padding:.5rem 1rem;margin:1rem 0}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.25rem 0;padding:.35rem .6rem;border-radius:4px;background:#f4f4f4}
pre.assistant{background:#e6f0fa}h2{font-size:1rem;margin:.25rem 0}.yes{color:#0072b2}.no{color:#d55e00}"""


@dataclass(frozen=True)
class PaidAttempt:
    """An attempt with what it was paid, by part, and the verifier's score (None without one)."""

    trajectory: Trajectory
    parts: dict[str, float]
    score: float | None


def spread_over(batch: Batch, number: int) -> list[PaidAttempt]:
    """So many attempts of a batch, evenly from the first to the last."""
    chosen = np.linspace(0, len(batch.rollouts) - 1, min(number, len(batch.rollouts))).round().astype(int)
    return [
        PaidAttempt(
            batch.rollouts[i].trajectory,
            {name: float(part_N[i]) for name, part_N in batch.rewards.parts.items()},
            None if batch.score_N is None else float(batch.score_N[i]),
        )
        for i in chosen
    ]


def episodes_page(title: str, episodes: Sequence[PaidAttempt]) -> str:
    """The page's markup, in the order given."""
    return page(title, f"<h1>{text(title)}</h1>\n" + "\n".join(_article(shown) for shown in episodes), STYLE)


def _article(shown: PaidAttempt) -> str:
    own = shown.trajectory
    label = '<b class="yes">resolved</b>' if own.resolved else '<b class="no">not resolved</b>'
    paid = ", ".join(f"{name} {value:+.2f}" for name, value in shown.parts.items())
    score = "" if shown.score is None else f", verifier {shown.score:.3f}"
    turns = "\n".join(f'<pre class="{text(m.role)}">{text(m.content)}</pre>' for m in own.messages)
    return (
        f"<article><h2>{text(own.task_id)} #{own.attempt}</h2><p>{label}, {text(own.exit_status)}{text(score)}; paid {text(paid)}</p>\n"
        f"{turns}</article>"
    )
