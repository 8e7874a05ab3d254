"""What `test_delta` runs in a process of its own; prints what was found to hold."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.ingest import compact, retain
from stormwright.history.tables.session import history_session
from stormwright.history.tables.store import open_store
from tests.history.samples import by_key, facts, frame, stored


def main() -> None:
    found: dict[str, bool] = {}
    rows = facts(1, 1, seed=1)
    expected = by_key(rows, FACTS)
    with history_session("delta") as spark:
        store = open_store(spark, Path(sys.argv[1]).as_uri(), "delta")
        found["nothing at first"] = (store.days(FACTS), store.size_bytes(FACTS)) == ([], 0)
        store.write(FACTS, frame(spark, rows[::2], FACTS), 1)
        for _ in range(2):
            store.write(FACTS, frame(spark, rows[1::2], FACTS), 2)
        found["a chunk written twice"] = stored(store, FACTS) == expected
        found["compacted"] = (compact(store, date(2100, 1, 1)), store.fragmented(FACTS)) == (1, [])
        # A chunk whose staged rows were not removed before its day was compacted.
        store.write(FACTS, frame(spark, rows[1::2], FACTS), 2)
        found["a chunk written after compacting"] = stored(store, FACTS) == expected
        newer = replace(FACTS, migrations=(lambda old: old,))
        store.write(newer, frame(spark, rows[1::2], FACTS), 2)
        found["an upgrade in between"] = stored(store, newer) == expected
        retain(store, {"facts": 1}, date(2100, 1, 1))
        found["deleted"] = store.days(FACTS) == []
    print(json.dumps(found))


if __name__ == "__main__":
    main()
