"""Which saved model or run is meant? A tracked run, a finished cell of a sweep, or a folder: the same names in every command.

d0c2...           the id of a run (32 hex digits), or its beginning from 6 digits on
5e6f7a8b9c0d1e2f  a cell by its config_hash (16 hex digits): whichever run finished it
data_scale/demo/8000/s0   a cell by sweep, preset, level and seed
runs/policies/x   a folder
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rmlab.errors import DataError
from rmlab.fingerprint import file_fingerprint, fingerprint

if TYPE_CHECKING:
    from rmlab.tracking.query import TrackedRun
    from rmlab.tracking.store import Store

MODEL = "model"
CELL = r"[^/]+/[^/]+/[^/]+/s[0-9]+"
NAMES = "Name a folder, a run or a cell (data_scale/demo/8000/s0)."
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
            raise DataError(f"neither {places[0]} nor {places[1]} is there (a model named by its run brings its own)")
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
        raise DataError(f"{name} holds no {record}: name the folder of a saved model")
    run = find_run(name, uri)
    model = run.artifact(MODEL)
    if not (model / record).is_file():
        raise DataError(f"{name}: the model of this run holds no {record}, so it is of another kind")
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
    from rmlab.tracking.query import get_run
    from rmlab.tracking.run_index import cell_runs, run_heads
    from rmlab.tracking.store import Store

    if name.startswith((".", "/")):
        raise DataError(f"{name}: there is no such file or folder. {NAMES}")
    store = Store.existing(uri)
    if store is None:
        raise DataError(f"{name}: there is no such file or folder, and no run either: nothing is tracked yet")
    if re.fullmatch(CELL, name):
        return get_run(store, _finished_cell(name, store))
    if re.fullmatch(r"[0-9a-f]{16}", name):
        if (head := cell_runs(store).finished.get(name)) is not None:
            return get_run(store, head.run_id)
        if not any(h.run_id.startswith(name) for h in run_heads(store)):
            raise DataError(
                f"{name}: no run of this cell (config_hash) is finished in {store.uri}, and no run's id begins so"
            )
    if "/" in name:
        raise DataError(f"{name}: there is no such file or folder, and no cell or run has this name. {NAMES}")
    return get_run(store, name)


def _finished_cell(name: str, store: "Store") -> str:
    """The id of the run that finished a cell last. Raises DataError where none did, or where several cells have the name."""
    from rmlab.tracking.run_index import run_heads

    sweep, preset, level, seed = name.split("/")
    wanted = {"sweep": sweep, "preset": preset, "level": level, "status": "finished"}
    heads = [h for h in run_heads(store) if wanted.items() <= h.tags.items() and h.name.endswith(f" {seed}")]
    main = [h for h in heads if len(h.name.split()) == 2] or heads  # a further arm is named in between
    if not main:
        raise DataError(
            f"{name}: no finished run of sweep {sweep}, preset {preset} at level {level} and seed {seed} in {store.uri}. "
            "`rmlab runs list` shows what is there."
        )
    hashes = sorted({h.tags.get("config_hash", "") for h in main})
    if len(hashes) > 1:
        raise DataError(
            f"{name}: {len(hashes)} different cells have this name in {store.uri}. "
            f"Name one by its config_hash: {', '.join(hashes)}"
        )
    return max(main, key=lambda h: h.start_time).run_id
