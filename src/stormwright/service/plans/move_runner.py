"""Steps of plans on the cluster: the moves, and the records of their results."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence

from stormwright.controller.reports import MoveReport
from stormwright.errors import MoveError, MoveStoppedError, NimbusError, StormwrightError
from stormwright.plans.plan import Plan, Step
from stormwright.plans.states import StepState
from stormwright.service.memory import ServiceMemory
from stormwright.service.notifications.notifier import ServiceEvent
from stormwright.service.plans.journal import Journal
from stormwright.service.safety.move_budget import MoveBudgetKeeper
from stormwright.service.storage.history import ServiceHistory

log = logging.getLogger(__name__)

#: Makes a step, for the reason that Storm's UI shows, unless the event is set before anything has changed.
MakeStep = Callable[[Step, str, threading.Event | None], Sequence[MoveReport]]


class MoveRunner:
    """Makes steps, and records the results.

    A topology that could not be moved is left alone for some time, longer with each failure; so are those for which it
    should have made room. A move that is given up because the service stops has not failed.

    Parameters
    ----------
    move
        Makes one step on the cluster and returns its reports; raises on failure.
    memory
        Working memory of the service, updated with every move.
    history
        History with the evaluation of moves.
    scheduler_name
        Scheduler, for Storm's UI.
    cool_down_s
        Time after a move in which measurements are no reference for drift.
    journal
        Journal of the service, which records placements before they change.
    notify
        Called with failed moves and rollbacks.
    budget
        Move budget that adapts to results; None for a constant one.
    """

    def __init__(
        self,
        move: MakeStep,
        memory: ServiceMemory,
        history: ServiceHistory,
        scheduler_name: str,
        cool_down_s: float,
        journal: Journal,
        notify: Callable[[ServiceEvent], None] = lambda _: None,
        budget: MoveBudgetKeeper | None = None,
    ) -> None:
        self._move, self._memory, self._history, self._journal = move, memory, history, journal
        self._scheduler_name, self.cool_down_s = scheduler_name, cool_down_s
        self._notify, self._budget = notify, budget

    def run(
        self,
        plan: Plan,
        steps: Sequence[Step],
        stop: threading.Event | None = None,
        on_state: Callable[[int, StepState], None] = lambda *_: None,
        failed_before: Collection[str] = (),
        stops: Callable[[Sequence[Step]], bool] = lambda _: False,
    ) -> list[MoveReport]:
        """Make steps in order until `stop` is set, or the plan stops.

        Parameters
        ----------
        plan
            The plan, which has begun.
        steps
            Those of its steps that are made.
        stop
            Ends the run between two steps, or before a step has changed anything.
        on_state
            Called with the number of a step and its new state, before it begins and once it has ended.
        failed_before
            Topologies (ids) that could not be moved by earlier steps of the plan.
        stops
            Returns whether the plan stops here, after the given steps, which were made.

        Raises
        ------
        MoveError, NimbusError
            The last failure; later steps that do not need the failed one have been tried nevertheless.
        """
        reports: list[MoveReport] = []
        made: list[Step] = []
        failure: StormwrightError | None = None
        failed = set(failed_before)
        for number, step in enumerate(steps):
            if (stop is not None and stop.is_set()) or stops(made):
                break
            moving, begun = {move.topology for move in step.moves}, False
            try:
                _require_room(step, failed)
                begun = True
                on_state(number, "moving")
                reports += self._make(plan, step, stop)
                made.append(step)
                on_state(number, "moved")
            except MoveStoppedError as error:
                on_state(number, "planned")
                log.info("%s", error)
                break
            except (MoveError, NimbusError) as error:
                on_state(number, "failed")
                failure = error
                self._record_failure(moving - failed, error)
                self._journal.record_failure(plan.decision or 0, step, str(error))
                failed |= moving
            finally:
                if begun:
                    self._record_pause(step, reports)
        if failure:
            raise failure
        return reports

    def _make(self, plan: Plan, step: Step, stop: threading.Event | None) -> Sequence[MoveReport]:
        entry, rolls_back = plan.decision or 0, plan.origin == "rollback"
        self._journal.record_before(entry, step, plan.promises)
        reports = self._move(step, f"stormwright: placed by {self._scheduler_name}: {plan.cause}", stop)
        self._journal.record_moves(entry, step, reports)
        for move, report in zip(step.moves, reports, strict=True):
            if not move.arrives:
                continue  # counted and evaluated when it has left the spare slot
            self._history.record_move(move.topology, report)
            self._memory.backoff.forget(move.topology)
            self._memory.counts.moves += 1
            self._memory.counts.rolled_back += rolls_back
            if self._budget:
                self._budget.moved(move.name, report.pause_s, rolls_back)
            if rolls_back:
                self._notify(ServiceEvent("rolled-back", move.name, plan.cause))
        return reports

    def _record_pause(self, step: Step, reports: Sequence[MoveReport]) -> None:
        """Measurements from the pause are no sample, and those right after it no reference for drift."""
        memory = self._memory
        memory.resumed |= {move.name for move in step.moves}
        memory.last_change_s = memory.time.monotonic()
        memory.drift_watch.restart(int((memory.time.time() + self.cool_down_s) * 1000))
        memory.moves = reports

    def _record_failure(self, topologies: Collection[str], error: StormwrightError) -> None:
        for topology in sorted(topologies):
            self._history.record_move(topology, None, str(error))
            self._memory.backoff.note(topology, self._memory.time.monotonic(), str(error))
            self._memory.counts.failed_moves += 1
            self._notify(ServiceEvent("move-failed", topology, str(error)))
            if self._budget:
                self._budget.failed(topology)


def _require_room(step: Step, failed: set[str]) -> None:
    missing = sorted(step.depends_on & failed)
    if missing:
        names = ", ".join(move.topology for move in step.moves)
        raise MoveError(f"{names}: not moved, as {', '.join(missing)} should have made room before")
