"""Plan service: makes, approves, applies, stops and rolls back plans for people and for the service itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from queue import SimpleQueue
from typing import Any

import orjson

from stormwright.client import shapes
from stormwright.client.shapes import DrainRequest
from stormwright.controller.objectives.objective import LexicographicObjective
from stormwright.controller.planning.expected_pauses import Pause, expected_pause
from stormwright.controller.plans.description import (
    SafetyOf,
    move_kinds,
    plan_document,
    plan_outline,
)
from stormwright.controller.plans.document import step_to_dict
from stormwright.controller.plans.draft import (
    FewestMoves,
    PlanScope,
    Proposal,
    check_scope,
    measured_rates,
    propose_moves,
    propose_rollback,
)
from stormwright.controller.plans.modes import fitting_nothing
from stormwright.controller.plans.preconditions import changes, preconditions
from stormwright.controller.plans.stages import staged
from stormwright.controller.policy import Decision, planned_slots
from stormwright.controller.safety.evacuation import propose_evacuation
from stormwright.controller.safety.move_kinds import KINDS, MoveSafety, move_safety
from stormwright.errors import ConflictError, StormwrightError
from stormwright.explain.explain import explanations
from stormwright.explain.explanation import BEST, ComponentExplanation
from stormwright.model import Assignment, Problem, Scheduler, Topology
from stormwright.modes import Modes
from stormwright.plan import HALTED_STATES, IN_PROGRESS_STATES, OPEN_STATES, Origin, Plan, PlanState, PlanSummary
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.queries import PlanQueries
from stormwright.service.plans.store import SERVICE, PlanRecord, PlanStore
from stormwright.service.safety.nodes import NodeService

#: Seconds for which measured rates are compared with those of open plans before they are computed again.
_RATES_S = 10.0

#: Number of plans whose preconditions are cached.
_MAX_PRECONDITIONS = 64


# Queue --------------------------------------------------------------------------------------------

#: Maximum number of plans that wait to be made; more are the mistake of a script.
MOST_WAITING = 20


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
        """Raise ConflictError if `MOST_WAITING` plans wait to be made."""
        if len(self._plans.rows(["planning"], MOST_WAITING)) == MOST_WAITING:
            raise ConflictError(f"{MOST_WAITING} plans wait to be made: try again when some of them are")

    def submit(self, work: Callable[[], None]) -> None:
        """Run a function after those submitted before."""
        self._work.put(work)

    def make(self, plan: str, make: Callable[[Problem], Proposal]) -> None:
        """Compute a plan (by id) for the current cluster on this thread; on an error its state is ``failed``."""
        try:
            if self._plans.row(plan).state != "planning":
                return  # discarded while others were made
            self.save(plan, make(self.now()), "planned")
        except StormwrightError as error:
            self._plans.change(plan, ["planning"], "failed", error.line)
        except Exception as error:  # a bug of a scheduler
            if self._closed:
                return
            log.exception("plan %s could not be made", plan)
            self._plans.change(plan, ["planning"], "failed", f"{type(error).__name__}: {error}")

    def now(self) -> Problem:
        """Return the current problem; raises ConflictError before the first poll of Nimbus."""
        problem = self._problem()
        if problem is None:
            raise ConflictError("Nimbus has not polled the service yet: try again in 10 s")
        return problem

    def save(self, plan: str, proposal: Proposal, state: PlanState, *, one_stage: bool = False) -> None:
        """Store a proposal and set the state of its plan.

        Parameters
        ----------
        plan
            ID of the plan.
        proposal
            The proposal.
        state
            New state of the plan.
        one_stage
            All steps are one stage, and predictions of single steps are left out.
        """
        steps = proposal.plan.steps
        required = preconditions(proposal.problem, steps, measured_rates(proposal.problem, proposal.placements))
        stages = None if one_stage or self._plans.row(plan).origin == "rollback" else staged(steps)
        document = (
            plan_outline(proposal, stages)
            if one_stage
            else plan_document(proposal, self._pause, stages, self._safety_of)
        )
        contents = [step_to_dict(step, proposal.problem) for step in steps]
        by_stage = list(zip(stages or [0] * len(steps), contents, strict=True))
        self._plans.save(plan, state, proposal.why, document, required, proposal.promises, by_stage)

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


# Explanations -------------------------------------------------------------------------------------

#: Maximum number of explanations in one answer: each considers all nodes.
_MOST = 20


def explained(
    problem: Problem, topology: str | None, executor: int | None, safety_of: SafetyOf = move_safety
) -> shapes.Explanations:
    """Explain the slot of one executor, or of all unplaced executors (of one topology).

    Parameters
    ----------
    problem
        What runs now.
    topology, executor
        As `stormwright.explain.explain.explain` has them.
    safety_of
        Returns how a topology can be moved.

    Raises
    ------
    InputError
        There is no such topology or executor.
    """
    runs = Assignment(problem.current_slot, scheduler="stormwright")
    each = explanations(problem, runs, topology, executor, only_unplaced=executor is None)
    found = list(islice(each, _MOST + 1))
    kinds = move_kinds(problem, {each.topology for each in found[:_MOST]}, safety_of)
    return shapes.Explanations(explanations=tuple(map(_shaped, found[:_MOST])), more=len(found) > _MOST, kinds=kinds)


def _shaped(of: ComponentExplanation) -> shapes.Explanation:
    best = of.open_nodes[:BEST] if of.slot else []
    return shapes.Explanation(
        topology=of.topology,
        component=of.component,
        executors=of.executors,
        slot=of.slot,
        text=of.histogram if of.slot else of.status_text,
        shortages=of.shortages,
        ruled_out=tuple(shapes.ExcludedNodes(nodes=each.nodes, kind=each.kind, text=str(each)) for each in of.counts),
        best=tuple(
            shapes.OtherNode(
                node=each.node,
                supervisor=each.supervisor,
                host=each.host,
                cost_change=each.cost_change or 0.0,
                joins=each.worker,
            )
            for each in best
        ),
    )


log = logging.getLogger(__name__)

# Plan service -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanMakers:
    """Schedulers for plans.

    Parameters
    ----------
    goal
        Default objective.
    scheduler
        Returns the scheduler for an objective.
    keeping
        Scheduler that places executors without slots and leaves running ones alone.
    """

    goal: str
    scheduler: Callable[[str], Scheduler]
    keeping: Scheduler


class PlanService(PlanQueries):
    """Makes and controls plans; safe to use from several threads.

    Parameters
    ----------
    plans, journal, guard
        Stored plans, the journal of changes, and the modes.
    problem
        Returns what runs now, with the newest load.
    makers
        Schedulers for plans.
    scheduler_name
        Scheduler of the service's own decisions, for the journal.
    """

    def __init__(
        self,
        plans: PlanStore,
        journal: Journal,
        guard: Guard,
        problem: Callable[[], Problem | None],
        makers: PlanMakers,
        scheduler_name: str = "",
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
        self.nodes = NodeService(guard.drains, journal, self._queue.now, self.evacuate, self._discard_evacuations)
        for row in plans.rows(["planning", "planned"], most=2**31):
            if row.state == "planning" or row.applies_itself:
                plans.change(row.id, [row.state], "failed", "the service ended before it was made")

    def close(self) -> None:
        """Make no more plans."""
        self._queue.close()

    # Plans ------------------------------------------------------------------------------------------------------------

    def request(self, request: shapes.PlanRequest) -> Plan:
        """Begin to make a plan; return it with its id.

        Raises
        ------
        ConflictError
            `MOST_WAITING` plans wait to be made.
        InputError
            A pattern fits no topology, or no node.
        """
        self._queue.require_room()
        goals = tuple(dict.fromkeys(request.goals)) or (self._makers.goal,)
        wish = PlanScope(goals, request.topologies, request.nodes, request.least_gain_percent, request.only is not None)
        if (now := self._problem()) is not None:
            check_scope(now, wish)
        plan = self._plans.add("person", ",".join(goals), request.by, request.reason, request.model_dump())
        scheduler = (
            FewestMoves(self._makers.keeping) if wish.repairs else LexicographicObjective(goals, self._makers.scheduler)
        )

        def make(problem: Problem) -> Proposal:
            forbidden = self._guard.forbidden(problem, request.allow, measured_rates)
            return propose_moves(problem, scheduler, wish, forbidden)

        self._queue.submit(lambda: self._queue.make(plan, make))
        return self.plan(plan)

    def evacuate(self, host: str, request: DrainRequest) -> Plan:
        """Begin to plan the evacuation of a host; the plan applies itself unless the request says to wait.

        If one is being made or applied, it is returned instead.
        """
        goal, keeping = self._makers.goal, self._makers.keeping
        reason, applies = f"{host} is drained: {request.reason}", not request.wait
        with self._evacuating:
            if under_way := self._evacuation(host):
                return self.plan(under_way)
            self._queue.require_room()
            plan = self._plans.add("drain", goal, request.by, reason, {"host": host}, auto_apply=applies)

        def make(problem: Problem) -> Proposal:
            forbidden = self._guard.forbidden(problem, rates=measured_rates)
            return propose_evacuation(problem, keeping, frozenset([host]), goal, forbidden)

        self._submit(plan, make, "planned")
        return self.plan(plan)

    def _evacuation(self, host: str) -> str | None:
        """Return the plan (id) by which a host is being evacuated; None without one."""
        for row in self._plans.summary_rows((*IN_PROGRESS_STATES, "planned"), most=2**31):
            # A planned one that applies itself begins at any moment.
            in_progress = row.applies_itself or row.state in IN_PROGRESS_STATES
            if in_progress and row.origin == "drain" and orjson.loads(row.request)["host"] == host:
                return row.id
        return None

    def _discard_evacuations(self, host: str, change: shapes.ChangeRequest) -> None:
        """Discard plans to evacuate a host that were not begun."""
        states: tuple[PlanState, ...] = ("planning", *OPEN_STATES)
        for row in self._plans.summary_rows(states, most=2**31):
            if row.origin == "drain" and orjson.loads(row.request)["host"] == host:
                self._plans.change(row.id, states, "discarded", f"{change.by} uncordoned {host}: {change.reason}")

    def revert(self, n: int, change: shapes.ChangeRequest) -> Plan:
        """Begin to restore the placement from before an entry of the history.

        Raises
        ------
        NotFoundError, ConflictError
            There is no such entry, it has moved nothing, a plan is under way, everything is frozen, or too many wait.
        """
        before, name = self._journal.placements_before(n), self._guard.holds.names.of_slot
        self._require_free()
        self._queue.require_room()
        reason = f"entry {n} of the history: {change.reason}"
        plan = self._plans.add("rollback", self._makers.goal, change.by, reason, {"n": n}, auto_apply=True)
        self._submit(plan, lambda problem: propose_rollback(problem, before, self._makers.goal, name), "failed")
        return self.plan(plan)

    def propose(self, decision: Decision) -> str | None:
        """Store a decision of the service as a plan that waits for a person.

        Returns
        -------
        plan
            Its id; None if it moves nothing, or a topology has gone since.
        """
        proposal = self._own_proposal(decision)
        if proposal is None:
            return None
        plan = self._add_own(decision)
        self._queue.save(plan, proposal, "proposed")
        return plan

    def approve(self, decision: Decision) -> str | None:
        """Store a decision of the service as an active plan that it approves itself.

        Returns
        -------
        plan
            Its id; None if it moves nothing, or a topology has gone since.

        Raises
        ------
        ConflictError
            Another plan is active, or everything is frozen.
        """
        proposal = self._own_proposal(decision)
        if proposal is None:
            return None
        with self._starting, self._plans.transaction():
            self._require_free()
            plan = self._add_own(decision)
            self._queue.save(plan, proposal, "planned", one_stage=True)
            entry = self._journal.add_entry(self._plans.row(plan).origin, self._author, decision.reason, "", plan)
            self._plans.begin(plan, entry, SERVICE)
        return plan

    def _own_proposal(self, decision: Decision) -> Proposal | None:
        problem, moves = self._problem(), decision.plan.moves
        if problem is None or not moves or any(move.topology.id not in problem.current for move in moves):
            return None
        slots = planned_slots(problem, moves)
        return Proposal(problem, decision.plan, slots, decision.reason, "", decision.promises)

    def _add_own(self, decision: Decision) -> str:
        origin: Origin = "rollback" if decision.rolls_back else "service"
        return self._plans.add(origin, self._makers.goal, SERVICE, decision.reason, {})

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
        row = self._plans.row(plan)
        if row.state not in OPEN_STATES:
            raise ConflictError(f"plan {plan} is {row.state}: only one that is planned or proposed is applied")
        if self._guard.modes.two_people and change.by == row.author:
            raise ConflictError(f"plan {plan} was requested by {row.author}: another person has to apply it")
        self._start(row, change.by, f"{row.reason}; {change.reason}")
        return self.plan(plan)

    def stop(self, plan: str, change: shapes.ChangeRequest) -> Plan:
        """Stop a plan as soon as no topology is on a detour."""
        row = self._plans.row(plan)
        if row.state not in ("applying", "evaluating"):
            raise ConflictError(f"plan {plan} is {row.state}: there is nothing to stop")
        self._plans.request_stop(plan)
        log.info("plan %s is to stop, says %s: %s", plan, change.by, change.reason)
        return self.plan(plan)

    def resume(self, plan: str, change: shapes.ChangeRequest) -> Plan:
        """Continue a plan that was stopped or waits; a stage that has moved counts as successful."""
        row = self._plans.row(plan)
        if row.state not in HALTED_STATES:
            raise ConflictError(f"plan {plan} is {row.state}: only one that was stopped or waits is resumed")
        steps = self._plans.steps(plan)
        stage_made = all(each.state == "moved" for each in steps if each.stage == row.stage)
        last = max((each.stage for each in steps), default=0)
        stage = row.stage + stage_made
        self._require_no_hold()
        with self._starting:
            self._require_free()
            self._plans.change(plan, HALTED_STATES, "applying" if stage <= last else "done", stage=stage, stop=0)
        log.info("plan %s goes on, says %s: %s", plan, change.by, change.reason)
        return self.plan(plan)

    def discard(self, plan: str, change: shapes.ChangeRequest) -> Plan:
        """Discard a plan, also while it is computed; moves already made stay."""
        row = self._plans.row(plan)
        if not self._plans.change(
            plan, ["planning", *OPEN_STATES, *HALTED_STATES], "discarded", f"{change.by}: {change.reason}"
        ):
            raise ConflictError(f"plan {plan} is {row.state}: it cannot be discarded")
        return self.plan(plan)

    # Modes ------------------------------------------------------------------------------------------------------------

    def change_modes(self, wanted: shapes.ModesChange) -> Modes:
        """Replace the modes; a freeze stops the active plan. Raises the errors of `Guard.change`."""
        with self._starting:  # no plan begins between the two
            modes = self._guard.change(wanted)
            active = self._plans.active()
        if modes.frozen and active:
            self._plans.request_stop(active.id)
        return self.modes()

    def _current_modes(self) -> Modes:
        """Return the modes, with warnings for patterns that match nothing."""
        modes, problem = self._guard.modes, self._problem()
        there = [] if problem is None else [(each.id, each.name) for each in problem.topologies]
        return modes.model_copy(update={"warnings": () if problem is None else fitting_nothing(modes, there)})

    # ------------------------------------------------------------------------------------------------------------------

    def _line(self, row: PlanRecord) -> PlanSummary:
        """Return the summary of a plan, with the changes of the cluster by which it cannot be applied any more."""
        line, problem = super()._line(row), self._problem()
        if problem is None or row.state not in OPEN_STATES or not line.step_count:
            return line
        compared, now_s = self._compared, self._plans.clock.monotonic()
        if compared is None or compared[0] is not problem:
            # Rates are those of the last minutes: of one page view to the next they hardly change.
            is_new = compared is not None and now_s - compared[1] < _RATES_S
            at_s, rates = compared[1:3] if is_new and compared else (now_s, measured_rates(problem))
            self._compared = compared = (problem, at_s, rates, {})
        found = compared[3]
        if row.id not in found:
            required = self._preconditions(row.id)
            as_measured = None if row.origin == "rollback" else compared[2]
            found[row.id] = "; ".join(changes(required, problem, {}, as_measured)) if required else ""
        return line.model_copy(update={"outdated": found[row.id]})

    def _read_preconditions(self, plan: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = orjson.loads(self._plans.row(plan).preconditions or "{}")
        return found

    def _require_free(self) -> None:
        if self._guard.modes.frozen:
            raise ConflictError(f"everything is frozen: {self._guard.modes.frozen}")
        if other := self._plans.active():
            raise ConflictError(f"plan {other.id} is {other.state}: one is applied at a time")

    def _require_no_hold(self) -> None:
        """Nimbus is called, which may take long: not under the lock, so that a freeze need not wait for it."""
        self._require_free()
        if hold := self._guard.holds.before_moving():
            raise ConflictError(hold.why)

    def _require_kinds(self, row: PlanRecord, problem: Problem) -> None:
        """Raise ConflictError if moves of the kind of one of its topologies are forbidden meanwhile.

        A rollback is a consequence of a move that was allowed, so only modes that people have set forbid it.
        """
        allowed = KINDS if row.origin == "rollback" else orjson.loads(row.request).get("allow", ())
        moving = {move["topology"] for step in self._plans.steps(row.id) for move in step.content["moves"]}
        forbidden = self._guard.forbidden(problem, allowed)
        found = [f"{topology}: {forbidden[topology]}" for topology in sorted(moving & forbidden.keys())]
        if found:
            raise ConflictError(f"plan {row.id} cannot be applied: {'; '.join(found)}")

    def _submit(self, plan: str, make: Callable[[Problem], Proposal], otherwise: PlanState) -> None:
        """Have a plan made that applies itself in the name of its author; its state is `otherwise` if it may not."""

        def work() -> None:
            self._queue.make(plan, make)
            row = self._plans.row(plan)
            if row.state != "planned" or not row.applies_itself:
                return
            if self._guard.modes.two_people:
                why = f"{row.author} has requested it: another person has to apply it"
                self._plans.require_approval(plan, "planned", why)
                return
            try:
                self._start(row, row.author, row.reason)
            except StormwrightError as error:
                self._plans.require_approval(plan, otherwise, str(error))

        self._queue.submit(work)

    def _start(self, row: PlanRecord, by: str, reason: str) -> None:
        self._require_no_hold()
        with self._starting:
            self._require_free()
            problem = self._queue.now()
            rates = None if row.origin == "rollback" else measured_rates(problem)
            if found := changes(orjson.loads(row.preconditions), problem, {}, rates):
                why = "; ".join(found)
                raise ConflictError(
                    f"plan {row.id} cannot be applied, as the cluster has changed since: {why}; make a new plan"
                )
            self._require_kinds(row, problem)
            if not self._plans.steps(row.id):
                self._plans.change(row.id, OPEN_STATES, "done", "nothing was to move")
                return
            with self._plans.transaction():
                n = self._journal.add_entry(row.origin, by, reason, orjson.loads(row.document).get("gain", ""), row.id)
                if not self._plans.begin(row.id, n, by):
                    state = self._plans.row(row.id).state
                    raise ConflictError(f"plan {row.id} is {state} meanwhile: nothing was begun")
