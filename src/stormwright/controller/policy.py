"""Decisions when to move: triggers over observations, and the budget of moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

import numpy as np

from stormwright.controller.objectives.objective import PlacementAim
from stormwright.controller.objectives.outlook import HAS_ROOM, TRAFFIC, Outlook, Outlooks
from stormwright.controller.objectives.placements import Placements
from stormwright.controller.planning.plan import Forbidden, MoveBudget, MovePlan, TopologyMove
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.safety.holds import HoldCode
from stormwright.history.evaluation.verdict import Promise
from stormwright.model import UNPLACED, Assignment, Cost, LoadProfile, Problem, Scheduler, cost_of
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import listed
from stormwright.model.load import silent_load
from stormwright.schedulers.toolkit.triggers import (
    Adaptation,
    TriggerParams,
    TriggerView,
    by_name,
    own_overload_s,
    should_reschedule,
)

#: Key in a topology's configuration: false forbids moves.
MOVE = "stormwright.move"

#: Minimum predicted gain in percent while a node is overloaded: topologies with unlimited spouts fill their nodes under
#: any placement.
OVERLOAD_GAIN_PERCENT = 5.0

#: Maximum number of topologies tried one by one for a sure gain.
MOST_STEPS = 8

#: Tolerated predicted loss in percent if only a part of the wanted moves is made.
PART_LOSS_PERCENT = 2.0


@dataclass(frozen=True)
class DecisionTimes:
    """Times of past looks and moves, in seconds of one clock.

    `last_idle_search_s` is the last check after which nothing moved: there is no other check within a period, unless an
    alarm was raised since (`last_alarm_s`).
    """

    now_s: float
    last_change_s: float
    last_search_s: float
    last_idle_search_s: float = float("-inf")
    last_alarm_s: float = float("-inf")


#: Why no move is worth it: the placement leaves running topologies without slots, gains too little or not surely, or
#: the part of it that can move now loses.
DeclineCode = Literal["no_slots", "small_gain", "part_loses"]


def _nothing() -> MovePlan:
    return MovePlan((), {})


@dataclass(frozen=True)
class Decision:
    """A decision and its reasons.

    Parameters
    ----------
    looked
        Whether the scheduler was run, or a move is rolled back.
    plan
        Moves; empty if nothing moves.
    before, after
        Costs of the current and of the wanted placement.
    promises
        Promise by topology id.
    rolls_back
        Topologies (ids) that are rolled back.
    because
        Anomaly without which it would not have been made; else empty.
    hold
        Code of the hold that forbids decisions now; empty if there is none.
    declined
        Code of the reason for which no move is worth it; empty if one is, or if none was searched for.
    """

    looked: bool
    reason: str
    plan: MovePlan = field(default_factory=_nothing)
    before: Cost | None = None
    after: Cost | None = None
    assignment: Assignment | None = None
    promises: Mapping[str, Promise] = field(default_factory=dict)
    rolls_back: frozenset[str] = frozenset()
    because: Literal["overload", "drift", ""] = ""
    hold: HoldCode | Literal[""] = ""
    declined: DeclineCode | Literal[""] = ""


def decide(
    problem: Problem,
    scheduler: Scheduler,
    triggers: TriggerParams,
    budget: MoveBudget,
    clock: DecisionTimes,
    stay: Mapping[str, str | Forbidden] | None = None,
    drifted: str = "",
    aim: PlacementAim | None = None,
) -> Decision:
    """Decide about a move: whether, and of which topologies.

    Parameters
    ----------
    problem
        What runs now under the load measured last. A topology that was not measured counts with what its executors
        ask for, without traffic, and stays.
    scheduler
        Scheduler that is run once a trigger fires.
    triggers
        Conditions for a check, and the required gain.
    budget
        Limits of one decision.
    clock
        Current time, and times of the last check and move.
    stay
        Additional topologies that do not move, with the reason.
    drifted
        Drift of the load since the last move; empty without drift.
    aim
        Objective of placements, to which the triggers refer; by default little traffic between nodes.
    """
    aim, stay = aim or PlacementAim(), _staying(problem, stay or {})
    problem = without_assumed_traffic(problem)
    outlooks = Outlooks(problem, aim.objective, aim.assumptions, aim.adapts.gains)
    before = outlooks.cost
    # Whether even the best placement there could be would be a reason to move.
    at_best = TriggerView(
        since_change_s=clock.now_s - clock.last_change_s,
        since_look_s=clock.now_s - clock.last_search_s,
        overload_s=by_name(problem, problem.load.overload_s if problem.load else {}),
        gain_percent=inf if outlooks.can_gain else 0.0,
        drifted=drifted,
        overload_gain_percent=-inf if aim.objective == TRAFFIC else OVERLOAD_GAIN_PERCENT,
        own_overload_s=by_name(problem, own_overload_s(problem)),
    )
    tried = clock.now_s - clock.last_idle_search_s < triggers.period_s and clock.last_alarm_s < clock.last_idle_search_s
    if (tried and not drifted) or should_reschedule(triggers, at_best, aim.adapts) is None:
        return Decision(False, "no trigger", before=before)
    assignment = scheduler.schedule(problem)
    wanted = assignment.slot_of_executor
    after = cost_of(problem, wanted)
    if stopped := _stopped(problem, wanted):
        # Without their traffic it would seem to cost little.
        why = f"no move is worth it: {listed(stopped)} would be left without slots"
        return Decision(True, why, before=before, after=after, assignment=assignment, declined="no_slots")
    outlook = outlooks.of(wanted)
    view = replace(at_best, gain_percent=outlook.gain_percent, gained=outlook.gained)
    reason = should_reschedule(triggers, view, aim.adapts)
    if reason and not outlook.is_sure and (step := _sure_step(problem, outlooks, wanted)) is not None:
        # One topology alone: its effect is measured before the next one moves.
        slots, one = step
        view = replace(at_best, gain_percent=one.gain_percent, gained=one.gained)
        if small := should_reschedule(triggers, view, aim.adapts):
            reason, wanted, outlook = f"{small}, a first step", slots, one
            assignment = replace(assignment, slot_of_executor=slots)
    if reason is None or not outlook.is_sure:
        unsure = "the gain is within the error of predictions" if reason and not outlook.is_sure else ""
        figures = (HAS_ROOM,) if outlook.has_room else (outlook.text, unsure, outlook.less)
        why = "; ".join(filter(None, (drifted, *figures)))
        text = f"no move is worth it: {why}"
        return Decision(True, text, before=before, after=after, assignment=assignment, declined="small_gain")
    refused = aim.refuses(problem, wanted, outlook.worth, outlooks.rate_tps)
    staying = {**stay, **refused}
    plan = plan_valid_moves(outlooks.placements, assignment, budget, staying, cpu_limits=aim.objective == TRAFFIC)
    reason, slots = f"{reason} ({outlook.text})", planned_slots(problem, plan.moves)
    if outlook.is_trial:
        reason += (
            f"; a trial, as the model explains {outlook.explained:.0%} of the CPU: what is measured then decides "
            "whether it stays"
        )
    if aim.objective != TRAFFIC and plan.moves and not np.array_equal(slots, wanted):
        part = outlooks.of(slots)
        if part.gain_percent < -PART_LOSS_PERCENT:
            why = f"no move is worth it: {reason}; but only a part of it can move now, and that alone: {part.text}"
            return Decision(True, why, before=before, after=after, assignment=assignment, declined="part_loses")
    arriving = {move.topology.id: problem.topology_index[move.topology.id] for move in plan.moves}
    because = _because(triggers, view, aim.adapts)
    return Decision(True, reason, plan, before, after, assignment, outlooks.promises(slots, arriving), because=because)


def _sure_step(problem: Problem, outlooks: Outlooks, wanted: IntArray) -> tuple[IntArray, Outlook] | None:
    """Return the placement that moves only the topology with the surest gain; None without a sure gain.

    Of many topologies those with most executors that move are tried.
    """
    moved = np.bincount(problem.executor_topology, wanted != problem.current_slot, len(problem.topologies))
    if np.count_nonzero(moved) < 2:
        return None
    best: tuple[IntArray, Outlook] | None = None
    for index in np.argsort(-moved, kind="stable")[: min(MOST_STEPS, np.count_nonzero(moved))].tolist():
        own, slots = problem.executors_of(index), problem.current_slot.copy()
        slots[own] = wanted[own]
        if np.isin(slots[own], problem.current_slot[problem.executor_topology != index]).any():
            continue  # another topology is still in the way
        found = outlooks.of(slots)
        if found.is_sure and (best is None or (found.at_least_percent or 0) > (best[1].at_least_percent or 0)):
            best = slots, found
    return best


def _because(triggers: TriggerParams, view: TriggerView, adapts: Adaptation) -> Literal["overload", "drift", ""]:
    """Return the anomaly without which no trigger would have fired."""
    calm = replace(view, overload_s={})
    if should_reschedule(triggers, calm, adapts) is None:
        return "overload"
    steady = replace(calm, drifted="")
    return "drift" if view.drifted and should_reschedule(triggers, steady, adapts) is None else ""


def _stopped(problem: Problem, slots: IntArray) -> list[str]:
    """Return names of running topologies that have an executor without a slot in a placement."""
    lost = problem.executor_topology[(slots == UNPLACED) & (problem.current_slot != UNPLACED)]
    return [problem.topologies[index].name for index in np.unique(lost).tolist()]


def _staying(problem: Problem, stay: Mapping[str, str | Forbidden]) -> dict[str, str | Forbidden]:
    """Return topologies that do not move, with the reason."""
    measured = problem.load.topologies if problem.load else {}
    fixed = {t.id: f"{MOVE} is false in its configuration" for t in problem.topologies if t.conf.get(MOVE) is False}
    unmeasured = {topology.id: "not measured" for topology in problem.topologies if topology.id not in measured}
    return {**unmeasured, **stay, **fixed}


#: Maximum number of attempts to plan moves that newly violate no constraint.
_ATTEMPTS = 8


def plan_valid_moves(
    placements: Placements,
    assignment: Assignment,
    budget: MoveBudget,
    staying: Mapping[str, str | Forbidden],
    *,
    cpu_limits: bool,
) -> MovePlan:
    """Return the moves towards a placement, without those by which a constraint is newly violated.

    Topologies that would enter a node of which a limit would be newly exceeded stay, with the limit as the reason.

    Parameters
    ----------
    placements
        Placements of the problem.
    assignment, budget, staying, cpu_limits
        As in `stormwright.controller.planning.planner.plan_moves`.
    """
    problem, stay = placements.problem, dict(staying)
    plan = plan_moves(problem, assignment, budget, stay, cpu_limits=cpu_limits)
    for _ in range(_ATTEMPTS):
        slots = planned_slots(problem, plan.moves)
        broken = placements.newly_broken(slots) if plan.moves else []
        if not broken:
            return plan
        arrives = slots != problem.current_slot
        for violation in broken:
            entered = np.ones(len(slots), bool)
            if violation.topology is not None:
                entered = problem.executor_topology == problem.topology_index[violation.topology]
            elif violation.supervisor is not None:
                entered = problem.slot_node[slots] == problem.node_index[violation.supervisor]
            for index in np.unique(problem.executor_topology[arrives & entered]).tolist():
                stay[problem.topologies[index].id] = Forbidden(f"would newly exceed a limit: {violation}")
        plan = plan_moves(problem, assignment, budget, stay, cpu_limits=cpu_limits)
    return MovePlan((), plan.blocked)


def planned_slots(problem: Problem, moves: tuple[TopologyMove, ...]) -> IntArray:
    """Return the slot of every executor after the moves, shape (E,)."""
    slots = problem.current_slot.copy()
    for move in moves:
        own = [problem.slot_index[move.after.slots[slot]] for slot in move.after.slot_of_executor]
        slots[problem.executors_of(problem.topology_index[move.topology.id])] = own
    return slots


def without_assumed_traffic(problem: Problem) -> Problem:
    """Return the problem for a decision: unmeasured topologies have their requests and no traffic."""
    load = problem.load or LoadProfile({})
    silent = {
        topology.id: silent_load(topology, problem.core_hz, problem.conf)
        for topology in problem.topologies
        if topology.id not in load.topologies
    }
    return problem.with_load(replace(load, topologies={**load.topologies, **silent})) if silent else problem
