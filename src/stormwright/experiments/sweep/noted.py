"""A sweep's cells in the history of a service, beside the sweep's own table."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from stormwright.experiments.sweep.table import CellTable
from stormwright.history.tables.definitions import EXPERIMENTS
from stormwright.history.tables.staging import Staging


class NotedTable:
    """A table of cells whose rows are staged for the history, too: each once, whatever ends the sweep.

    1. Rows are staged hidden before the table has them, and may be taken once it has. It gets them all at once, so the
       first of them tells.
    2. What a sweep has left hidden that was ended in between, the next one over the same table finds.

    Parameters
    ----------
    table
        The sweep's own.
    staging
        Of the history that is to have the rows.
    location
        Where that is.
    name
        What the history calls the sweep.
    """

    def __init__(self, table: CellTable, staging: Staging, location: str, name: str) -> None:
        self._table, self._staging, self._name = table, staging, name
        self._sweep = hashlib.sha256(f"{location} {name}".encode()).hexdigest()[:16]
        left = [hidden for hidden in staging.hidden(EXPERIMENTS) if hidden.startswith(self._sweep)]
        known = {self._staged_as(row) for row in table.read().select(["key", "ended_ms"]).to_pylist()} if left else {}
        for hidden in left:  # (2)
            if hidden in known:
                staging.publish(EXPERIMENTS, hidden)
            else:
                staging.discard(EXPERIMENTS, hidden)

    def append(self, rows: pa.Table) -> None:
        """See `CellTable`; and stage them (1)."""
        (first,) = rows.slice(length=1).select(["key", "ended_ms"]).to_pylist()
        staged = self._staged_as(first)
        columns = {"at_ms": rows["ended_ms"], "name": pa.repeat(self._name, rows.num_rows), "cell": rows["key"]}
        columns |= {name: rows[name] for name in EXPERIMENTS.columns if name not in columns}
        self._staging.write(EXPERIMENTS, staged, pa.table(columns), hidden=True)
        self._table.append(rows)
        self._staging.publish(EXPERIMENTS, staged)

    def read(self) -> pa.Table:
        """See `CellTable`."""
        return self._table.read()

    def _staged_as(self, row: dict[str, object]) -> str:
        return f"{self._sweep}-{row['key']}-{row['ended_ms']}"
