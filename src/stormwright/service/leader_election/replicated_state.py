"""The state of a service, replicated to all services of a cluster."""

from __future__ import annotations

import logging
import secrets
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path

import orjson

from stormwright.base.files import write_whole
from stormwright.errors import StormwrightError
from stormwright.plans.states import HALTED_STATES, IN_PROGRESS_STATES, OPEN_STATES
from stormwright.service.leader_election.consensus import ConsensusStore, StateSnapshot
from stormwright.service.leader_election.lease import Lease
from stormwright.service.storage.database import ENTRY_TABLES, FILE, MIGRATIONS, State, Statement

log = logging.getLogger(__name__)


# Log entries --------------------------------------------------------------------------------------
# Transactions as entries of a log that every service applies in the same order.

#: Finished plans, and entries of the journal, in a snapshot for services that join later.
MAX_PLANS, MAX_ENTRIES = 100, 500

_UNFINISHED_STATES = ", ".join(f"'{state}'" for state in (*IN_PROGRESS_STATES, *OPEN_STATES, *HALTED_STATES))
_OLD_PLANS = (
    f"SELECT id FROM plans WHERE state NOT IN ({_UNFINISHED_STATES}) "  # noqa: S608 (states are ours)
    f"ORDER BY created_ms DESC LIMIT -1 OFFSET {MAX_PLANS}"
)
_IS_OLD_ENTRY = (
    f"n <= (SELECT max(n) - {MAX_ENTRIES} FROM decisions) "  # noqa: S608 (a number of ours)
    "AND n NOT IN (SELECT decision FROM plans WHERE decision IS NOT NULL)"
)

#: Statements that delete old plans and entries from a snapshot.
COMPACTION: Sequence[Statement] = (
    (f"DELETE FROM steps WHERE plan IN ({_OLD_PLANS})", ()),  # noqa: S608 (as above)
    (f"DELETE FROM plans WHERE id IN ({_OLD_PLANS})", ()),  # noqa: S608 (as above)
    *((f"DELETE FROM {table} WHERE {_IS_OLD_ENTRY}", ()) for table in ENTRY_TABLES),  # noqa: S608 (names are ours)
)


class OtherVersionError(StormwrightError):
    """An entry was written by a version of stormwright with another database schema."""


def encode_entry(statements: Sequence[Statement]) -> bytes:
    """Return a transaction as a log entry."""
    document = {"schema": len(MIGRATIONS), "statements": [[text, list(values)] for text, values in statements]}
    return zlib.compress(orjson.dumps(document))


def decode_entry(entry: bytes) -> list[Statement]:
    """Return the statements of an entry; raises `OtherVersionError`."""
    document = orjson.loads(zlib.decompress(entry))
    if document["schema"] != len(MIGRATIONS):
        raise OtherVersionError(
            f"the former leader runs another version of stormwright (state version {document['schema']}, here "
            f"{len(MIGRATIONS)}): restart it, or upgrade it to this version first"
        )
    return [(text, values) for text, values in document["statements"]]


# Replicated state ---------------------------------------------------------------------------------

#: Entries after which another snapshot is saved, so that joining services have few entries to read.
SNAPSHOT_EVERY = 1000

_NAME = "pair"
_SAVE = "INSERT OR REPLACE INTO documents VALUES (?, ?)"


class ReplicatedState:
    """Replicates a state among the services of a cluster.

    1. A standby applies entries in their order; its position is stored in the same transactions.
    2. The leader appends an entry before it commits the transaction. If it ends in between, the others know more than
       it does, never less; it applies that entry when it comes back.
    3. A service that lacks deleted entries, or has the state of another group, restores the latest snapshot. Its former
       state is set aside.

    Parameters
    ----------
    state
        State of this service.
    store
        Consensus store of the services.
    lease
        Lease of the leader.
    """

    def __init__(self, state: State, store: ConsensusStore, lease: Lease) -> None:
        self._state, self._store, self._lease = state, store, lease
        self._pair, self.position = _load_position(state)
        self._snapshot_position = 0

    def catch_up(self, directory: Path) -> bool:
        """Apply entries of other services; return whether there were any.

        Parameters
        ----------
        directory
            Directory for the former state if it is set aside.

        Raises
        ------
        StormwrightError
            An entry cannot be applied here, or the store does not answer.
        """
        before, snapshot = (self._pair, self.position), self._store.latest_snapshot()
        if snapshot is None:
            return False
        if snapshot.pair != self._pair:
            self._restore(snapshot, directory)
        try:
            self._apply()
        except OtherVersionError:
            if snapshot.position <= self.position:
                raise
            self._restore(snapshot, directory)
            self._apply()
        if snapshot.position > self.position:  # the entries in between were deleted
            self._restore(snapshot, directory)
            self._apply()
        return (self._pair, self.position) != before

    def start(self) -> None:
        """Start to lead with this state, and save a snapshot of it."""
        if not self._pair:
            self._pair, self.position = secrets.token_hex(8), 0
            self._state.document(_NAME).save(self._position_document(0))
        self._state.replicate_to(self)
        self.save_snapshot()

    def save_snapshot(self) -> None:
        """Save a snapshot of the state in the store."""
        with self._state.locked():
            position, content = self.position, self._state.snapshot(COMPACTION)
        self._store.save_snapshot(StateSnapshot(self._pair, position), zlib.compress(content))
        self._snapshot_position = position

    def compact(self) -> None:
        """Save a snapshot if there are many entries since the last one."""
        if self.position - self._snapshot_position >= SNAPSHOT_EVERY:
            self.save_snapshot()

    def replicate(self, to: sqlite3.Connection, statements: Sequence[Statement]) -> None:
        """See `stormwright.service.storage.database.Replicator`."""
        self._lease.require()
        number, entry = self.position + 1, encode_entry(statements)
        to.execute(_SAVE, (_NAME, self._position_document(number)))
        try:
            self._store.append(number, entry)
        except Exception as error:
            # The entry may have been appended all the same: only a restart, which reads the log, can tell.
            self._lease.give_up(str(error))
            raise
        self.position = number

    def fail(self, why: str) -> None:
        """See `stormwright.service.storage.database.Replicator`."""
        self._lease.give_up(why)

    def _apply(self) -> None:
        for number, entry in self._store.entries(self.position):
            statements = decode_entry(entry)
            with self._state.change() as to:
                for statement, values in statements:
                    to.execute(statement, values)
                to.execute(_SAVE, (_NAME, self._position_document(number)))
            self.position = number

    def _restore(self, snapshot: StateSnapshot, directory: Path) -> None:
        if any(self._state.read(f"SELECT 1 FROM {table} LIMIT 1") for table in ("decisions", "plans")):  # noqa: S608 (names are ours)
            aside = directory / f"{FILE}.before-{round(self._state.clock.time())}"
            write_whole(aside, self._state.snapshot())
            log.warning("the former state of this service is set aside: %s", aside)
        self._state.restore(zlib.decompress(self._store.load_snapshot(snapshot)))
        self._pair, self.position = _load_position(self._state)

    def _position_document(self, position: int) -> str:
        return orjson.dumps({"pair": self._pair, "position": position}).decode()


def stop_replicating(state: State) -> None:
    """Stop replicating: a service that joins later takes the state of the others."""
    document = state.document(_NAME)
    if document.load():
        document.save("")


def _load_position(state: State) -> tuple[str, int]:
    """Return the group that a state belongs to, empty for none, and its last entry."""
    stored = orjson.loads(state.document(_NAME).load() or "{}")
    return stored.get("pair", ""), stored.get("position", 0)
