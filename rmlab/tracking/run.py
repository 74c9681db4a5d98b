"""One tracked run, written so that it survives a crash and never counts as finished too early.

Its metrics are written in batches (`rmlab.tracking.metric_writer`), at the end and after a crash too. The tag `status` says
`finished` only when every metric and artifact is in the store; readers go by that tag alone.
"""

import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rmlab.errors import StoreError
from rmlab.fingerprint import canonical_json
from rmlab.gpu_memory import full_memory
from rmlab.paths import portable
from rmlab.stopping import Stopped, stop_behind, uncut
from rmlab.tracking import leases
from rmlab.tracking.config import LEVEL_NUMBER, TrackingConfig, level_number
from rmlab.tracking.dead_runs import close_stale
from rmlab.tracking.metric_writer import MetricWriter
from rmlab.tracking.parameters import LONGEST_PARAM
from rmlab.tracking.run_index import runs_of
from rmlab.tracking.store import Store
from rmlab.tracking.successors import take_up
from rmlab.tracking.tags import (
    AT_WORK,
    CONFIG_HASH,
    ERROR,
    FAILED,
    FINISHED,
    IN_MLFLOW,
    LONGEST_TAG,
    PROCESS,
    REPLACES,
    RUNNING,
    STATUS,
    STOPPED,
    TRACEBACK,
    check_names,
    close,
    origin_tags,
    set_tags,
    texts,
)

if TYPE_CHECKING:
    from omegaconf import DictConfig

PARAMS_AT_ONCE = 100  # what MLflow takes


