"""Operational state of a service, in SQLite: committed transactions survive the crash of any process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from stormwright.base.clock import WALL, Clock
from stormwright.errors import StormwrightError

#: Statements from one version (`PRAGMA user_version`) to the next; those of a released version never change.
MIGRATIONS: Final[Sequence[Sequence[str]]] = (
    (
        """CREATE TABLE plans (
            id TEXT PRIMARY KEY, created_ms INTEGER NOT NULL, origin TEXT NOT NULL, goal TEXT NOT NULL,
            author TEXT NOT NULL, reason TEXT NOT NULL, request TEXT NOT NULL, auto_apply INTEGER NOT NULL,
            state TEXT NOT NULL, why TEXT NOT NULL, document TEXT NOT NULL, preconditions TEXT NOT NULL,
            promised TEXT NOT NULL, stage INTEGER NOT NULL, stop INTEGER NOT NULL, tries INTEGER NOT NULL,
            approved_by TEXT NOT NULL, decision INTEGER
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
        # Keys in the history's tables of the decisions that belong to an entry: evaluations refer to those.
        "CREATE TABLE decision_times (decision_ms INTEGER PRIMARY KEY, n INTEGER NOT NULL REFERENCES decisions (n))",
        """CREATE TABLE moves (
            n INTEGER NOT NULL REFERENCES decisions (n), topology TEXT NOT NULL, name TEXT NOT NULL,
            before TEXT NOT NULL, after TEXT, promised TEXT NOT NULL, pause_s REAL, pauses INTEGER NOT NULL,
            failure TEXT NOT NULL, PRIMARY KEY (n, topology)
        )""",
        "CREATE INDEX moves_by_name ON moves (name)",
        """CREATE TABLE evaluations (
            n INTEGER NOT NULL REFERENCES decisions (n), topology TEXT NOT NULL, quantity TEXT NOT NULL,
            document TEXT NOT NULL, PRIMARY KEY (n, topology, quantity)
        )""",
        "CREATE TABLE modes (one INTEGER PRIMARY KEY CHECK (one = 1), document TEXT NOT NULL)",
        """CREATE TABLE drains (
            host TEXT PRIMARY KEY, nodes TEXT NOT NULL, since_ms INTEGER NOT NULL, who TEXT NOT NULL,
            reason TEXT NOT NULL, plan TEXT NOT NULL DEFAULT ''
        )""",
        # State of safeguards, as JSON by name.
        "CREATE TABLE documents (name TEXT PRIMARY KEY, document TEXT NOT NULL)",
        # Measurements of this service, which are large and of no use to another one.
        "CREATE TABLE local_documents (name TEXT PRIMARY KEY, document TEXT NOT NULL)",
    ),
    ("ALTER TABLE moves ADD COLUMN modelled_s REAL",),
    # Rows of other tables that cannot be read.
    (
        """CREATE TABLE damaged (
            at_ms INTEGER NOT NULL, source TEXT NOT NULL, key TEXT NOT NULL, why TEXT NOT NULL, content TEXT NOT NULL
        )""",
    ),
    # The whole of a plan in one document, and the plan that it rolls back.
    (
        """UPDATE plans SET document = json_set(
            document, '$.promises', json(promised), '$.preconditions', json(preconditions)
        ) WHERE json_valid(document) AND json_valid(promised) AND json_valid(preconditions)""",
        "ALTER TABLE plans DROP COLUMN promised",
        "ALTER TABLE plans DROP COLUMN preconditions",
        "ALTER TABLE plans ADD COLUMN rolls_back TEXT NOT NULL DEFAULT ''",
    ),
    # Numbers of executors by component before a move, where it changes them.
    ("ALTER TABLE moves ADD COLUMN executors TEXT NOT NULL DEFAULT '{}'",),
    # Values of the configuration by key before a move, where it changes them.
    ("ALTER TABLE moves ADD COLUMN conf TEXT NOT NULL DEFAULT '{}'",),
)

#: Tables with a column ``n``, the number of the journal's entry; those that refer to others come first.
ENTRY_TABLES = ("decision_times", "moves", "evaluations", "decisions")

#: Name of the file in the state directory.
FILE = "operations.db"

#: Seconds for which another process may lock the file while it reads it.
_BUSY_S = 10.0

#: Bytes of a database file with its write and read versions: 1 for a rollback journal, 2 for a write-ahead log (https://sqlite.org/fileformat2.html).
_JOURNAL_MODE_BYTES = slice(18, 20)


#: A statement that changes data, with its values.
Statement = tuple[str, Sequence[Any]]


def decode_lossless(text: bytes) -> str:
    """Return a text of the database; bytes that are no UTF-8 become lone surrogates."""
    return text.decode(errors="surrogateescape")


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are UTF-8; a function in the SQL of the database, too."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class Replicator(Protocol):
    """Replicates transactions to other services."""

    def replicate(self, to: sqlite3.Connection, statements: Sequence[Statement]) -> None:
        """Replicate a transaction right before it is committed here; if this raises, it is rolled back."""

    def fail(self, why: str) -> None:
        """Report that a replicated transaction could not be committed here."""


