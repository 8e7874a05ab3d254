"""One look at the placement: whether it is to change, and what of it moves."""

from __future__ import annotations

import time

from stormwright.controller.policy import Decision, decide
from stormwright.model import Problem
from stormwright.schedulers import Scheduler
from stormwright.schedulers.kit.triggers import TriggerParams
from stormwright.service.drift_text import drift_text
from stormwright.service.kept.history import History
from stormwright.service.memory import Memory
from stormwright.service.settings import ServiceSettings
from stormwright.service.view import View

#: Nimbus asks every 10 s by default, less often while it has found the service missing. Older than this, in seconds, a
#: snapshot may no longer be true.
SNAPSHOT_S = 60.0


class Looking:
    """Looks at the cluster as it is known and decides by the triggers and the scheduler.

    Parameters
    ----------
    settings
        Triggers and budget of moves.
    scheduler
        Asked for placements.
    view
        Tells what runs, and its load.
    memory
        Tells when it was last looked and moved, and is told of each look.
    history
        Keeps what was seen and decided.
    """

    def __init__(
        self, settings: ServiceSettings, scheduler: Scheduler, view: View, memory: Memory, history: History
    ) -> None:
        self._settings = settings
        self._scheduler = scheduler
        self._view = view
        self._memory = memory
        self._history = history

    def look(self, triggers: TriggerParams | None = None) -> Decision:
        """Decide once whether anything should move; by `triggers`, or those of the settings."""
        problem = self._view.problem()
        if problem is not None:
            self._history.observe(problem)
        if problem is None or problem.load is None:
            return Decision(False, "no snapshot of Nimbus or no measured load yet")
        self._view.note(problem)
        if why := self._too_old(problem.load.end_ms):
            return Decision(False, why)
        memory, clock = self._memory, self._memory.clock()
        memory.drifts = memory.drift_watch.see(problem.load)
        decision = decide(
            problem,
            self._scheduler,
            triggers or self._settings.triggers,
            self._settings.budget,
            clock,
            {**memory.setbacks.stay(clock.now_s), **self._view.unfit()},
            drift_text(memory.drifts, problem),
        )
        if decision.looked:
            self._note(problem, decision, clock.now_s)
        return decision

    def _too_old(self, load_end_ms: int) -> str | None:
        """Why what is known may no longer be true."""
        stream, age_s = self._settings.stream, time.time() - load_end_ms / 1000
        if age_s > stream.window_s + stream.late_s:
            return f"the load was measured {age_s:.0f} s ago: probes or pipeline stand still"
        if self._view.age_s() > SNAPSHOT_S:
            return f"Nimbus asked last {self._view.age_s():.0f} s ago: is it running?"
        return None

    def _note(self, problem: Problem, decision: Decision, now_s: float) -> None:
        memory = self._memory
        memory.looked(decision, now_s)
        if memory.drifts and problem.load is not None:
            memory.drift_watch.restart(problem.load.end_ms)
        self._history.decide(problem, decision, self._settings.dry_run)
