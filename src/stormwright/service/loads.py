"""The source of a service's loads."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from stormwright.model import LoadProfile, Problem
from stormwright.pipeline.streaming.progress import StreamProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Loads(Protocol):
    """Source of measured loads; a context manager, callable from any thread.

    `stormwright.pipeline.streaming.stream.LoadStream` does it on Spark, from the performance log.
    """

    @property
    def spark(self) -> SparkSession | None:
        """Return the session that ingests the history into its tables; None if there is none."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...

    def latest(self, problem: Problem) -> LoadProfile | None:
        """Return the newest load in the problem's numbering; None if there is none yet."""

    def note(self, problem: Problem) -> None:
        """Pass the current problem to the source."""

    def measure_promptly(self) -> None:
        """Measure more often for some seconds, as somebody watches."""

    def require_running(self) -> None:
        """Raise StormwrightError if the source has ended and cannot go on."""

    def age_s(self) -> float | None:
        """Return the seconds since the newest load was measured; None if there is none yet."""

    def progress(self) -> StreamProgress:
        """Return the progress of the source."""

    def closed_panes_error(self) -> str | None:
        """Return why complete panes have not reached the history; None if they have."""
