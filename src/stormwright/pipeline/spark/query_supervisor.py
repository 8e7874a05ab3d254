"""Supervision of streaming queries: a query is restarted when a batch fails."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from stormwright.pipeline.spark.target import SPARK_ERRORS

#: Name that Spark's Kafka source gives to the figure.
_BEHIND = "maxOffsetsBehindLatest"

#: Errors raised by a call to a JVM that has ended.
GONE: tuple[type[Exception], ...] = (*SPARK_ERRORS, OSError)

#: Seconds before the first restart; twice as many before each further one that brings no batch to its end.
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0

_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class BatchFigures:
    """Figures of the last batch of a query.

    Parameters
    ----------
    batch
        Number of the batch.
    phases_ms
        Duration of each of Spark's phases; ``triggerExecution`` is the total.
    state_rows, state_bytes
        State that the query holds between batches.
    offsets_behind
        Messages that the batch left unread in the partition with most of them; None if the source has no offsets.
    """

    batch: int
    phases_ms: dict[str, int]
    state_rows: int
    state_bytes: int
    offsets_behind: int | None = None


class QueryFigures(StreamingQueryListener):
    """Listener with the newest figures of every named query; thread-safe for readers.

    Rows are counted separately (`stormwright.pipeline.parsing.clean.LineCounts`): Spark's own count is wrong where it
    reads less than all columns.
    """

    def __init__(self) -> None:
        self.last: dict[str, BatchFigures] = {}
        self.starts: Counter[str] = Counter()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Count a start of the query."""
        if event.name:
            self.starts[event.name] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the last batch and the number of restarts by query, for the status page."""
        return {
            name: asdict(figures) | {"restarts": max(self.starts[name] - 1, 0)}
            for name, figures in sorted(self.last.items())
        }

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Store the figures of a batch."""
        progress = event.progress
        if not progress.name:
            return
        self.last[progress.name] = BatchFigures(
            batch=progress.batchId,
            phases_ms={phase: int(ms) for phase, ms in progress.durationMs.items()},
            state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
            state_bytes=sum(operator.memoryUsedBytes for operator in progress.stateOperators),
            offsets_behind=max(
                (int(source.metrics[_BEHIND]) for source in progress.sources if _BEHIND in source.metrics), default=None
            ),
        )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Ignore idle queries."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Ignore the end of a query; its supervisor handles it."""


class SupervisedQuery:
    """A streaming query that runs until it is stopped; a failed batch is repeated from the checkpoint.

    Parameters
    ----------
    start
        Starts the query over its checkpoint.

    Raises
    ------
    PySparkException
        The query does not start in the first place.
    """

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._failed: StreamingQuery | None = None
        self._failure: str | None = None
        self.restarts = 0
        self._query = start()
        self._thread = threading.Thread(target=self._keep, name="stormwright-stream", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the query for good."""
        self._stopping.set()
        # A JVM that is gone has stopped.
        with self._starting, suppress(*GONE):
            self._query.stop()
        self._thread.join()

    @property
    def running(self) -> bool:
        """Whether the query runs or will be restarted."""
        return self._thread.is_alive()

    @property
    def error(self) -> str | None:
        """Why the last batch failed, if none has completed since, or why the query has ended."""
        return None if self.running and self._advanced() else self._failure

    def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                self._query.awaitTermination()
                return
            except PySparkException as error:
                failure = cause(str(error))
            except GONE as error:
                self._failure = f"Spark has ended: {error}"
                return
            again = self._failed is not None and not self._advanced()
            self._failed, self._failure = self._query, failure
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if again else FIRST_PAUSE_S
            if self._stopping.wait(pause_s):
                return
            # If this fails, waiting for the ended query raises again.
            with suppress(*GONE):
                self._restart()
                self.restarts += 1

    def _advanced(self) -> bool:
        """Return whether a batch has completed since the last failure."""
        query = self._query
        with suppress(*GONE):
            return query is not self._failed and query.lastProgress is not None
        return False

    def _restart(self) -> None:
        with self._starting:
            if not self._stopping.is_set():
                self._query = self._start()


def cause(failure: str) -> str:
    """Return the line of a query's failure that states the cause: the Python exception if there is a traceback."""
    first, *lines = failure.rpartition(_TRACEBACK)[2].strip("\n").split("\n")
    return next((line for line in (first, *lines) if line and not line[0].isspace()), first)
