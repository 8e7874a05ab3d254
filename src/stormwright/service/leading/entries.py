"""What was decided, as entries of a log that every service applies in the same order."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import orjson

from stormwright.errors import StormwrightError
from stormwright.service.operating.plans import HALTED, OPEN, UNDER_WAY
from stormwright.service.operating.state import MIGRATIONS, Statement

#: Plans that have ended, and entries of the history, of which who joins later is told.
PLANS, ENTRIES = 100, 500

_GOING_ON = ", ".join(f"'{state}'" for state in ("planning", *OPEN, *UNDER_WAY, *HALTED))
_OLD_PLANS = f"SELECT id FROM plans WHERE state NOT IN ({_GOING_ON}) ORDER BY created_ms DESC LIMIT -1 OFFSET {PLANS}"  # noqa: S608 (states are ours)
_OLD_ENTRIES = (
    f"n <= (SELECT max(n) - {ENTRIES} FROM decisions) "  # noqa: S608 (a number of ours)
    "AND n NOT IN (SELECT decision FROM plans WHERE decision IS NOT NULL)"
)

#: What makes of all that was ever decided what matters to who joins later.
SHORTENED: Sequence[Statement] = (
    (f"DELETE FROM steps WHERE plan IN ({_OLD_PLANS})", ()),  # noqa: S608 (as above)
    (f"DELETE FROM plans WHERE id IN ({_OLD_PLANS})", ()),  # noqa: S608 (as above)
    *((f"DELETE FROM {table} WHERE {_OLD_ENTRIES}", ()) for table in ("acts", "moves", "judgements", "decisions")),  # noqa: S608 (as above)
)


class OtherVersionError(StormwrightError):
    """An entry is of a version of stormwright whose state has other tables."""


def entry_of(statements: Sequence[Statement]) -> bytes:
    """A transaction as an entry."""
    told = {"schema": len(MIGRATIONS), "statements": [[text, list(values)] for text, values in statements]}
    return zlib.compress(orjson.dumps(told))


def statements_in(entry: bytes) -> list[Statement]:
    """What an entry says; it raises `OtherVersionError`."""
    told = orjson.loads(zlib.decompress(entry))
    if told["schema"] != len(MIGRATIONS):
        raise OtherVersionError(
            f"the service that has led is of another version of stormwright (its state is version {told['schema']}, "
            f"here it is {len(MIGRATIONS)}): start that one again, or bring it to this version first"
        )
    return [(text, values) for text, values in told["statements"]]
