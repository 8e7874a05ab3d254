"""Proposals: from a request to a plan, or to the reason why there is none.

Every plan is proposed here, for the service, as its triggers fire (`stormwright.controller.policy`), a
person, a drain, or a rollback.

::

    Improve ─┐
    Repair ──┤                  wanted       moves in order,         gain and
    Evacuate ┼─ problem ──────▶ placement ─▶ within the budget ────▶ promises ─▶ Plan, or NoPlan
    Place ───┘  (`to_plan_on`)               (`plan_valid_moves`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from math import isfinite
from typing import Literal, TypeAlias

import numpy as np

from stormwright.controller.description import FigureSources, with_figures
from stormwright.controller.objectives.objective import (
    GIVEN_UP_PERCENT,
    Refuses,
    too_small_heaps,
    within_heaps,
    within_live_heaps,
)
from stormwright.controller.objectives.outlook import HAS_ROOM, TRAFFIC, Outlook, Outlooks, least_gain_percent
from stormwright.controller.objectives.placements import Placements, without_assumed_traffic
from stormwright.controller.planning.order import UNLIMITED, Excluded, Forbidden, MoveBudget, MoveOrder
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.preconditions import preconditions
from stormwright.controller.repair import FewestMoves
from stormwright.controller.resize import other_executors, resize_steps, resized, resized_slots
from stormwright.controller.safety.holds import HOLD_CODES, HoldCode
from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, TopologyAssignment, WorkerSlot
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.humanize import counted, listed
from stormwright.model.topology_config import MOVE
from stormwright.plans.plan import Because, Origin, Plan, Search, TopologyMove
from stormwright.predict.answer import Assumptions
from stormwright.schedulers.toolkit.traits import declared

# Requests -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unattended:
    """Requirements of the service for a plan that no person reads before it is applied.

    Parameters
    ----------
    accepts
        Returns why a placement with an outlook is worth the moves; None if it is not.
    because
        Returns the anomaly without which it would not be.
    drifted
        Drift of the load that is stated where nothing is worth it; empty without drift.
    """

    accepts: Callable[[Outlook], str | None]
    because: Callable[[Outlook], Because] = lambda _: ""
    drifted: str = ""


@dataclass(frozen=True)
class Improve:
    """Move towards a better placement.

    Parameters
    ----------
    goals
        Of `stormwright.controller.objectives.outlook.OBJECTIVES`, the most important first; at least one.
    topologies, nodes
        Patterns with ``*`` of ids or names, and of ids or hosts: only such topologies move, and only such that run on
        such a node; all where there are none.
    min_gain_percent
        Minimum gain in one of the goals; None for the default.
    unattended
        Further requirements of the service; None where a person decides.
    """

    goals: tuple[str, ...] = (TRAFFIC,)
    topologies: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    min_gain_percent: float | None = None
    unattended: Unattended | None = None


@dataclass(frozen=True)
class Repair:
    """End all violations with the fewest moves; `goals` are those of the predictions, patterns as in `Improve`."""

    goals: tuple[str, ...] = (TRAFFIC,)
    topologies: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evacuate:
    """Empty some hosts, which are unschedulable, and do nothing else; `goals` are those of the predictions."""

    hosts: frozenset[str]
    goals: tuple[str, ...] = (TRAFFIC,)


@dataclass(frozen=True)
class Place:
    """Bring topologies (ids) to given placements, whatever the gain: to those of before, or as advised.

    Nodes and workers are as given, and so are the ports, unless another topology holds one: any of the node will do.

    Parameters
    ----------
    placements
        Placement by topology id.
    executors
        Topology (id) → component (id) → executors, for topologies whose placement has other numbers of them.
    reason
        Why, for the history and Storm's UI.
    goals
        Those of the predictions.
    origin
        ``rollback`` where topologies return.
    refuses_cordoned
        Whether a placement on a cordoned host is refused; else topologies return there, too.
    """

    placements: Mapping[str, TopologyAssignment]
    executors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    reason: str = ""
    goals: tuple[str, ...] = (TRAFFIC,)
    origin: Origin = "rollback"
    refuses_cordoned: bool = False


Request: TypeAlias = Improve | Repair | Evacuate | Place


@dataclass(frozen=True)
class Terms:
    """Means and limits of a proposal.

    Parameters
    ----------
    scheduler
        Scheduler for `Improve`, run once.
    keeping
        Scheduler for `Repair` and `Evacuate`: it places executors without slots and leaves running ones alone.
    stay
        Topologies (ids) that do not move, with the reason.
    budget
        Limits of the moves.
    refuses
        Returns which placements are refused.
    assumptions, gains
        Assumptions of predictions (None for defaults), and alternative quantities to gain, as in `Outlooks`.
    slot_name
        Returns the name of a slot that is gone.
    sources
        Sources of figures for people; None for none.
    predicts
        Whether a placement that is given is predicted; where it is not, there are no promises.
    """

    scheduler: Scheduler | None = None
    keeping: Scheduler | None = None
    stay: Mapping[str, str | Forbidden] = field(default_factory=dict)
    budget: MoveBudget = UNLIMITED
    refuses: Refuses = lambda *_: {}
    assumptions: Assumptions | None = None
    gains: tuple[str, ...] = (TRAFFIC,)
    slot_name: Callable[[WorkerSlot], str] = str
    sources: FigureSources | None = None
    predicts: bool = True


#: Why there is no plan: a hold; no trigger fires; nothing runs, or what runs would lose its slots; the gain is small or
#: unsure, or that of the part that can move now; all moves are blocked; or everything is where it should be.
NoPlanCode: TypeAlias = (
    HoldCode
    | Literal[
        "no_trigger", "nothing_runs", "no_slots", "small_gain", "part_loses", "blocked", "nothing_to_do", "impossible"
    ]
)


@dataclass(frozen=True)
class NoPlan:
    """The reason why there is no plan.

    Parameters
    ----------
    code, reason
        The reason, as a code and for people.
    search
        What a scheduler has answered; None if none was run.
    blocked
        Topologies (names) that stay although they should move, each with the reason.
    figures
        Figures of what runs, if they were requested: a plan without steps.
    """

    code: NoPlanCode
    reason: str
    search: Search | None = None
    blocked: Mapping[str, str] = field(default_factory=dict)
    figures: Plan = field(default_factory=Plan)

    @property
    def moves(self) -> tuple[TopologyMove, ...]:
        """No moves."""
        return ()

    @property
    def searched(self) -> bool:
        """Whether a better placement was looked for."""
        return self.code not in ("no_trigger", *HOLD_CODES)


# Proposing ----------------------------------------------------------------------------------------

#: Maximum number of topologies tried one by one for a sure gain.
MAX_STEPS = 8

#: Tolerated predicted loss in percent if only a part of the wanted moves is made.
PART_LOSS_PERCENT = 2.0

#: Maximum number of staying topologies listed by name, of a drain and where nothing moves.
_MAX_NAMED, _MAX_BLOCKED = 10, 3


def propose(problem: Problem, request: Request, terms: Terms) -> Plan | NoPlan:
    """Return the plan for a request, or why there is none.

    Parameters
    ----------
    problem
        What runs now under the load measured last.
    request
        Kind of plan wanted: `Improve`, `Repair`, `Evacuate` or `Place`.
    terms
        Schedulers, budget and other limits for the plan.

    Raises
    ------
    InputError
        A pattern fits no topology, or no node; or a topology cannot get to the placement that is given.
    """
    if isinstance(request, Improve | Repair):
        require_matches(problem, request.topologies, request.nodes)
    proposal = _Proposal(problem, request, terms)
    if isinstance(request, Improve):
        return proposal.improve(request)
    if isinstance(request, Repair):
        return proposal.repair(request)
    if isinstance(request, Evacuate):
        return proposal.evacuate(request)
    return proposal.place(request)


def to_plan_on(problem: Problem, *, heeds_requests: bool = False) -> Problem:
    """Return the problem that is planned on.

    Workers hold no more executors than their heaps have room for, as measured, and by requests unless the scheduler
    heeds these itself. Topologies that were not measured have their requests and no traffic; without any measurement,
    as of a file, the load is assumed.
    """
    problem = within_live_heaps(problem if heeds_requests else within_heaps(problem))
    return problem if problem.load is None else without_assumed_traffic(problem)


def require_matches(problem: Problem, topologies: Sequence[str], nodes: Sequence[str]) -> None:
    """Check that each pattern fits a topology, or a node; InputError names those that do not."""
    known: list[tuple[str, ...]] = [(each.name, each.id) for each in problem.topologies]
    hosts: list[tuple[str, ...]] = [
        (name, each.host, each.id) for name, each in zip(problem.cluster.node_names, problem.supervisors, strict=True)
    ]
    faults = []
    for kind, patterns, names in (("topology", topologies, known), ("node", nodes, hosts)):
        for pattern in patterns:
            if not any(_matches(each, (pattern,)) for each in names):
                there = suggestion_for(pattern, {each[0] for each in names})
                faults.append(Fault(f"fits no {kind}{there}", pattern))
    if faults:
        raise InputError("plan", faults)


class _Proposal:
    """One request about one problem."""

    def __init__(self, problem: Problem, request: Request, terms: Terms) -> None:
        self._measured = None if problem.load is None else problem.load.topologies.keys()
        heeds_requests = terms.scheduler is not None and declared(terms.scheduler).heeds_requests
        self._problem = problem = to_plan_on(problem, heeds_requests=heeds_requests)
        self._terms, self._goals = terms, request.goals
        self._placements = Placements(problem, terms.assumptions)
        self._outlooks = {
            goal: Outlooks(problem, goal, terms.assumptions, terms.gains, self._placements) for goal in request.goals
        }
        self._search: Search | None = None

    # Requests -------------------------------------------------------------------------------------

    def improve(self, request: Improve) -> Plan | NoPlan:
        problem, terms, unattended = self._problem, self._terms, request.unattended
        if not (problem.current_slot != UNPLACED).any():
            return self._none("nothing_runs", "nothing runs")
        if terms.scheduler is None:
            raise ValueError("a scheduler is needed")
        wanted = self._searched(terms.scheduler)
        if stopped := _stopped(problem, wanted.slot_of_executor):
            # Without their traffic it would seem to cost little.
            return self._none(
                "no_slots", f"no move is worth it: {listed(stopped)} would be left without slots", brief=True
            )
        stay = {**too_small_heaps(problem, wanted.slot_of_executor), **terms.stay, **self._not_measured()}
        stay |= _out_of_scope(problem, request.topologies, request.nodes)
        cpu_limits = self._goals == (TRAFFIC,)
        if unattended is not None:
            return self._improve_unattended(wanted, unattended, stay, cpu_limits=cpu_limits)
        order = self._order(wanted, stay, cpu_limits=cpu_limits)
        slots = planned_slots(problem, order.moves)
        if not order.steps:
            text = "all better moves are blocked" if order.blocked else "the search found no better placement"
            if not order.blocked and any(each.of(problem.current_slot).has_room for each in self._outlooks.values()):
                text = HAS_ROOM
            return self._none("blocked" if order.blocked else "small_gain", text, order)
        found = {goal: each.of(slots) for goal, each in self._outlooks.items()}
        if why := _small_gains(found, request.min_gain_percent):
            return self._none("small_gain", why, order)
        return self._plan(order, slots, self._gain(slots))

    def _improve_unattended(
        self, answer: Assignment, unattended: Unattended, stay: Mapping[str, str | Forbidden], *, cpu_limits: bool
    ) -> Plan | NoPlan:
        """Return a plan whose gain is beyond the error of predictions.

        A budget lets a part move at a time, so the gain of the whole is what counts; the part must not lose.
        """
        problem, terms, outlooks = self._problem, self._terms, self._outlooks[self._goals[0]]
        wanted = answer.slot_of_executor
        outlook = outlooks.of(wanted)
        reason = unattended.accepts(outlook)
        if reason and not outlook.is_sure and (step := _sure_step(problem, outlooks, wanted)) is not None:
            # One topology alone: its effect is measured before the next one moves.
            slots, one = step
            if small := unattended.accepts(one):
                reason, wanted, outlook = f"{small}, a first step", slots, one
                answer = replace(answer, slot_of_executor=slots)
        if reason is None or not outlook.is_sure:
            unsure = "the gain is within the error of predictions" if reason and not outlook.is_sure else ""
            figures = (HAS_ROOM,) if outlook.has_room else (outlook.text, unsure, outlook.less)
            why = "; ".join(filter(None, (unattended.drifted, *figures)))
            return self._none("small_gain", f"no move is worth it: {why}")
        refused = terms.refuses(problem, wanted, outlook.worth, outlooks.rate_tps)
        order = self._order(answer, {**stay, **refused}, cpu_limits=cpu_limits)
        reason, slots = f"{reason} ({outlook.text})", planned_slots(problem, order.moves)
        if outlook.is_trial:
            reason += (
                f"; a trial, as the model explains {outlook.explained:.0%} of the CPU: what is measured then decides "
                "whether it stays"
            )
        if not order.steps:
            stays = [f"{_name(problem, topology)} stays: {why}" for topology, why in order.blocked.items()]
            return self._none("blocked", f"nothing can move: {listed(stays, _MAX_BLOCKED)}; {reason}", order)
        if self._goals != (TRAFFIC,) and not np.array_equal(slots, wanted):
            part = outlooks.of(slots)
            if part.gain_percent < -PART_LOSS_PERCENT:
                loses = f"but only a part of it can move now, and that alone: {part.text}"
                return self._none("part_loses", f"no move is worth it: {reason}; {loses}", order)
        plan = self._plan(order, slots, reason)
        return plan.model_copy(update={"reason": reason, "because": unattended.because(outlook)})

    def repair(self, request: Repair) -> Plan | NoPlan:
        problem, terms = self._problem, self._terms
        if not (problem.current_slot != UNPLACED).any():
            return self._none("nothing_runs", "nothing runs")
        if terms.keeping is None:
            raise ValueError("a scheduler that keeps what runs is needed")
        wanted = self._searched(FewestMoves(terms.keeping))
        stay = {**too_small_heaps(problem, wanted.slot_of_executor), **terms.stay}
        stay |= _out_of_scope(problem, request.topologies, request.nodes)
        order = self._order(wanted, stay, cpu_limits=True)
        if not order.steps:
            text = "all better moves are blocked" if order.blocked else "the search found no better placement"
            return self._none("blocked" if order.blocked else "nothing_to_do", text, order)
        slots = planned_slots(problem, order.moves)
        return self._plan(order, slots, self._gain(slots), proves=False)

    def evacuate(self, request: Evacuate) -> Plan | NoPlan:
        """Return the moves that empty hosts; topologies that cannot leave stay, with the reason.

        Workers on other hosts keep running. A shortage of CPU at the destination prevents no move: a drain has to empty
        the node, and the consequences are predicted, shown and measured.
        """
        problem, terms = self._problem, self._terms
        if terms.keeping is None:
            raise ValueError("a scheduler that keeps what runs is needed")
        drained = np.array([node.host in request.hosts for node in problem.supervisors], dtype=bool)
        now = problem.current_slot
        leaving = (now != UNPLACED) & drained[problem.slot_node[now]]
        if not leaving.any():
            return self._none("nothing_to_do", "nothing runs there")
        wanted, no_room = _as_far_as_there_is_room(problem, _elsewhere(problem, terms.keeping, leaving))
        stay: dict[str, str | Forbidden] = {
            **too_small_heaps(problem, wanted),
            **terms.stay,
            **no_room,
            **_being_placed(problem),
        }
        workers = _changed_workers(problem, wanted)
        order = self._order(Assignment(wanted, num_workers=workers), stay, cpu_limits=False, validated=False)
        concerned = {problem.topologies[index].id for index in np.unique(problem.executor_topology[leaving]).tolist()}
        blocked = {topology: why for topology, why in order.blocked.items() if topology in concerned}
        stays = [f"{_name(problem, topology)}: {why}" for topology, why in blocked.items()]
        more = [f"and {len(stays) - _MAX_NAMED:,} more"] if len(stays) > _MAX_NAMED else []
        reasons = "; ".join(stays[:_MAX_NAMED] + more)
        if not order.steps:
            return self._none("blocked", f"nothing can leave {', '.join(sorted(request.hosts))}: {reasons}", order)
        slots = planned_slots(problem, order.moves)
        plan = self._plan(
            replace(order, blocked=blocked), slots, self._outlooks[self._goals[0]].of(slots).text, proves=False
        )
        why = f"not all of it can leave: {reasons}" if blocked else ""
        return plan.model_copy(update={"origin": "drain", "why": why})

    def place(self, request: Place) -> Plan | NoPlan:
        problem = self._problem
        there = {topology: counts for topology, counts in request.executors.items() if topology in request.placements}
        resizing = other_executors(problem, there)
        given = {topology: each for topology, each in request.placements.items() if topology not in resizing}
        wanted = _given_slots(problem, given, self._terms.slot_name)
        workers = {
            topology: len(placement.slots)
            for topology, placement in given.items()
            if len(placement.slots) != problem.topologies[problem.topology_index[topology]].num_workers
        }
        pinned = _pinned(problem)
        order = plan_moves(problem, Assignment(wanted, num_workers=workers), UNLIMITED, pinned, False)
        blocked = {**order.blocked, **{topology: why for topology, why in pinned.items() if topology in resizing}}
        if blocked:
            raise InputError(_GIVEN, [Fault(str(why), topology) for topology, why in blocked.items()])
        slots = planned_slots(problem, order.moves)
        if request.refuses_cordoned:
            _require_schedulable(problem, slots)
        if resizing:
            plan = self._resize(order, slots, request, resizing)
        elif order.steps:
            gain = self._outlooks[self._goals[0]].of(slots).text if self._terms.predicts else ""
            plan = self._plan(order, slots, gain, proves=False)
        else:
            return self._none("nothing_to_do", "everything is where it should be")
        return plan.model_copy(update={"origin": request.origin, "reason": request.reason})

    def _resize(
        self, order: MoveOrder, slots: IntArray, request: Place, resizing: Mapping[str, Mapping[str, int]]
    ) -> Plan:
        """Return the plan that makes moves, and then gives topologies other numbers of executors."""
        now = self._problem
        moved = now.with_current(Assignment(slots).by_topology(now))
        then = resized(moved, resizing)
        final = resized_slots(moved, then, {topology: request.placements[topology] for topology in resizing}, _GIVEN)
        if request.refuses_cordoned:
            _require_schedulable(then, final)
        order = replace(order, steps=(*order.steps, *resize_steps(moved, then, final, resizing)))
        placements = Placements(then, self._assumptions())
        gain, promises = self._outlooks[self._goals[0]].of_resized(placements, final)
        if not self._terms.predicts:
            gain, promises = "", {}
        moving = {move.topology for move in order.moves}
        own = {
            "goal": ",".join(self._goals),
            "gain": gain,
            "promises": {topology: each for topology, each in promises.items() if topology in moving},
        }
        plan = plan_of(now, order, self._measured_rates()).model_copy(update=own)
        sources = self._terms.sources
        return plan if sources is None else with_figures(plan, self._placements, final, sources, then=placements)

    def _assumptions(self) -> Assumptions:
        """Return the assumptions of predictions, fixed by the running placement."""
        given, profile = self._terms.assumptions or Assumptions.of(self._problem), self._placements.profile
        return given if profile is None else given.fixed(profile)

    # Parts ----------------------------------------------------------------------------------------

    def _searched(self, scheduler: Scheduler) -> Assignment:
        answer = scheduler.schedule(self._problem)
        costs = self._placements.cost(self._problem.current_slot), self._placements.cost(answer.slot_of_executor)
        self._search = Search(*costs, answer.parameters)
        return answer

    def _order(
        self, wanted: Assignment, stay: Mapping[str, str | Forbidden], *, cpu_limits: bool, validated: bool = True
    ) -> MoveOrder:
        stay, budget = {**stay, **_pinned(self._problem)}, self._terms.budget
        if not validated:
            return plan_moves(self._problem, wanted, budget, stay, cpu_limits=cpu_limits)
        return plan_valid_moves(self._placements, wanted, budget, stay, cpu_limits=cpu_limits)

    def _gain(self, slots: IntArray) -> str:
        gain = "; ".join(each.of(slots).text for each in self._outlooks.values())
        return gain if self._problem.load else f"{gain}; no load was measured, so it is assumed"

    def _not_measured(self) -> dict[str, str]:
        if self._measured is None:
            return {}
        return {each.id: "not measured" for each in self._problem.topologies if each.id not in self._measured}

    def _plan(self, order: MoveOrder, slots: IntArray, gain: str, *, proves: bool = True) -> Plan:
        problem, predicts = self._problem, self._terms.predicts
        moving = {move.topology: problem.topology_index[move.topology] for move in order.moves}
        own = {
            "goal": ",".join(self._goals),
            "gain": gain,
            "promises": self._outlooks[self._goals[0]].promises(slots, moving) if predicts else {},
            "search": self._search,
        }
        plan = plan_of(problem, order, self._measured_rates()).model_copy(update=own)
        return self._described(plan, slots, proves=proves)

    def _measured_rates(self) -> dict[str, float]:
        rate_tps = self._placements.rate_tps if self._measured and self._terms.predicts else {}
        return {topology: rate for topology, rate in rate_tps.items() if topology in (self._measured or ())}

    def _none(self, code: NoPlanCode, reason: str, order: MoveOrder | None = None, *, brief: bool = False) -> NoPlan:
        blocked = {} if order is None else _names_blocked(self._problem, order)
        figures = Plan(goal=",".join(self._goals), why=reason, blocked=blocked)
        if not brief:
            figures = self._described(figures, self._problem.current_slot, proves=True)
        return NoPlan(code, reason, self._search, blocked, figures)

    def _described(self, plan: Plan, slots: IntArray, *, proves: bool) -> Plan:
        sources = self._terms.sources
        if sources is None:
            return plan
        goal = self._goals[0] if proves else ""
        return with_figures(plan, self._placements, slots, sources, goal)


# Moves towards a placement ------------------------------------------------------------------------


def plan_of(problem: Problem, order: MoveOrder, rate_tps: Mapping[str, float] | None = None) -> Plan:
    """Return a plan that makes moves, in one stage.

    Parameters
    ----------
    problem
        Problem with the current placement, on which the moves are based.
    order
        Steps in the order in which they are made, and topologies that stay.
    rate_tps
        Measured trees/s by topology id: with others the plan no longer applies.
    """
    steps = tuple(replace(step, number=number) for number, step in enumerate(order.steps))
    required = preconditions(problem, steps, rate_tps or {})
    return Plan(
        origin="service",
        topologies=len({move.topology for move in order.moves}),
        step_count=len(steps),
        stages=1,
        steps=steps,
        node_names={node: problem.cluster.node_names[problem.node_index[node]] for node in required.nodes},
        blocked=_names_blocked(problem, order),
        preconditions=required,
    )


#: Maximum number of attempts to plan moves that newly violate no constraint.
_ATTEMPTS = 8


def plan_valid_moves(
    placements: Placements,
    assignment: Assignment,
    budget: MoveBudget,
    staying: Mapping[str, str | Forbidden],
    *,
    cpu_limits: bool,
) -> MoveOrder:
    """Return the moves towards a placement, without those by which a constraint is newly violated.

    Topologies that would enter a node of which a limit would be newly exceeded stay, with the limit as the reason.

    Parameters
    ----------
    placements
        Placements of the problem.
    assignment, budget, staying, cpu_limits
        Placement, limits and exceptions, as in `stormwright.controller.planning.planner.plan_moves`.
    """
    problem, stay = placements.problem, dict(staying)
    order = plan_moves(problem, assignment, budget, stay, cpu_limits=cpu_limits)
    for _ in range(_ATTEMPTS):
        slots = planned_slots(problem, order.moves)
        broken = placements.newly_broken(slots) if order.moves else []
        if not broken:
            return order
        arrives = slots != problem.current_slot
        for violation in broken:
            entered = np.ones(len(slots), bool)
            if violation.topology is not None:
                entered = problem.executor_topology == problem.topology_index[violation.topology]
            elif violation.supervisor is not None:
                entered = problem.slot_node[slots] == problem.node_index[violation.supervisor]
            for index in np.unique(problem.executor_topology[arrives & entered]).tolist():
                stay[problem.topologies[index].id] = Forbidden(f"would newly exceed a limit: {violation}")
        order = plan_moves(problem, assignment, budget, stay, cpu_limits=cpu_limits)
    return MoveOrder((), order.blocked)


def planned_slots(problem: Problem, moves: Sequence[TopologyMove]) -> IntArray:
    """Return the slot of every executor after moves, shape (E,)."""
    slots = problem.current_slot.copy()
    for move in moves:
        own = [problem.slot_index[move.after.slots[slot]] for slot in move.after.slot_of_executor]
        slots[problem.executors_of(problem.topology_index[move.topology])] = own
    return slots


def _sure_step(problem: Problem, outlooks: Outlooks, wanted: IntArray) -> tuple[IntArray, Outlook] | None:
    """Return the placement that moves only the topology with the surest gain; None without a sure gain.

    Of many topologies those with most executors that move are tried.
    """
    moved = np.bincount(problem.executor_topology, wanted != problem.current_slot, len(problem.topologies))
    if np.count_nonzero(moved) < 2:
        return None
    best: tuple[IntArray, Outlook] | None = None
    for index in np.argsort(-moved, kind="stable")[: min(MAX_STEPS, np.count_nonzero(moved))].tolist():
        own, slots = problem.executors_of(index), problem.current_slot.copy()
        slots[own] = wanted[own]
        if np.isin(slots[own], problem.current_slot[problem.executor_topology != index]).any():
            continue  # another topology is still in the way
        found = outlooks.of(slots)
        if found.is_sure and (best is None or (found.at_least_percent or 0) > (best[1].at_least_percent or 0)):
            best = slots, found
    return best


def _stopped(problem: Problem, slots: IntArray) -> list[str]:
    """Return names of running topologies that have an executor without a slot in a placement."""
    lost = problem.executor_topology[(slots == UNPLACED) & (problem.current_slot != UNPLACED)]
    return [problem.topologies[index].name for index in np.unique(lost).tolist()]


def _small_gains(found: Mapping[str, Outlook], min_gain_percent: float | None) -> str:
    """Return why a placement is not worth the moves, by its gain in each goal; empty if it is."""
    why = []
    for goal, outlook in found.items():
        least = least_gain_percent(goal) if min_gain_percent is None else min_gain_percent
        if outlook.gain_percent >= least and outlook.gain_percent > 0:
            return ""
        if outlook.has_room:
            why.append(HAS_ROOM)
            continue
        less = f"; {outlook.less}" if outlook.less else ""
        if isfinite(outlook.gain_percent):
            wanted = f"at least {least:g} %" if least > 0 else "more than nothing"
            why.append(f"{outlook.text} counts as {outlook.gain_percent:+.3g} %, a move has to gain {wanted}{less}")
        else:
            why.append(outlook.text)
        if outlook.gain_percent < -GIVEN_UP_PERCENT:
            break  # what is more important gets worse
    return "; ".join(why)


# Topologies that stay -----------------------------------------------------------------------------


def _pinned(problem: Problem) -> dict[str, str]:
    """Return topologies (ids) that their owners do not want to be moved."""
    return {t.id: f"{MOVE} is false in its configuration" for t in problem.topologies if t.conf.get(MOVE) is False}


def _out_of_scope(problem: Problem, topologies: Sequence[str], nodes: Sequence[str]) -> dict[str, str]:
    """Return topologies (ids) that patterns leave out."""
    matching = {
        number
        for number, node in enumerate(problem.supervisors)
        if _matches((problem.cluster.node_names[number], node.host, node.id), nodes)
    }
    stay = {}
    for index, topology in enumerate(problem.topologies):
        if topologies and not _matches((topology.id, topology.name), topologies):
            stay[topology.id] = "it is not among the topologies of this plan"
        elif nodes:
            own = problem.current_slot[problem.executors_of(index)]
            if not matching & set(np.unique(problem.slot_node[own[own != UNPLACED]]).tolist()):
                stay[topology.id] = "it runs on none of the nodes of this plan"
    return stay


def _matches(names: tuple[str, ...], patterns: Sequence[str]) -> bool:
    """Return whether any of several names matches a pattern."""
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _being_placed(problem: Problem) -> dict[str, str]:
    """Return topologies (ids) with an executor without a slot: Nimbus would give it other slots than planned."""
    lost = np.bincount(problem.executor_topology[problem.current_slot == UNPLACED], minlength=len(problem.topologies))
    return {problem.topologies[index].id: "it is being placed" for index in np.flatnonzero(lost).tolist()}


def _names_blocked(problem: Problem, order: MoveOrder) -> dict[str, str]:
    return {_name(problem, each): str(why) for each, why in order.blocked.items() if not isinstance(why, Excluded)}


def _name(problem: Problem, topology: str) -> str:
    index = problem.topology_index.get(topology)
    return topology if index is None else problem.topologies[index].name


# Evacuations --------------------------------------------------------------------------------------


def _elsewhere(problem: Problem, keeping: Scheduler, leaving: BoolArray) -> Assignment:
    """Return a placement of the leaving executors by a scheduler, under the measured load."""
    slots = problem.current_slot.copy()
    slots[leaving] = UNPLACED
    return keeping.schedule(problem.with_moved(Assignment(slots).by_topology(problem)))


def _as_far_as_there_is_room(problem: Problem, answer: Assignment) -> tuple[IntArray, dict[str, str]]:
    """Return the answer with incompletely placed topologies left where they were, and the reasons."""
    wanted = answer.slot_of_executor.copy()
    no_room = {}
    lost = (wanted == UNPLACED) & (problem.current_slot != UNPLACED)
    for index in np.unique(problem.executor_topology[lost]).tolist():
        own, topology = problem.executors_of(index), problem.topologies[index]
        short = counted(int(lost[own].sum()), "executor")
        reasons = dict.fromkeys(
            reason for each in answer.unplaced if each.topology == topology.id for reason in each.reasons
        )
        no_room[topology.id] = f"no room elsewhere for {short}" + (f" ({'; '.join(reasons)})" if reasons else "")
        wanted[own] = problem.current_slot[own]
    return wanted, no_room


def _changed_workers(problem: Problem, wanted: IntArray) -> dict[str, int]:
    """Return the new worker count per topology (id) that moves, where it differs from Nimbus's."""
    found = {}
    for index in np.unique(problem.executor_topology[wanted != problem.current_slot]).tolist():
        used = np.unique(wanted[problem.executors_of(index)])
        if len(used) != problem.topologies[index].num_workers:
            found[problem.topologies[index].id] = len(used)
    return found


