"""What the loop hands over: decisions that people look at first, and the plan that is being applied."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from stormwright.client.shapes import Mode
from stormwright.controller.objectives.outlook import TRAFFIC, Outlooks
from stormwright.controller.objectives.refusals import FIRST_S, Refusal, RefusedPlacements, crowds
from stormwright.controller.policy import Decision
from stormwright.model import Problem
from stormwright.service.decider import SNAPSHOT_S, Decider
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.applying import PlanExecutor
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.plan_service import PlanService
from stormwright.service.plans.plans import Expiry
from stormwright.service.storage.history import ServiceHistory
from stormwright.service.view import View


class EvaluatedStage:
    """The cluster and its history, for a plan that is applied.

    Parameters
    ----------
    looking, view
        Tell what runs now, and how old that is.
    history, memory
        Judge what came of moves, and know when the last was.
    refused
        Is told where topologies do worse.
    guard
        Tells whether anything may move.
    """

    def __init__(
        self,
        looking: Decider,
        view: View,
        history: ServiceHistory,
        memory: ServiceMemory,
        refused: RefusedPlacements,
        guard: Guard,
    ) -> None:
        self._looking, self._view, self._history, self._memory = looking, view, history, memory
        self._refused, self._guard = refused, guard

    def look(self) -> Problem | None:
        """What runs now; None where Nimbus has not asked since the last move, or not for long."""
        age_s = self._view.age_s()
        problem = self._looking.observe()
        if problem is None or age_s > SNAPSHOT_S or self._memory.time.monotonic() - age_s < self._memory.last_change_s:
            return None
        return problem

    def decide(self, problem: Problem, decision: Decision) -> int:
        """Note a decision in the history; its moment."""
        self._history.decide(problem, decision, dry_run=False)
        return self._history.decision_ms

    def worse(self, problem: Problem) -> Mapping[str, str]:
        """Topologies that do measurably worse since they were moved → why."""
        return {each.moved.topology: each.why for each in self._history.worse(problem)}

    def judging(self) -> Collection[str]:
        """Topologies of which it is still measured what came of their moves."""
        pending: Collection[str] = self._history.judged().get("pending", ())
        return pending

    def held(self) -> str:
        """Why nothing may be moved right now, as `Holds.before_moving` has it."""
        hold = self._guard.holds.before_moving()
        return hold.why if hold else ""

    def refuse(self, problem: Problem, topologies: Mapping[str, str]) -> None:
        """Topologies are not brought again soon to where they are now; with the reason."""
        rates, now_ms = Outlooks(problem, TRAFFIC).rate_tps, self._memory.time.time() * 1000
        for topology, why in topologies.items():
            index = problem.topology_index.get(topology)
            if index is not None:
                where, until_ms = crowds(problem, index, problem.current_slot), now_ms + FIRST_S * 1000
                self._refused.note(topology, Refusal(where, None, rates.get(topology, 0.0), until_ms, FIRST_S, why))


class DecisionDispatcher:
    """Deals with decisions by the modes, and applies plans; on the loop's thread.

    Parameters
    ----------
    guard
        Tells what the modes allow.
    desk
        Keeps what is proposed.
    applying
        Applies plans.
    view
        Tells what runs now.
    tidying
        Gives up and forgets what is too old.
    looks
        Called each second: what is to be watched and told.
    """

    def __init__(
        self,
        guard: Guard,
        desk: PlanService,
        applying: PlanExecutor,
        view: View,
        tidying: Expiry,
        looks: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._looks = looks
        self._guard, self._desk, self._applying, self._view = guard, desk, applying, view
        self._tidying = tidying

    def advance(self, stop: threading.Event | None) -> bool:
        """As `PlanExecutor.advance`, and `Expiry.tidy`; and a look at all that is watched."""
        self._tidying.tidy()
        for look in self._looks:
            look()
        return self._applying.advance(stop)

    def verdict(self, decision: Decision) -> tuple[Mode, str]:
        """As `Guard.verdict`."""
        return self._guard.verdict(decision)

    def propose(self, decision: Decision) -> None:
        """As `PlanService.propose`, unless a topology has gone since the decision."""
        problem = self._view.problem()
        if problem is None or not decision.plan.steps:
            return
        if all(move.topology.id in problem.current for move in decision.plan.moves):
            self._desk.propose(problem, decision)
