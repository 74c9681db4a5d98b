"""Which saved model is meant? A tracked run, a finished cell of a sweep, or a folder.

d0c2...           the id of a run (32 hex digits)
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
            raise DataError(f"{places[1]} is not there (a verifier named by its run brings its own)")
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
        for candidate in (folder, folder / "model"):
            if (candidate / record).is_file():
                return Reference(candidate)
        raise DataError(f"{name} holds no {record}: name the folder of a saved model")
    if name.startswith((".", "/")):
        raise DataError(f"{name}: there is no such folder. Name a folder, a run or a cell.")
    from rmlab.tracking.query import get_run
    from rmlab.tracking.run_index import cell_runs, run_infos
    from rmlab.tracking.store import Store

    store = Store.existing(uri)
    if store is None:
        raise DataError(f"{name}: there is no such folder, and no run either: the runs folder has no store yet")
    if re.fullmatch(r"[0-9a-f]{16}", name):
        head = cell_runs(store).finished.get(name)
        if head is None and not any(h.run_id.startswith(name) for h in run_infos(store)):
            raise DataError(
                f"{name}: no run of this cell (config_hash) is finished in {store.uri}, and no run's id begins so"
            )
    elif name.count("/") == 3:
        sweep, preset, level, seed = name.split("/")
        wanted = {"sweep": sweep, "preset": preset, "level": level, "status": "finished"}
        heads = [h for h in run_infos(store) if wanted.items() <= h.tags.items() and h.name.endswith(f" {seed}")]
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
        head = max(main, key=lambda h: h.start_time)
    else:
        head = None
    if head is None and "/" in name:
        raise DataError(
            f"{name}: there is no such folder, and no cell or run has this name. Name a folder, a run or a cell."
        )
    run = get_run(store, head.run_id if head else name)
    return Reference(_holding(run.artifact("model"), record, name), run.run_id, run.name, run)


def _holding(folder: Path, record: str, name: str) -> Path:
    if not (folder / record).is_file():
        raise DataError(f"{name}: the model of this run holds no {record}, so it is of another kind")
    return folder
