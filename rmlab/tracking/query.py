"""Reads tracked runs back: what they measured, and their artifacts.

Which saved model or run is meant? A tracked run, a finished cell of a sweep, or a folder: the same names in every command.

d0c2...           the id of a run (32 hex digits), or its beginning from 6 digits on
5e6f7a8b9c0d1e2f  a cell by its config_hash (16 hex digits): whichever run finished it
data_scale/demo/4000/s0   a cell by sweep, preset, level and seed
runs/policies/x   a folder
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rmlab.errors import DataError, MissingArtifact, StoreError
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.tracking.artifacts import fetched
from rmlab.tracking.home import local_path
from rmlab.tracking.run_index import RunInfo, described, search
from rmlab.tracking.store import Store
from rmlab.tracking.tags import IMPORTED_RUN, LEFT_OUT, SOURCE_RUN
from rmlab.tracking.views import headline
from rmlab.tracking.weights import MODEL, are_weights, training_command

if TYPE_CHECKING:
    from mlflow.entities import Run

    from rmlab.tracking.store import Store

VERIFIER, FOLDS = "verifier", "folds.json"
"""The kind of a run that saves a model, or one a fold, which this artifact names."""
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
                    "Give more of the id."
                )
        raise StoreError(
            f"there is no run {run_id!r} in {store.uri}. `rmlab runs list` shows the runs; "
            f"give at least {SHORTEST} characters of an id."
        )
    return _tracked(found, store, asked)


def _tracked(run: "Run", store: Store, asked: float) -> TrackedRun:
    return TrackedRun(
        **described(run, asked),
        params=dict(run.data.params),
        metrics=headline(run.data.metrics) | run.data.metrics,
        artifact_uri=run.info.artifact_uri,
        store=store,
    )


CELL = r"[^/]+/[^/]+/[^/]+/s[0-9]+"
NAMES = "Name a folder, a run or a cell (data_scale/demo/4000/s0)."
VALIDATION_SCORES = "validation_scores.parquet"
HASHED = (".json", ".safetensors", ".txt")


@dataclass(frozen=True)
class Reference:
    """folder: of the model. run_id, run_name, run: of the run that made it, "" and None for a plain folder."""

    folder: Path
    run_id: str = ""
    run_name: str = ""
    run: "TrackedRun | None" = field(default=None, compare=False, repr=False)

    def beside(self, name: str) -> Path:
        """A file that its run made beside the model, or that lies in its folder or the one above.

        Raises DataError where a folder has none, StoreError where the run has none.
        """
        if self.run is not None:
            return self.run.artifact(name)
        places = [self.folder / name, self.folder.parent / name]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise DataError(
                f"neither {places[0]} nor {places[1]} exists (a model that is named by its run needs neither)"
            )
        return found

    def fingerprint(self) -> str:
        """Of all files that make the model what it is; wherever it lies, and whichever run it came from."""
        files = [
            path
            for path in self.folder.iterdir()
            if path.suffix in HASHED and path.name not in ("policy.json", "log.json")
        ]
        return fingerprint(sorted([path.name, file_fingerprint(path)] for path in files))


def find_model(name: str, record: str, uri: str | None = None) -> Reference:
    """The folder of a saved model that holds the file `record`. uri: store of the run, None = the project's own.

    Raises DataError where there is none of that name, StoreError where a run lacks the artifact.
    """
    folder = Path(name)
    if folder.is_dir():
        for candidate in (folder, folder / MODEL):
            if (candidate / record).is_file():
                return Reference(candidate)
        raise DataError(f"{name} has no {record}: name the folder of a saved model")
    run = find_run(name, uri)
    model = run.artifact(MODEL)
    if not (model / record).is_file():
        raise DataError(f"{name}: the model of this run has no {record}, so it is a different kind of model")
    return Reference(model, run.run_id, run.name, run)


def find_artifact(name: str, artifact: str, uri: str | None = None) -> Path:
    """A file that a run made, the run being named as a model is. Raises as `find_model` and `Reference.beside` do."""
    folder = Path(name)
    if folder.is_dir():
        return Reference(folder).beside(artifact)
    return find_run(name, uri).artifact(artifact)


def find_run(name: str, uri: str | None = None) -> "TrackedRun":
    """The run that a name means: its id or the beginning of it, or a cell, by its config_hash or as SWEEP/PRESET/LEVEL/SEED.

    Raises DataError for a cell that no run finished, or that is several, StoreError for a run that is not there.
    """
    from rmlab.tracking.run_index import cell_runs, run_infos
    from rmlab.tracking.store import Store

    if name.startswith((".", "/")):
        raise DataError(f"{name}: there is no such file or folder. {NAMES}")
    store = Store.existing(uri)
    if store is None:
        raise DataError(f"{name}: there is no such file or folder, and no run has been tracked yet")
    if re.fullmatch(CELL, name):
        return get_run(store, _finished_cell(name, store))
    if re.fullmatch(r"[0-9a-f]{16}", name):
        if (info := cell_runs(store).finished.get(name)) is not None:
            return get_run(store, info.run_id)
        if not any(h.run_id.startswith(name) for h in run_infos(store)):
            raise DataError(
                f"{name}: {store.uri} has no finished run with this config_hash, and no run whose id begins so"
            )
    if "/" in name:
        raise DataError(f"{name}: there is no such file or folder, and no cell or run of this name. {NAMES}")
    return get_run(store, name)


def _finished_cell(name: str, store: "Store") -> str:
    """The id of the run that finished a cell last. Raises DataError where none did, or where several cells have the name."""
    from rmlab.tracking.run_index import run_infos

    sweep, preset, level, seed = name.split("/")
    wanted = {"sweep": sweep, "preset": preset, "level": level, "status": "finished"}
    infos = [h for h in run_infos(store) if wanted.items() <= h.tags.items() and h.name.endswith(f" {seed}")]
    main = [h for h in infos if len(h.name.split()) == 2] or infos  # a further arm is named in between
    if not main:
        raise DataError(
            f"{name}: no finished run of sweep {sweep}, preset {preset} at level {level} and seed {seed} in {store.uri}. "
            "`rmlab runs list` shows the runs."
        )
    hashes = sorted({h.tags.get("config_hash", "") for h in main})
    if len(hashes) > 1:
        raise DataError(
            f"{name}: {len(hashes)} different cells have this name in {store.uri}. "
            f"Name one by its config_hash: {', '.join(hashes)}"
        )
    return max(main, key=lambda h: h.start_time).run_id
