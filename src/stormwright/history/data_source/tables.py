"""Tables of the history in Parquet, with the rows that wait for being ingested."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql.datasource import InputPartition

from stormwright.errors import Fault, InputError, StormwrightError
from stormwright.history.data_source.scan import Scan, SourceTable, both, scanned, settled
from stormwright.history.tables.definitions import FACTS, SNAPSHOTS, Table
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import DAY, Part, part_of, visible_parts

_DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1)

#: Attempts to open the files of a day, which may be ingested or compacted at the same time.
_ATTEMPTS = 5

#: Digits of the name of a staged file: the moment of its first row.
_MS_DIGITS = 13

_PARQUET = ds.ParquetFileFormat()


@dataclass
class _Days(InputPartition):
    """One day, or all days but some.

    Parameters
    ----------
    only, without
        The day; or None, and the other days.
    core_hz
        Speed of a core, if it is needed.
    """

    only: date | None
    without: frozenset[date] = frozenset()
    core_hz: float | None = None

    def __contains__(self, day: date) -> bool:
        return day not in self.without if self.only is None else day == self.only


class HistoryTable(SourceTable):
    """A table of the history, with the day of each row.

    1. Rows move from staging to a chunk, and from there to the table. They are looked for in this order, and those of a
       chunk that is in the table already are left out, so each is read once wherever it is.
    2. All files of a day are opened before the first row is read: then it no longer matters that they are replaced.

    Parameters
    ----------
    table
        Definition of the table: name, columns, key and order.
    staging
        Directory of staged rows.
    tables
        Directory of the tables.
    """

    moment: ds.Expression

    def __init__(self, table: Table, staging: Path, tables: Path) -> None:
        self._table, self._staging, self._tables = table, staging, tables
        self._stored = table.arrow.append(pa.field(DAY, pa.date32()))
        self.schema = self._stored
        self.moment = pc.field(table.moment)

    @property
    def selectable(self) -> Mapping[str, ds.Expression]:
        """See `SourceTable`."""
        return {name: pc.field(name) for name in ("topology", "kind") if name in self._table.columns}

    def partitions(self, scan: Scan) -> list[InputPartition]:
        """See `SourceTable`."""
        days = {part.day for part in self._files()}
        core_hz = self._core_hz(scan)
        found: list[InputPartition] = [_Days(day, core_hz=core_hz) for day in sorted(days) if _may_have(scan, day)]
        return [*found, _Days(None, frozenset(days), core_hz)]

    def read(self, partition: InputPartition, scan: Scan) -> Iterator[pa.RecordBatch]:
        """See `SourceTable`."""
        if not isinstance(partition, _Days):
            return
        columns = self.expressions(partition.core_hz)
        condition = self.condition(scan)
        if scan.span is not None:
            after, through = scan.span
            condition = both(condition, self.moment > after, self.moment <= through)
        try:
            for data, day, more in self._opened(partition, scan):
                selected = {name: day if name == DAY else columns[name] for name in scan.columns}
                yield from scanned(data, selected, both(condition, more))
        except (pa.ArrowInvalid, OSError) as error:
            place = str(self._tables / self._table.name)
            raise InputError("history", [Fault(f"has a damaged file: {error}", place)]) from error

    def newest(self) -> int:
        """See `SourceTable`."""
        return settled(self.last_ms(), 1000)

    def last_ms(self) -> int:
        """Return the moment of the newest row; -1 without rows."""
        paths = [path for _, path in self._pending()]
        files = self._files()
        last = max((part.day for part in files), default=None)
        paths += [path for part, found in files.items() if part.day == last for path in found]
        return max((_last_moment(path, self._table.moment) for path in paths), default=-1)

    def expressions(self, core_hz: float | None) -> Mapping[str, ds.Expression]:
        """Return the definition of each column but `DAY`."""
        del core_hz
        return {name: pc.field(name) for name in self._table.columns}

    def _core_hz(self, scan: Scan) -> float | None:
        del scan
        return None

    def _pending(self) -> list[tuple[int | None, Path]]:
        return Staging(self._staging).pending(self._table)

    def _files(self) -> dict[Part, list[Path]]:
        """Return the files of each visible part."""
        directory = self._tables / self._table.name
        found: defaultdict[Part, list[Path]] = defaultdict(list)
        for path in sorted(directory.glob("*/day=*/version=*/*=*/[!._]*")):
            if part := part_of(str(path)):
                found[part].append(path)
        visible = visible_parts(found)
        # Columns that a file lacks are read as nulls.
        known = range(self._table.alike_since or self._table.version, self._table.version + 1)
        if old := next((part for part in visible if part.version not in known), None):
            why = f"has rows of version {old.version}; `stormwright history compact` rewrites them"
            raise InputError("history", [Fault(why, str(directory))])
        return {part: found[part] for part in visible}

    def _opened(self, partition: _Days, scan: Scan) -> list[tuple[ds.Dataset, ds.Expression, ds.Expression | None]]:
        """Open the files of some days (2): each with the definition of its day, and a condition of its rows."""
        for _ in range(_ATTEMPTS):
            try:
                return self._opened_once(partition, scan)
            except FileNotFoundError:  # it has moved since it was listed
                continue
        raise StormwrightError(f"{self._tables / self._table.name}: files are replaced all the time; try again later")

    def _opened_once(
        self, partition: _Days, scan: Scan
    ) -> list[tuple[ds.Dataset, ds.Expression, ds.Expression | None]]:
        pending, files = self._pending(), self._files()  # in this order (1)
        local, opened = fs.LocalFileSystem(), []
        for part, paths in files.items():
            if part.day in partition and _may_have(scan, part.day):
                holds = pc.field(DAY) == part.day
                fragments = [_PARQUET.make_fragment(local.open_input_file(str(p)), None, holds) for p in paths]
                opened.append((self._dataset(fragments), pc.field(DAY), None))
        if partition.only is not None:
            pending = [(number, path) for number, path in pending if not _begins_after(path, partition.only)]
        day = pc.divide(self.moment, _DAY_MS).cast(pa.int32()).cast(pa.date32())
        inside = (
            ~day.isin(pa.array(sorted(partition.without), pa.date32()))
            if partition.only is None
            else day == pc.scalar(pa.scalar(partition.only, pa.date32()))
        )
        for number, path in pending:
            stored = [part.day for part in files if number is not None and _holds(part, number)]
            # Small, and maybe more files than a process may have open.
            fragment = _PARQUET.make_fragment(pa.BufferReader(path.read_bytes()))
            more = inside & ~day.isin(pa.array(stored, pa.date32()))
            opened.append((self._dataset([fragment]), day, more))
        return opened

    def _dataset(self, fragments: list[ds.ParquetFileFragment]) -> ds.Dataset:
        return ds.FileSystemDataset(fragments, self._stored, _PARQUET)


def _may_have(scan: Scan, day: date) -> bool:
    """Return whether a day may have rows of a scan."""
    start_ms = (day - _EPOCH) // timedelta(milliseconds=1)
    end_ms = start_ms + _DAY_MS
    after_ms, through_ms = scan.span or (-1, end_ms)
    first_ms = max(after_ms + 1, 0 if scan.start_ms is None else scan.start_ms)
    last_ms = min(through_ms, end_ms if scan.end_ms is None else scan.end_ms - 1)
    return first_ms < end_ms and last_ms >= start_ms


def _begins_after(path: Path, day: date) -> bool:
    """Return whether all rows of a staged file are of later days, by its name."""
    digits = path.name[:_MS_DIGITS]
    if len(digits) < _MS_DIGITS or not digits.isdecimal():
        return False
    return int(digits) >= (day - _EPOCH) // timedelta(milliseconds=1) + _DAY_MS


def _holds(part: Part, number: int) -> bool:
    """Return whether a part has the rows of its day of a chunk."""
    return part.number >= number if part.whole else part.number == number


def _last_moment(path: Path, moment: str) -> int:
    try:
        about = pq.read_metadata(path)
    except FileNotFoundError:  # it has moved to where it is looked for later
        return -1
    index = about.schema.names.index(moment)
    groups = (about.row_group(number).column(index).statistics for number in range(about.num_row_groups))
    return max((group.max for group in groups if group is not None and group.has_min_max), default=-1)


# Loads --------------------------------------------------------------------------------------------

_COVERED_S = pc.field("length_ns").cast(pa.float64()) / 1e9


def _per_s(name: str) -> Callable[[float | None], ds.Expression]:
    return lambda _: pc.field(name).cast(pa.float64()) / _COVERED_S


def _cpu_hz(core_hz: float | None) -> ds.Expression:
    return pc.field("cpu_ns") / 1e9 / _COVERED_S * pc.scalar(pa.scalar(core_hz, pa.float64()))


#: Column → its type, and its definition from the facts of an executor and the speed of a core.
_LOADS: Mapping[str, tuple[pa.DataType, Callable[[float | None], ds.Expression]]] = {
    "pane_ms": (pa.int64(), lambda _: pc.field("pane_ms")),
    "topology": (pa.string(), lambda _: pc.field("topology")),
    "supervisor": (pa.string(), lambda _: pc.field("supervisor")),
    "component": (pa.string(), lambda _: pc.field("component")),
    "first_task": (pa.int64(), lambda _: pc.field("first")),
    "last_task": (pa.int64(), lambda _: pc.field("second")),
    "covered_s": (pa.float64(), lambda _: _COVERED_S),
    "cpu_hz": (pa.float64(), _cpu_hz),
    "received_tps": (pa.float64(), _per_s("received")),
    "emitted_tps": (pa.float64(), _per_s("emitted")),
    "trees_tps": (pa.float64(), _per_s("trees")),
}


class LoadsTable(HistoryTable):
    """Load of each executor in each pane of the history, per second of the time that its records cover.

    Hz are at the speed of a core in the newest snapshot: a speed per node, learned or set, is not in the history.
    """

    def __init__(self, staging: Path, tables: Path) -> None:
        super().__init__(FACTS, staging, tables)
        self._snapshots = HistoryTable(SNAPSHOTS, staging, tables)
        columns = [(name, kind) for name, (kind, _) in _LOADS.items()]
        self.schema = pa.schema([*columns, (DAY, pa.date32())])

    @property
    def selectable(self) -> Mapping[str, ds.Expression]:
        """See `SourceTable`."""
        return {"topology": pc.field("topology")}

    def condition(self, scan: Scan) -> ds.Expression | None:
        """See `SourceTable`."""
        return both(pc.field("kind") == "executor", super().condition(scan))

    def expressions(self, core_hz: float | None) -> Mapping[str, ds.Expression]:
        """See `HistoryTable`."""
        return {name: define(core_hz) for name, (_, define) in _LOADS.items()}

    def _core_hz(self, scan: Scan) -> float | None:
        if "cpu_hz" not in scan.columns or (last_ms := self._snapshots.last_ms()) < 0:
            return None
        last = replace(scan, columns=("document",), start_ms=last_ms, end_ms=last_ms + 1, texts=(), span=None)
        for partition in self._snapshots.partitions(last):
            for batch in self._snapshots.read(partition, last):
                return float(orjson.loads(batch["document"][0].as_py())["core_hz"])
        return None
