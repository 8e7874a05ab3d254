"""The state of a service as all services of a cluster have it."""

from __future__ import annotations

import logging
import secrets
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path

import orjson

from stormwright.errors import StormwrightError
from stormwright.files import write_whole
from stormwright.service.leader_election.consensus import Base, ConsensusStore
from stormwright.service.leader_election.lease import Lease
from stormwright.service.plans.store import ACTIVE_STATES, HALTED_STATES, OPEN
from stormwright.service.storage.database import ENTRY_TABLES, FILE, MIGRATIONS, State, Statement

# Log entries --------------------------------------------------------------------------------------
# What was decided, as entries of a log that every service applies in the same order.

#: Plans that have ended, and entries of the history, of which who joins later is told.
PLANS, ENTRIES = 100, 500

_GOING_ON = ", ".join(f"'{state}'" for state in ("planning", *OPEN, *ACTIVE_STATES, *HALTED_STATES))
_OLD_PLANS = f"SELECT id FROM plans WHERE state NOT IN ({_GOING_ON}) ORDER BY created_ms DESC LIMIT -1 OFFSET {PLANS}"  # noqa: S608 (states are ours)
_OLD_ENTRIES = (
    f"n <= (SELECT max(n) - {ENTRIES} FROM decisions) "  # noqa: S608 (a number of ours)
    "AND n NOT IN (SELECT decision FROM plans WHERE decision IS NOT NULL)"
)

#: What makes of all that was ever decided what matters to who joins later.
SHORTENED: Sequence[Statement] = (
    (f"DELETE FROM steps WHERE plan IN ({_OLD_PLANS})", ()),  # noqa: S608 (as above)
    (f"DELETE FROM plans WHERE id IN ({_OLD_PLANS})", ()),  # noqa: S608 (as above)
    *((f"DELETE FROM {table} WHERE {_OLD_ENTRIES}", ()) for table in ENTRY_TABLES),  # noqa: S608 (names are ours)
)


class OtherVersionError(StormwrightError):
    """An entry was written by a version of stormwright with other tables."""


def entry_of(statements: Sequence[Statement]) -> bytes:
    """A transaction as an entry."""
    told = {"schema": len(MIGRATIONS), "statements": [[text, list(values)] for text, values in statements]}
    return zlib.compress(orjson.dumps(told))


def statements_in(entry: bytes) -> list[Statement]:
    """Return the statements of an entry; raises `OtherVersionError`."""
    told = orjson.loads(zlib.decompress(entry))
    if told["schema"] != len(MIGRATIONS):
        raise OtherVersionError(
            f"the service that has led is of another version of stormwright (its state is version {told['schema']}, "
            f"here it is {len(MIGRATIONS)}): start that one again, or bring it to this version first"
        )
    return [(text, values) for text, values in told["statements"]]


log = logging.getLogger(__name__)

# Replicated state ---------------------------------------------------------------------------------

#: Entries after which all is kept whole anew, so that who joins has few to read.
MOST_ENTRIES = 1000

_NAME = "pair"
_SAVE = "INSERT OR REPLACE INTO documents VALUES (?, ?)"


class ReplicatedState:
    """Keeps a state the same as that of the other services.

    1. Who stands by applies entries in their order; where each ends it is kept how far it has come.
    2. Who leads adds an entry before it keeps a transaction itself. So the others may know more than it does, if it
       ends in between, and never less; it applies that entry when it comes back.
    3. Who knows too little, or what belongs to another pair, takes all from what is kept whole. What it had before is
       set aside.

    Parameters
    ----------
    state
        Of this service.
    agreed
        Where services agree.
    lease
        Tells whether this one leads.
    """

    def __init__(self, state: State, agreed: ConsensusStore, lease: Lease) -> None:
        self._state, self._agreed, self._lease = state, agreed, lease
        self._pair, self.position = _stored(state)
        self._whole = 0

    def catch_up(self, directory: Path) -> bool:
        """Apply entries of other services; return whether there were any.

        Parameters
        ----------
        directory
            Takes what is set aside.

        Raises
        ------
        StormwrightError
            It cannot be applied here, or those who agree do not answer.
        """
        before, base = (self._pair, self.position), self._agreed.base()
        if base is None:
            return False
        if base.pair != self._pair:
            self._take(base, directory)
        try:
            self._apply()
        except OtherVersionError:
            if base.position <= self.position:
                raise
            self._take(base, directory)
            self._apply()
        if base.position > self.position:  # entries in between are forgotten
            self._take(base, directory)
            self._apply()
        return (self._pair, self.position) != before

    def begin(self) -> None:
        """Take over the lead with this state, writing a snapshot of it."""
        if not self._pair:
            self._pair, self.position = secrets.token_hex(8), 0
            self._state.document(_NAME).save(self._document(0))
        self._state.share_with(self)
        self.keep_whole()

    def keep_whole(self) -> None:
        """Keep all of it whole where services agree."""
        with self._state.held():
            position, content = self.position, self._state.copy(SHORTENED)
        self._agreed.keep(Base(self._pair, position), zlib.compress(content))
        self._whole = position

    def tidy(self) -> None:
        """The same once there are many entries."""
        if self.position - self._whole >= MOST_ENTRIES:
            self.keep_whole()

    def share(self, to: sqlite3.Connection, statements: Sequence[Statement]) -> None:
        """See `stormwright.service.storage.database.SharedState`."""
        self._lease.require()
        number, entry = self.position + 1, entry_of(statements)
        to.execute(_SAVE, (_NAME, self._document(number)))
        try:
            self._agreed.append(number, entry)
        except Exception as error:
            # It may be there all the same: only who comes back and reads it knows.
            self._lease.give_up(str(error))
            raise
        self.position = number

    def give_up(self, why: str) -> None:
        """See `stormwright.service.storage.database.SharedState`."""
        self._lease.give_up(why)

    def _apply(self) -> None:
        for number, entry in self._agreed.entries(self.position):
            statements = statements_in(entry)
            with self._state.change() as to:
                for statement, values in statements:
                    to.execute(statement, values)
                to.execute(_SAVE, (_NAME, self._document(number)))
            self.position = number

    def _take(self, base: Base, directory: Path) -> None:
        if any(self._state.read(f"SELECT 1 FROM {table} LIMIT 1") for table in ("decisions", "plans")):  # noqa: S608 (names are ours)
            aside = directory / f"{FILE}.before-{round(self._state.clock.time())}"
            write_whole(aside, self._state.copy())
            log.warning("what this service had decided by itself is set aside: %s", aside)
        self._state.become(zlib.decompress(self._agreed.load(base)))
        self._pair, self.position = _stored(self._state)

    def _document(self, position: int) -> str:
        return orjson.dumps({"pair": self._pair, "position": position}).decode()


def leave(state: State) -> None:
    """Stop replicating: a service that joins later takes the state of the others."""
    document = state.document(_NAME)
    if document.load():
        document.save("")


def _stored(state: State) -> tuple[str, int]:
    """Which services this state belongs to, empty for none; and the last entry that is in it."""
    stored = orjson.loads(state.document(_NAME).load() or "{}")
    return stored.get("pair", ""), stored.get("position", 0)
