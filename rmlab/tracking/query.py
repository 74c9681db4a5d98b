"""Reads tracked runs back: what they measured, and their artifacts."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rmlab.errors import MissingArtifact, StoreError
from rmlab.tracking.artifacts import fetched
from rmlab.tracking.home import local_path
from rmlab.tracking.origin import HOST
from rmlab.tracking.run_index import RunInfo, described, search
from rmlab.tracking.store import Store
from rmlab.tracking.tags import IMPORTED_RUN, LEFT_OUT, SOURCE_RUN

if TYPE_CHECKING:
    from mlflow.entities import Run

SHORTEST = 6
"""Characters of a run's id from which on its beginning names it."""


@dataclass(frozen=True)
class TrackedRun(RunInfo):
    """One run as the store has it. metrics: the last value of each."""

    params: dict[str, str]
    metrics: dict[str, float]
    artifact_uri: str
    store: Store = field(repr=False, compare=False)

    def series(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a metric in the order of steps; of a step that was logged twice, the later value."""
        rows = self.store.call(lambda: self.store.client.get_metric_history(self.run_id, name))
        return sorted({row.step: float(row.value) for row in sorted(rows, key=lambda row: row.timestamp)}.items())

    def artifact(self, path: str) -> Path:
        """A local path of an artifact (file or folder), fetched into the cache from a server. What reuses a run has its artifacts.

        Raises MissingArtifact where the run has no such artifact, StoreError where it cannot be fetched.
        """
        owner = get_run(self.store, self.tags[SOURCE_RUN]) if SOURCE_RUN in self.tags else self
        folder = owner.folder()
        try:
            local = folder / path if folder else fetched(self.store, owner.run_id, path)
        except FileNotFoundError as error:
            raise owner._missing(path, str(error)) from error
        if not local.exists():
            raise owner._missing(path, f"{local} is gone")
        return local

    def folder(self) -> Path | None:
        """The artifacts of a local store: beside it, or where they were written if they were not moved along; None for a server."""
        written = local_path(self.artifact_uri)
        if written is None or self.store.artifacts is None:
            return written
        beside = self.store.artifacts.joinpath(*written.parts[-3:])
        return beside if beside.exists() or not written.exists() else written

    def _missing(self, path: str, reason: str) -> MissingArtifact:
        if path.split("/")[0] in self.tags.get(LEFT_OUT, "").split(", "):
            reason = (
                f"it was left out when the run was exported from {self.tags.get(HOST, 'another machine')}. Export the run there "
                "again without --without-models, and import that"
            )
        return MissingArtifact(
            f"run {self.name} ({self.run_id}) has no artifact {path!r} in {self.store.uri}: {reason}"
        )


def runs(
    store: Store, experiments: Sequence[str] | None = None, tags: Mapping[str, str] | None = None
) -> list[TrackedRun]:
    """Runs of the named experiments (None = all) that carry all these tags, newest first. One search.

    Raises StoreError for an experiment that is not there.
    """
    found, asked = search(store, experiments, tags)
    return [_tracked(run, store, asked) for run in found]


def get_run(store: Store, run_id: str) -> TrackedRun:
    """One run by its id, here or where it was imported from, or by the beginning of its id here where that is one run's alone.

    Raises StoreError where it is not there, or several begin so.
    """
    run_id = run_id.lower()
    from mlflow.exceptions import MlflowException

    def ask() -> "Run | None":
        try:
            return store.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise

    asked = time.monotonic()
    found = store.call(ask)
    if found is None or found.info.lifecycle_stage != "active":
        imported = runs(store, tags={IMPORTED_RUN: run_id})
        if imported:
            return imported[0]
        if found is None and re.fullmatch(rf"[0-9a-f]{{{SHORTEST},31}}", run_id):
            near = [
                run
                for run in runs(store)
                if run.run_id.startswith(run_id) or run.tags.get(IMPORTED_RUN, "").startswith(run_id)
            ]
            if len(near) == 1:
                return near[0]
            if near:
                raise StoreError(
                    f"{len(near)} runs in {store.uri} begin with {run_id}: {', '.join(sorted(run.run_id for run in near))}. "
                    "Name more of it."
                )
        raise StoreError(
            f"there is no run {run_id!r} in {store.uri}. `rmlab runs list` shows those that are there; "
            f"an id may be cut to {SHORTEST} characters."
        )
    return _tracked(found, store, asked)


def _tracked(run: "Run", store: Store, asked: float) -> TrackedRun:
    return TrackedRun(
        **described(run, asked),
        params=dict(run.data.params),
        metrics=dict(run.data.metrics),
        artifact_uri=run.info.artifact_uri,
        store=store,
    )
