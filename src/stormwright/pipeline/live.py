"""What the driver knows after a batch, kept on disk as one file so that a restart goes on from it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.pipeline.ledger import Ledger
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.windows import PANES, merged, parted, records_in

_METADATA = b"stormwright"

#: The file was moved here, with its old time, or a clock was set back. The line itself is in the file alone.
OVERTAKEN = "late: files that landed long after this one were read before it"


@dataclass(frozen=True)
class LiveState:
    """All panes still open, and the ledger, after a batch.

    Parameters
    ----------
    batch
        The last batch that is in here; -1 for none.
    panes
        Facts per pane, `PANES`.
    newest_ms, newest_before_ms
        When the newest record began, up to this batch and up to the one before.
    closed
        The panes that this batch closed: they are in no file of `save`.
    """

    batch: int = -1
    panes: pa.Table = field(default_factory=PANES.empty_table, repr=False)
    ledger: Ledger = field(default_factory=Ledger)
    newest_ms: int | None = None
    newest_before_ms: int | None = None
    closed: pa.Table = field(default_factory=PANES.empty_table, repr=False)

    def after(self, batch: int, update: pa.Table, audit: pa.Table, settings: StreamSettings) -> LiveState:
        """The state after one more batch: panes that it updates, and one audit row per line that it read.

        The audit is one that `routed` has been through.
        """
        panes = merged(self.panes, update)
        still_open, closed = parted(panes, self.newest_ms, settings)
        starts = audit["start_ms"].drop_null()
        newest = [ms for ms in (self.newest_ms, pc.max(starts).as_py()) if ms is not None]
        return LiveState(
            batch=batch,
            panes=still_open,
            ledger=self.ledger
            + Ledger.of(
                accepted=len(starts),
                used=records_in(panes) - records_in(self.panes),
                quarantined=audit.num_rows - len(starts),
            ),
            newest_ms=max(newest, default=None),
            newest_before_ms=self.newest_ms,
            closed=closed,
        )

    def routed(self, audit: pa.Table, settings: StreamSettings) -> pa.Table:
        """The audit, the records that Spark dropped as late being marked so: they are in no pane.

        Its watermark for late records is one batch behind the one for state: it follows from the records up to the
        batch before the last. What lands in order is never behind it (`StreamSettings.watermark_s`).
        """
        if self.newest_before_ms is None:
            return audit
        dropped = pc.less_equal(audit["start_ms"], self.newest_before_ms - settings.watermark_s * 1000)
        if not pc.any(dropped).as_py():
            return audit
        reason = pc.if_else(pc.coalesce(dropped, False), OVERTAKEN, audit["reason"])
        start_ms = pc.if_else(dropped, pa.scalar(None, pa.int64()), audit["start_ms"])
        return audit.set_column(*_place(audit, "reason"), reason).set_column(*_place(audit, "start_ms"), start_ms)

    def save(self, path: Path) -> None:
        """Replace the file at once."""
        about = {
            "batch": self.batch,
            "ledger": asdict(self.ledger),
            "newest_ms": self.newest_ms,
            "newest_before_ms": self.newest_before_ms,
        }
        table = self.panes.replace_schema_metadata({_METADATA: orjson.dumps(about)})
        temporary = path.with_name(f".{path.name}")
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_file(temporary, table.schema, options=options) as file:
            file.write_table(table)
        temporary.replace(path)

    @staticmethod
    def load(path: Path) -> LiveState:
        """What `save` wrote; an empty state where there is no file."""
        if not path.exists():
            return LiveState()
        with pa.ipc.open_file(path) as file:
            table = file.read_all()
        about = orjson.loads(table.schema.metadata[_METADATA])
        return LiveState(
            batch=about["batch"],
            panes=table.replace_schema_metadata(None),
            ledger=Ledger(**about["ledger"]),
            newest_ms=about["newest_ms"],
            newest_before_ms=about["newest_before_ms"],
        )


def _place(table: pa.Table, column: str) -> tuple[int, str]:
    return table.schema.get_field_index(column), column
