"""One look at the placement: whether it is to change, and what of it moves, or goes back to where it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from stormwright.controller.objectives.objective import PlacementAim, out_of_bounds, within_heaps
from stormwright.controller.objectives.outlook import TRAFFIC
from stormwright.controller.objectives.refusals import FIRST_S, Refusal, RefusedPlacements, crowds, refusal, way_back
from stormwright.controller.plans.modes import AUTO, IGNORE, OBSERVE, response_to
from stormwright.controller.plans.rollback import moves_back
from stormwright.controller.policy import Decision, decide, planned_slots
from stormwright.controller.safety.holds import Hold
from stormwright.errors import ClusterError
from stormwright.history.evaluation.moves import MovedTopology
from stormwright.history.evaluation.verdict import Promise
from stormwright.model import Problem, TopologyAssignment, cost_of
from stormwright.model.arrays import IntArray
from stormwright.pipeline.monitoring.drift import Drift
from stormwright.schedulers import Scheduler
from stormwright.schedulers.toolkit.traits import declared
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation, TriggerParams
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.guard import Guard
from stormwright.service.safety.move_budget import MoveBudgetKeeper
from stormwright.service.settings import ServiceSettings
from stormwright.service.storage.history import ServiceHistory
from stormwright.service.view import View

# Drift --------------------------------------------------------------------------------------------
# How a load has drifted, in words.


def drift_text(drifts: Sequence[Drift], problem: Problem) -> str:
    """What has drifted, as the beginning of a decision's reason; empty where nothing has."""
    return f"load has drifted: {', '.join(_one(drift, problem) for drift in drifts)}" if drifts else ""


def _one(drift: Drift, problem: Problem) -> str:
    since = datetime.fromtimestamp(drift.since_ms / 1000, UTC)
    index = problem.topology_index.get(drift.topology)
    topology = problem.topologies[index] if index is not None else None
    where = topology.name if topology else drift.topology
    if topology and drift.executor is not None:
        where += f"/{topology.components[topology.executor_component[drift.executor]].id}"
    return f"{drift.what} of {where} {100 * drift.change:+.0f} % since {since:%H:%M:%S} UTC"


# Decider ------------------------------------------------------------------------------------------

#: Nimbus asks every 10 s by default, less often while it has found the service missing. Older than this, in seconds, a
#: snapshot may no longer be true.
SNAPSHOT_S = 60.0

#: From one try to take a move back to the next, in seconds.
TRY_BACK_S = 60.0


