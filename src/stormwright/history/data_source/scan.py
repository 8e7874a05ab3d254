"""The part of a table that a query reads, and the interface of the tables of the data source."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    import pyarrow.dataset as ds  # it takes pandas along


@dataclass(frozen=True)
class Scan:
    """The part of a table that is read.

    Parameters
    ----------
    columns
        Names of columns, in order.
    start_ms, end_ms
        Rows from the first moment up to but not including the second, in ms since 1970; None for open ends.
    texts
        Name of a condition (`SourceTable.selectable`) → possible values.
    span
        Of a stream: rows after the first offset up to and including the second; None for all.
    """

    columns: tuple[str, ...]
    start_ms: int | None = None
    end_ms: int | None = None
    texts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    span: tuple[int, int] | None = None


class SourceTable(ABC):
    """A table of the data source; it can be pickled.

    Parameters
    ----------
    schema
        Schema with all columns, including those that a query leaves out.
    moment
        Column that `Scan.start_ms` and `Scan.end_ms` compare; None if rows have no time.
    selectable
        Columns by the names of the conditions in `Scan.texts`.
    streams
        Whether rows are appended in an order and do not change, so that a stream can read them.
    """

    schema: pa.Schema
    moment: ds.Expression | None = None
    streams = True

    @property
    def selectable(self) -> Mapping[str, ds.Expression]:
        """Columns with texts by which rows can be selected."""
        return {}

    @abstractmethod
    def partitions(self, scan: Scan) -> list[InputPartition]:
        """Return partitions that together have all rows of a scan, also those that are recorded later."""

    @abstractmethod
    def read(self, partition: InputPartition, scan: Scan) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""

    def newest(self) -> int:
        """Return the offset of a stream up to which all rows are recorded; -1 without rows."""
        return -1

    def condition(self, scan: Scan) -> ds.Expression | None:
        """Return the condition that rows of a scan meet, apart from its span; None if all do."""
        conditions = [self.selectable[name].isin(list(values)) for name, values in scan.texts]
        if self.moment is not None and scan.start_ms is not None:
            conditions.append(self.moment >= scan.start_ms)
        if self.moment is not None and scan.end_ms is not None:
            conditions.append(self.moment < scan.end_ms)
        return both(*conditions)


def both(*conditions: ds.Expression | None) -> ds.Expression | None:
    """Return the condition that several conditions hold; None if there is none."""
    found = [each for each in conditions if each is not None]
    return reduce(and_, found) if found else None


def settled(moment: int, a_second: int) -> int:
    """Return a moment, but not of the last second, whose rows may come in another order.

    Parameters
    ----------
    moment
        A time since 1970.
    a_second
        Its units in a second.
    """
    return min(moment, int((time.time() - 1) * a_second))


def scanned(
    data: ds.Dataset, columns: Mapping[str, ds.Expression], condition: ds.Expression | None
) -> Iterator[pa.RecordBatch]:
    """Yield columns of the rows that meet a condition; Arrow skips row groups by their statistics."""
    for batch in data.scanner(columns=dict(columns), filter=condition).to_batches():
        if batch.num_rows:
            yield batch
