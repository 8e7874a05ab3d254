"""Queue of requested plans: one is made at a time, in a separate thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from stormwright.controller.description import FigureSources, SafetyOf
from stormwright.controller.planning.expected_pauses import Pause, expected_pause
from stormwright.controller.requests import NoPlan
from stormwright.controller.safety.move_kinds import move_safety
from stormwright.errors import ConflictError, StormwrightError
from stormwright.model import Problem
from stormwright.plans.plan import Plan
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.store import PlanStore

log = logging.getLogger(__name__)

#: Proposes a plan for the cluster of now.
MakePlan = Callable[[Problem, FigureSources], Plan | NoPlan]

#: Maximum number of plans that wait to be made; more are the mistake of a script.
MAX_WAITING = 20


class PlanQueue:
    """Makes requested plans in order, one at a time, in a thread of its own.

    Parameters
    ----------
    plans, journal
        Stored plans, and past pauses.
    problem
        Returns what runs now, with the newest load.
    safety_of
        Returns how a topology can be moved.
    """

    def __init__(
        self,
        plans: PlanStore,
        journal: Journal,
        problem: Callable[[], Problem | None],
        safety_of: SafetyOf = move_safety,
    ) -> None:
        self._plans, self._journal, self._problem, self._safety_of = plans, journal, problem, safety_of
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._closed = False
        # A daemon thread: a search may take minutes, and the end of the service does not wait for it.
        threading.Thread(target=self._run, name="stormwright-plans", daemon=True).start()

    def close(self) -> None:
        """Make no more plans; one that is being made fails at the next start of the service."""
        self._closed = True
        self._work.put(lambda: None)

    def require_room(self) -> None:
        """Raise ConflictError if `MAX_WAITING` plans wait to be made."""
        if len(self._plans.states(["planning"], MAX_WAITING)) == MAX_WAITING:
            raise ConflictError(f"{MAX_WAITING} plans wait to be made: try again when some of them are")

    def submit(self, work: Callable[[], None]) -> None:
        """Run a function after those submitted before."""
        self._work.put(work)

    def make(self, plan: str, make: MakePlan) -> None:
        """Propose a plan (by id) for the current cluster on this thread; on an error its state is ``failed``."""
        try:
            if self._plans.summary(plan).state != "planning":
                return  # discarded while others were made
            found = make(self.now(), self.sources)
            self._plans.save(plan, found.figures if isinstance(found, NoPlan) else found)
        except StormwrightError as error:
            self._plans.transition(plan, "failed", error.line)
        except Exception as error:  # a bug of a scheduler
            if self._closed:
                return
            log.exception("plan %s could not be made", plan)
            self._plans.transition(plan, "failed", f"{type(error).__name__}: {error}")

    def now(self) -> Problem:
        """Return the current problem; raises ConflictError before the first poll of Nimbus."""
        problem = self._problem()
        if problem is None:
            raise ConflictError("Nimbus has not polled the service yet: try again in 10 s")
        return problem

    @property
    def sources(self) -> FigureSources:
        """Sources of the figures of plans."""
        return FigureSources(self._pause, self._safety_of)

    def _pause(self, name: str, modelled_s: float) -> Pause:
        return expected_pause(modelled_s, self._journal.pause_parts(name), self._journal.pause_parts())

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if self._closed:
                return
            try:
                work()
            except Exception:  # such as a full disk: the plan then fails at the next start
                if not self._closed:
                    log.exception("a plan could not be stored")
