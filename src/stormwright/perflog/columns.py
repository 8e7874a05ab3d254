"""Landed records as columns: the Arrow schema, and the Parquet files that a service lands.

A row is one line of the log: a record as nested columns, or a rejected line with the reason and its bytes. The fields
of a record have the names and types of `stormwright.perflog.schema.RECORD`: any reader of Parquet sees them as they are
documented.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from stormwright.errors import Fault, InputError
from stormwright.perflog.landing import COLUMNS_SUFFIX, LandingDirectory
from stormwright.perflog.records import LogRecord, RejectedLine, parse
from stormwright.perflog.schema import RECORD, Constants, Fraction, ListType, Row, Structure, Text, Type, WholeNumber

#: Version of the file format; a file of a later one is refused.
FORMAT = 1
_FORMAT_KEY = b"stormwright.landing"

#: Up to how many rows a file has no dictionaries.
_FEW_ROWS = 100

#: Rows of a file that are Python objects at once.
_READ_AT_ONCE = 10_000


def arrow_type(kind: Type) -> pa.DataType:
    """Return the Arrow type of a part of a record."""
    match kind:
        case WholeNumber():
            return pa.int64()
        case Fraction():
            return pa.float64()
        case Text():
            return pa.string()
        case Constants():
            return pa.list_(pa.float64())
        case Row():
            return pa.list_(pa.int64())
        case ListType(element):
            return pa.list_(arrow_type(element))
        case Structure(fields):
            return pa.struct([(field.name, arrow_type(field.type)) for field in fields])


_RECORD = arrow_type(RECORD)

#: A record's columns are null in the row of a rejected line, `reason` in that of a record. `line` are the bytes of a
#: line that was rejected, or that was late when it landed, at `landed_ms`.
LANDED = pa.schema(
    [*_RECORD, ("landed_ms", pa.int64()), ("reason", pa.string()), ("line", pa.binary())],
    {_FORMAT_KEY: str(FORMAT).encode()},
)

#: Names of a record's columns.
RECORD_COLUMNS = [field.name for field in RECORD.fields]


def record_columns(records: Sequence[LogRecord | None]) -> pa.Table:
    """Return records as `RECORD_COLUMNS`, a row of nulls for None."""
    return pa.Table.from_arrays(pa.array(records, _RECORD).flatten(), RECORD_COLUMNS)


def landed_table(lines: Iterable[bytes], landed_ms: int, late_s: float = -math.inf) -> pa.Table:
    """Return lines, except blank ones, that landed together as `LANDED`; see `parsed_rows`."""
    found = [line for line in lines if line.strip()]
    return parsed_rows(found, [landed_ms] * len(found), late_s).table


class ParsedRows(NamedTuple):
    """The valid records among lines, and all lines as `LANDED`."""

    records: list[LogRecord]
    table: pa.Table


def parsed_rows(lines: Sequence[bytes], landed_ms: Sequence[int], late_s: float) -> ParsedRows:
    """Parse lines.

    Parameters
    ----------
    lines
        Lines of a performance log, without blank ones.
    landed_ms
        Time at which each line landed, in ms since 1970.
    late_s
        Seconds after which a record is late, so that its line is stored as well.
    """
    found = list(map(parse, lines, landed_ms))
    columns = record_columns([None if isinstance(row, RejectedLine) else row for row in found])
    reasons = [row.reason if isinstance(row, RejectedLine) else None for row in found]
    stored = [
        line if isinstance(row, RejectedLine) or row["start_ms"] < moment_ms - late_s * 1000 else None
        for line, row, moment_ms in zip(lines, found, landed_ms, strict=True)
    ]
    others = [pa.array(landed_ms, pa.int64()), pa.array(reasons, pa.string()), pa.array(stored, pa.binary())]
    records = [row for row in found if not isinstance(row, RejectedLine)]
    return ParsedRows(records, pa.Table.from_arrays([*columns.columns, *others], schema=LANDED))


def as_file(table: pa.Table) -> bytes:
    """Return a table of `LANDED` as a Parquet file."""
    file = BytesIO()
    # Dictionaries cost a few rows more than they save.
    pq.write_table(table, file, compression="zstd", compression_level=1, use_dictionary=len(table) > _FEW_ROWS)
    return file.getvalue()


class RecordLanding(LandingDirectory[pa.Table]):
    """Writer of rows of `LANDED` into Parquet files."""

    suffix = COLUMNS_SUFFIX

    def write(self, rows: pa.Table) -> Path | None:
        """Land rows and return the path of their file; None if there are none.

        Raises
        ------
        OSError
            They could not be written, or may not survive a power failure: deliver them again.
        """
        return self._land(rows) if rows.num_rows else None

    def _content(self, rows: Sequence[pa.Table]) -> bytes:
        return as_file(pa.concat_tables(rows))


def read_landed_file(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a landed file, Parquet or JSON lines, as `LANDED`.

    Parameters
    ----------
    path
        The file. One of JSON lines landed when it was last modified.
    columns
        Names of the columns to read, as ``worker.port`` for a part of one; None for all.

    Raises
    ------
    InputError
        It is no such file, or of a later version.
    """
    if path.suffix != COLUMNS_SUFFIX:
        landed_ms = path.stat().st_mtime_ns // 1_000_000
        return landed_table(path.read_bytes().split(b"\n"), landed_ms)
    try:
        with pq.ParquetFile(path) as file:
            found = (file.schema_arrow.metadata or {}).get(_FORMAT_KEY, b"")
            if found != str(FORMAT).encode():
                message = f"has format {found.decode() or 'none'}; this version reads {FORMAT}"
                raise InputError("landed file", [Fault(message, str(path))])
            table = file.read(columns)
    except pa.ArrowInvalid as error:
        raise InputError("landed file", [Fault(f"is damaged: {error}", str(path))]) from error
    return table if columns else table.cast(LANDED)


def landed_results(path: Path) -> Iterator[LogRecord | RejectedLine]:
    """Yield the rows of a landed Parquet file, as `stormwright.perflog.records.parse_lines` those of lines.

    Raises
    ------
    InputError
        It is no such file, or of a later version.
    """
    for rows in read_landed_file(path).to_batches(_READ_AT_ONCE):
        for row in rows.to_pylist():
            if row["reason"] is None:
                yield {name: row[name] for name in RECORD_COLUMNS}
            else:
                yield RejectedLine(row["reason"], row["line"])
