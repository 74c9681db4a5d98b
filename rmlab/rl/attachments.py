"""Files that an RL run makes on its way: episode pages, tables of its looks.

They lie beside the checkpoint first and are sent to the run then. A run that goes on after a kill or a time limit is a new
tracked run; it is sent the files of the earlier slices too, as it is told their metrics.
"""

from collections.abc import Callable
from pathlib import Path

from rmlab.files import write_text
from rmlab.metrics.scores import Scores

Send = Callable[[Path, str | None], None]
"""Takes a file, and the folder of the run's artifacts that it belongs in."""


class Attachments:
    """folder: where the files lie, below it by their path in the run. send: to the tracked run."""

    def __init__(self, folder: Path, send: Send) -> None:
        self.folder, self.send = folder, send

    def text(self, path: str, content: str) -> None:
        """Keeps and sends a text."""
        file = self._file(path)
        write_text(file, content)
        self._send(file)

    def scores(self, path: str, scores: Scores) -> None:
        """Keeps and sends a score table."""
        from rmlab.verifiers.score_table import write_score_table

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
