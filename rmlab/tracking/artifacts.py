"""The files of a run on a server: their list, and complete copies of them."""

import os
import secrets
import shutil
from functools import partial
from pathlib import Path

from rmlab.errors import StoreError
from rmlab.fingerprint import fingerprint
from rmlab.paths import runs_folder
from rmlab.tracking.store import Store


def listed(store: Store, run_id: str, path: str = "") -> dict[str, int]:
    """Size in bytes of every file of a run below `path`, asked from the store."""
    found: dict[str, int] = {}
    for item in store.call(partial(store.client.list_artifacts, run_id, path or None)):
        if item.is_dir:
            found |= listed(store, run_id, item.path)
        elif item.path != path:  # some servers list a file as its own content
            found[item.path] = item.file_size or 0
    return found


def fetched(store: Store, run_id: str, path: str) -> Path:
    """A local copy of an artifact (file or folder), made once.

    A copy stands in the cache only after all its files were there with the size that the server says, so an interrupted
    download is never taken for a model. Raises FileNotFoundError where the run has no such artifact, StoreError where the
    copy is not whole.
    """
    place = runs_folder() / "cache" / "fetched" / run_id / fingerprint(path)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.{os.getpid()}-{secrets.token_hex(4)}")
        temporary.mkdir()
        try:
            download(store, run_id, path, temporary)
            try:
                temporary.rename(place)
            except OSError:
                if not place.exists():  # else another process was quicker
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return place / path


def download(store: Store, run_id: str, path: str, folder: Path) -> None:
    """Copies an artifact below `folder`, under its own path, and compares every file's size with what the server lists."""
    parent = path.rpartition("/")[0]
    beside = {item.path: item for item in store.call(partial(store.client.list_artifacts, run_id, parent or None))}
    if path not in beside:
        raise FileNotFoundError(f"the server lists {', '.join(sorted(beside)) or 'nothing'}")
    expected = listed(store, run_id, path) if beside[path].is_dir else {path: beside[path].file_size or 0}
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    found = Path(store.call(partial(store.client.download_artifacts, run_id, path, str(folder))))
    if found != folder / path:  # a place on this machine is not copied but named
        (shutil.copytree if found.is_dir() else shutil.copyfile)(found, folder / path)
    for name, size in expected.items():
        local = folder / name
        there = local.stat().st_size if local.is_file() else None
        if there != size:
            raise StoreError(
                f"artifact {name!r} of run {run_id} came with {there} of {size} bytes from {store.uri}. Try again."
            )
