"""Keeps the artifacts of a store beside the store.

MLflow stores the absolute path of each experiment's and each run's artifacts, so a runs folder that was moved or copied would
keep writing into its original folder, and would lose its artifacts with that folder. Opening a sqlite store corrects the paths.
"""

import contextlib
import os
import sqlite3
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rmlab.errors import StoreError

ARTIFACTS = "artifacts"
BUSY_SECONDS = 60.0


def artifacts_of(database: Path) -> Path:
    """The folder of a sqlite store's artifacts: beside its file, whichever links lead there."""
    return Path(os.path.realpath(database)).parent / ARTIFACTS


def local_path(uri: str) -> Path | None:
    """The path that a `file:` URI names, None for any other."""
    return Path(unquote(urlsplit(uri).path)) if uri.startswith("file:") else None


def bring_home(database: Path) -> None:
    """Names the places beside `database` as those of its artifacts, where it names those of the folder it was moved or copied from.

    In one transaction, so that it is done or not done, and by any number of processes. Experiments that somebody put elsewhere
    (`artifact_location`, a bucket) stay there. A run whose artifacts were not copied along is still read where they are; a summary
    is not, because a sweep writes it anew.
    Raises StoreError where the database cannot be read.
    """
    home = artifacts_of(database)
    try:
        connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)
        with contextlib.closing(connection):
            connection.isolation_level = None  # BEGIN and COMMIT are ours
            if not _strange(connection, home):
                return
            connection.execute("BEGIN IMMEDIATE")
            for experiment_id, old, new in _strange(connection, home):
                connection.execute(
                    "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (new, experiment_id)
                )
                listed = connection.execute(
                    "SELECT run_uuid, artifact_uri, EXISTS (SELECT 1 FROM tags WHERE tags.run_uuid = runs.run_uuid AND key = 'kind' "
                    "AND value = 'summary') FROM runs WHERE experiment_id = ?",
                    (experiment_id,),
                )
                moves = [
                    (new + uri.removeprefix(old), run_id, uri, summary)
                    for run_id, uri, summary in listed
                    if uri and uri.startswith(f"{old}/")
                ]
                connection.executemany(
                    "UPDATE runs SET artifact_uri = ? WHERE run_uuid = ?",
                    [(to, run) for to, run, uri, summary in moves if summary or _is_there(to) or not _is_there(uri)],
                )
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise StoreError(f"the tracking store {database} does not work: {error}. Is it an MLflow database?") from error


def _strange(connection: sqlite3.Connection, home: Path) -> list[tuple[int, str, str]]:
    """(id, place, place beside the store) of experiments whose artifacts lie in the folder `artifacts` of another place."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone():
        return []  # an empty file: MLflow makes its tables
    rows = connection.execute("SELECT experiment_id, name, artifact_location FROM experiments").fetchall()
    placed = [
        (i, name, location, path) for i, name, location in rows if (path := local_path(location or "")) is not None
    ]
    # As the store names them: `artifacts/NAME`. One that was renamed since lies in the same folder as the others.
    former = {path.parent for _, name, _, path in placed if path.parent.name == ARTIFACTS and path.name == name}
    return [
        (i, location, (home / path.name).as_uri()) for i, _, location, path in placed if path.parent in former - {home}
    ]


def _is_there(uri: str) -> bool:
    path = local_path(uri)
    return path is not None and path.exists()
