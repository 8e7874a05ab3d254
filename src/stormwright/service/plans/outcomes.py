"""The running cluster and the outcome of moves, as the executor of plans needs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stormwright.controller.objectives.outlook import TRAFFIC, Outlooks
from stormwright.controller.objectives.refusals import RefusedPlacements
from stormwright.model import Problem
from stormwright.plans.plan import Plan
from stormwright.service.decider import SNAPSHOT_S, Decider
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.guard import Guard
from stormwright.service.storage.history import ServiceHistory
from stormwright.service.view import View


class MoveOutcomes:
    """The cluster and its history (`stormwright.service.plans.executor.Outcomes`).

    Parameters
    ----------
    decider, view
        Sources of the running placement and its age.
    history, memory
        Evaluation of moves, and the time of the last one.
    refused
        Registry of refused placements.
    guard
        Reasons why nothing may move.
    """

    def __init__(
        self,
        decider: Decider,
        view: View,
        history: ServiceHistory,
        memory: ServiceMemory,
        refused: RefusedPlacements,
        guard: Guard,
    ) -> None:
        self._decider, self._view, self._history, self._memory = decider, view, history, memory
        self._refused, self._guard = refused, guard

    def look(self) -> Problem | None:
        """Return the current problem; None if Nimbus has not polled since the last move, or not recently."""
        age_s = self._view.age_s()
        problem = self._decider.observe()
        if problem is None or age_s > SNAPSHOT_S or self._memory.time.monotonic() - age_s < self._memory.last_change_s:
            return None
        return problem

    def decide(self, problem: Problem, plan: Plan) -> int:
        """Record a plan in the history; return its time in ms."""
        self._history.record_decision(problem, plan, dry_run=False)
        return self._history.decision_ms

    @property
    def decision_ms(self) -> int:
        """Time of the decision recorded last."""
        return self._history.decision_ms

    def worse(self, problem: Problem) -> Mapping[str, str]:
        """Return topologies that perform measurably worse since their move, with the reason."""
        return {each.moved.topology: each.why for each in self._history.worse(problem)}

    def pending(self) -> Collection[str]:
        """Return topologies whose moves are still being evaluated."""
        pending: Collection[str] = self._history.evaluation_status().get("pending", ())
        return pending

    def frozen(self) -> str:
        """Return why everything is frozen; empty if it is not."""
        return self._guard.modes.frozen

    def held(self) -> str:
        """Return why nothing may be moved now (`Holds.before_moving`)."""
        hold = self._guard.holds.before_moving()
        return hold.why if hold else ""

    def refuse(self, problem: Problem, topologies: Mapping[str, str]) -> None:
        """Refuse the current placement of topologies for some time, for the given reasons."""
        rates, now_ms = Outlooks(problem, TRAFFIC).rate_tps, self._memory.time.time() * 1000
        for topology, why in topologies.items():
            self._refused.refuse_current(problem, topology, why, now_ms, rate_tps=rates.get(topology, 0.0))
