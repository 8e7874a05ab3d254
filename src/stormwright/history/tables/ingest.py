"""Ingestion of staged rows into tables, compaction and retention."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from stormwright.errors import Fault, InputError
from stormwright.history.tables.definitions import FACTS, TABLES
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import Store

log = logging.getLogger(__name__)


# Closed panes -------------------------------------------------------------------------------------
# Panes that the stream has closed, on their way into the history.

#: Maximum number of batches whose panes are held in memory while they cannot be written.
MAX_HELD = 1000


class ClosedPanes:
    """Stages the closed panes of each batch exactly once, despite crashes.

    1. Before the stream's state is saved, the panes are written to a hidden file, whose name has the number of the
       batch: a batch that is repeated replaces it.
    2. Once the state is saved the batch is never repeated, and the file may be taken.
    3. A crash in between leaves it hidden. The state shows at the next start whether the batch counts.
    4. A full disk does not stop it: unwritten panes are held in memory and written later.
    """

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._held: OrderedDict[str, pa.Table] = OrderedDict()
        self.lost = 0
        self.error: str | None = None

    def begin(self, batch: int) -> None:
        """Continue after `batch`, the last one in the stream's state."""
        for name in self._staging.hidden(FACTS):  # (3)
            if _batch_of(name) <= batch:
                self._staging.publish(FACTS, name)
            else:
                self._staging.discard(FACTS, name)

    def close(self, batch: int, panes: pa.Table) -> None:
        """Record the closed panes of a batch before the state without them is saved."""
        # The same batch before it failed, when it may have had other files.
        for name in [name for name in self._held if _batch_of(name) == batch]:
            del self._held[name]
        for name in self._staging.hidden(FACTS):
            if _batch_of(name) == batch:
                self._staging.discard(FACTS, name)
        if not panes.num_rows:
            return
        # After a restart from scratch batches are numbered from 0 again; the time goes on.
        self._held[f"{pc.min(panes['pane_ms']).as_py():013d}-{batch:010d}"] = panes
        try:
            for name in list(self._held):
                self._staging.write(FACTS, name, self._held[name], hidden=True)
                del self._held[name]
            self.error = None
        except (OSError, pa.ArrowException) as error:  # (4)
            self.error = f"closed panes cannot be staged: {error}"
        while len(self._held) > MAX_HELD:
            self._held.popitem(last=False)
            self.lost += 1

    def saved(self) -> None:
        """Publish panes after the state was saved."""
        try:
            for name in self._staging.hidden(FACTS):
                self._staging.publish(FACTS, name)
        except OSError as error:
            self.error = f"closed panes cannot be staged: {error}"


def _batch_of(name: str) -> int:
    return int(name.rpartition("-")[2])


# Ingest -------------------------------------------------------------------------------------------

#: Maximum retention of the history: a hundred years.
MAX_DAYS = 36_525


def ingest(spark: SparkSession, store: Store, staging: Staging) -> dict[str, int]:
    """Move all staged rows into the tables, each once despite interruptions; return rows by table.

    Raises
    ------
    StormwrightError
        Another process is working on the tables.
    """
    taken: dict[str, int] = {}
    with staging.exclusive_lock():
        for table in TABLES.values():
            for chunk in staging.chunks(table):
                rows = chunk.rows()
                frame = table.migrated(spark.createDataFrame(rows).coalesce(1), chunk.version)
                store.write(table, frame.select(*table.columns), chunk.number)
                chunk.remove()
                taken[table.name] = taken.get(table.name, 0) + rows.num_rows
    return taken


def compact(store: Store, today: date | None = None) -> int:
    """Compact each past day of each table into sorted files; return their number."""
    today, made = today or _today(), 0
    for table in TABLES.values():
        for day in store.fragmented(table):
            if day < today:
                store.compact(table, day)
                log.info("%s of %s: compacted", table.name, day)
                made += 1
    return made


def retain(store: Store, keep_days: Mapping[str, int], today: date | None = None) -> int:
    """Delete expired days, by table; return their number.

    Raises
    ------
    InputError
        The table is unknown, or the retention is less than a day or more than `MAX_DAYS`.
    """
    faults = [Fault(f"no table; there are {', '.join(TABLES)}", name) for name in keep_days if name not in TABLES]
    faults += [
        Fault(f"{days} days; from 1 to {MAX_DAYS:,} are possible", name)
        for name, days in keep_days.items()
        if not 1 <= days <= MAX_DAYS
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