# Given placements ---------------------------------------------------------------------------------

#: Source of faults in a placement that is given.
_GIVEN = "the placement"


def _given_slots(
    problem: Problem, placements: Mapping[str, TopologyAssignment], slot_name: Callable[[WorkerSlot], str]
) -> IntArray:
    """Return the slot of every executor; where another topology holds a slot, another one of the same node."""
    faults, wanted, known = list[Fault](), problem.current_slot.copy(), problem.slot_index
    for topology, placement in placements.items():
        index = problem.topology_index.get(topology)
        if index is None:
            faults.append(Fault("is gone", topology))
            continue
        own = problem.executors_of(index)
        if gone := sorted(slot_name(slot) for slot in placement.slots if slot not in known):
            faults.append(Fault(f"{', '.join(gone)} {'are' if len(gone) > 1 else 'is'} gone", topology))
        elif len(placement.slot_of_executor) != problem.topologies[index].num_executors:
            faults.append(Fault(f"is placed with {counted(len(placement.slot_of_executor), 'executor')}", topology))
        elif (problem.current_slot[own] == UNPLACED).any():
            faults.append(Fault("has executors without a slot now", topology))
        else:
            wanted[own] = [known[placement.slots[slot]] for slot in placement.slot_of_executor]
    if faults:
        raise InputError(_GIVEN, faults)
    return wanted


def _require_schedulable(problem: Problem, slots: IntArray) -> None:
    """Raise InputError if an executor would enter an unschedulable host."""
    cordoned = problem.cluster.node_blacklisted
    comes = np.flatnonzero((slots != problem.current_slot) & (slots != UNPLACED))
    comes = comes[cordoned[problem.slot_node[slots[comes]]]]
    hosts = {problem.supervisors[int(node)].host for node in np.unique(problem.slot_node[slots[comes]])}
    if hosts:
        raise InputError(
            _GIVEN, [Fault("is cordoned: `stormwright uncordon` it first", host) for host in sorted(hosts)]
        )
