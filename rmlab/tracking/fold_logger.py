"""What one fold of a cross-validation says in the run of all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmlab.tracking.run import RunLogger


@dataclass(frozen=True)
class FoldLogger:
    """Writes into `run` what the training of one fold says, so that no fold writes over another.

    Metrics `train/loss` become `fold_1/loss`, tags `fold_1/dataset`, artifacts `folds/1/selection.json`. Parameters are those of the
    first fold: all folds have the same, but for the size of a model whose tokenizer found fewer words than it may have.
    """

    run: RunLogger
    fold: int

    def metrics(self, values: Mapping[str, float | None], step: int = 0) -> None:
        self.run.metrics({self._named(name): value for name, value in values.items()}, step)

    def params(self, values: Mapping[str, Any]) -> None:
        """Of the first fold; the others say the same."""
        if self.fold == 1:
            self.run.params(values)

    def tags(self, values: Mapping[str, Any]) -> None:
        self.run.tags({self._named(name): value for name, value in values.items()})

    def dataset(self, name: str, fingerprint: str, context: str, *about: Mapping[str, Any]) -> None:
        """A data set that this fold reads, and what for; see `RunLogger.dataset`."""
        self.run.dataset(name, fingerprint, f"fold {self.fold} {context}", *about)

    def json(self, name: str, value: Any) -> None:
        self.run.json(f"{self.folder}/{name}", value)

    @property
    def folder(self) -> str:
        return f"folds/{self.fold}"

    def _named(self, name: str) -> str:
        return f"fold_{self.fold}/{name.removeprefix('train/')}"