class Decider:
    """Looks at the cluster as it is known and decides by the triggers and the scheduler.

    Parameters
    ----------
    settings
        Triggers and budget of moves, what is wanted of placements, and how long is measured before.
    scheduler
        Asked for placements.
    view
        Tells what runs, and its load.
    memory
        Tells when it was last looked and moved, and is told of each look.
    history
        Keeps what was seen and decided, and tells what came of moves.
    refused
        Placements that were taken back.
    guard
        Tells about which topologies it decides, and what becomes of it.
    budget
        How much may move now; None for what the settings say.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        scheduler: Scheduler,
        view: View,
        memory: ServiceMemory,
        history: ServiceHistory,
        refused: RefusedPlacements,
        guard: Guard,
        budget: MoveBudgetKeeper | None = None,
    ) -> None:
        self._guard, self._budget = guard, budget
        self._settings = settings
        self._scheduler = scheduler
        self._view = view
        self._memory = memory
        self._history = history
        self._refused = refused
        self._tried_back_s: dict[str, float] = {}

    def change(self, settings: ServiceSettings) -> None:
        """Go by other settings from the next look on."""
        self._settings = settings

    def look(self, triggers: TriggerParams | None = None, adapts: Adaptation = ONLINE) -> Decision:
        """Decide once whether anything should move; by `triggers`, at once and all the same, or those of the settings.

        Where triggers are given, `adapts` says what they look at.

        Topologies that were not measured for long enough stay, and where there are no others nothing is looked at.
        """
        decision = self._look(triggers, adapts)
        self._memory.hold = Hold(decision.hold, decision.reason) if decision.hold else None
        return decision

    def _look(self, triggers: TriggerParams | None, adapts: Adaptation) -> Decision:
        problem = self.observe()
        if problem is None or problem.load is None:
            return Decision(False, "no snapshot of Nimbus or no measured load yet", hold="unmeasured")
        if hold := self._guard.holds.last or self._too_old(problem.load.end_ms):
            return Decision(False, hold.why, hold=hold.word)
        back = self._way_back(problem)
        if back is not None:
            return back
        waits = {} if triggers else self._history.waits(problem, self._settings.least_measured_s)
        if triggers is None and self._settings.objective != TRAFFIC:
            waits = {**self._view.unfitted(problem), **waits}
        self._memory.waits = _told(problem, waits)
        if all(topology in waits for topology in problem.load.topologies):
            return Decision(False, "; ".join(self._memory.waits) or "nothing was measured", hold="unmeasured")
        if triggers is not None:
            return self._decided(problem, triggers, adapts, waits)
        return self._decided(problem, self._settings.triggers, self._settings.adapts, waits)

    def place(
        self,
        placements: Mapping[str, TopologyAssignment],
        reason: str,
        promises: Mapping[str, Promise],
        *,
        takes_back: bool = False,
    ) -> Decision:
        """Decide to move topologies to given placements, whatever that gains, and note it in the history.

        Parameters
        ----------
        placements
            Topology id → where it shall run.
        reason
            Why, for the history and for Storm's UI.
        promises
            Topology id → what is expected of the move; where they are taken back, the worth of the placement that they
            leave and the rate at which it was tried.
        takes_back
            Whether they return from a placement that was tried: that one is refused for a while (`RefusedPlacements`).

        Raises
        ------
        ClusterError
            Nimbus has not asked for a placement yet.
        InputError
            Some topology cannot run there any more.
        """
        problem = self.observe()
        if problem is None:
            raise ClusterError("cannot move topologies: Nimbus has not asked for a placement yet")
        plan = moves_back(problem, placements)
        now, then = (cost_of(problem, slots) for slots in (problem.current_slot, planned_slots(problem, plan.moves)))
        back = frozenset(placements) if takes_back else frozenset[str]()
        decision = Decision(True, reason, plan, now, then, promises={} if back else promises, takes_back=back)
        until_ms = (self._memory.time.time() + FIRST_S) * 1000
        for topology in sorted(back):
            tried = promises.get(topology, Promise())
            where = crowds(problem, problem.topology_index[topology], problem.current_slot)
            self._refused.note(topology, Refusal(where, tried.worth, tried.rate_tps, until_ms, FIRST_S, reason))
        self._note(problem, decision, self._memory.time.monotonic())
        return decision

    def observe(self, *, fit: bool = False) -> Problem | None:
        """What runs now, noted in the history; None before Nimbus has asked.

        Costs are fitted once a minute; with `fit` at once, to all that was recorded since.
        """
        problem = self._view.problem()
        if problem is not None:
            self._guard.holds.look(problem)
            self._history.observe(problem)
            self._history.resumed(self._memory.take_resumed(), problem)
            if problem.load is not None:
                self._view.note(problem, fit=fit)
        return problem

    def _decided(
        self, problem: Problem, triggers: TriggerParams, adapts: Adaptation, waits: Mapping[str, str]
    ) -> Decision:
        memory, clock = self._memory, self._memory.clock()
        if problem.load is not None:
            # What warms up drifts, too.
            memory.drifts = [each for each in memory.drift_watch.see(problem.load) if each.topology not in waits]
            if response_to(self._guard.modes, "overload") == IGNORE:
                problem = problem.with_load(replace(problem.load, overload_s={}))
        drifts = () if response_to(self._guard.modes, "drift") == IGNORE else memory.drifts
        decision = decide(
            problem if declared(self._scheduler).heeds_requests else within_heaps(problem),
            self._scheduler,
            triggers,
            self._budget.now() if self._budget else self._settings.budget,
            clock,
            {**waits, **memory.setbacks.stay(clock.now_s), **self._view.unfit(), **self._guard.stay(problem)},
            drift_text(drifts, problem),
            PlacementAim(self._settings.objective, refuses=self._refuses, adapts=adapts),
        )
        if decision.looked:
            self._note(problem, decision, clock.now_s)
        return decision

    def _refuses(
        self, problem: Problem, wanted: IntArray, worth: Mapping[str, float], rate_tps: Mapping[str, float]
    ) -> dict[str, str]:
        """Why topologies do not go where they are wanted: it was taken back, or they may not."""
        tried = self._refused.stay(problem, wanted, worth, rate_tps, self._memory.time.time() * 1000)
        return {**tried, **out_of_bounds(problem, wanted)}

    def _way_back(self, problem: Problem) -> Decision | None:
        """Takes back the move of a topology that does worse since; what cannot be done now is tried again later."""
        now_s = self._memory.time.monotonic()
        failed = self._memory.setbacks.stay(now_s)
        for worse in self._history.worse(problem):
            topology = worse.moved.topology
            tried_s = self._tried_back_s.get(topology, float("-inf"))
            waits = topology in failed or topology in self._guard.proposed()
            if waits or now_s - tried_s < TRY_BACK_S or self._was_drained(problem, worse.moved):
                continue
            decision = way_back(problem, worse)
            if self._guard.verdict(decision)[0] != OBSERVE:
                self._refused.note(topology, refusal(problem, worse, self._memory.time.time() * 1000))
            self._tried_back_s[topology] = now_s
            self._note(problem, decision, now_s)
            return decision
        return None

    def _was_drained(self, problem: Problem, moved: MovedTopology) -> bool:
        """Whether a topology has left a node that is drained: it does not go back there."""
        now = problem.current.get(moved.topology)
        left = set(moved.before.slots if moved.before else ()) - set(now.slots if now else ())
        return any(self._guard.drains.find(slot.supervisor) for slot in left)

    def _too_old(self, load_end_ms: int) -> Hold | None:
        """Why what is known may no longer be true."""
        stream, age_s = self._settings.stream, self._memory.time.time() - load_end_ms / 1000
        if age_s > stream.window_s + stream.late_s:
            return Hold("stale", f"the load was measured {age_s:.0f} s ago: probes or pipeline stand still")
        if self._view.age_s() > SNAPSHOT_S:
            return Hold("silent", f"Nimbus asked last {self._view.age_s():.0f} s ago: is it running?")
        return None

    def _note(self, problem: Problem, decision: Decision, now_s: float) -> None:
        memory = self._memory
        memory.looked(decision, now_s)
        if memory.drifts and problem.load is not None:
            memory.drift_watch.restart(problem.load.end_ms)
        self._history.decide(problem, decision, self._guard.verdict(decision)[0] != AUTO)


def _told(problem: Problem, waits: Mapping[str, str]) -> list[str]:
    """Why nothing is decided yet, topology by topology."""
    named = {topology.id: topology.name for topology in problem.topologies}
    return [f"{named.get(topology, topology)}: {why}" for topology, why in waits.items()]
