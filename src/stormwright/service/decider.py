"""Decisions of the service: whether something moves, and which measurably worse move is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from stormwright.controller.objectives.bounds import out_of_bounds
from stormwright.controller.objectives.objective import PlacementAim
from stormwright.controller.objectives.outlook import THROUGHPUT, TRAFFIC
from stormwright.controller.objectives.refusals import RefusedPlacements
from stormwright.controller.planning.order import Forbidden
from stormwright.controller.policy import decide, try_out
from stormwright.controller.propose import propose
from stormwright.controller.requests import NoPlan, Place, PlanInputs
from stormwright.controller.safety.holds import HOLD_CODES, Hold
from stormwright.errors import ClusterError, InputError
from stormwright.history.evaluation.measured import MeasurementWait, wait_texts
from stormwright.history.evaluation.moves import MovedTopology, Worse
from stormwright.model import Problem, TopologyAssignment
from stormwright.model.arrays import IntArray
from stormwright.pipeline.monitoring.drift import Drift
from stormwright.plans.modes import AUTO, IGNORE, OBSERVE, response_to
from stormwright.plans.plan import Origin, Plan, Promise
from stormwright.schedulers import Scheduler
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation, TriggerParams
from stormwright.service.memory import ServiceMemory
from stormwright.service.plans.guard import Guard
from stormwright.service.safety.move_budget import MoveBudgetKeeper
from stormwright.service.safety.trial_budget import TrialBudget
from stormwright.service.settings import ServiceSettings
from stormwright.service.storage.history import ServiceHistory
from stormwright.service.view import View

#: Maximum age of a snapshot in seconds. Nimbus calls every 10 s by default, and less often while the service is away.
SNAPSHOT_S = 60.0

#: Seconds between two tries to roll a move back.
ROLLBACK_RETRY_S = 60.0


def drift_text(drifts: Sequence[Drift], problem: Problem) -> str:
    """Return the drift of loads as the first part of a decision's reason; empty without drift."""
    return f"load has drifted: {', '.join(_one(drift, problem) for drift in drifts)}" if drifts else ""


def _one(drift: Drift, problem: Problem) -> str:
    since = datetime.fromtimestamp(drift.since_ms / 1000, UTC)
    index = problem.topology_index.get(drift.topology)
    topology = problem.topologies[index] if index is not None else None
    where = topology.name if topology else drift.topology
    if topology and drift.executor is not None:
        where += f"/{topology.components[topology.executor_component[drift.executor]].id}"
    return f"{drift.what} of {where} {100 * drift.change:+.0f} % since {since:%H:%M:%S} UTC"


def propose_rollback(problem: Problem, worse: Worse) -> Plan | NoPlan:
    """Return the rollback of a topology to its placement before the move, or the reason why it has to stay.

    It takes precedence over all triggers and needs no predicted gain: the loss was measured.
    """
    topology, before = worse.moved.topology, worse.moved.before
    name = problem.topologies[problem.topology_index[topology]].name
    reason = f"{name} goes back to where it was: since its move {worse.why}"
    if before is None or any(slot not in problem.slot_index for slot in before.slots):
        return NoPlan("impossible", f"{reason}; but it stays, as a node that it was on is gone")
    try:
        moved = worse.moved
        request = Place({topology: before}, {topology: moved.executors}, {topology: moved.conf}, reason)
        found = propose(problem, request, PlanInputs(predicts=False))
    except InputError as error:
        return NoPlan("impossible", f"{reason}; but it stays, {error.faults[0].message}")
    return found if isinstance(found, Plan) else NoPlan("nothing_to_do", f"{reason}; but it stays, as it is there")


