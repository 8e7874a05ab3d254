"""Spark data source ``stormwright``: records, loads and history of a service as DataFrames.

docs/spark.md, section "Data source", describes it; Spark finds it in the package ``pyspark_stormwright``. It is here,
not in `stormwright.pipeline`, since it reads the tables of the history.

1. Rows and columns are selected by options, not by the conditions of a query. Spark 4.2 does not pass the columns that
   a query uses to a source in Python. It passes conditions (``pushFilters``), but remembers what they left of a
   DataFrame: another query of the same DataFrame, or a query that uses a view twice, gets the rows of the conditions
   that were passed last, without an error. So this source does not implement it.
2. Spark also remembers the partitions of a DataFrame. So a partition is a day, not a list of files: these are looked
   up when it is read, and a view has the rows that came later, wherever compaction has put the others.
3. The offset of a stream is a moment, not a file: rows are recorded in the order of their moments, so it has the same
   rows before it wherever they are by then. A restart repeats none and misses none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from stormwright.errors import Fault, InputError, collected, suggestion_for
from stormwright.history.data_source.scan import Scan, SourceTable
from stormwright.history.tables.definitions import FACTS, TABLES

#: Name of the format.
NAME = "stormwright"

#: Names of tables: of a running service, and of a state directory.
_JOURNAL, _LOADS, _PANES, _RECORDS = "journal", "loads", "panes", "records"
_OF_STATE = (_RECORDS, _PANES, _LOADS, *(name for name in TABLES if name != FACTS.name))

#: Options with a list of texts, one of which a row has.
_TEXTS = ("topology", "kind")

#: Options in lower case, as Spark compares them.
_OPTIONS = ("path", "url", "token", "history", "table", "columns", "start", "end", *_TEXTS)


class StormwrightSource(DataSource):
    """The format ``stormwright``: a table of a service, from its state directory or its address."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns of the table, or those of the option ``columns``.

        Raises
        ------
        InputError
            An option is unknown, missing or wrong; all faults at once.
        """
        return _opened(self._given()).schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of some columns.

        Raises
        ------
        InputError
            As `schema`, or the table has no such columns.
        """
        found = _opened(self._given())
        return _Reader(found.table, schema, found.scan)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (a name of Spark)
        """Return a reader of rows as they are recorded.

        Raises
        ------
        InputError
            As `reader`, or the rows of the table change after they were recorded.
        """
        found = _opened(self._given())
        if not found.table.streams:
            raise InputError("option table", [Fault("is no stream, as its rows change; use spark.read", _JOURNAL)])
        return _StreamReader(found.table, schema, found.scan)

    def _given(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.options.items()}


# Options ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Opened:
    """A table, the columns and the rows of it that the options select."""

    table: SourceTable
    schema: StructType
    scan: Scan


def _opened(options: Mapping[str, str]) -> _Opened:
    """Return the table of some options.

    Raises
    ------
    InputError
        An option is unknown, missing or wrong.
    """
    faults = [
        Fault(f"no such option{suggestion_for(name, _OPTIONS, len(_OPTIONS))}", name)
        for name in sorted(options.keys() - set(_OPTIONS))
    ]
    remote = "url" in options
    if remote == ("path" in options):
        faults.append(Fault("one is required: the state directory or the address of a service", "path, url"))
    faults += [Fault("has a meaning only with url", "token")] if "token" in options and not remote else []
    faults += [Fault("has a meaning only with path", "history")] if "history" in options and remote else []
    faults += _table_faults(options.get("table"), remote)
    if faults:
        raise InputError(f"data source {NAME}", faults)
    table = _remote(options) if remote else _local(options)
    names = _listed(options.get("columns", "")) or tuple(table.schema.names)
    scan = Scan(names)
    faults = [
        Fault(f"{_table_of(options)} has no such column{suggestion_for(name, table.schema.names)}", f"columns: {name}")
        for name in names
        if name not in table.schema.names
    ]
    for name in _TEXTS:
        if name in options and name not in table.selectable:
            faults.append(Fault(f"{_table_of(options)} has no {name}", name))
    texts = tuple((name, _listed(options[name])) for name in _TEXTS if name in options)
    with collected(faults, "start"):
        scan = replace(scan, start_ms=_moment_ms(options.get("start")))
    with collected(faults, "end"):
        scan = replace(scan, end_ms=_moment_ms(options.get("end")))
    if faults:
        raise InputError(f"data source {NAME}", faults)
    schema = from_arrow_schema(pa.schema([table.schema.field(name) for name in dict.fromkeys(names)]))
    return _Opened(table, schema, replace(scan, texts=texts))


def _table_of(options: Mapping[str, str]) -> str:
    """Return the name of the table that is read."""
    return options["table"].strip()


