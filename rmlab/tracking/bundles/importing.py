"""Brings the runs of a bundle into a store, each once.

Every file's hash is checked before anything is written. A run gets its tags, its status last of all, only when everything
else is in the store: an import that was interrupted leaves runs that nobody takes for finished, and the next import goes on
with these. A run keeps its original id as the tag `imported_run`.
"""

import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rmlab.errors import DataError, RmlabError
from rmlab.files import exclusive
from rmlab.paths import runs_folder
from rmlab.progress import progress
from rmlab.scratch import scratch_folder
from rmlab.tracking.bundles.format import BundledFile, BundleEntry, Record, within
from rmlab.tracking.bundles.opening import open_bundle
from rmlab.tracking.bundles.reading import Bundle
from rmlab.tracking.config import LEVEL_NUMBER
from rmlab.tracking.query import without_weights
from rmlab.tracking.run import RunLogger
from rmlab.tracking.run_index import RunInfo, run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.successors import name_successors
from rmlab.tracking.tags import (
    AT_WORK,
    HOST,
    IMPORTED_AT,
    IMPORTED_RUN,
    IN_MLFLOW,
    LEFT_OUT,
    PROCESS,
    REUSED,
    RUNNING,
    STATUS,
    check_names,
    close,
    origin_tags,
)
from rmlab.tracking.weights import MODEL, are_weights

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput

BATCH = 100  # MLflow takes so many parameters or tags at once
REPLACED_BY = "replaced_by"
_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
ENDED = tuple(IN_MLFLOW.values())
LONGEST_NAME = 250


@dataclass
class Imported:
    """What an import did. added: runs that were not there. resumed: of these, begun by an import that was interrupted.
    completed: runs that were there and got artifacts that an earlier bundle had not. there: runs with nothing to add.
    without: models that runs of this store now lack, by run name. experiments: of the bundle's runs."""

    added: int = 0
    resumed: int = 0
    completed: int = 0
    there: int = 0
    without: dict[str, str] = field(default_factory=dict)
    experiments: set[str] = field(default_factory=set)


def import_bundle(path: Path, store: Store, show: bool = True) -> Imported:
    """Adds the runs of a bundle to a store.

    Raises DataError for a bundle that is damaged or holds what no run has (nothing is written then), RmlabError where the disk
    is too small, StoreError where the store cannot be written.
    """
    with open_bundle(path) as bundle, exclusive(runs_folder() / "locks" / "import.lock", "an import of runs"):
        _check_room(bundle, store)
        bundle.verify(show)
        records = {entry.run_id: bundle.record(entry) for entry in bundle.entries}
        for entry in bundle.entries:
            _check(bundle, entry, records[entry.run_id])
        arrival = _Arrival(bundle, store, records)
        with progress("importing", len(bundle.entries), "runs", show) as advance:
            for entry in arrival.in_order():
                arrival.take(entry)
                advance(1)
        arrival.name_replacements()
        name_successors(store)
        arrival.note_weights()
        arrival.result.experiments = {entry.experiment for entry in bundle.entries}
        return arrival.result


