"""Landed records, and those that are retained, as a table of the data source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql.datasource import InputPartition

from stormwright.errors import Fault, InputError
from stormwright.history.data_source.scan import Scan, SourceTable, both, scanned, settled
from stormwright.perflog.columns import LANDED, RECORD_COLUMNS, read_landed_file
from stormwright.perflog.landing import COLUMNS_SUFFIX
from stormwright.perflog.records import MAX_CLOCK_AHEAD_MS
from stormwright.pipeline.parsing.source import waiting_files

#: Bytes of landed files that one task reads.
_BYTES_A_TASK = 16 * 2**20

#: Maximum time by which a file is written after its lines landed.
_WRITTEN_AFTER_MS = 60_000

#: Digits of the name of a landed file: nanoseconds since 1970.
_NS_DIGITS = 20


@dataclass
class _Files(InputPartition):
    """Landed files by name, or all that landed later than a moment.

    Parameters
    ----------
    names
        Names of the files to read, without directory.
    after_ns
        None, or without names the moment.
    """

    names: tuple[str, ...]
    after_ns: int | None = None


class Records(SourceTable):
    """Records as they landed, without rejected lines; deliveries that were repeated are there repeatedly.

    Parameters
    ----------
    landing, raw
        Directories of landed files, and of files that are retained after they were processed.
    """

    schema = pa.schema([LANDED.field(name) for name in (*RECORD_COLUMNS, "landed_ms")])
    moment = pc.field("start_ms")

    def __init__(self, landing: Path, raw: Path) -> None:
        self._directories = (landing, raw)

    @property
    def selectable(self) -> Mapping[str, ds.Expression]:
        """See `SourceTable`."""
        return {"topology": pc.field("worker", "topology")}

    def partitions(self, scan: Scan) -> list[InputPartition]:
        """See `SourceTable`."""
        if scan.span is not None:
            return [_Files(names) for names in self._groups(scan, scan.span)]
        last_ns = max((_landed_ns(path) for path in self._files().values()), default=-1)
        groups = self._groups(scan, (-1, last_ns))
        return [*(_Files(names) for names in groups), _Files((), last_ns)]

    def read(self, partition: InputPartition, scan: Scan) -> Iterator[pa.RecordBatch]:
        """See `SourceTable`."""
        if not isinstance(partition, _Files):
            return
        names = partition.names
        if partition.after_ns is not None:
            later = ((path.name, _landed_ns(path)) for path in self._files().values() if _may_have(scan, path))
            names = tuple(name for name, landed_ns in later if landed_ns > partition.after_ns)
        condition = self.condition(scan)
        used = [*dict.fromkeys([*scan.columns, "worker", "start_ms", "reason"])]
        for name in names:
            rows = self._rows(name, used, condition)
            if rows is not None:
                wanted = both(pc.field("reason").is_null(), condition)
                yield from scanned(ds.dataset(rows), {each: pc.field(each) for each in scan.columns}, wanted)
            elif scan.span is not None:
                why = "was deleted before the stream read it; `stormwright serve --keep-raw` retains it for longer"
                raise InputError("records", [Fault(why, name)])

    def newest(self) -> int:
        """See `SourceTable`."""
        return settled(max((_landed_ns(path) for path in self._files().values()), default=-1), 1_000_000_000)

    def _files(self) -> dict[str, Path]:
        # In this order, as files move this way.
        return {path.name: path for directory in self._directories for path in waiting_files(directory)}

    def _groups(self, scan: Scan, span_ns: tuple[int, int]) -> list[tuple[str, ...]]:
        """Return the names of files that landed in a span, in groups for one task each."""
        groups: list[list[str]] = []
        after_ns, through_ns = span_ns
        size = _BYTES_A_TASK
        for landed_ns, name, path in sorted((_landed_ns(path), name, path) for name, path in self._files().items()):
            if after_ns < landed_ns <= through_ns and _may_have(scan, path):
                if size >= _BYTES_A_TASK:
                    groups.append([])
                    size = 0
                groups[-1].append(name)
                size += path.stat().st_size if path.exists() else 0
        return [tuple(names) for names in groups]

    def _rows(self, name: str, columns: list[str], condition: ds.Expression | None) -> pa.Table | None:
        """Return the rows of a file, none if its statistics exclude them; None if it is deleted."""
        for directory in self._directories:
            path = directory / name
            try:
                if condition is not None and path.suffix == COLUMNS_SUFFIX:
                    fragment = ds.ParquetFileFormat().make_fragment(str(path), fs.LocalFileSystem())
                    if not fragment.subset(condition, schema=LANDED).row_groups:
                        return LANDED.empty_table()
                return read_landed_file(path, columns)
            except FileNotFoundError:  # it was processed
                continue
        return None


def _may_have(scan: Scan, path: Path) -> bool:
    """Return whether a file may have records of a scan, by its time: no record begins long after it landed."""
    if scan.start_ms is None:
        return True
    try:
        written_ms = path.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:  # it was processed, and may be retained
        return True
    return scan.start_ms <= written_ms + _WRITTEN_AFTER_MS + MAX_CLOCK_AHEAD_MS


def _landed_ns(path: Path) -> int:
    """Return when a file landed: by its name, or of one with another name by its time."""
    digits = path.name[:_NS_DIGITS]
    if len(digits) == _NS_DIGITS and digits.isdecimal():
        return int(digits)
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return -1
