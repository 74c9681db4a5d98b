"""Which saved model or run is meant? A tracked run, a finished cell of a sweep, or a folder: the same names in every command.

d0c2...           the id of a run (32 hex digits), or its beginning from 6 digits on
5e6f7a8b9c0d1e2f  a cell by its config_hash (16 hex digits): whichever run finished it
data_scale/demo/4000/s0   a cell by sweep, preset, level and seed
execution_a       a run by its name, where one finished run alone has it; where the name means another run as well (the beginning of
                  its id, its config_hash, its cell), neither is chosen
runs/policies/x   a folder
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rmlab.errors import AmbiguousName, DataError, StoreError
from rmlab.fingerprint import file_fingerprint, fingerprint
from rmlab.tracking.query import SHORTEST, AnyInfo, TrackedRun, beginning_with, get_run, listing, with_id
from rmlab.tracking.run_index import RunInfo, finished_run, run_infos
from rmlab.tracking.store import Store
from rmlab.tracking.tags import CONFIG_HASH, FINISHED, IMPORTED_RUN, REPLACED
from rmlab.tracking.weights import MODEL
from rmlab.wording import counted

CELL = r"[^/]+/[^/]+/[^/]+/s[0-9]+"
CONFIG = r"[0-9a-f]{16}"
HEX = rf"[0-9a-f]{{{SHORTEST},32}}"
NAMES = "Name a folder, a run or a cell (data_scale/demo/4000/s0)."
VALIDATION_SCORES = "validation_scores.parquet"
LISTS_BUNDLE = "`rmlab runs list --store BUNDLE`"
KINDS = {"verifier.json": "a verifier, which `rmlab train` makes", "config.json": "a saved model"}
"""By the file that it must have, what a folder or a run is to hold."""
HASHED = (".json", ".safetensors", ".txt")


@dataclass(frozen=True)
class Reference:
    """folder: of the model. run_id, run_name, run: of the run that made it, "" and None for a plain folder."""

    folder: Path
    run_id: str = ""
    run_name: str = ""
    run: TrackedRun | None = field(default=None, compare=False, repr=False)

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
        raise DataError(f"{name} has no {record}: name the folder of {KINDS.get(record, 'a saved model')}")
    run = find_run(name, uri)
    model = run.artifact(MODEL)
    if not (model / record).is_file():
        raise DataError(
            f"{name}: the model of this run has no {record}, so it is a different kind of model. Name a run that made "
            f"{KINDS.get(record, 'one')}; `rmlab runs list` shows the kinds."
        )
    return Reference(model, run.run_id, run.name, run)


def find_artifact(name: str, artifact: str, uri: str | None = None) -> Path:
    """A file that a run made, the run being named as a model is. Raises as `find_model` and `Reference.beside` do."""
    folder = Path(name)
    if folder.is_dir():
        return Reference(folder).beside(artifact)
    return find_run(name, uri).artifact(artifact)


def find_run(name: str, uri: str | None = None) -> TrackedRun:
    """The run that a name means: its id or the beginning of it, its name, or a cell, by its config_hash or as SWEEP/PRESET/LEVEL/SEED.

    Raises DataError for a cell that no run finished, or that is several, AmbiguousName for a name that several runs have, or that means
    another run as well, StoreError for a run that is not there.
    """
    _refuse_path(name)
    store = Store.existing(uri)
    if store is None:
        raise DataError(f"{name}: there is no such file or folder, and no run has been tracked yet")
    if (info := _meant(name, run_infos(store), store.uri, listing(store))) is not None:
        return get_run(store, info.run_id)
    _refuse_slash(name)
    return get_run(store, name)


def run_among(name: str, found: Sequence[AnyInfo], where: str) -> AnyInfo:
    """The run that a name means among those of a bundle, say: as `find_run` in a store. where: what holds them.

    Raises as `find_run` does.
    """
    _refuse_path(name)
    if (info := _meant(name, found, where, LISTS_BUNDLE)) is not None:
        return info
    _refuse_slash(name)
    raise StoreError(
        f"there is no run {name!r} in {where}. {LISTS_BUNDLE} shows the runs of a bundle; "
        f"name one, or give at least {SHORTEST} characters of an id."
    )


def _meant(name: str, found: Sequence[AnyInfo], where: str, lists: str) -> AnyInfo | None:
    """The run that a cell, a config_hash, an id, the beginning of one, or a name means; None where nothing of these is there.

    where: what holds the runs. lists: the command that lists them. Raises as `find_run` does.
    """
    key = name.lower()
    if whole := [i for i in found if i.run_id == key] or [i for i in found if i.tags.get(IMPORTED_RUN) == key]:
        return whole[0]  # a whole id means its run, whatever others are called
    called = _called(name, found, where)
    if re.fullmatch(CELL, name):
        if called is None:
            return _finished_cell(name, found, where, lists)
        others = {info.run_id: f"{info.name}, whose cell this is" for info in _of_cell(name, found)}
        return _alone(name, called, others, where)
    if not re.fullmatch(HEX, key):
        return called
    of_hash = {info.run_id: info for info in found if info.tags.get(CONFIG_HASH) == key}
    finished = finished_run(of_hash.values())
    if called is None and finished is not None:
        return of_hash[finished.run_id]
    if called is None:
        if (run := beginning_with(found, key, where)) is None and re.fullmatch(CONFIG, key):
            raise _no_such_hash(name, where)
        return run
    others = {info.run_id: f"{info.name}, whose id begins so" for info in with_id(found, key)}
    if finished is not None and called.run_id not in of_hash:
        others[finished.run_id] = f"{finished.name}, whose config_hash this is"
    return _alone(name, called, others, where)


def _alone(name: str, called: AnyInfo, others: Mapping[str, str], where: str) -> AnyInfo:
    """The run of a name. others: what else the name means, in words by run id; the run itself may be among them.

    Raises AmbiguousName, with the ids, where another run is.
    """
    if listed := "; ".join(f"{run_id} ({words})" for run_id, words in others.items() if run_id != called.run_id):
        raise AmbiguousName(
            f"{name} can mean several runs in {where}. Name one by its id: {called.run_id} (named {name}); {listed}"
        )
    return called


def _called(name: str, found: Iterable[AnyInfo], where: str) -> AnyInfo | None:
    """The run of this name: the finished one, or the only one; None where none has it. where: what holds them.

    Raises AmbiguousName, with the ids, where several cells have it.
    """
    having = {info.run_id: info for info in found if info.name == name and info.status != REPLACED}
    whole = {run_id: info for run_id, info in having.items() if info.status == FINISHED} or having
    of_one_cell = len({info.tags.get(CONFIG_HASH, run_id) for run_id, info in whole.items()}) == 1
    if of_one_cell and (finished := finished_run(whole.values())) is not None:
        return whole[finished.run_id]
    if len(whole) > 1:
        listed = "; ".join(f"{run_id} ({_facts(info)})" for run_id, info in whole.items())
        raise AmbiguousName(f"{counted(len(whole), 'run')} in {where} are named {name}. Name one by its id: {listed}")
    return next(iter(whole.values()), None)


def _facts(info: RunInfo) -> str:
    """What tells a run from others of its name."""
    level = f"level {info.tags['level']}" if "level" in info.tags else ""
    tags = [info.tags.get(tag, "") for tag in ("kind", "sweep", "preset")]
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.start_time / 1000))
    return ", ".join(word for word in (*tags, level, info.status, f"started {started}") if word)


def _refuse_path(name: str) -> None:
    """Raises DataError for what can only be a path: nothing lies there, or it would not be looked up."""
    if name.startswith((".", "/")):
        raise DataError(f"{name}: there is no such file or folder. {NAMES}")


def _refuse_slash(name: str) -> None:
    """Raises DataError for what is neither a cell nor an id."""
    if "/" in name:
        raise DataError(f"{name}: there is no such file or folder, and no cell or run of this name. {NAMES}")


def _no_such_hash(name: str, where: str) -> DataError:
    return DataError(f"{name}: {where} has no finished run with this config_hash, and no run whose id begins so")


def _of_cell(name: str, found: Iterable[AnyInfo]) -> list[AnyInfo]:
    """The finished runs of a cell by sweep, preset, level and seed: of the main arm where that has any."""
    sweep, preset, level, seed = name.split("/")
    wanted = {"sweep": sweep, "preset": preset, "level": level, "status": "finished"}
    infos = [h for h in found if wanted.items() <= h.tags.items() and h.name.endswith(f" {seed}")]
    return [h for h in infos if len(h.name.split()) == 2] or infos  # a further arm is named in between


def _finished_cell(name: str, found: Iterable[AnyInfo], where: str, lists: str) -> AnyInfo:
    """The run that finished a cell last. lists: the command that lists the runs.

    Raises DataError where none did, or where several cells have the name.
    """
    sweep, preset, level, seed = name.split("/")
    main = _of_cell(name, found)
    if not main:
        raise DataError(
            f"{name}: no finished run of sweep {sweep}, preset {preset} at level {level} and seed {seed} in {where}. "
            f"{lists} shows the runs."
        )
    hashes = sorted({h.tags.get("config_hash", "") for h in main})
    if len(hashes) > 1:
        raise DataError(
            f"{name}: {len(hashes)} different cells have this name in {where}. "
            f"Name one by its config_hash: {', '.join(hashes)}"
        )
    return max(main, key=lambda h: h.start_time)
