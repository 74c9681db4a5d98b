"""Reads tracked runs back: what they measured, and their artifacts."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rmlab.errors import MissingArtifact, StoreError
from rmlab.tracking.artifacts import fetched
from rmlab.tracking.home import local_path
from rmlab.tracking.run_index import RunInfo, described, search
from rmlab.tracking.store import Store, default_uri
from rmlab.tracking.tags import CONTINUED_BY, FAILED, IMPORTED_RUN, KILLED, LEFT_OUT, RUNNING, SOURCE_RUN, STOPPED
from rmlab.tracking.views import headline
from rmlab.tracking.weights import MODEL, are_weights, training_command

if TYPE_CHECKING:
    from mlflow.entities import Run

AnyInfo = TypeVar("AnyInfo", bound=RunInfo)

VERIFIER, FOLDS = "verifier", "folds.json"
"""The kind of a run that saves a model, or one a fold, which this artifact names."""
UNFINISHED = {
    STOPPED: "the run was stopped before it made it. Continue it first, with the command that began it",
    KILLED: "the run was killed before it made it. Continue it first, with the command that began it",
    FAILED: "the run failed before it made it. Try it again first, with the command that began it",
    RUNNING: "the run is still running and has not made it yet. Wait until it is finished",
}
"""Why a run that is not finished lacks an artifact, and what to do."""
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
        top = path.split("/")[0]
        bare = bool(without_weights(self.store, [self]))
        if IMPORTED_RUN in self.tags and (
            top in self.tags.get(LEFT_OUT, "").split(", ") or (top == MODEL and lacks_model(self, self.folder()))
        ):
            what = "weights" if top == MODEL else "this artifact"
            reason = (
                f"the run came from a bundle without {what}. To train it again: {training_command(self, bare)}. Or export it again where "
                "it was made, without --without-models and --study, and import that bundle"
            )
        elif CONTINUED_BY in self.tags:
            reason = f"the run ended unfinished. Name the one that came after it: {self.tags[CONTINUED_BY]}"
        elif self.status in UNFINISHED:
            reason = UNFINISHED[self.status]
        elif top == MODEL and bare:
            reason = f"its weights are gone. To train it again: {training_command(self, bare)}"
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


def without_weights(store: Store, found: Iterable[RunInfo]) -> list[RunInfo]:
    """Those of the runs that were imported without a model, or whose model was deleted from the store's folder since. An imported run
    that reused another one's names no artifact that was left out, so its folder is looked at where the store is local."""
    lacking = []
    for info in found:
        named = any(are_weights(name) for name in info.tags.get(LEFT_OUT, "").split(", "))
        if named or lacks_model(info, _folder(store, info)):
            lacking.append(info)
    return lacking


def _folder(store: Store, run: RunInfo) -> Path | None:
    """The artifacts of a run, or of the one that it reuses. MLflow, which takes a second to import, is asked only for an imported run
    whose artifacts do not lie beside the store."""
    owner = run.tags.get(SOURCE_RUN, run.run_id)
    beside = next(store.artifacts.glob(f"*/{owner}/artifacts"), None) if store.artifacts else None
    return beside or (get_run(store, owner).folder() if IMPORTED_RUN in run.tags else None)


def lacks_model(run: RunInfo, folder: Path | None) -> bool:
    """Whether a verifier has no model among its artifacts, in a local folder. One that was cross-validated has one a fold, and a policy
    is kept where that was asked for."""
    verifier = run.tags.get("kind") == VERIFIER
    return verifier and folder is not None and not (folder / MODEL).exists() and not (folder / FOLDS).exists()


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
            near = beginning_with(runs(store), run_id, store.uri)
            if near is not None:
                return near
        raise StoreError(
            f"there is no run {run_id!r} in {store.uri}. {listing(store)} shows the runs; "
            f"name one, or give at least {SHORTEST} characters of an id."
        )
    return _tracked(found, store, asked)


def listing(store: Store) -> str:
    """The command that lists the runs of a store, as messages name it."""
    return "`rmlab runs list`" if store.uri == default_uri() else f"`rmlab runs list --store {store.uri}`"


def with_id(found: Iterable[AnyInfo], beginning: str) -> list[AnyInfo]:
    """The runs whose id, here or where it was imported from, begins so."""
    return [r for r in found if r.run_id.startswith(beginning) or r.tags.get(IMPORTED_RUN, "").startswith(beginning)]


def beginning_with(found: Iterable[AnyInfo], run_id: str, where: str) -> AnyInfo | None:
    """The run whose id, here or where it was imported from, begins so; None where none does. where: what holds the runs.

    Raises StoreError where several do.
    """
    near = with_id(found, run_id)
    if len(near) > 1:
        raise StoreError(
            f"{len(near)} runs in {where} begin with {run_id}: {', '.join(sorted(run.run_id for run in near))}. "
            "Give more of the id."
        )
    return near[0] if near else None


def _tracked(run: "Run", store: Store, asked: float) -> TrackedRun:
    return TrackedRun(
        **described(run, asked),
        params=dict(run.data.params),
        metrics=headline(run.data.metrics) | run.data.metrics,
        artifact_uri=run.info.artifact_uri,
        store=store,
    )