class Transaction:
    """Executes statements and records those that have changed data.

    Parameters
    ----------
    connection
        Connection with an open transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self.statements = connection, list[Statement]()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute a statement, as `sqlite3.Connection.execute`."""
        done = self._connection.execute(statement, values)
        if done.rowcount:  # a statement without effect here has none elsewhere
            self.statements.append((statement, values))
        return done


@dataclass(frozen=True)
class StoredDocument:
    """A document in the database (`stormwright.base.documents.Document`)."""

    state: State
    name: str
    replicated: bool

    def load(self) -> str | None:
        """Return the text stored last; None if there is none."""
        rows = self.state.read(f"SELECT document FROM {self._table} WHERE name = ?", self.name)  # noqa: S608 (names are ours)
        return str(rows[0]["document"]) if rows else None

    def save(self, text: str) -> None:
        """Replace the text."""
        with self.state.change(replicated=self.replicated) as to:
            to.execute(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)", (self.name, text))  # noqa: S608 (names are ours)

    def set_aside(self) -> None:
        """Store a copy as ``*.damaged`` in this database only."""
        text = self.load()
        if text is not None:
            StoredDocument(self.state, f"{self.name}.damaged", replicated=False).save(text)

    @property
    def _table(self) -> str:
        return "documents" if self.replicated else "local_documents"

    def __str__(self) -> str:
        return f"{self.name} in {self.state}"


class State:
    """The database; thread-safe, one transaction at a time.

    Parameters
    ----------
    path
        File of the database; created if missing. It uses a write-ahead log, and each transaction is on disk when it
        ends.
    clock
        Clock for the timestamps of what is stored.

    Raises
    ------
    StormwrightError
        The file was written by a later version of stormwright, or is no database.
    """

    def __init__(self, path: Path, clock: Clock = WALL) -> None:
        self._path, self.clock = path, clock
        self._lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.create_function("is_utf8", 1, is_utf8, deterministic=True)
        self._transaction: Transaction | None = None
        self._replicator: Replicator | None = None
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
        """Close the file."""
        with self._lock:
            self._connection.close()

    def replicate_to(self, replicator: Replicator) -> None:
        """Commit nothing from now on that could not be replicated."""
        self._replicator = replicator

    @contextmanager
    def change(self, *, replicated: bool = True) -> Iterator[Transaction]:
        """Run a transaction: stored whole, or not at all if the block raises; within another one it is a part of that.

        With `replicated` false it stays in this service.
        """
        with self._lock:
            if self._transaction is not None:
                yield self._transaction
                return
            self._connection.execute("BEGIN IMMEDIATE")
            transaction = self._transaction = Transaction(self._connection)
            try:
                yield transaction
                if self._replicator and replicated and transaction.statements:
                    self._replicator.replicate(self._connection, transaction.statements)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            finally:
                self._transaction = None
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                if self._replicator and replicated and transaction.statements:
                    self._replicator.fail(f"{self._path} cannot be written to: {error}")
                raise

    def locked(self) -> AbstractContextManager[object]:
        """Let no other thread change anything in the `with` block."""
        return self._lock

    def snapshot(self, statements: Iterable[Statement] = ()) -> bytes:
        """Return the database file as bytes, without local documents and after some more statements."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            with self._lock:
                self._connection.backup(copy)
            copy.execute("DELETE FROM local_documents")
            for statement, values in statements:
                copy.execute(statement, values)
            copy.execute("VACUUM")
            content = bytearray(copy.serialize())
        content[_JOURNAL_MODE_BYTES] = b"\x01\x01"  # a database in memory has no write-ahead mode
        return bytes(content)

    def restore(self, content: bytes) -> None:
        """Replace the content of the database by a snapshot.

        Raises
        ------
        StormwrightError
            The snapshot is of a later version of stormwright.
        """
        with closing(sqlite3.connect(":memory:")) as other, self._lock:
            other.deserialize(content)
            self._require_known(other.execute("PRAGMA user_version").fetchone()[0], "the snapshot of the services")
            other.backup(self._connection)
            self._migrate()

    def __str__(self) -> str:
        return str(self._path)

    def read(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def read_lossless(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        """Return all rows of a query; texts are decoded by `decode_lossless`."""
        with self._lock:
            self._connection.text_factory = decode_lossless
            try:
                return self.read(statement, *values)
            finally:
                self._connection.text_factory = str

    def document(self, name: str, *, replicated: bool = True) -> StoredDocument:
        """Return a document by name; one that is not replicated belongs to this service alone."""
        return StoredDocument(self, name, replicated)

    def _require_known(self, version: int, what: str) -> None:
        known = len(MIGRATIONS)
        if version > known:
            raise StormwrightError(
                f"{what} was written by a later version of stormwright (its version is {version}, {known} is the "
                "latest that is known here): go on with that one"
            )

    def _back_up(self, version: int) -> None:
        """Copy the database beside it, for the release that wrote this version of it."""
        copy = self._path.with_name(f"{self._path.name}.version-{version}")
        copy.unlink(missing_ok=True)
        self._connection.execute("VACUUM INTO ?", (str(copy),))

    def _migrate(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        self._require_known(version, str(self._path))
        if 0 < version < len(MIGRATIONS):
            self._back_up(version)
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            with self.change() as connection:
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