def _table_faults(name: str | None, remote: bool) -> list[Fault]:
    known = (_JOURNAL,) if remote else _OF_STATE
    if name is None:
        return [Fault(f"is required; one of {', '.join(known)}", "table")]
    name = name.strip()
    if name in known:
        return []
    if name in _OF_STATE:
        return [Fault(f"a service has {_JOURNAL} only; read {name} from its state directory, with path", "table")]
    if name == _JOURNAL:
        return [Fault(f"{name} is read from a running service, with url; moves and evaluations have the same", "table")]
    return [Fault(f"no table {name!r}{suggestion_for(name, known, len(known))}", "table")]


# Spark imports this module in a process of its own for each step, so a table imports only its own needs.


def _remote(options: Mapping[str, str]) -> SourceTable:
    from stormwright.history.data_source.journal import SourceJournal

    return SourceJournal(options["url"], options.get("token"))


def _local(options: Mapping[str, str]) -> SourceTable:
    state, name = _directory(options["path"], "path"), _table_of(options)
    if not any((state / part).is_dir() for part in ("history", "landing", "stream")):
        why = "is no state directory of a service; `stormwright serve --state` names one"
        raise InputError("option path", [Fault(why, str(state))])
    if name == _RECORDS:
        from stormwright.history.data_source.records import Records

        return Records(state / "landing", state / "stream" / "raw")
    from stormwright.history.data_source.tables import HistoryTable, LoadsTable

    staging = state / "history"
    tables = _directory(options["history"], "history") if "history" in options else staging / "tables"
    table = FACTS if name in (_LOADS, _PANES) else TABLES[name]
    if any((tables / table.name).glob("version=*/_delta_log")):
        why = "has the format delta; read it with spark.read.format('delta')"
        raise InputError("history", [Fault(why, str(tables / table.name))])
    return LoadsTable(staging, tables) if name == _LOADS else HistoryTable(table, staging, tables)


def _directory(place: str, option: str) -> Path:
    """Return a local directory."""
    scheme = urlsplit(place).scheme
    if scheme not in ("", "file"):
        why = "is not on this machine; mount it, or use `stormwright history sql`"
        raise InputError(f"option {option}", [Fault(why, place)])
    path = Path("/" + place.removeprefix("file:").lstrip("/") if scheme else place)
    if not path.is_dir():
        raise InputError(f"option {option}", [Fault("no such directory", str(path))])
    return path.absolute()


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _moment_ms(text: str | None) -> int | None:
    """Return a moment in ms since 1970; in UTC unless it names another zone."""
    if text is None:
        return None
    if text.strip().isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        wanted = "should be a time such as 2026-11-20 or 2026-11-20T09:30, or ms since 1970"
        raise InputError("moment", [Fault(f"{wanted}, got {text!r}", "$")]) from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


# Readers ------------------------------------------------------------------------------------------


def _checked(table: SourceTable, schema: StructType, scan: Scan) -> Scan:
    """Return the scan of a schema, which may be the user's own."""
    known = {field.name: field.dataType.simpleString() for field in from_arrow_schema(table.schema).fields}
    faults = []
    for field in schema.fields:
        if field.name not in known:
            faults.append(Fault(f"no such column{suggestion_for(field.name, known)}", field.name))
        elif known[field.name] != field.dataType.simpleString():
            faults.append(Fault(f"has type {known[field.name]}, not {field.dataType.simpleString()}", field.name))
    if faults:
        raise InputError("schema", faults)
    return replace(scan, columns=tuple(schema.fieldNames()))


def _as_spark_takes(batches: Iterable[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield batches with the types that Spark compares with its own: it names the elements of lists otherwise."""
    kinds = to_arrow_schema(schema, timezone="UTC")
    for batch in batches:
        yield from pa.Table.from_batches([batch]).cast(kinds).to_batches()


class _Reader(DataSourceReader):
    def __init__(self, table: SourceTable, schema: StructType, scan: Scan) -> None:
        self._table, self._schema, self._scan = table, schema, _checked(table, schema, scan)

    def partitions(self) -> Sequence[InputPartition]:
        return self._table.partitions(self._scan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _as_spark_takes(self._table.read(partition, self._scan), self._schema)


@dataclass
class _OfSpan(InputPartition):
    """A partition of the rows between two offsets of a stream."""

    inner: InputPartition
    span: tuple[int, int]


#: Key of an offset: the moment of the last row before it.
_THROUGH = "through"


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, table: SourceTable, schema: StructType, scan: Scan) -> None:
        self._table, self._schema, self._scan = table, schema, _checked(table, schema, scan)
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 (a name of Spark)
        return {_THROUGH: -1}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (a name of Spark)
        self._last = self._table.newest()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 (a name of Spark)
        del limit
        newest = self._table.newest() if self._last is None else self._last
        # Never back, where old days were deleted.
        return {_THROUGH: max(start[_THROUGH], newest)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        span = start[_THROUGH], end[_THROUGH]
        if span[0] >= span[1]:
            return []
        return [_OfSpan(inner, span) for inner in self._table.partitions(replace(self._scan, span=span))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, _OfSpan):
            return iter(())
        scan = replace(self._scan, span=partition.span)
        return _as_spark_takes(self._table.read(partition.inner, scan), self._schema)
