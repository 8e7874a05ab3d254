"""The moves of a decision, made one step after the other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence

from stormwright.controller.planning.plan import Step
from stormwright.controller.policy import Decision
from stormwright.controller.reports import MoveReport
from stormwright.errors import MoveError, MoveStoppedError, NimbusError, StormwrightError
from stormwright.service.memory import ServiceMemory
from stormwright.service.notifications.notifier import ServiceEvent
from stormwright.service.plans.journal import Journal
from stormwright.service.safety.move_budget import MoveBudgetKeeper
from stormwright.service.storage.history import ServiceHistory

log = logging.getLogger(__name__)

#: Makes a step, for the reason that Storm's UI shows, unless the event is set before anything has changed.
Move = Callable[[Step, str, threading.Event | None], Sequence[MoveReport]]


class MoveExecutor:
    """Moves topologies and remembers what came of it.

    Parameters
    ----------
    move
        Makes a step.
    memory
        Is told of every move, for the triggers and the status.
    history
        Keeps what was made and what has failed.
    scheduler_name
        Who decided, for Storm's UI.
    cool_down_s
        How long after a move what is measured is no reference for drift.
    ledger
        Keeps where topologies were, before they move.
    tell
        Is told of moves that fail, and of those that are taken back.
    budget
        Adapts to how moves go; None where none does.
    """

    def __init__(
        self,
        move: Move,
        memory: ServiceMemory,
        history: ServiceHistory,
        scheduler_name: str,
        cool_down_s: float,
        ledger: Journal,
        tell: Callable[[ServiceEvent], None] = lambda _: None,
        budget: MoveBudgetKeeper | None = None,
    ) -> None:
        self._tell, self._budget = tell, budget
        self._move = move
        self._memory = memory
        self._history = history
        self._ledger = ledger
        self._scheduler_name = scheduler_name
        self.cool_down_s = cool_down_s

    def act(
        self, decision: Decision, stop: threading.Event | None = None, entry: int | None = None
    ) -> list[MoveReport]:
        """Make the moves of a decision until `stop` is set; `entry` is its number in the ledger, if it has one.

        Before anything moves it is said what stays. A topology that could not be moved is left alone for a while, the
        longer the more often that happens; so are those for which it was to make room. One that was given up as `stop`
        was set has not failed.

        Raises
        ------
        MoveError, NimbusError
            The last of the moves that failed; those after it that do not need it have been tried all the same.
        """
        for line in decision.plan.told():
            log.info(line)
        if entry is None and decision.plan.steps:
            kind = "taken back" if decision.takes_back else "auto"
            entry = self._ledger.begin(kind, f"stormwright ({self._scheduler_name})", decision.reason)
            self._ledger.joins(entry, self._history.decision_ms)
        reports: list[MoveReport] = []
        failure: StormwrightError | None = None
        failed: set[str] = set()
        for step in decision.plan.steps:
            if stop is not None and stop.is_set():
                break
            try:
                _require_room(step, failed)
                reports += self._moved(step, decision, stop, entry or 0)
            except MoveStoppedError as error:
                log.info("%s", error)
                break
            except (MoveError, NimbusError) as error:
                failure = error
                self._failed({move.topology.id for move in step.moves} - failed, error)
                self._ledger.failed(entry or 0, step, str(error))
                failed |= {move.topology.id for move in step.moves}
            finally:
                # What was measured while they were paused tells nothing of them.
                self._memory.resumed |= {move.topology.name for move in step.moves}
                self._memory.last_change_s = self._memory.time.monotonic()
                # What is measured while the topology comes up again is no reference.
                self._memory.drift_watch.restart(int((self._memory.time.time() + self.cool_down_s) * 1000))
                self._memory.moves = reports
        if failure:
            raise failure
        return reports

    def _moved(self, step: Step, decision: Decision, stop: threading.Event | None, entry: int) -> Sequence[MoveReport]:
        self._ledger.expect(entry, step, decision.promises)
        reports = self._move(step, f"stormwright: placed by {self._scheduler_name}: {decision.reason}", stop)
        self._ledger.made(entry, step, reports)
        for move, report in zip(step.moves, reports, strict=True):
            if move.arrives:  # what went to a spare slot only is noted, counted and judged once it has gone on
                self._history.move(move.topology.id, report)
                self._memory.setbacks.forget(move.topology.id)
                self._memory.counts.moves += 1
                self._memory.counts.taken_back += move.topology.id in decision.takes_back
                if self._budget:
                    pause_s = report.drain_s + report.swap_s
                    self._budget.moved(move.topology.name, pause_s, move.topology.id in decision.takes_back)
                if move.topology.id in decision.takes_back:
                    self._tell(ServiceEvent("taken-back", move.topology.name, decision.reason))
        return reports

    def _failed(self, topologies: Collection[str], error: StormwrightError) -> None:
        for topology in sorted(topologies):
            self._history.move(topology, None, str(error))
            self._memory.setbacks.note(topology, self._memory.time.monotonic(), str(error))
            self._memory.counts.failed_moves += 1
            self._tell(ServiceEvent("move-failed", topology, str(error)))
            if self._budget:
                self._budget.failed(topology)


def _require_room(step: Step, failed: set[str]) -> None:
    missing = sorted(step.after & failed)
    if missing:
        names = ", ".join(move.topology.id for move in step.moves)
        raise MoveError(f"{names}: not moved, as {', '.join(missing)} should have made room before")
