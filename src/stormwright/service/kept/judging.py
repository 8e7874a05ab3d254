"""What is known of moves while the service runs, and over its restarts: what was measured, what came of each move."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from stormwright.clock import WALL, Clock
from stormwright.controller.plans.document import where
from stormwright.files import write_whole
from stormwright.history.evaluation.measured import MeasuredTopologies
from stormwright.history.evaluation.moves import Evaluation, JudgedMove, Moved, Worse
from stormwright.history.evaluation.window import ObservedTraffic
from stormwright.model import Problem
from stormwright.perflog.records import LogRecord
from stormwright.state_files import unless_damaged

#: Length of the windows that topologies are looked at in, and from one writing down of what was measured to the next.
WINDOW_S, KEEP_EVERY_S = 5.0, 10.0

#: So long after a move, in ms, Nimbus has certainly told where the topology is.
STALE_MS = 60_000


class Judging:
    """Knows how long topologies were measured, and what became of them after their moves.

    Parameters
    ----------
    directory
        Holds ``judging.json`` and ``measured.json``; is made where it is not there.
    clock
        Of the cluster.
    """

    def __init__(self, directory: Path, clock: Clock = WALL) -> None:
        self._clock = clock
        self._moves, self._file = directory / "judging.json", directory / "measured.json"
        self.observed = ObservedTraffic(WINDOW_S, clock)
        self._evaluation: Evaluation | None = None
        self._measured = MeasuredTopologies(self.observed)
        self._kept_s = float("-inf")
        self._kept: dict[str, Any] = {}

    def begin(self) -> None:
        """Go on with what an earlier service wrote down; what is damaged is put aside, and begun anew."""
        lost = "moves before now are not judged"
        self._evaluation = unless_damaged(self._moves, self._pending, self._pending, lost)
        lost = "all topologies are measured for long enough again before they move"
        self._measured = unless_damaged(self._file, self._known, self._known, lost)

    def count(self, records: Iterable[LogRecord]) -> None:
        """Count records that have not come before."""
        self.observed.add(records)

    def look(self, problem: Problem) -> list[JudgedMove]:
        """Count what was measured since the last look; what can be judged by now, each once."""
        self.observed.forget(topology.id for topology in problem.topologies)
        self._measured.look(problem)
        self._keep()
        return self._evaluation.due() if self._evaluation else []

    def resumed(self, names: Iterable[str], problem: Problem) -> None:
        """What was measured of topologies (names) that were paused counts no longer."""
        paused = set(names)
        for topology in problem.topologies:
            if topology.name in paused:
                self._measured.begin_anew(topology.id, self._now_ms())

    def waits(self, problem: Problem, least_s: float) -> dict[str, str]:
        """Topology → how much of `least_s` seconds is still to be measured of it (`MeasuredTopologies.waits`)."""
        return self._measured.waits(problem, least_s)

    def moved(self, moved: Moved) -> list[JudgedMove]:
        """A topology was moved; what came of its last move."""
        return self._evaluation.moved(moved) if self._evaluation else []

    def forget(self, topology: str) -> list[JudgedMove]:
        """A topology is somewhere else now; what came of its last move."""
        return self._evaluation.forget(topology) if self._evaluation else []

    def worse(self, problem: Problem) -> tuple[list[Worse], list[JudgedMove]]:
        """Topologies that do measurably worse since they were moved, and what came of moves that others have undone."""
        found, gone = [], []
        for each in self._evaluation.worse() if self._evaluation else []:
            if where(problem.current.get(each.moved.topology)) == where(each.moved.after):
                found.append(each)
            elif self._now_ms() > each.moved.ended_ms + STALE_MS:
                gone += self.forget(each.moved.topology)
        return found, gone

    def status(self) -> dict[str, Any]:
        """What came of moves, for the status endpoint (`Evaluation.status`)."""
        return self._evaluation.status() if self._evaluation else {}

    def _pending(self) -> Evaluation:
        return Evaluation(self._moves, self.observed, self._now_ms)

    def _now_ms(self) -> int:
        return round(self._clock.time() * 1000)

    def _known(self) -> MeasuredTopologies:
        kept = orjson.loads(self._file.read_bytes()) if self._file.exists() else None
        return MeasuredTopologies(self.observed, kept)

    def _keep(self) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._kept_s < KEEP_EVERY_S:
            return
        self._kept_s, kept = now_s, self._measured.kept()
        if kept != self._kept:
            # On a full disk rows of the history, which go to the same place, tell of it.
            with suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._file, orjson.dumps(kept))
                self._kept = kept
