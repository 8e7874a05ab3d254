"""What is staged, taken into the tables; past days tidied up, old ones deleted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

from pyspark.sql import SparkSession

from stormwright.errors import Fault, InputError
from stormwright.history.tables.definitions import TABLES
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import Store

log = logging.getLogger(__name__)


#: A hundred years of history are kept at most.
MOST_DAYS = 36_525


def ingest(spark: SparkSession, store: Store, staging: Staging) -> dict[str, int]:
    """Take all staged rows into the tables, each once, however often this is interrupted; rows by table.

    Raises
    ------
    StormwrightError
        Another process is at it.
    """
    taken: dict[str, int] = {}
    with staging.alone():
        for table in TABLES.values():
            for chunk in staging.chunks(table):
                rows = chunk.rows()
                frame = table.migrated(spark.createDataFrame(rows).coalesce(1), chunk.version)
                store.write(table, frame.select(*table.columns), chunk.number)
                chunk.remove()
                taken[table.name] = taken.get(table.name, 0) + rows.num_rows
    return taken


def compact(store: Store, today: date | None = None) -> int:
    """Make each past day of each table one set of sorted files; how many were made."""
    today, made = today or _today(), 0
    for table in TABLES.values():
        for day in store.fragmented(table):
            if day < today:
                store.compact(table, day)
                log.info("%s of %s: compacted", table.name, day)
                made += 1
    return made


def retain(store: Store, keep_days: Mapping[str, int], today: date | None = None) -> int:
    """Delete days that are more than so many days ago, by table; how many were deleted.

    Raises
    ------
    InputError
        There is no such table, or less than a day or more than `MOST_DAYS` are to be kept.
    """
    faults = [Fault(f"no table; there are {', '.join(TABLES)}", name) for name in keep_days if name not in TABLES]
    faults += [
        Fault(f"{days} days; from 1 to {MOST_DAYS:,} can be kept", name)
        for name, days in keep_days.items()
        if not 1 <= days <= MOST_DAYS
    ]
    if faults:
        raise InputError("days to keep", faults)
    oldest = {name: (today or _today()) - timedelta(days=days) for name, days in keep_days.items()}
    deleted = 0
    for name, first in oldest.items():
        for day in store.days(TABLES[name]):
            if day < first:
                store.drop(TABLES[name], day)
                log.info("%s of %s: deleted", name, day)
                deleted += 1
    return deleted


def _today() -> date:
    return datetime.now(UTC).date()
