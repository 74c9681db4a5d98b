"""The metrics of one run: buffered, and written in batches every few seconds."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rmlab.tracking.store import Store
from rmlab.tracking.tags import check_names
from rmlab.tracking.views import HEADLINE, headline, rounded

BATCH = 1000  # what MLflow takes
FLUSH_SECONDS = 5.0


@dataclass
class MetricWriter:
    """Writes the metrics of the run `run_id`."""

    store: Store
    run_id: str
    history: list[tuple[str, float, int, int]] = field(default_factory=list)
    """Every metric logged so far: (name, value, step, milliseconds). `replay` writes such rows again."""
    _written: int = 0
    _last_flush: float = field(default_factory=time.monotonic)
    _checked: set[str] = field(default_factory=set)

    def add(self, values: Mapping[str, float | None], step: int = 0) -> None:
        """Values of one step, written with the next batch, and what is headline of them. None (undefined) is left out.

        Raises ValueError for a name that the store would refuse, StoreError as `flush` does.
        """
        values = {**headline(values), **values}
        new = values.keys() - self._checked
        if new:
            check_names(new)
            self._checked |= new
        now = int(time.time() * 1000)
        self.history.extend((name, float(value), step, now) for name, value in values.items() if value is not None)
        if time.monotonic() - self._last_flush > FLUSH_SECONDS:
            self.flush()

    def replay(self, history: Iterable[Iterable[Any]]) -> None:
        """Takes over the rows of another run's `history`; of one without its headline metrics, these too."""
        rows = [(str(name), float(value), int(step), int(when)) for name, value, step, when in history]
        there = {name for name, *_ in rows}
        check_names(there)
        self.history.extend(
            (HEADLINE[name], rounded(value), step, when)
            for name, value, step, when in rows
            if HEADLINE.get(name, name) not in there
        )
        self.history.extend(rows)

    def flush(self) -> None:
        """Writes what is buffered, the headline first: the UI lists metrics as they were written.

        Raises StoreError when the store stays busy; the buffer is kept then.
        """
        from mlflow.entities import Metric

        self.history[self._written :] = sorted(self.history[self._written :], key=lambda row: "/" in row[0])
        while self._written < len(self.history):
            batch = self.history[self._written : self._written + BATCH]
            rows = [Metric(name, value, when, step) for name, value, step, when in batch]
            self.store.call(partial(self.store.client.log_batch, self.run_id, metrics=rows))
            self._written += len(batch)
        self._last_flush = time.monotonic()