@dataclass
class RunLogger:
    """Writes one run. Used as a context: it finishes the run at the end, or records the error that ended it.

    What ends a run from outside (KeyboardInterrupt, SystemExit, a lost lease, a store out of reach, a full disk, other cells that fill
    the GPU) leaves `stopped`, any other exception `failed` with its traceback (as tag and as artifact `traceback.txt`); the exception
    goes on, a full GPU as `rmlab.gpu_memory` explains it.
    """

    store: Store
    run_id: str
    experiment_id: str
    series: MetricWriter = field(init=False)
    _keeper: leases.Keeper | None = None
    _signed: list[str] = field(default_factory=list)
    _finished: bool = False

    def __post_init__(self) -> None:
        self.series = MetricWriter(self.store, self.run_id)

    @classmethod
    def start(
        cls,
        store: Store,
        experiment: str,
        name: str,
        *,
        kind: str,
        tags: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        metrics: Iterable[str] = (),
        once: bool = False,
        replaces: Sequence[str] = (),
    ) -> "RunLogger":
        """Opens a run of `kind` in an experiment (made where it is not there).

        tags, params: short plain values (None is left out). metrics: names that will be logged, checked now.
        once: the run does the cell of its tag `config_hash`, which nobody else may do meanwhile or has done: it holds a lease.
        replaces: ids of finished runs that do not count for that, because this one takes their place.
        Raises ValueError for a name that the store would refuse, StoreError where the run cannot be made; with `once`
        rmlab.tracking.leases.Held where another process is at work on the cell and Done where it is finished.
        """
        check_names(metrics)
        check_names(params or {})
        check_names(tags or {})
        experiment_id = store.experiment(experiment)
        first = {"kind": kind, STATUS: RUNNING, **origin_tags(), **texts(tags or {}, LONGEST_TAG)}
        if once:
            first |= leases.lease_tags() | ({REPLACES: " ".join(replaces)} if replaces else {})
            del first[PROCESS]  # the lease says it
        made, logger = leases.now(), None
        try:
            with uncut():  # from here on a signal finds a run that can say how it ended
                run = store.call(lambda: store.client.create_run(experiment_id, tags=first, run_name=name))
                signed = [tag for tag in AT_WORK if tag in first]
                beaten = leases.claim(store, run.info.run_id, first[CONFIG_HASH], made, replaces) if once else 0.0
                logger = cls(store, run.info.run_id, experiment_id, _signed=signed)
                if once:
                    logger._keeper = leases.Keeper(store, logger.run_id, beaten)
                if CONFIG_HASH in first:
                    take_up(store, first[CONFIG_HASH], logger.run_id)
                logger.params(params or {})
                logger.place(first)
        except BaseException as error:
            if logger is not None:
                logger.fail(error)
            raise
        return logger

    def place(self, tags: Mapping[str, str]) -> None:
        """The level that the tags say, as a number and a metric: the UI sorts parameters and tags as words."""
        place = tags.get("place")
        tracking = TrackingConfig(level=tags.get("level", ""), place=None if place is None else int(place))
        self.metric(LEVEL_NUMBER, level_number(tracking))

    def metric(self, name: str, value: float | None, step: int = 0) -> None:
        """One value; None (undefined) is left out."""
        self.metrics({name: value}, step)

    def metrics(self, values: Mapping[str, float | None], step: int = 0) -> None:
        """Values of one step, written with the next batch, and what is headline of them. None (undefined) is left out."""
        self.series.add(values, step)

    def replay(self, history: Iterable[Iterable[Any]]) -> None:
        """Takes over what a killed run had logged up to its checkpoint, so that this run's series are whole."""
        self.series.replay(history)

    def flush(self) -> None:
        """Writes the metrics that are buffered. Raises StoreError when the store stays busy; they are kept then."""
        self.series.flush()

    def params(self, values: Mapping[str, Any]) -> None:
        """Short plain values (None is left out), in the order given; a long one is refused: the whole configuration is an artifact."""
        from mlflow.entities import Param

        check_names(values)
        short = texts(values)
        for name, text in short.items():
            if len(text) > LONGEST_PARAM:
                raise ValueError(
                    f"parameter {name} has {len(text)} characters, which is too long for a parameter: log it as an artifact"
                )
        rows = [Param(name, text) for name, text in short.items()]
        for start in range(0, len(rows), PARAMS_AT_ONCE):
            batch = rows[start : start + PARAMS_AT_ONCE]
            self.store.call(partial(self.store.client.log_batch, self.run_id, params=batch))

    def tags(self, values: Mapping[str, Any]) -> None:
        """Sets tags, at once (None is left out)."""
        set_tags(self.store, self.run_id, values)

    def dataset(
        self,
        name: str,
        fingerprint: str,
        context: str,
        source: Mapping[str, Any],
        profile: Mapping[str, Any] | None = None,
    ) -> None:
        """Names a data set that this run reads.

        context: what for (training, validation, evaluation). source: where it comes from. profile: counts.
        """
        from mlflow.entities import Dataset, DatasetInput, InputTag

        data = Dataset(
            name=name,
            digest=fingerprint,
            source_type="code",
            source=canonical_json({"tags": texts(source)}),
            profile=canonical_json(dict(profile or {})),
        )
        entry = DatasetInput(data, [InputTag("mlflow.data.context", context)])
        self.store.call(lambda: self.store.client.log_inputs(self.run_id, datasets=[entry]))

    def artifact(self, path: Path, folder: str | None = None) -> None:
        """Copies a file, or a folder with all that is in it, into the run (into `folder`, default its top; a folder keeps its name)."""
        client = self.store.client
        if path.is_dir():
            into = f"{folder}/{path.name}" if folder else path.name
            self.store.call(lambda: client.log_artifacts(self.run_id, str(path), into))
        else:
            self.store.call(lambda: client.log_artifact(self.run_id, str(path), folder))

    def text(self, name: str, text: str) -> None:
        """An artifact of that name that holds the text."""
        self.store.call(lambda: self.store.client.log_text(self.run_id, text, name))

    def json(self, name: str, value: Any) -> None:
        """An artifact of that name that holds the value as readable JSON, without the machine's paths."""
        import json

        text = json.dumps(value, indent=1, sort_keys=False, ensure_ascii=False, allow_nan=False)
        self.text(name, portable(text) + "\n")

    def configuration(self, config: "DictConfig") -> None:
        """The artifact `config.yaml`: all that was configured, without the machine's paths."""
        from omegaconf import OmegaConf

        self.text("config.yaml", portable(OmegaConf.to_yaml(config, resolve=True)))

    @uncut()
    def finish(self) -> None:
        """Flushes, then says `finished`, then closes. Raises StoreError where that cannot be written, and Stopped where the run's lease
        is lost: the run is not finished then."""
        try:
            self.flush()
            if self._keeper:
                self._keeper.confirm()
            self.tags({STATUS: FINISHED})
            self._finished = True
        finally:  # it beats until the run says how it ended, however long the store takes
            if self._keeper:
                self._keeper.stop()
        close(self.store, self.run_id, IN_MLFLOW[FINISHED], self._signed)

    @uncut()
    def fail(self, error: BaseException) -> None:
        """Flushes, records the error and closes; a run that is finished stays so. Where the store fails too, that is added to the error
        as a note."""
        if self._finished:
            return
        from_outside = isinstance(error, KeyboardInterrupt | SystemExit) or stop_behind(error) is not None
        status = STOPPED if from_outside else FAILED
        if self._keeper:
            self._keeper.stop()
        try:
            self.flush()
            whole = "".join(traceback.format_exception(error))
            tags = {STATUS: status}
            if status == FAILED:
                tags |= {
                    ERROR: f"{type(error).__name__}: {error}".splitlines()[0][:500],
                    TRACEBACK: whole[-LONGEST_TAG:],
                }
            self.tags(tags)
            close(self.store, self.run_id, IN_MLFLOW[status], self._signed)
            if status == FAILED:  # last: what became of the run is known where a file cannot be written
                self.text("traceback.txt", portable(whole))
        except (StoreError, OSError) as second:
            error.add_note(f"the error could not be recorded in run {self.run_id}: {second}")

    def __enter__(self) -> "RunLogger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is not None:
            told = full_memory(error)
            self.fail(told or error)
            if told:
                raise told from error
            return
        try:
            self.finish()
        except Stopped as stopped:
            self.fail(stopped)
            raise


def start_single(
    tracking: TrackingConfig,
    experiment: str,
    name: str,
    *,
    kind: str,
    tags: Mapping[str, Any],
    params: Mapping[str, Any] | None = None,
) -> RunLogger:
    """Opens the run of a program that no sweep launches. experiment, name: where `tracking` gives none.

    Runs of the same tag `config_hash` whose process was killed are closed as failed first.
    """
    store = Store.open(tracking.uri)
    close_stale(store, runs_of(store, tags[CONFIG_HASH]))
    return RunLogger.start(
        store, tracking.experiment or experiment, tracking.name or name, kind=kind, tags=tags, params=params
    )
