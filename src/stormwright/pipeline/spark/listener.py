"""Figures of the running queries, as Spark tells them after every batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener


@dataclass(frozen=True)
class BatchFigures:
    """The last batch of a query.

    Parameters
    ----------
    batch
        Its number.
    phases_ms
        How long each of Spark's phases took; ``triggerExecution`` is all of it.
    state_rows, state_bytes
        What the query keeps in memory from batch to batch.
    watermark_lag_s
        How far the watermark is behind the clock; None without one.
    """

    batch: int
    phases_ms: dict[str, int]
    state_rows: int
    state_bytes: int
    watermark_lag_s: float | None


class QueryFigures(StreamingQueryListener):
    """Keeps the newest figures of every query that has a name; may be read from other threads.

    Rows are counted by ourselves (`stormwright.pipeline.lines.ledger`): Spark's own count is wrong where it reads less
    than all columns.
    """

    def __init__(self) -> None:
        self.last: dict[str, BatchFigures] = {}
        self.starts: Counter[str] = Counter()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Count it."""
        if event.name:
            self.starts[event.name] += 1

    def as_dict(self) -> dict[str, Any]:
        """For the status: by query its last batch and how often it was started again."""
        return {
            name: asdict(figures) | {"restarts": max(self.starts[name] - 1, 0)}
            for name, figures in sorted(self.last.items())
        }

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Take the figures of a batch."""
        progress = event.progress
        if not progress.name:
            return
        watermark = (progress.eventTime or {}).get("watermark")
        self.last[progress.name] = BatchFigures(
            batch=progress.batchId,
            phases_ms={phase: int(ms) for phase, ms in progress.durationMs.items()},
            state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
            state_bytes=sum(operator.memoryUsedBytes for operator in progress.stateOperators),
            watermark_lag_s=_seconds_between(watermark, progress.timestamp) if watermark else None,
        )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing has come."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The keeper of the query sees to it."""


def _seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
