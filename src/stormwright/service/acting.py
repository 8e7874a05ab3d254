"""The moves of a decision, made one topology after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from stormwright.controller.move import MoveReport
from stormwright.controller.plan import TopologyMove
from stormwright.controller.policy import Decision
from stormwright.errors import MoveError, NimbusError, StormwrightError
from stormwright.service.history import History
from stormwright.service.memory import Memory

#: Makes a move, for the reason that Storm's UI shows, unless the event is set before anything has changed.
Move = Callable[[TopologyMove, str, threading.Event | None], MoveReport]


class Acting:
    """Moves topologies and remembers what came of it.

    Parameters
    ----------
    scheduler_name
        Who decided, for Storm's UI.
    cool_down_s
        How long after a move what is measured is no reference for drift.
    """

    def __init__(self, move: Move, memory: Memory, history: History, scheduler_name: str, cool_down_s: float) -> None:
        self._move = move
        self._memory = memory
        self._history = history
        self._scheduler_name = scheduler_name
        self._cool_down_s = cool_down_s

    def act(self, decision: Decision, stop: threading.Event | None = None) -> list[MoveReport]:
        """Make the moves of a decision until `stop` is set.

        A topology that could not be moved is left alone for a while, the longer the more often that happens.

        Raises
        ------
        MoveError, NimbusError
            The last of the moves that failed; those after it have been tried all the same.
        """
        reports: list[MoveReport] = []
        failure: StormwrightError | None = None
        for move in decision.plan.moves:
            if stop is not None and stop.is_set():
                break
            try:
                reports.append(self._moved(move, decision.reason, stop))
            except (MoveError, NimbusError) as error:
                failure = error
                self._failed(move, error)
            finally:
                self._memory.last_change_s = time.monotonic()
                # What is measured while the topology comes up again is no reference.
                self._memory.drift_watch.restart(int((time.time() + self._cool_down_s) * 1000))
                self._memory.moves = reports
        if failure:
            raise failure
        return reports

    def _moved(self, move: TopologyMove, reason: str, stop: threading.Event | None) -> MoveReport:
        report = self._move(move, f"stormwright: placed by {self._scheduler_name}: {reason}", stop)
        self._history.move(move.topology.id, report)
        self._memory.setbacks.forget(move.topology.id)
        self._memory.counts.moves += 1
        return report

    def _failed(self, move: TopologyMove, error: StormwrightError) -> None:
        self._history.move(move.topology.id, None, str(error))
        self._memory.setbacks.note(move.topology.id, time.monotonic(), str(error))
        self._memory.counts.failed_moves += 1
