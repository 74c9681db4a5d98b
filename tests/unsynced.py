"""Stores of this process wait for no disk, once this is imported: nothing that a test writes has to outlive the machine's power.

Every commit would wait for it otherwise, dozens a run. SQLAlchemy finds the function where it is replaced here.
"""

import sqlite3.dbapi2
from contextlib import suppress
from typing import Any

connect = sqlite3.dbapi2.connect


def connect_unsynced(*arguments: Any, **options: Any) -> sqlite3.Connection:
    connection = connect(*arguments, **options)
    with suppress(sqlite3.Error):  # it is no database, which its user is to say
        connection.execute("PRAGMA synchronous=OFF")
    return connection


sqlite3.dbapi2.connect = connect_unsynced
