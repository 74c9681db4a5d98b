"""Writes tracked runs of a store into one bundle. Needs MLflow's client and the standard library, nothing else."""

import hashlib
import json
import platform
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import rmlab
from rmlab.errors import RmlabError, UsageError
from rmlab.files import atomic_path, check_output
from rmlab.paths import portable
from rmlab.progress import progress
from rmlab.scratch import scratch_folder
from rmlab.tracking.artifacts import download, listed
from rmlab.tracking.bundles import study as study_bundle
from rmlab.tracking.bundles.format import (
    MANIFEST,
    BundledFile,
    BundleEntry,
    Record,
    manifest_text,
    member,
    metric_line,
    weights,
    within,
)
from rmlab.tracking.query import get_run
from rmlab.tracking.run_index import RunInfo, run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.tags import CONTROL_HASH, RUNNING, SOURCE_RUN, commit
from rmlab.wording import counted

if TYPE_CHECKING:
    from mlflow.entities import Run

CHUNK = 1 << 20
NAMED_BY_STORE = ("mlflow.runName", "mlflow.log-model.history")  # set by a store itself


@dataclass(frozen=True)
class Exported:
    """What a bundle got. sources: runs that came along because others reuse them. running: runs not taken, for they are under
    way. left_out: artifact folders without which runs were written, by run name, with their bytes."""

    runs: int
    sources: int
    running: list[str]
    artifacts: int
    left_out: dict[str, int]
    bytes: int


