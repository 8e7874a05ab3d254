"""The operational state of a service, in SQLite: whatever is killed when, what was said to be kept is."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from stormwright.clock import WALL, Clock
from stormwright.errors import StormwrightError

#: Statements that lead from one version (`PRAGMA user_version`) to the next; what was released never changes.
MIGRATIONS: Final[Sequence[Sequence[str]]] = (
    (
        """CREATE TABLE plans (
            id TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, kind TEXT NOT NULL, goal TEXT NOT NULL,
            who TEXT NOT NULL, reason TEXT NOT NULL, asked TEXT NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
            document TEXT NOT NULL, relied TEXT NOT NULL, promises TEXT NOT NULL, stage INTEGER NOT NULL,
            stop INTEGER NOT NULL, tries INTEGER NOT NULL, approved_by TEXT NOT NULL, decision INTEGER
        )""",
        "CREATE INDEX plans_by_state ON plans (state)",
        """CREATE TABLE steps (
            plan TEXT NOT NULL REFERENCES plans (id), number INTEGER NOT NULL, stage INTEGER NOT NULL,
            state TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (plan, number)
        )""",
        """CREATE TABLE decisions (
            n INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, kind TEXT NOT NULL, who TEXT NOT NULL,
            reason TEXT NOT NULL, text TEXT NOT NULL, plan TEXT NOT NULL
        )""",
        # Rows of the history's tables that belong to a decision: what came of its moves is told by those.
        "CREATE TABLE acts (decision_ms INTEGER PRIMARY KEY, n INTEGER NOT NULL REFERENCES decisions (n))",
        """CREATE TABLE moves (
            n INTEGER NOT NULL REFERENCES decisions (n), topology TEXT NOT NULL, name TEXT NOT NULL,
            before TEXT NOT NULL, after TEXT, promised TEXT NOT NULL, pause_s REAL, pauses INTEGER NOT NULL,
            failure TEXT NOT NULL, PRIMARY KEY (n, topology)
        )""",
        "CREATE INDEX moves_by_name ON moves (name)",
        """CREATE TABLE judgements (
            n INTEGER NOT NULL REFERENCES decisions (n), topology TEXT NOT NULL, quantity TEXT NOT NULL,
            document TEXT NOT NULL, PRIMARY KEY (n, topology, quantity)
        )""",
        "CREATE TABLE modes (one INTEGER PRIMARY KEY CHECK (one = 1), document TEXT NOT NULL)",
    ),
    (
        """CREATE TABLE drains (
            host TEXT PRIMARY KEY, nodes TEXT NOT NULL, since_ms INTEGER NOT NULL, who TEXT NOT NULL,
            reason TEXT NOT NULL, plan TEXT NOT NULL DEFAULT ''
        )""",
        # What guards have seen, as JSON by the name of the guard.
        "CREATE TABLE guards (name TEXT PRIMARY KEY, document TEXT NOT NULL)",
    ),
)

#: Below the service's state directory.
FILE = "operations.db"

#: Seconds that somebody who reads the file beside the service may hold it.
_BUSY_S = 10.0


class State:
    """The database; safe to use from several threads, one transaction at a time.

    Parameters
    ----------
    path
        Its file; is made where there is none. In write-ahead mode, and each transaction is on disk when it ends.
    clock
        Tells when what is kept was done.

    Raises
    ------
    StormwrightError
        It is of a later version of stormwright, or no database.
    """

    def __init__(self, path: Path, clock: Clock = WALL) -> None:
        self._path, self.clock = path, clock
        self._lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._migrate()
        except StormwrightError:
            self._connection.close()
            raise
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise StormwrightError(
                f"{path} cannot be used ({error}): restore it, or move it away, and plans, modes and history are gone"
            ) from error

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of it is kept, or nothing where the block raises; within another it is a part of that."""
        with self._lock:
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def read(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of an answer."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def kept(self, name: str) -> str | None:
        """What a guard keeps under its name; None where nothing was kept."""
        rows = self.read("SELECT document FROM guards WHERE name = ?", name)
        return str(rows[0]["document"]) if rows else None

    def keep(self, name: str, document: str) -> None:
        """Keep something for a guard, in place of what it kept before."""
        with self.change() as to:
            to.execute("INSERT OR REPLACE INTO guards VALUES (?, ?)", (name, document))

    def _migrate(self) -> None:
        known = len(MIGRATIONS)
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version > known:
            raise StormwrightError(
                f"{self._path} was written by a later version of stormwright (its version is {version}, {known} is the "
                "latest that is known here): go on with that one"
            )
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            with self.change() as connection:
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
