"""Plan service: makes, approves, applies, stops and rolls back plans for people and for the service itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TypeVar

from stormwright.client import shapes
from stormwright.client.shapes import DrainRequest
from stormwright.controller.autopilot import AutopilotSettings
from stormwright.controller.description import FigureSources, with_figures
from stormwright.controller.objectives.objective import LexicographicObjective
from stormwright.controller.objectives.outlook import THROUGHPUT
from stormwright.controller.objectives.placements import Placements, measured_rates
from stormwright.controller.planning.valid_moves import planned_slots
from stormwright.controller.policy import with_possible_trial
from stormwright.controller.preconditions import changes
from stormwright.controller.propose import propose, to_plan_on, valid_changes
from stormwright.controller.requests import Evacuate, Improve, NoPlan, Place, PlanInputs, Repair
from stormwright.controller.safety.move_kinds import KINDS, MoveSafety
from stormwright.controller.staying import out_of_scope, require_matches
from stormwright.errors import ConflictError, StormwrightError
from stormwright.model import Problem, Scheduler, Topology
from stormwright.model.problem import topologies_called
from stormwright.plans.modes import Modes, unmatched_patterns
from stormwright.plans.plan import SERVICE, Plan, PlanSummary, Preconditions
from stormwright.plans.states import HALTED_STATES, IN_PROGRESS_STATES, OPEN_STATES
from stormwright.service.plans.autopilots import AutopilotService
from stormwright.service.plans.explanations import explained
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.own_plans import MakeOwnPlan, OwnPlan, person
from stormwright.service.plans.plan_queue import MakePlan, PlanQueue
from stormwright.service.plans.queries import PlanQueries
from stormwright.service.plans.store import PlanStore
from stormwright.service.plans.tunings import TuningService, TuningStorage
from stormwright.service.safety.nodes import NodeService

_Value = TypeVar("_Value")

log = logging.getLogger(__name__)

#: Seconds for which measured rates are compared with those of open plans before they are computed again.
_RATES_S = 10.0

#: Number of plans whose preconditions are cached.
_MAX_PRECONDITIONS = 64


def _wish(problem: Problem, request: shapes.PlanRequest, goals: tuple[str, ...]) -> Improve | Repair | Place:
    if request.placements or request.executors or request.conf:
        return Place(
            _by_id(problem, request.placements),
            _by_id(problem, request.executors),
            _by_id(problem, request.conf),
            request.reason,
            goals,
            "person",
            refuses_cordoned=True,
        )
    if request.only is not None:
        return Repair(goals, request.topologies, request.nodes)
    return Improve(goals, request.topologies, request.nodes, request.least_gain_percent)


def _by_id(problem: Problem, by_topology: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return values by topology id, of topologies that are given by id, or by a name that only one has."""
    found = {}
    for topology, value in by_topology.items():
        called = topologies_called(problem, topology)
        found[problem.topologies[called[0]].id if len(called) == 1 else topology] = value
    return found


@dataclass(frozen=True)
class PlanMakers:
    """Schedulers for plans.

    Parameters
    ----------
    goal
        Objective of plans whose request names none.
    scheduler
        Returns the scheduler for an objective.
    repair_scheduler
        Scheduler that places executors without slots and leaves running ones alone.
    trial_scheduler
        Scheduler that subtracts no prediction error, by which a plan for throughput that moves nothing names a trial
        that is worth it; None for no trials.
    tuning_scheduler, sizing_scheduler
        Schedulers that place a topology around all others: one that is tuned; and one whose size changes, on as few
        nodes as sustain its load. None for `repair_scheduler`.
    changes_executors
        Whether the cluster can change the numbers of executors of a running topology.
    """

    goal: str
    scheduler: Callable[[str], Scheduler]
    repair_scheduler: Scheduler
    trial_scheduler: Scheduler | None = None
    tuning_scheduler: Scheduler | None = None
    sizing_scheduler: Scheduler | None = None
    changes_executors: bool = True