def export_runs(
    store: Store,
    output: Path,
    run_ids: Sequence[str] = (),
    *,
    sweep: str | None = None,
    kind: str | None = None,
    preset: str | None = None,
    control: str | None = None,
    models: bool = True,
    study: bool = False,
    show: bool = True,
) -> Exported:
    """Writes runs that have ended, with all that they logged, into the bundle `output` (whole or not at all).

    run_ids: ids or their unique beginnings, else the runs of a sweep, kind, preset and control hash (or its beginning), else all.
    Runs that others reuse come along. models: with model weights, and what lies in the folder of weights. study: what travels with
    the repository (see study.py), with the artifacts of a run that is reused in the run that reuses it.
    Raises UsageError where no run is meant, StoreError where one is not there, RmlabError for a run that cannot be carried.
    """
    check_output(output)
    infos = run_infos(store)
    wanted = {"sweep": sweep, "kind": kind, "preset": preset, CONTROL_HASH: control}
    chosen, running = choose(infos, run_ids, {name: value for name, value in wanted.items() if value})
    if study:
        chosen = study_bundle.latest(chosen, by_sweep=not run_ids)
    named = {info.run_id for info in chosen}
    reused = set() if study else {h.tags.get(SOURCE_RUN) for h in chosen} - named
    sources = [info for info in infos if info.run_id in reused]
    entries: list[BundleEntry] = []
    experiments: dict[str, dict[str, str]] = {}
    with atomic_path(output) as temporary, scratch_folder() as scratch:
        plain = scratch / "plain.zip" if study else temporary
        with zipfile.ZipFile(plain, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            with progress("exporting", len(chosen) + len(sources), "runs", show) as advance:
                for info in (*sources, *chosen):
                    entries.append(_Run(store, info, study).write(archive, models, experiments))
                    advance(1)
            with member(archive, MANIFEST) as out:
                out.write(manifest_text({} if study else _origin(store), experiments, entries).encode())
        if study:
            study_bundle.pack(plain, temporary)
        size = temporary.stat().st_size
    left_out = {
        f"{entry.name} ({entry.run_id}): {path}": size for entry in entries for path, size in entry.left_out.items()
    }
    return Exported(len(chosen), len(sources), running, sum(len(entry.artifacts) for entry in entries), left_out, size)


def choose(
    infos: Sequence[RunInfo], run_ids: Sequence[str], tags: Mapping[str, str]
) -> tuple[list[RunInfo], list[str]]:
    """The runs that are meant, oldest first, and the names of those that are meant but still under way.

    tags: what they have to say; of a control hash the beginning is enough.
    """
    if run_ids and tags:
        raise UsageError("name runs, or choose them with --sweep, --kind, --preset and --control, not both")
    if run_ids:
        meant = list({info.run_id: info for text in run_ids for info in [_named(infos, text)]}.values())
    else:
        exact = {name: value for name, value in tags.items() if name != CONTROL_HASH}
        meant = [
            info
            for info in infos
            if exact.items() <= info.tags.items()
            and info.tags.get(CONTROL_HASH, "").startswith(tags.get(CONTROL_HASH, ""))
        ]
    running = [info.name for info in meant if info.status == RUNNING]
    if run_ids and running:
        raise UsageError(f"run {running[0]} is still running: export it when it has ended")
    chosen = [info for info in reversed(meant) if info.status != RUNNING]
    if not chosen:
        which = "".join(f", {name.replace('_', ' ')} {value}" for name, value in tags.items())
        there = ", ".join(sorted({info.tags["sweep"] for info in infos if "sweep" in info.tags})) or "none"
        under_way = f" that has ended ({counted(len(running), 'run')} still running)" if running else ""
        raise UsageError(
            f"there is no run to export{which}{under_way}; sweeps in the store: {there}. `rmlab runs list` shows the runs."
        )
    return chosen, running


def _named(infos: Sequence[RunInfo], text: str) -> RunInfo:
    found = [info for info in infos if info.run_id.startswith(text)]
    if len(found) != 1:
        what = (
            f"is the beginning of {len(found)} run ids: give more of it" if found else "is the beginning of no run's id"
        )
        raise UsageError(f"{text!r} {what}. `rmlab runs list` shows the ids; whole sweeps are named with --sweep.")
    return found[0]


@dataclass(frozen=True)
class _Run:
    """One run on its way into an archive."""

    store: Store
    info: RunInfo
    study: bool = False

    def write(self, archive: zipfile.ZipFile, models: bool, experiments: dict[str, dict[str, str]]) -> BundleEntry:
        """Writes the run's files and returns what the manifest says of them; adds its experiment to `experiments`."""
        client, run_id = self.store.client, self.info.run_id
        run: Run = self.store.call(partial(client.get_run, run_id))
        experiment = self.store.call(partial(client.get_experiment, run.info.experiment_id))
        public = study_bundle.anonymous if self.study else str
        experiments.setdefault(experiment.name, {k: public(str(v)) for k, v in experiment.tags.items()})
        place = f"runs/{run_id}/"
        said = study_bundle.anonymous_record(_record(run)) if self.study else _record(run)
        record = self._packed(archive, place, "run.json", [json.dumps(asdict(said), indent=1, ensure_ascii=False)])
        metrics = self._packed(archive, place, "metrics.jsonl", self._metric_lines(run))
        owner = (self.study and self.info.tags.get(SOURCE_RUN)) or run_id
        files, folder = self._files(owner)
        left_out = study_bundle.left_out(files) if self.study else {} if models else weights(files)
        artifacts = []
        for path in sorted(files):
            if not within(path, left_out):
                with self._local(owner, path, folder) as local, scratch_folder() as scratch:
                    carried = study_bundle.rewritten(local, scratch / path) if self.study else local
                    artifacts.append(_copied(archive, f"{place}artifacts/", path, carried))
        return BundleEntry(run_id, experiment.name, said.name, record, metrics, tuple(artifacts), left_out)

    def _packed(
        self, archive: zipfile.ZipFile, place: str, name: str, texts: Iterator[str] | Sequence[str]
    ) -> BundledFile:
        digest, size = hashlib.sha256(), 0
        with member(archive, place + name) as out:
            for text in texts:
                data = text.encode()
                digest.update(data)
                size += out.write(data)
        return BundledFile(name, size, digest.hexdigest())

    def _metric_lines(self, run: "Run") -> Iterator[str]:
        for name in sorted(run.data.metrics):
            for row in self.store.call(partial(self.store.client.get_metric_history, run.info.run_id, name)):
                yield metric_line(row.key, row.value, row.step, row.timestamp)

    def _files(self, run_id: str) -> tuple[dict[str, int], Path | None]:
        """Every artifact with its size, and the folder that holds them (None: on a server)."""
        folder = get_run(self.store, run_id).folder()
        if folder is None:
            return listed(self.store, run_id), None
        files = {}
        for path in sorted(folder.rglob("*")):
            if path.is_symlink():
                raise RmlabError(
                    f"{path} is a link, but artifacts must be files. Replace it by the file, then export again."
                )
            if path.is_file():
                files[path.relative_to(folder).as_posix()] = path.stat().st_size
        return files, folder

    @contextmanager
    def _local(self, run_id: str, path: str, folder: Path | None) -> Iterator[Path]:
        if folder is not None:
            yield folder / path
            return
        with scratch_folder() as temporary:
            try:
                download(self.store, run_id, path, temporary)
            except FileNotFoundError as error:
                raise RmlabError(
                    f"artifact {path!r} of run {self.info.name} ({run_id}) disappeared during the export: {error}"
                ) from error
            yield temporary / path


def _record(run: "Run") -> Record:
    inputs: list[dict[str, Any]] = []
    for one in run.inputs.dataset_inputs if run.inputs else ():
        data = one.dataset
        inputs.append(
            {
                "name": data.name,
                "digest": data.digest,
                "source_type": data.source_type,
                "source": data.source,
                "schema": data.schema,
                "profile": data.profile,
                "tags": {tag.key: tag.value for tag in one.tags},
            }
        )
    tags = {name: value for name, value in run.data.tags.items() if name not in NAMED_BY_STORE}
    return Record(
        run.info.run_name or run.info.run_id,
        run.info.status,
        run.info.start_time,
        run.info.end_time,
        dict(run.data.params),
        tags,
        tuple(inputs),
    )


def _copied(archive: zipfile.ZipFile, place: str, path: str, local: Path) -> BundledFile:
    digest, size = hashlib.sha256(), 0
    with local.open("rb") as source, member(archive, place + path) as out:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            size += out.write(chunk)
    return BundledFile(path, size, digest.hexdigest())


def _origin(store: Store) -> dict[str, str]:
    parts = urlsplit(store.uri)
    return {
        "store": portable(
            store.uri.replace(f"{parts.username}:{parts.password}@", "") if parts.password else store.uri
        ),
        "host": platform.node(),
        "commit": commit(),
        "rmlab_version": rmlab.__version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
