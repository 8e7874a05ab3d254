"""The journal of a running service as a table of the data source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pydantic import BaseModel
from pyspark.sql.datasource import InputPartition

from stormwright.client import Client
from stormwright.client.shapes import HistoryEntry, MoveEntry
from stormwright.history.data_source.scan import Scan, SourceTable, scanned


class SourceJournal(SourceTable):
    """The journal of a running service: a row for each topology that a plan moved, with promise and outcome.

    Evaluations are added to rows later, so it cannot be read as a stream.
    """

    moment = pc.field("at_ms")
    streams = False
    _of_entry = ("n", "at_ms", "kind", "who", "reason", "plan")

    def __init__(self, url: str, token: str | None) -> None:
        self._url, self._token = url, token
        fields = [(name, _arrow_type(HistoryEntry.model_fields[name].annotation)) for name in self._of_entry]
        fields += [(name, _arrow_type(field.annotation)) for name, field in MoveEntry.model_fields.items()]
        self.schema = pa.schema(fields)

    @property
    def selectable(self) -> Mapping[str, ds.Expression]:
        """See `SourceTable`."""
        return {"topology": pc.field("topology"), "kind": pc.field("kind")}

    def partitions(self, scan: Scan) -> list[InputPartition]:
        """See `SourceTable`."""
        del scan
        return [InputPartition(None)]

    def read(self, partition: InputPartition, scan: Scan) -> Iterator[pa.RecordBatch]:
        """See `SourceTable`."""
        del partition
        columns = {name: pc.field(name) for name in self.schema.names}
        client = Client(self._url, "spark", token=self._token)
        before, more = None, True
        while more:
            page = client.history(limit=1000, before=before)
            rows = [
                {name: getattr(entry, name) for name in self._of_entry} | _journal_row(move)
                for entry in page.entries
                for move in entry.moves
            ]
            selected = {name: columns[name] for name in scan.columns}
            yield from scanned(ds.dataset(pa.Table.from_pylist(rows, self.schema)), selected, self.condition(scan))
            more = page.more and bool(page.entries)
            before = page.entries[-1].n if page.entries else None


def _journal_row(move: MoveEntry) -> dict[str, Any]:
    return move.model_dump() | {"promised": list(move.promised.items())}


def _arrow_type(annotation: Any) -> pa.DataType:
    """Return the Arrow type of a field of the API."""
    if isinstance(annotation, UnionType):
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return pa.struct([(name, _arrow_type(field.annotation)) for name, field in annotation.model_fields.items()])
    found = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}.get(annotation)
    if found is not None:
        return found
    first, *others = get_args(annotation)
    if others == [Ellipsis]:
        return pa.list_(_arrow_type(first))
    return pa.map_(_arrow_type(first), _arrow_type(others[0]))
