"""The operational state of a service, in SQLite: whatever is killed when, what was said to be kept is."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from stormwright.clock import WALL, Clock
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
)

#: Tables with a column ``n``, the number of the journal's entry; those that refer to others come first.
ENTRY_TABLES = ("decision_times", "moves", "evaluations", "decisions")

#: Name of the file in the state directory.
FILE = "operations.db"

#: Seconds that somebody who reads the file beside the service may hold it.
_BUSY_S = 10.0

#: Bytes of a database's content that say in which mode it is written and read (https://sqlite.org/fileformat2.html).
_MODES = slice(18, 20)


#: A statement that changes something, with its values.
Statement = tuple[str, Sequence[Any]]


class SharedState(Protocol):
    """Other services that keep the same."""

    def share(self, to: sqlite3.Connection, statements: Sequence[Statement]) -> None:
        """Let the others have a transaction, right before it is kept here; nothing of it is kept where this raises."""

    def give_up(self, why: str) -> None:
        """What the others have cannot be kept here."""


class Transaction:
    """Executes statements, and knows which of them have changed something.

    Parameters
    ----------
    connection
        In a transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self.statements = connection, list[Statement]()

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """As `sqlite3.Connection.execute`."""
        done = self._connection.execute(statement, values)
        if done.rowcount:  # what has changed nothing here changes nothing elsewhere
            self.statements.append((statement, values))
        return done


@dataclass(frozen=True)
class StoredDocument:
    """A document in the database (`stormwright.documents.Document`)."""

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
        self._transaction: Transaction | None = None
        self._shared: SharedState | None = None
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

    def share_with(self, others: SharedState) -> None:
        """Keep nothing from now on that others do not keep as well."""
        self._shared = others

    @contextmanager
    def change(self, *, replicated: bool = True) -> Iterator[Transaction]:
        """Run a transaction: all of it is stored, or nothing if the block raises; within another it is a part of that.

        One that is not replicated is not shared with other services.
        """
        with self._lock:
            if self._transaction is not None:
                yield self._transaction
                return
            self._connection.execute("BEGIN IMMEDIATE")
            transaction = self._transaction = Transaction(self._connection)
            try:
                yield transaction
                if self._shared and replicated and transaction.statements:
                    self._shared.share(self._connection, transaction.statements)
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            finally:
                self._transaction = None
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                if self._shared and replicated and transaction.statements:
                    self._shared.give_up(f"{self._path} cannot be written to: {error}")
                raise

    def held(self) -> AbstractContextManager[object]:
        """Nobody else changes anything in the `with` block."""
        return self._lock

    def copy(self, statements: Iterable[Statement] = ()) -> bytes:
        """All of it, as the content of a database; with so many changes."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
            with self._lock:
                self._connection.backup(copy)
            copy.execute("DELETE FROM local_documents")
            for statement, values in statements:
                copy.execute(statement, values)
            copy.execute("VACUUM")
            content = bytearray(copy.serialize())
        content[_MODES] = b"\x01\x01"  # a database in memory has no write-ahead mode
        return bytes(content)

    def become(self, content: bytes) -> None:
        """All of what another one was when it was copied, in place of what is here.

        Raises
        ------
        StormwrightError
            It is of a later version of stormwright.
        """
        with closing(sqlite3.connect(":memory:")) as other, self._lock:
            other.deserialize(content)
            self._require_known(other.execute("PRAGMA user_version").fetchone()[0], "what the services have agreed on")
            other.backup(self._connection)
            self._migrate()

    def __str__(self) -> str:
        return str(self._path)

    def read(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of an answer."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

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

    def _migrate(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        self._require_known(version, str(self._path))
        for number, statements in enumerate(MIGRATIONS[version:], version + 1):
            with self.change() as connection:
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