class _Arrival:
    """An import under way. ids: from a run's id where it was made (and in the bundle) to its id here."""

    def __init__(self, bundle: Bundle, store: Store, records: Mapping[str, Record]) -> None:
        self.bundle, self.store, self.records = bundle, store, records
        self.result = Imported()
        self.ids: dict[str, str] = {}
        infos = run_infos(store)
        self.by_id = {info.run_id: info for info in infos}
        self.imported = {info.tags[IMPORTED_RUN]: info for info in reversed(infos) if IMPORTED_RUN in info.tags}

    def in_order(self) -> list[BundleEntry]:
        """Runs that others name come before these, so that their ids here are known."""
        entries = {entry.run_id: entry for entry in self.bundle.entries}
        ordered: dict[str, BundleEntry] = {}
        for first in entries:
            stack = [(first, False)]
            while stack:
                run_id, named_are_in = stack.pop()
                if run_id in ordered:
                    continue
                if named_are_in:
                    ordered[run_id] = entries[run_id]
                else:
                    record = self.records[run_id]
                    texts = [
                        *record.params.values(),
                        *(value for name, value in record.tags.items() if name != REPLACED_BY),
                    ]
                    named = {other for text in texts for other in _ID.findall(text)} & entries.keys()
                    stack.append((run_id, True))
                    stack += [(other, False) for other in sorted(named - {run_id}) if (other, True) not in stack]
        return list(ordered.values())

    def take(self, entry: BundleEntry) -> None:
        """Adds one run, goes on with it, completes it, or finds that there is nothing to do."""
        record = self.records[entry.run_id]
        origin = record.tags.get(IMPORTED_RUN, entry.run_id)
        here = self.by_id.get(origin) or self.imported.get(origin)
        if here is None or (IMPORTED_RUN in here.tags and IMPORTED_AT not in here.tags):
            self.result.added += 1
            self.result.resumed += here is not None
            run_id = self._write(entry, record, origin, here)
        else:
            run_id = here.run_id
            self._close(run_id, here, record)
            if self._complete(entry, here):
                self.result.completed += 1
            else:
                self.result.there += 1
        self.ids[origin] = self.ids[entry.run_id] = run_id

    def _write(self, entry: BundleEntry, record: Record, origin: str, begun: RunInfo | None) -> str:
        experiment_id = self._experiment(entry.experiment)
        if begun is None:
            here = origin_tags()
            first = {IMPORTED_RUN: origin, STATUS: RUNNING, HOST: here[HOST], PROCESS: here[PROCESS]}
            made = self.store.call(
                partial(
                    self.store.client.create_run,
                    experiment_id,
                    start_time=record.start_time,
                    tags=first,
                    run_name=record.name,
                )
            )
            run = RunLogger(self.store, made.info.run_id, experiment_id)
        else:
            run = RunLogger(self.store, begun.run_id, begun.experiment_id)
        self._params(run, record)
        rows = self.bundle.metrics(entry)
        run.replay(rows)
        if LEVEL_NUMBER not in {name for name, *_ in rows}:
            run.place(record.tags)
        run.flush()
        if record.inputs:
            self.store.call(partial(self.store.client.log_inputs, run.run_id, datasets=_inputs(record)))
        self._artifacts(run.run_id, entry, entry.artifacts)
        tags = {
            name: self._here(value)
            for name, value in record.tags.items()
            if name not in (STATUS, IMPORTED_AT, LEFT_OUT, *AT_WORK)
        }
        lacking = _lacking(entry, record)
        if lacking:
            tags[LEFT_OUT] = ", ".join(sorted(lacking))
        self._tags(run, {**tags, IMPORTED_RUN: origin})
        last = {STATUS: record.tags[STATUS]} if STATUS in record.tags else {STATUS: record.status.lower()}
        self._tags(run, {**last, IMPORTED_AT: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        self._close(run.run_id, None, record)
        return run.run_id

    def name_replacements(self) -> None:
        """A run that another one replaced names it, which is known last: it names this one, too."""
        for entry in self.bundle.entries:
            later = self._here(self.records[entry.run_id].tags.get(REPLACED_BY, ""))
            before = self.by_id.get(self.ids[entry.run_id])
            if later and (before is None or (IMPORTED_RUN in before.tags and before.tags.get(REPLACED_BY) != later)):
                self._tags(RunLogger(self.store, self.ids[entry.run_id], ""), {REPLACED_BY: later})

    def _close(self, run_id: str, here: RunInfo | None, record: Record) -> None:
        """Gives the run its status and end in MLflow's own words; an import that was killed just before is put right."""
        if here is None or (IMPORTED_RUN in here.tags and here.end_time is None):
            close(self.store, run_id, record.status, [PROCESS], record.end_time)

    def _complete(self, entry: BundleEntry, here: RunInfo) -> bool:
        """Adds the artifacts that an earlier bundle had not and this one has."""
        lacking = set(filter(None, here.tags.get(LEFT_OUT, "").split(", ")))
        files = [file for file in entry.artifacts if within(file.path, lacking)]
        still = {one for one in lacking if not any(within(file.path, [one]) for file in files)}
        if files:
            self._artifacts(here.run_id, entry, files)
            if still:
                self._tags(RunLogger(self.store, here.run_id, here.experiment_id), {LEFT_OUT: ", ".join(sorted(still))})
            else:
                self.store.call(partial(self.store.client.delete_tag, here.run_id, LEFT_OUT))
        return bool(files)

    def note_weights(self) -> None:
        """Which runs of the bundle had weights that are not here, their own or those of the run that they reused."""
        taken = [info for info in run_infos(self.store) if info.run_id in self.ids.values()]
        had = [info for info in taken if LEFT_OUT in info.tags or REUSED in info.tags]
        for run in without_weights(self.store, had):
            weights = sorted(filter(are_weights, run.tags.get(LEFT_OUT, "").split(", ")))
            self.result.without[f"{run.name} ({run.run_id})"] = ", ".join(weights or [MODEL])

    def _experiment(self, name: str) -> str:
        """The experiment of that name; what was noted on it comes along where nothing is noted here."""
        experiment_id = self.store.experiment(name)
        there = self.store.call(partial(self.store.client.get_experiment, experiment_id)).tags
        for key, value in self.bundle.experiments.get(name, {}).items():
            if key not in there:
                self.store.call(partial(self.store.client.set_experiment_tag, experiment_id, key, value))
        return experiment_id

    def _params(self, run: RunLogger, record: Record) -> None:
        from mlflow.entities import Param

        rows = [Param(name, self._here(value)) for name, value in record.params.items()]
        for start in range(0, len(rows), BATCH):
            self.store.call(partial(self.store.client.log_batch, run.run_id, params=rows[start : start + BATCH]))

    def _tags(self, run: RunLogger, tags: Mapping[str, str]) -> None:
        names = list(tags)
        for start in range(0, len(names), BATCH):
            run.tags({name: tags[name] for name in names[start : start + BATCH]})

    def _artifacts(self, run_id: str, entry: BundleEntry, files: Sequence[BundledFile]) -> None:
        """Unpacks one file at a time (a model may be large), each with its hash checked again, and hands it to the store."""
        scratch = runs_folder() / "cache"
        scratch.mkdir(parents=True, exist_ok=True)
        for file in files:
            folder, _, name = file.path.rpartition("/")
            with scratch_folder(scratch) as temporary:
                self.bundle.extract(entry, file, temporary / name)
                self.store.call(partial(self.store.client.log_artifact, run_id, str(temporary / name), folder or None))

    def _here(self, value: str) -> str:
        """A tag or parameter that names runs of the bundle names them by their ids here."""
        return _ID.sub(lambda found: self.ids.get(found[0], found[0]), value)


def _inputs(record: Record) -> "list[DatasetInput]":
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return [
        DatasetInput(
            Dataset(
                name=one["name"],
                digest=one["digest"],
                source_type=one["source_type"],
                source=one["source"],
                schema=one["schema"],
                profile=one["profile"],
            ),
            [InputTag(key, value) for key, value in one["tags"].items()],
        )
        for one in record.inputs
    ]


def _lacking(entry: BundleEntry, record: Record) -> set[str]:
    """Folders or files that the run had where it was made and the bundle has not."""
    before = set(filter(None, record.tags.get(LEFT_OUT, "").split(", ")))
    return {
        one for one in before | set(entry.left_out) if not any(within(file.path, [one]) for file in entry.artifacts)
    }


def _check(bundle: Bundle, entry: BundleEntry, record: Record) -> None:
    """Raises DataError for what a store would refuse in the middle of a run, or take for something else."""
    where = f"{bundle.path}: run {entry.name} ({entry.run_id})"
    if record.status not in ENDED:
        raise DataError(f"{where} has the status {record.status!r}: only runs that have ended can be imported")
    if not entry.experiment or "/" in entry.experiment or len(entry.experiment) > LONGEST_NAME:
        raise DataError(f"{where}: {entry.experiment!r} cannot name an experiment")
    try:
        check_names([*record.params, *record.tags, *{row[0] for row in bundle.metrics(entry)}])
    except ValueError as error:
        raise DataError(f"{where}: {error}") from error
    for one in record.inputs:
        plain = all(one.get(key) is None or isinstance(one[key], str) for key in ("schema", "profile"))
        if not plain or not all(isinstance(one.get(key), str) for key in ("name", "digest", "source_type", "source")):
            raise DataError(f"{where}: a data set lacks name, digest, source_type or source")
        if not isinstance(one.get("tags"), dict) or not all(isinstance(v, str) for v in one["tags"].values()):
            raise DataError(f"{where}: the tags of data set {one['name']} are not text")


def _check_room(bundle: Bundle, store: Store) -> None:
    """Raises RmlabError where the unpacked files would fill the disk. A server knows its own."""
    if store.artifacts is None:
        return
    store.artifacts.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(store.artifacts).free
    if bundle.size > free:
        raise RmlabError(
            f"{bundle.path} unpacks to {bundle.size / 1e9:.1f} GB, but {store.artifacts} has only {free / 1e9:.1f} GB free"
        )