class PlanService(PlanQueries):
    """Makes and controls plans; safe to use from several threads.

    Parameters
    ----------
    plans, journal, guard
        Stored plans, the journal of changes, and the modes.
    problem
        Returns what runs now, with the newest load.
    makers
        Schedulers that compute the plans, by objective.
    scheduler_name
        Scheduler of the service's own decisions, for the journal.
    tuning
        What tunings need besides.
    autopilot
        Limits of changes of size; None for the defaults.
    """

    def __init__(
        self,
        plans: PlanStore,
        journal: Journal,
        guard: Guard,
        problem: Callable[[], Problem | None],
        makers: PlanMakers,
        scheduler_name: str = "",
        tuning: TuningStorage | None = None,
        autopilot: AutopilotSettings | None = None,
    ) -> None:
        super().__init__(plans, journal, self._current_modes)
        #: The cluster that open plans were compared with, when, its rates, and changes by plan.
        self._compared: tuple[Problem, float, dict[str, float], dict[str, str]] | None = None
        self._author = f"{SERVICE} ({scheduler_name})" if scheduler_name else SERVICE
        # Those of a plan with thousands of topologies are parsed once, as they do not change.
        self._preconditions = lru_cache(maxsize=_MAX_PRECONDITIONS)(self._read_preconditions)
        self._guard, self._makers, self._problem = guard, makers, problem
        self._queue = PlanQueue(plans, journal, problem, guard.safety_of)
        self._starting, self._evacuating = threading.Lock(), threading.Lock()
        self.tunings = TuningService(self, plans, journal, tuning or TuningStorage.of(plans.state))
        self.autopilots = AutopilotService(self, plans, self.tunings.recent, self.tunings.running, autopilot)
        self.nodes = NodeService(guard.drains, journal, self._queue.now, self.evacuate, self._discard_evacuations)
        for known in plans.summaries(["planning", "planned"], most=2**31):
            if known.state == "planning" or known.auto_apply:
                plans.transition(known.id, "failed", "the service ended before it was made")

    def close(self) -> None:
        """Make no more plans."""
        self._queue.close()

    def request(self, request: shapes.PlanRequest) -> Plan:
        """Begin to make a plan; return it with its id.

        Raises
        ------
        ConflictError
            `MAX_WAITING` plans wait to be made.
        InputError
            A pattern fits no topology, or no node; or another number of executors, or a configuration, is none that
            a topology can have.
        """
        self._queue.require_room()
        goals = tuple(dict.fromkeys(request.goals)) or (self._makers.goal,)
        if (now := self._problem()) is not None:
            require_matches(now, request.topologies, request.nodes)
            if isinstance(wish := _wish(now, request, goals), Place):
                valid_changes(now, wish, self._makers.changes_executors)
        plan = self._plans.add(
            "person", ",".join(goals), person(request.by), request.reason, request.model_dump(mode="json")
        )

        def make(problem: Problem, sources: FigureSources) -> Plan | NoPlan:
            stay = self._guard.forbidden(problem, request.allow, measured_rates)
            inputs = PlanInputs(
                scheduler=LexicographicObjective(goals, self._makers.scheduler),
                repair_scheduler=self._makers.repair_scheduler,
                stay=stay,
                sources=sources,
                changes_executors=self._makers.changes_executors,
            )
            found, trials = propose(problem, _wish(problem, request, goals), inputs), self._makers.trial_scheduler
            if not isinstance(found, NoPlan) or trials is None or goals != (THROUGHPUT,):
                return found
            return with_possible_trial(
                found, problem, trials, {**stay, **out_of_scope(problem, request.topologies, request.nodes)}
            )

        self._queue.submit(lambda: self._queue.make(plan, make))
        return self.plan(plan)

    def add_made(self, requested: OwnPlan, make: MakeOwnPlan) -> str:
        """Begin to make a plan that applies itself; return its id. One of the service that cannot begin has failed.

        Parameters
        ----------
        requested
            What is known of it before it is made.
        make
            Returns the plan, by its id.

        Raises
        ------
        ConflictError
            Nothing may be applied now, or too many plans wait to be made.
        """
        if requested.auto_apply:
            self._require_no_hold()
        self._queue.require_room()
        plan = self._plans.add(
            requested.origin,
            requested.goal,
            requested.by,
            requested.reason,
            requested.request,
            auto_apply=requested.auto_apply,
        )
        self._submit(plan, partial(make, plan), fails=requested.origin == "service")
        return plan

    def run_later(self, work: Callable[[], None]) -> None:
        """Run a function after the plans that are being made, on their thread."""
        self._queue.submit(work)

    def not_automatic(self, problem: Problem) -> Mapping[str, str]:
        """Return topologies (ids) that nothing may move automatically now, with the reason."""
        return self._guard.not_automatic(problem)

    def now(self) -> Problem:
        """Return the current problem; raises ConflictError before the first poll of Nimbus."""
        return self._queue.now()

    def plan_inputs(self, problem: Problem, sources: FigureSources) -> PlanInputs:
        """Return the schedulers and limits of plans that parts of the service make."""
        stay = self._guard.forbidden(problem, rates=measured_rates)
        return PlanInputs(
            repair_scheduler=self._makers.repair_scheduler,
            stay=stay,
            sources=sources,
            changes_executors=self._makers.changes_executors,
        )

    @property
    def tuning_scheduler(self) -> Scheduler:
        """Scheduler that places a topology for the highest rate, around all others."""
        return self._makers.tuning_scheduler or self._makers.repair_scheduler

    @property
    def sizing_scheduler(self) -> Scheduler:
        """Scheduler that places a topology on as few nodes as sustain its load, around all others."""
        return self._makers.sizing_scheduler or self._makers.repair_scheduler

    @property
    def waits_for_person(self) -> bool:
        """Whether another person than its author has to apply a plan."""
        return self._guard.modes.two_people

    def evacuate(self, host: str, request: DrainRequest) -> Plan:
        """Begin to plan the evacuation of a host; the plan applies itself unless the request says to wait.

        If one is being made or applied, it is returned instead.
        """
        goal, reason = self._makers.goal, f"{host} is drained: {request.reason}"
        with self._evacuating:
            if under_way := self._evacuation(host):
                return self.plan(under_way)
            self._queue.require_room()
            plan = self._plans.add(
                "drain", goal, person(request.by), reason, {"host": host}, auto_apply=not request.wait
            )

        def make(problem: Problem, sources: FigureSources) -> Plan | NoPlan:
            forbidden = self._guard.forbidden(problem, rates=measured_rates)
            inputs = PlanInputs(repair_scheduler=self._makers.repair_scheduler, stay=forbidden, sources=sources)
            found = propose(problem, Evacuate(frozenset([host]), (goal,)), inputs)
            if isinstance(found, NoPlan) and found.code == "blocked":
                raise ConflictError(found.reason)
            return found

        self._submit(plan, make)
        return self.plan(plan)

    def _evacuation(self, host: str) -> str | None:
        """Return the plan (id) by which a host is being evacuated; None without one."""
        for found in self._plans.summaries((*IN_PROGRESS_STATES, "planned"), most=2**31):
            # A planned one that applies itself begins at any moment.
            in_progress = found.auto_apply or found.state in IN_PROGRESS_STATES
            if in_progress and found.origin == "drain" and self._plans.request(found.id)["host"] == host:
                return found.id
        return None

    def _discard_evacuations(self, host: str, change: shapes.ChangeRequest) -> None:
        """Discard plans to evacuate a host that were not begun."""
        for found in self._plans.summaries(("planning", *OPEN_STATES), most=2**31):
            if found.origin == "drain" and self._plans.request(found.id)["host"] == host:
                self._plans.transition(found.id, "discarded", f"{change.by} uncordoned {host}: {change.reason}")

    def revert(self, n: int, change: shapes.ChangeRequest) -> Plan:
        """Begin to restore the placement from before an entry of the history.

        Raises
        ------
        NotFoundError, ConflictError
            There is no such entry, it has moved nothing, a plan is under way, everything is frozen, or too many wait.
        """
        before, slot_name = self._journal.before(n), self._guard.holds.names.of_slot
        self._require_free()
        self._queue.require_room()
        goal, reason = self._makers.goal, f"entry {n} of the history: {change.reason}"
        plan = self._plans.add("rollback", goal, person(change.by), reason, {"n": n}, auto_apply=True)

        def make(problem: Problem, sources: FigureSources) -> Plan | NoPlan:
            inputs = PlanInputs(slot_name=slot_name, sources=replace(sources, in_stages=False))
            request = Place(before.placements, before.executors, before.conf, reason, (goal,), refuses_cordoned=True)
            return propose(problem, request, inputs)

        self._submit(plan, make, fails=True)
        return self.plan(plan)

    def suggest(self, plan: Plan) -> str | None:
        """Store a plan of the service, which waits for a person; return its id, or None if a topology has gone."""
        problem = self._problem()
        if problem is None or any(move.topology not in problem.current for move in plan.moves):
            return None
        placements = Placements(to_plan_on(problem))
        slots = planned_slots(placements.problem, plan.moves)
        described = with_figures(plan, placements, slots, self._queue.sources)
        stored = self._add_own(plan)
        self._plans.save(stored, described, "suggested")
        return stored

    def approve(self, plan: Plan) -> str:
        """Store a plan of the service as an active one that it approves itself; return its id.

        Raises
        ------
        ConflictError
            A topology has gone since; or, unless it rolls another plan back, another plan is active, or everything is
            frozen.
        """
        problem = self._problem()
        if problem is None or any(move.topology not in problem.current for move in plan.moves):
            raise ConflictError("a topology has gone since: nothing was begun")
        with self._starting, self._plans.transaction():
            if not plan.rolls_back:
                self._require_free()
            stored = self._add_own(plan)
            self._plans.save(stored, plan)
            self._plans.begin(
                stored, self._journal.add_entry(plan.origin, self._author, plan.reason, "", stored), SERVICE
            )
        return stored

    def _add_own(self, plan: Plan) -> str:
        return self._plans.add(plan.origin, self._makers.goal, SERVICE, plan.reason, {}, rolls_back=plan.rolls_back)

    def safety_of(
        self, topology: Topology, rate_tps: float | None = None, restarts: Mapping[str, float] | None = None
    ) -> MoveSafety:
        """Return how a topology can be moved, under the current modes (`move_safety`)."""
        return self._guard.safety_of(topology, rate_tps, restarts)

    def explain(self, topology: str | None, executor: int | None) -> shapes.Explanations:
        """Explain slots; raises the errors of `explained`, and ConflictError before the first poll of Nimbus."""
        return explained(self._queue.now(), topology, executor, self._guard.safety_of)

    def apply(self, plan: str, change: shapes.ChangeRequest) -> Plan:
        """Begin to apply a plan.

        Raises
        ------
        NotFoundError, ConflictError
            There is no such plan; its state does not allow it; the cluster has changed since it was made; another one
            is active; everything is frozen; or another person than its author has to apply it.
        """
        found = self._plans.plan(plan)
        if found.state not in OPEN_STATES:
            raise ConflictError(f"plan {plan} is {found.state}: only one that is planned or proposed is applied")
        if self._guard.modes.two_people and found.by in (change.by, person(change.by)):
            raise ConflictError(f"plan {plan} was requested by {found.by}: another person has to apply it")
        self._start(found, person(change.by), f"{found.reason}; {change.reason}")
        return self.plan(plan)

    def stop(self, plan: str, change: shapes.ChangeRequest) -> Plan:
        """Stop a plan as soon as no topology is on a detour."""
        found = self._plans.summary(plan)
        if found.state not in ("applying", "evaluating"):
            raise ConflictError(f"plan {plan} is {found.state}: there is nothing to stop")
        if found.rolls_back:
            raise ConflictError(f"plan {plan} rolls plan {found.rolls_back} back: it is not stopped half way")
        self._plans.request_stop(plan)
        log.info("plan %s is to stop, says %s: %s", plan, change.by, change.reason)
        return self.plan(plan)

    def resume(self, plan: str, change: shapes.ChangeRequest) -> Plan:
        """Continue a plan that was stopped or waits; a stage that has moved counts as successful."""
        found = self._plans.plan(plan)
        if found.state not in HALTED_STATES:
            raise ConflictError(f"plan {plan} is {found.state}: only one that was stopped or waits is resumed")
        stage_made = all(each.state == "moved" for each in found.steps_of(found.stage))
        last = max((each.stage for each in found.steps), default=0)
        stage = found.stage + stage_made
        self._require_no_hold()
        with self._starting:
            self._require_free()
            self._plans.transition(plan, "next stage" if stage <= last else "completed", stage=stage, stop=0)
        log.info("plan %s goes on, says %s: %s", plan, change.by, change.reason)
        return self.plan(plan)

    def discard(self, plan: str, change: shapes.ChangeRequest) -> Plan:
        """Discard a plan, also while it is computed; moves already made stay."""
        found = self._plans.summary(plan)
        if not self._plans.transition(plan, "discarded", f"{change.by}: {change.reason}"):
            raise ConflictError(f"plan {plan} is {found.state}: it cannot be discarded")
        return self.plan(plan)

    def change_modes(self, wanted: shapes.ModesChange) -> Modes:
        """Replace the modes; a freeze stops the active plan. Raises the errors of `Guard.change`."""
        with self._starting:  # no plan begins between the two
            modes = self._guard.change(wanted)
            active = self._plans.active_summary()
        if modes.frozen and active and not active.rolls_back:
            self._plans.request_stop(active.id)
        return self.modes()

    def _current_modes(self) -> Modes:
        """Return the modes, with warnings for patterns that match nothing."""
        modes, problem = self._guard.modes, self._problem()
        there = [] if problem is None else [(each.id, each.name) for each in problem.topologies]
        return modes.model_copy(update={"warnings": () if problem is None else unmatched_patterns(modes, there)})

    # ------------------------------------------------------------------------------------------------------------------

    def _as_of_now(self, plan: PlanSummary) -> PlanSummary:
        """Return a plan with the changes of the cluster by which it cannot be applied any more."""
        problem = self._problem()
        if problem is None or plan.state not in OPEN_STATES or not plan.step_count:
            return plan
        compared, now_s = self._compared, self._plans.clock.monotonic()
        if compared is None or compared[0] is not problem:
            # Rates are those of the last minutes: of one page view to the next they hardly change.
            is_new = compared is not None and now_s - compared[1] < _RATES_S
            at_s, rates = compared[1:3] if is_new and compared else (now_s, measured_rates(problem))
            self._compared = compared = (problem, at_s, rates, {})
        found = compared[3]
        if plan.id not in found:
            as_measured = None if plan.origin == "rollback" else compared[2]
            found[plan.id] = "; ".join(changes(self._preconditions(plan.id), problem, {}, as_measured))
        return plan.model_copy(update={"outdated": found[plan.id]})

    def _read_preconditions(self, plan: str) -> Preconditions:
        return self._plans.plan(plan, 0).preconditions

    def _require_free(self) -> None:
        if self._guard.modes.frozen:
            raise ConflictError(f"everything is frozen: {self._guard.modes.frozen}")
        if other := self._plans.active_summary():
            raise ConflictError(f"plan {other.id} is {other.state}: one is applied at a time")

    def _require_no_hold(self) -> None:
        """Nimbus is called, which may take long: not under the lock, so that a freeze need not wait for it."""
        self._require_free()
        if hold := self._guard.holds.before_moving():
            raise ConflictError(hold.why)

    def _require_kinds(self, plan: Plan, problem: Problem) -> None:
        """Raise ConflictError if moves of the kind of one of its topologies are forbidden meanwhile.

        A rollback is a consequence of a move that was allowed, so only modes that people have set forbid it.
        """
        allowed = KINDS if plan.origin == "rollback" else plan.request.get("allow", ())
        forbidden = self._guard.forbidden(problem, allowed)
        moving = {move.topology for move in plan.moves}
        found = [f"{topology}: {forbidden[topology]}" for topology in sorted(moving & forbidden.keys())]
        if found:
            raise ConflictError(f"plan {plan.id} cannot be applied: {'; '.join(found)}")

    def _submit(self, plan: str, make: MakePlan, *, fails: bool = False) -> None:
        """Have a plan made that applies itself in the name of its author; if it may not, it waits, or fails."""

        def work() -> None:
            self._queue.make(plan, make)
            found = self._plans.plan(plan)
            if found.state != "planned" or not found.auto_apply:
                return
            if self._guard.modes.two_people:
                self._plans.note(plan, f"{found.by} has requested it: another person has to apply it", auto_apply=0)
                return
            try:
                self._start(found, found.by, found.reason)
            except StormwrightError as error:
                if fails:
                    self._plans.transition(plan, "failed", str(error), auto_apply=0)
                else:
                    self._plans.note(plan, str(error), auto_apply=0)

        self._queue.submit(work)

    def _start(self, plan: Plan, by: str, reason: str) -> None:
        self._require_no_hold()
        with self._starting:
            self._require_free()
            problem = self._queue.now()
            rates = None if plan.origin == "rollback" else measured_rates(problem)
            if found := changes(plan.preconditions, problem, {}, rates):
                why = "; ".join(found)
                raise ConflictError(
                    f"plan {plan.id} cannot be applied, as the cluster has changed since: {why}; make a new plan"
                )
            self._require_kinds(plan, problem)
            if not plan.steps:
                self._plans.transition(plan.id, "nothing to do", "nothing was to move")
                return
            with self._plans.transaction():
                n = self._journal.add_entry(plan.origin, by, reason, plan.gain, plan.id)
                if not self._plans.begin(plan.id, n, by):
                    state = self._plans.summary(plan.id).state
                    raise ConflictError(f"plan {plan.id} is {state} meanwhile: nothing was begun")
