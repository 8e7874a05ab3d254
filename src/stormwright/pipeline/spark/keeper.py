"""A streaming query that is started again when a batch of it fails."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

#: What a call to a JVM that has ended raises.
GONE = (PySparkException, Py4JError, OSError)

#: Seconds before the first restart; twice as many before each further one that brings no batch to its end.
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0

_TRACEBACK = "Traceback (most recent call last):"

#: How often it is tidied up.
TIDY_S = 60


class KeptQuery:
    """Runs a streaming query until it is stopped; a failed batch is repeated from the checkpoint.

    Parameters
    ----------
    start
        Starts the query over its checkpoint.
    examine
        Called when a batch fails for the second time: repeating it does not help.
    tidy
        Called about once a minute; where it says so the query is ended and started again.

    Raises
    ------
    PySparkException
        The query does not start in the first place.
    """

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        examine: Callable[[], None],
        tidy: Callable[[], bool],
    ) -> None:
        self._start, self._examine, self._tidy = start, examine, tidy
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
        """Whether the query runs or will be started again."""
        return self._thread.is_alive()

    @property
    def error(self) -> str | None:
        """Why the last batch failed, if none has come to its end since, or why the query runs no more."""
        return None if self.running and self._advanced() else self._failure

    def batch_ms(self) -> int | None:
        """How long the last batch took; None before the first one."""
        with suppress(*GONE):
            last = self._query.lastProgress
            return last.durationMs.get("triggerExecution") if last else None
        return None

    def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                while not self._query.awaitTermination(TIDY_S):
                    self._tidy_up()
                return
            except PySparkException as error:
                failure = cause(str(error))
            except (Py4JError, ConnectionError) as error:
                self._failure = f"Spark has ended: {error}"
                return
            again = self._failed is not None and not self._advanced()
            self._failed, self._failure = self._query, failure
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S) if again else FIRST_PAUSE_S
            if self._stopping.wait(pause_s):
                return
            # Where this fails, the wait for the query that has ended says so again.
            with suppress(*GONE):
                if again:
                    self._examine()
                self._restart()
                self.restarts += 1

    def _tidy_up(self) -> None:
        try:
            due = self._tidy()
        except OSError:  # a full disk: next time
            return
        if not due:
            return
        self._query.stop()
        while not self._stopping.is_set():
            try:
                self._restart()
                break
            except ConnectionError:  # the JVM is gone
                raise
            except OSError as error:
                self._failed, self._failure = self._query, str(error)
                self._stopping.wait(FIRST_PAUSE_S)

    def _advanced(self) -> bool:
        """Whether a batch has come to its end since the last failure."""
        query = self._query
        with suppress(*GONE):
            return query is not self._failed and query.lastProgress is not None
        return False

    def _restart(self) -> None:
        with self._starting:
            if not self._stopping.is_set():
                self._query = self._start()


def cause(failure: str) -> str:
    """The one line of a streaming query's failure that says why: where there is a Python traceback, what was raised."""
    first, *lines = failure.rpartition(_TRACEBACK)[2].strip("\n").split("\n")
    return next((line for line in (first, *lines) if line and not line[0].isspace()), first)
