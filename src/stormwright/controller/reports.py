"""Time limits and reports of moves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stormwright.plans.plan import TopologyMove

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MoveLimits:
    """Time limits of the steps of a move, in seconds.

    Parameters
    ----------
    heard_s
        From the start of a service until all workers report to it; earlier moves wait for that.
    drain_s
        For the pending tuple trees to be acked; past it the move is given up and the topology runs on. More than
        twice Storm's message timeout of 30 s, so that a tree that was lost before has failed by then.
    swap_s
        For the old workers to end and the new ones to report; past it the spouts are resumed all the same, and the
        report says so.
    settle_s
        For the same, if an earlier service has left the topology paused.
    """

    heard_s: float = 60.0
    drain_s: float = 75.0
    swap_s: float = 60.0
    settle_s: float = 12.0


@dataclass(frozen=True)
class MoveReport:
    """Result of a move and the duration of each step, in seconds.

    `swap_s` lasts until the spouts may emit again, `resume_s` from there until all new workers report. `replayed` tuple
    trees were pending when the workers were exchanged.
    """

    topology: str
    moved_executors: int
    started_workers: int
    stopped_workers: int
    unchanged_workers: int
    drain_s: float
    swap_s: float
    resume_s: float
    started_ms: int
    ended_ms: int
    complete: bool
    replayed: int = 0

    @property
    def pause_s(self) -> float:
        """Seconds without an acked tuple: where no worker stays, none can emit before a new one reports."""
        return self.drain_s + self.swap_s + (0.0 if self.unchanged_workers else self.resume_s)

    @property
    def resumed_ms(self) -> int:
        """Time from which the spouts could emit again, in ms since 1970."""
        return self.started_ms + round(1000 * (self.drain_s + self.swap_s))

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return asdict(self)


def move_report(
    move: TopologyMove, times: tuple[float, float, float], span_ms: tuple[int, int], complete: bool, replayed: int = 0
) -> MoveReport:
    """Return the report of a move.

    Parameters
    ----------
    move
        Planned move, for the numbers of executors and workers.
    times
        Seconds until everything was drained, until the spouts could emit again, and until all new workers reported.
    span_ms
        Begin and end in ms since 1970.
    complete
        Whether all old workers ended and all new ones reported in time.
    replayed
        Tuple trees that were pending when the workers were exchanged.
    """
    (drain_s, swap_s, resume_s), (started_ms, ended_ms) = times, span_ms
    return MoveReport(
        topology=move.topology,
        moved_executors=move.moved_executors,
        started_workers=len(move.started_workers),
        stopped_workers=len(move.stopped_workers),
        unchanged_workers=len(move.unchanged_workers),
        drain_s=drain_s,
        swap_s=swap_s,
        resume_s=resume_s,
        started_ms=started_ms,
        ended_ms=ended_ms,
        complete=complete,
        replayed=replayed,
    )


def log_reports(reports: Sequence[MoveReport], names: str, seconds: float) -> None:
    """Log the results of moves that were made together."""
    if all(report.complete for report in reports):
        log.info("%s: runs again after %.1f s", names, seconds)
    else:
        log.warning("%s: active again, but after %.1f s not all new workers report", names, seconds)
