"""State and progress of a stream in the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.perflog.schema import IDENTITY, WORKER, Text
from stormwright.pipeline.measurement.windows import PANES, by_pane, first_of_each, merged
from stormwright.pipeline.parsing.clean import RECORD_KEYS, LineCounts
from stormwright.pipeline.settings import StreamSettings

# Progress -----------------------------------------------------------------------------------------
# Progress of a stream of loads, for programs.


class StreamProgress(TypedDict):
    """Progress of a stream, for programs.

    Parameters
    ----------
    error
        Why the stream does not run, or why a batch that is being repeated failed.
    batch, batch_ms
        Number of the last batch, -1 before the first, and its duration.
    restarts, files_set_aside
        Restarts after failed batches, and files set aside because batches failed over them.
    profile_age_s
        Seconds since the last profile.
    lag_ms
        p50 and p95 of the time from a record's writing until a profile held it, for the last minute with records.
    ledger
        Counts of lines by result.
    unknown_tuples
        By topology that was noted: tuples that the last profile leaves out, from or to tasks of no known executor.
    nodes
        Name (``node``), CPU and headroom in cores, heap of the workers, by supervisor.
    complete_latency_ms
        Quantiles of the complete latency by topology.
    queries
        Spark's figures of the last batches, and restarts, by query.
    alarms
        Active and recent alarms, each with the name of its ``node``; None if alarms are disabled.
    kafka
        Brokers and topic whose messages land, whether they do (``running``, ``error``), and the number of messages that
        have not been read (``messages_behind``); None without a topic.
    """

    running: bool
    error: str | None
    batch: int
    batch_ms: NotRequired[float | None]
    restarts: NotRequired[int]
    files_set_aside: NotRequired[int]
    profile_age_s: NotRequired[float | None]
    lag_ms: NotRequired[Mapping[str, float] | None]
    ledger: NotRequired[Mapping[str, int]]
    unknown_tuples: NotRequired[Mapping[str, int]]
    nodes: NotRequired[Mapping[str, Any]]
    complete_latency_ms: NotRequired[Mapping[str, Mapping[str, float | None]]]
    queries: NotRequired[Mapping[str, Any]]
    alarms: NotRequired[Mapping[str, Any] | None]
    kafka: NotRequired[Mapping[str, Any] | None]


def with_names(progress: StreamProgress, name: Callable[[str], str]) -> StreamProgress:
    """Return the progress with display names of nodes.

    Parameters
    ----------
    progress
        Progress with ids of supervisors.
    name
        Returns the display name of a node by that id.
    """
    named = progress.copy()
    if "nodes" in progress:
        named["nodes"] = {node: {"node": name(node), **load} for node, load in progress["nodes"].items()}
    if alarms := progress.get("alarms"):
        named_alarms = {
            kind: [{"node": name(each["supervisor"]), **each} for each in alarms[kind]] for kind in ("up", "ended")
        }
        named["alarms"] = {**alarms, **named_alarms}
    return named


# State --------------------------------------------------------------------------------------------

#: The file was moved here, with its old time, or a clock was set back.
OVERTAKEN = "late: files that landed long after this one were read before it"

_TEXTS = {f"worker_{part.name}" for part in WORKER.fields if part.name in IDENTITY and part.type == Text()}

#: Schema of the records in a pane.
SOURCE_RECORDS = pa.schema([(name, pa.string() if name in _TEXTS else pa.int64()) for name in RECORD_KEYS])


@dataclass(frozen=True)
class Pane:
    """One pane: its facts as `PANES`, the source records as `SOURCE_RECORDS`, the last batch that changed it."""

    batch: int = -1
    facts: pa.Table = field(default_factory=PANES.empty_table, repr=False)
    source_records: pa.Table = field(default_factory=SOURCE_RECORDS.empty_table, repr=False)


@dataclass(frozen=True)
class LiveState:
    """All open panes and the ledger after a batch.

    Parameters
    ----------
    batch
        The last batch included; -1 for none.
    panes
        Panes by start in ms, in order.
    newest_ms
        Start of the newest record.
    files
        Files read by the last batch: they are included, and may still be in the landing directory.
    closed
        Facts of the panes closed by this batch, as `PANES`; not stored.
    """

    batch: int = -1
    panes: Mapping[int, Pane] = field(default_factory=dict, repr=False)
    ledger: LineCounts = field(default_factory=LineCounts)
    newest_ms: int | None = None
    files: tuple[str, ...] = ()
    closed: pa.Table = field(default_factory=PANES.empty_table, repr=False)

    def deduplicated(self, audit: pa.Table, settings: StreamSettings) -> pa.Table:
        """Return the audit of a batch, completed from the state.

        `record` marks valid records, and `new` those of them that are used: no duplicates, and not so late that
        duplicates cannot be recognised. The latter get a `reason`. Records that land in order are never among them
        (`StreamSettings.watermark_s`).
        """
        record = pc.is_null(audit["reason"])
        audit = audit.append_column("record", record)
        if self.newest_ms is not None:
            forgotten = pc.less_equal(audit["start_ms"], self.newest_ms - settings.watermark_s * 1000)
            reason = pc.if_else(pc.and_(record, pc.fill_null(forgotten, False)), OVERTAKEN, audit["reason"])
            audit = audit.set_column(audit.schema.get_field_index("reason"), "reason", reason)
        place = np.flatnonzero(pc.is_null(audit["reason"]).to_numpy())
        arriving = audit.select(SOURCE_RECORDS.names).take(pa.array(place)).cast(SOURCE_RECORDS)
        source_records = [
            self.panes[pane].source_records for pane in _panes_of(arriving, settings) if pane in self.panes
        ]
        new = np.zeros(audit.num_rows, dtype=bool)
        new[place[first_of_each(arriving, pa.concat_tables([SOURCE_RECORDS.empty_table(), *source_records]))]] = True
        return audit.append_column("new", pa.array(new))

    def after(
        self, batch: int, facts: pa.Table, audit: pa.Table, files: Iterable[str], settings: StreamSettings
    ) -> LiveState:
        """Return the state after one more batch.

        Parameters
        ----------
        batch
            Number of the batch.
        facts
            Facts of its new records, as `PANES`.
        audit
            A row for each of its lines, as `deduplicated` gives them.
        files
            Names of its files.
        settings
            Settings of the stream.
        """
        starts = audit["start_ms"].filter(pc.is_null(audit["reason"]))
        newest = max((ms for ms in (self.newest_ms, pc.max(starts).as_py()) if ms is not None), default=None)
        source_records = by_pane(
            audit.filter(audit["new"]).select(SOURCE_RECORDS.names).cast(SOURCE_RECORDS), "start_ms", settings.slide_s
        )
        updates = by_pane(facts, "pane_ms", settings.slide_s)
        oldest_ms = _oldest_open_ms({*self.panes, *updates}, newest, settings)
        panes = dict(self.panes)
        for start_ms, update in updates.items():
            before = panes.get(start_ms, Pane())
            both = pa.concat_tables([before.source_records, source_records[start_ms]]).combine_chunks()
            panes[start_ms] = Pane(batch, merged(before.facts, update), both)
        closing = [panes.pop(start_ms).facts for start_ms in sorted(panes) if start_ms <= oldest_ms]
        closed = pa.concat_tables([PANES.empty_table(), *closing])
        count = LineCounts.of(
            accepted=len(starts),
            used=pc.sum(audit["new"]).as_py() or 0,
            quarantined=audit.num_rows - len(starts),
        )
        ledger = self.ledger + count
        return LiveState(batch, dict(sorted(panes.items())), ledger, newest, tuple(sorted(files)), closed)

    def until(self, end_ms: int) -> LiveState:
        """Return the state without records that begin later than a moment."""
        if self.newest_ms is None or self.newest_ms <= end_ms:
            return self
        panes = {start_ms: pane for start_ms, pane in self.panes.items() if start_ms <= end_ms}
        return replace(self, panes=panes, newest_ms=max(panes, default=None))

    def facts(self) -> pa.Table:
        """Return the facts of all open panes, as `PANES`."""
        return pa.concat_tables([PANES.empty_table(), *(pane.facts for pane in self.panes.values())])


def _panes_of(records: pa.Table, settings: StreamSettings) -> list[int]:
    slide_ms = settings.slide_s * 1000
    panes: list[int] = np.unique(records["start_ms"].to_numpy() // slide_ms * slide_ms).tolist()
    return panes


def _oldest_open_ms(panes: Iterable[int], newest_ms: int | None, settings: StreamSettings) -> int:
    """Return the start before which no window and no record that is not `OVERTAKEN` needs a pane."""
    if newest_ms is None:
        return -1
    return min(max(panes) - settings.window_ms, newest_ms - (settings.watermark_s + settings.slide_s) * 1000)