class Decider:
    """Decides, by triggers and the scheduler, about the current view of the cluster.

    Parameters
    ----------
    settings
        Triggers, budget of moves, objective, and required time of measurement.
    scheduler
        Scheduler that computes placements; not run if no topology may move.
    view
        Running placement with its load.
    memory
        Times of the last decisions and moves.
    history
        History of observations and decisions, with the evaluation of moves.
    refused
        Placements that were rolled back.
    guard
        Automation modes, holds and drains, which restrict what may move.
    budget
        Adaptive move budget; None for that of the settings.
    trial_budget, trial_scheduler
        Budget of trials, and the scheduler for them, which subtracts no prediction error; None for no trials.
    reserved
        Returns topologies (ids) that another part of the service decides about, with the reason: tuned ones, and those
        with an objective.
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
        trial_budget: TrialBudget | None = None,
        trial_scheduler: Scheduler | None = None,
        reserved: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._guard, self._budget, self._reserved = guard, budget, reserved
        self._trial_budget, self._trial_scheduler = trial_budget, trial_scheduler
        self._settings = settings
        self._scheduler = scheduler
        self._view = view
        self._memory = memory
        self._history = history
        self._refused = refused
        self._rollback_tried_s: dict[str, float] = {}

    def change(self, settings: ServiceSettings) -> None:
        """Use other settings from the next decision on."""
        self._settings = settings

    def decide(self, triggers: TriggerParams | None = None, adapts: Adaptation = ONLINE) -> Plan | NoPlan:
        """Decide once whether anything should move.

        Topologies that were not measured for long enough stay; if there are no others, no scheduler is run.

        Parameters
        ----------
        triggers
            Triggers instead of those of the settings; measured time is then not required.
        adapts
            What such triggers refer to.
        """
        decision = self._decide(triggers, adapts)
        held = decision.code if isinstance(decision, NoPlan) and decision.code in HOLD_CODES else ""
        self._memory.hold = Hold(held, decision.reason) if held else None
        return decision

    def _decide(self, triggers: TriggerParams | None, adapts: Adaptation) -> Plan | NoPlan:
        problem = self.observe()
        if problem is None:
            return NoPlan("unmeasured", "no snapshot of Nimbus yet")
        # A topology that no longer works is not measured, and goes back all the same.
        if hold := self._guard.holds.last or self._silent():
            return NoPlan(hold.code, hold.why)
        if (rollback := self._rollback(problem)) is not None:
            return rollback
        if problem.load is None:
            return NoPlan("unmeasured", "no measured load yet")
        if problem.topologies and not any(each.id in problem.load.topologies for each in problem.topologies):
            return NoPlan("unmeasured", "no running topology has been measured yet")
        if hold := self._too_old(problem.load.end_ms):
            return NoPlan(hold.code, hold.why)
        waits: dict[str, MeasurementWait | str] = {}
        if triggers is None:
            waits.update(self._history.waits(problem, self._settings.least_measured_s))
        if triggers is None and self._settings.objective != TRAFFIC:
            waits = {**self._view.unfitted(problem), **waits}
        names = {topology.id: topology.name for topology in problem.topologies}
        self._memory.waits = wait_texts({names.get(topology, topology): why for topology, why in waits.items()})
        self._memory.waiting = len(waits)
        self._memory.staying = {
            **{topology: str(why) for topology, why in waits.items()},
            **self._memory.backoff.stay(self._memory.clock().now_s),
            **self._view.unfit(),
            **self._reserved(),
            **self._guard.stay(problem),
        }
        if all(topology in waits for topology in problem.load.topologies):
            return NoPlan("unmeasured", "; ".join(self._memory.waits) or "nothing was measured")
        if triggers is not None:
            return self._decided(problem, triggers, adapts, waits)
        return self._decided(problem, self._settings.triggers, self._settings.adapts, waits)

    def place(
        self, placements: Mapping[str, TopologyAssignment], reason: str, promises: Mapping[str, Promise], origin: Origin
    ) -> Plan | NoPlan:
        """Return the plan to move topologies to given placements, whatever the gain, and record it in the history.

        Parameters
        ----------
        placements
            Target by topology id.
        reason
            Reason for the history and Storm's UI.
        promises
            Promise by topology id; for a rollback, worth and rate of the placement that they leave.
        origin
            ``rollback`` if they return: the current placement is then refused for some time (`RefusedPlacements`).

        Raises
        ------
        ClusterError
            Nimbus has not requested a placement yet.
        InputError
            Some topology cannot run there any more.
        """
        problem = self.observe()
        if problem is None:
            raise ClusterError("cannot move topologies: Nimbus has not requested a placement yet")
        found = propose(problem, Place(placements, reason=reason, origin=origin), PlanInputs(predicts=False))
        if isinstance(found, Plan) and origin != "rollback":
            found = found.model_copy(update={"promises": dict(promises)})
        if origin == "rollback":
            for topology in sorted(placements):
                self._refuse(problem, topology, reason, promises.get(topology, Promise()))
        self._note(problem, found, self._memory.time.monotonic())
        return found

    def observe(self, *, fit: bool = False) -> Problem | None:
        """Return the running placement and record it in the history; None before the first call of Nimbus.

        Costs are fitted once a minute; with `fit` immediately, to all records since.
        """
        problem = self._view.problem()
        if problem is not None:
            self._guard.holds.look(problem)
            self._history.observe(problem)
            self._history.reset_resumed(self._memory.take_resumed(), problem)
            if problem.load is not None:
                self._view.note(problem, fit=fit)
        return problem

    def _decided(
        self, problem: Problem, triggers: TriggerParams, adapts: Adaptation, waits: Collection[str]
    ) -> Plan | NoPlan:
        memory, clock = self._memory, self._memory.clock()
        if problem.load is not None:
            # The load of workers that warm up drifts, too.
            memory.drifts = [each for each in memory.drift_watch.see(problem.load) if each.topology not in waits]
            if response_to(self._guard.modes, "overload") == IGNORE:
                problem = problem.with_load(replace(problem.load, overload_s={}))
        drifts = () if response_to(self._guard.modes, "drift") == IGNORE else memory.drifts
        decision = decide(
            problem,
            self._scheduler,
            triggers,
            self._budget.now() if self._budget else self._settings.budget,
            clock,
            memory.staying,
            drift_text(drifts, problem),
            PlacementAim(self._settings.objective, refuses=self._refuses, adapts=adapts),
        )
        if isinstance(decision, NoPlan) and decision.code in ("small_gain", "part_loses"):
            decision = self._trial(problem, adapts) or decision
        if isinstance(decision, Plan) or decision.searched:
            self._note(problem, decision, clock.now_s)
        return decision

    def _trial(self, problem: Problem, adapts: Adaptation) -> Plan | None:
        """Return a trial, if one may be made now and promises enough."""
        settings, trials = self._settings, self._trial_budget
        if self._trial_scheduler is None or trials is None or settings.objective != THROUGHPUT:
            return None
        spent = trials.spent([topology.name for topology in problem.topologies])
        stay = {
            **{each.id: spent[each.name] for each in problem.topologies if each.name in spent},
            **self._guard.not_automatic(problem),
            **self._memory.staying,
        }
        if all(each.id in stay for each in problem.topologies):  # a search would be in vain
            return None
        budget = self._budget.now() if self._budget else settings.budget
        aim = PlacementAim(THROUGHPUT, refuses=self._refuses, adapts=adapts)
        found = try_out(problem, self._trial_scheduler, budget, stay, aim)
        if isinstance(found, NoPlan) or self._guard.verdict(found)[0] != AUTO:
            return None
        trials.begin(sorted({move.name for move in found.moves}))
        return found

    def _refuses(
        self, problem: Problem, wanted: IntArray, worth: Mapping[str, float], rate_tps: Mapping[str, float]
    ) -> dict[str, str | Forbidden]:
        """Return why topologies may not move to a wanted placement: it was rolled back, or breaks their limits."""
        tried = self._refused.stay(problem, wanted, worth, rate_tps, self._memory.time.time() * 1000)
        return {**tried, **out_of_bounds(problem, wanted)}

    def _rollback(self, problem: Problem) -> Plan | NoPlan | None:
        """Return the rollback of one measurably worse move; if it is not possible now it is tried again later."""
        now_s = self._memory.time.monotonic()
        failed = {**self._memory.backoff.stay(now_s), **self._guard.forbidden(problem)}
        for worse in self._history.worse(problem):
            topology = worse.moved.topology
            tried_s = self._rollback_tried_s.get(topology, float("-inf"))
            waits = topology in failed or topology in self._guard.proposed()
            if waits or now_s - tried_s < ROLLBACK_RETRY_S or self._was_drained(problem, worse.moved):
                continue
            found = propose_rollback(problem, worse)
            if self._guard.verdict(found)[0] != OBSERVE:
                self._refuse(problem, topology, worse.why, worse.moved.promise)
            self._rollback_tried_s[topology] = now_s
            self._note(problem, found, now_s, searched=False)
            return found
        return None

    def _refuse(self, problem: Problem, topology: str, why: str, tried: Promise) -> None:
        now_ms = self._memory.time.time() * 1000
        self._refused.refuse_current(problem, topology, why, now_ms, tried.worth, tried.rate_tps)

    def _was_drained(self, problem: Problem, moved: MovedTopology) -> bool:
        """Return whether a topology has left a drained node: it does not go back there."""
        now = problem.current.get(moved.topology)
        left = set(moved.before.slots if moved.before else ()) - set(now.slots if now else ())
        return any(self._guard.drains.find(slot.supervisor) for slot in left)

    def _too_old(self, load_end_ms: int) -> Hold | None:
        """Return the hold for outdated measurements."""
        stream, age_s = self._settings.stream, self._memory.time.time() - load_end_ms / 1000
        if age_s > stream.window_s + stream.late_s:
            return Hold("stale", f"the load was measured {age_s:.0f} s ago: probes or pipeline stand still")
        return None

    def _silent(self) -> Hold | None:
        """Return the hold for an outdated snapshot of Nimbus."""
        age_s = self._view.age_s()
        return Hold("silent", f"Nimbus last called {age_s:.0f} s ago: is it running?") if age_s > SNAPSHOT_S else None

    def _note(self, problem: Problem, decision: Plan | NoPlan, now_s: float, *, searched: bool = True) -> None:
        """Record a decision; a rollback, which may be tried again each minute, puts off no search."""
        memory = self._memory
        memory.record(decision, now_s, searched=searched)
        if memory.drifts and problem.load is not None:
            memory.drift_watch.restart(problem.load.end_ms)
        self._history.record_decision(problem, decision, self._guard.verdict(decision)[0] != AUTO)
