"""Makes plans, one at a time, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from stormwright.controller.plans.description import Pause, expected_pause, plan_document
from stormwright.controller.plans.document import step_to_dict
from stormwright.controller.plans.draft import PlanDraft, measured_rates
from stormwright.controller.plans.preconditions import relied_on
from stormwright.controller.plans.stages import staged
from stormwright.errors import ConflictError, StormwrightError
from stormwright.model import Problem
from stormwright.service.operating.ledger import Ledger
from stormwright.service.operating.plans import KeptPlans

log = logging.getLogger(__name__)

#: Plans that wait to be made, at most: more are somebody's loop.
MOST_WAITING = 20


class PlanMaking:
    """Makes plans of what people ask for, in the order in which they do.

    Parameters
    ----------
    plans, ledger
        Keep plans, and tell how long topologies paused.
    problem
        What runs now, under the load measured last.
    """

    def __init__(self, plans: KeptPlans, ledger: Ledger, problem: Callable[[], Problem | None]) -> None:
        self._plans, self._ledger, self._problem = plans, ledger, problem
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._closed = False
        # A daemon: a search may take minutes, and whoever ends the service does not wait for it.
        threading.Thread(target=self._run, name="stormwright-plans", daemon=True).start()

    def close(self) -> None:
        """Make no more plans; one that is being made is left, and has failed for the next service."""
        self._closed = True
        self._work.put(lambda: None)

    def require_room(self) -> None:
        """Raise ConflictError where `MOST_WAITING` plans wait to be made."""
        if len(self._plans.rows(["planning"], MOST_WAITING)) == MOST_WAITING:
            raise ConflictError(f"{MOST_WAITING} plans wait to be made: try again when some of them are")

    def submit(self, work: Callable[[], None]) -> None:
        """Have something done after all that was submitted before."""
        self._work.put(work)

    def make(self, plan: str, make: Callable[[Problem], PlanDraft]) -> None:
        """Make a plan (by id) of what runs now, on this thread; where that cannot be it has failed, and says why."""
        try:
            if self._plans.row(plan).state != "planning":
                return  # discarded while others were made
            self.keep(plan, make(self.now()), "planned")
        except StormwrightError as error:
            self._plans.change(plan, ["planning"], "failed", error.line)
        except Exception as error:  # a bug of a scheduler: who waits for the plan is told
            if self._closed:
                return
            log.exception("plan %s could not be made", plan)
            self._plans.change(plan, ["planning"], "failed", f"{type(error).__name__}: {error}")

    def now(self) -> Problem:
        """What runs now; ConflictError before Nimbus has asked."""
        problem = self._problem()
        if problem is None:
            raise ConflictError("Nimbus has not asked yet: try again in 10 s")
        return problem

    def keep(self, plan: str, draft: PlanDraft, state: str) -> None:
        """Keep what a plan is made of; it is in another state from then on."""
        steps = draft.plan.steps
        relied = relied_on(draft.problem, steps, measured_rates(draft.problem, draft.placements))
        stages = None if self._plans.row(plan).kind == "revert" else staged(steps)
        document = plan_document(draft, self._pause, stages)
        told = [step_to_dict(step, draft.problem) for step in steps]
        by_stage = list(zip(stages or [0] * len(steps), told, strict=True))
        self._plans.made(plan, state, draft.why, document, relied, draft.promises, by_stage)

    def _pause(self, name: str) -> Pause:
        return expected_pause(self._ledger.pauses(name), self._ledger.pauses())

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if self._closed:
                return
            try:
                work()
            except Exception:  # a full disk, say: the plan then fails at the next start
                if not self._closed:
                    log.exception("a plan could not be kept")
