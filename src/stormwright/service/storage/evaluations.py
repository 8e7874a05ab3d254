"""Measured time of topologies and evaluations of moves, stored over restarts of the service."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import orjson

from stormwright.base.clock import WALL, Clock
from stormwright.base.documents import Document, read_or_default
from stormwright.history.evaluation.measured import MeasuredTopologies, MeasurementWait
from stormwright.history.evaluation.moves import EvaluatedMove, MovedTopology, MoveEvaluator, Worse
from stormwright.history.evaluation.observed_traffic import ObservedTraffic
from stormwright.history.evaluation.window import Sample
from stormwright.model import Problem
from stormwright.model.assignment import where
from stormwright.perflog.records import LogRecord

#: Seconds per window of observation, and between two saves of the measured time.
WINDOW_S, SAVE_EVERY_S = 5.0, 10.0

#: Milliseconds after a move within which Nimbus has certainly reported the new placement.
SETTLED_MS = 60_000


class EvaluationStore:
    """Stores the measured time of topologies and the evaluations of their moves.

    Parameters
    ----------
    moves, measured
        Documents with pending and evaluated moves, and with the measured time of topologies.
    clock
        Clock of the cluster.
    """

    def __init__(self, moves: Document, measured: Document, clock: Clock = WALL) -> None:
        self._clock = clock
        self._moves_document, self._measured_document = moves, measured
        self.observed = ObservedTraffic(WINDOW_S, clock)
        self._evaluation: MoveEvaluator | None = None
        self._measured = MeasuredTopologies(self.observed)
        self._saved_s = float("-inf")
        self._saved: dict[str, Any] = {}

    def load(self) -> None:
        """Load the stored state of an earlier service; damaged state is replaced by an empty one."""
        lost = "moves before now are not evaluated"
        self._evaluation = read_or_default(self._moves_document, lambda _: self._restored(), self._empty, lost)
        lost = "all topologies are measured for long enough again before they move"

        def measured(text: str | None = None) -> MeasuredTopologies:
            return MeasuredTopologies(self.observed, orjson.loads(text) if text else None)

        self._measured = read_or_default(self._measured_document, measured, measured, lost)

    def count(self, records: Iterable[LogRecord]) -> None:
        """Count new records."""
        self.observed.add(records)

    def update(self, problem: Problem) -> list[EvaluatedMove]:
        """Count the time measured since the last call; return the moves that can be evaluated now, each once."""
        self.observed.forget(topology.id for topology in problem.topologies)
        self._measured.update(problem)
        self._save()
        return self._evaluation.due() if self._evaluation else []

    def reset_resumed(self, names: Iterable[str], problem: Problem) -> None:
        """Restart the measured time of topologies (names) that were paused."""
        paused = set(names)
        for topology in problem.topologies:
            if topology.name in paused:
                self._measured.reset_topology(topology.id, self._now_ms())

    def waits(self, problem: Problem, least_s: float) -> dict[str, MeasurementWait]:
        """Return topologies measured for less than `least_s` seconds (`MeasuredTopologies.waits`)."""
        return self._measured.waits(problem, least_s)

    def moved(self, moved: MovedTopology) -> list[EvaluatedMove]:
        """Record a move; return the evaluation of the previous one."""
        return self._evaluation.moved(moved) if self._evaluation else []

    def forget(self, topology: str) -> list[EvaluatedMove]:
        """Stop the evaluation of a topology that was moved by others; return its result."""
        return self._evaluation.forget(topology) if self._evaluation else []

    def worse(self, problem: Problem) -> tuple[list[Worse], list[EvaluatedMove]]:
        """Return topologies that do measurably worse since their move, and the evaluation of moves undone by others."""
        found, gone = [], []
        for each in self._evaluation.worse() if self._evaluation else []:
            if where(problem.current.get(each.moved.topology)) == where(each.moved.after):
                found.append(each)
            elif self._now_ms() > each.moved.ended_ms + SETTLED_MS:
                gone += self.forget(each.moved.topology)
        return found, gone

    def recent(self, topology: str, since_ms: float) -> list[Sample]:
        """Return windows of a topology (`MoveEvaluator.recent`)."""
        return self._evaluation.recent(topology, since_ms) if self._evaluation else []

    def status(self) -> dict[str, Any]:
        """Return the evaluations of moves for the status endpoint (`MoveEvaluator.status`)."""
        return self._evaluation.status() if self._evaluation else {}

    def _empty(self) -> MoveEvaluator:
        return MoveEvaluator(self._moves_document, self.observed, self._now_ms, restore=False)

    def _restored(self) -> MoveEvaluator:
        return MoveEvaluator(self._moves_document, self.observed, self._now_ms)

    def _now_ms(self) -> int:
        return round(self._clock.time() * 1000)

    def _save(self) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._saved_s < SAVE_EVERY_S:
            return
        self._saved_s, state = now_s, self._measured.state()
        if state != self._saved:
            # A full disk is reported by rows of the history.
            with suppress(OSError, sqlite3.Error):
                self._measured_document.save(orjson.dumps(state).decode())
                self._saved = state
