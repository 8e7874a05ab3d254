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

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from stormwright.controller.configuration import other_conf, require_sound_conf
from stormwright.controller.description import with_figures
from stormwright.controller.given import GIVEN, given_slots, require_schedulable, require_whole_workers
from stormwright.controller.objectives.bounds import beyond_measured, within_heaps, within_live_heaps
from stormwright.controller.objectives.objective import GIVEN_UP_PERCENT
from stormwright.controller.objectives.outlook import TRAFFIC, Outlook, Outlooks, least_gain_percent
from stormwright.controller.objectives.placements import Placements, without_assumed_traffic
from stormwright.controller.planning.order import UNLIMITED, Forbidden, MoveOrder
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.planning.valid_moves import plan_valid_moves, planned_slots
from stormwright.controller.preconditions import preconditions
from stormwright.controller.reconfigure import other_executors, reconfigure_steps, reconfigured, reconfigured_slots
from stormwright.controller.repair import FewestMoves
from stormwright.controller.requests import (
    Evacuate,
    Improve,
    NoPlan,
    NoPlanCode,
    Place,
    PlanInputs,
    Repair,
    Request,
    Unattended,
)
from stormwright.controller.safety.capacities import with_allowed_cpu
from stormwright.controller.staying import being_placed, name_of, names_blocked, out_of_scope, pinned, require_matches
from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, TopologyAssignment
from stormwright.model.answer import name_slots
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.humanize import counted, listed
from stormwright.plans.plan import Plan, Search
from stormwright.predict.answer import Assumptions
from stormwright.schedulers.toolkit.traits import declared

#: Maximum number of topologies tried one by one for a sure gain.
MAX_STEPS = 8

#: Tolerated predicted loss in percent if only a part of the wanted moves is made.
PART_LOSS_PERCENT = 2.0

#: Maximum number of staying topologies listed by name, of a drain and where nothing moves.
_MAX_NAMED, _MAX_BLOCKED = 10, 3


def propose(problem: Problem, request: Request, inputs: PlanInputs) -> Plan | NoPlan:
    """Return the plan for a request, or why there is none.

    Parameters
    ----------
    problem
        What runs now under the load measured last.
    request
        Kind of plan wanted: `Improve`, `Repair`, `Evacuate` or `Place`.
    inputs
        Schedulers, budget and other limits for the plan.

    Raises
    ------
    InputError
        A pattern fits no topology, or no node; or a topology cannot get to the placement that is given.
    """
    return Proposals(problem, request.goals, inputs).of(request)


def valid_changes(
    problem: Problem, request: Place, changes_executors: bool
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, Any]]]:
    """Return the numbers of executors and the configurations of a request that differ from those that run.

    Raises
    ------
    InputError
        There is no such topology or component, the cluster cannot change numbers of executors, or a value of a
        configuration could do harm.
    """
    resizing, conf = other_executors(problem, request.executors), other_conf(problem, request.conf)
    if resizing and not changes_executors:
        why = "a virtual cluster cannot change the executors of a running topology"
        raise InputError("executors", [Fault(why, name_of(problem, topology)) for topology in resizing])
    if request.origin != "rollback":  # else it ran with that before
        require_sound_conf(problem, conf)
    return resizing, conf


def to_plan_on(problem: Problem, *, heeds_requests: bool = False) -> Problem:
    """Return the problem that is planned on.

    Nodes have the CPU that was measured to be allowed. Workers hold no more executors than their heaps have room for,
    as measured, and by requests unless the scheduler heeds these itself. Topologies that were not measured have their
    requests and no traffic; without any measurement, as of a file, the load is assumed.
    """
    problem = with_allowed_cpu(problem)
    problem = within_live_heaps(problem if heeds_requests else within_heaps(problem))
    return problem if problem.load is None else without_assumed_traffic(problem)


class Proposals:
    """Proposals for one problem, which share the predictions of the current placement.

    Parameters
    ----------
    problem
        Current problem under the newest load.
    goals
        Goals of all requests.
    inputs
        Schedulers, budget and other limits, as for `propose`.
    """

    def __init__(self, problem: Problem, goals: tuple[str, ...], inputs: PlanInputs) -> None:
        self._measured = None if problem.load is None else problem.load.topologies.keys()
        self._declared = problem.supervisors
        heeds_requests = inputs.scheduler is not None and declared(inputs.scheduler).heeds_requests
        self._problem = problem = to_plan_on(problem, heeds_requests=heeds_requests)
        self._inputs, self._goals = inputs, goals
        self._placements = Placements(problem, inputs.assumptions)
        self._outlooks = {
            goal: Outlooks(problem, goal, inputs.assumptions, inputs.gains, self._placements) for goal in goals
        }
        self._search: Search | None = None

    def of(self, request: Request) -> Plan | NoPlan:
        """Return the plan for a request, as `propose`."""
        if isinstance(request, Improve | Repair):
            require_matches(self._problem, request.topologies, request.nodes)
        if isinstance(request, Improve):
            return self._improve(request)
        if isinstance(request, Repair):
            return self._repair(request)
        if isinstance(request, Evacuate):
            return self._evacuate(request)
        return self._place(request)

    def _improve(self, request: Improve) -> Plan | NoPlan:
        problem, inputs, unattended = self._problem, self._inputs, request.unattended
        if not (problem.current_slot != UNPLACED).any():
            return self._none("nothing_runs", "nothing runs")
        if inputs.scheduler is None:
            raise ValueError("a scheduler is needed")
        wanted = self._searched(inputs.scheduler)
        if stopped := _stopped(problem, wanted.slot_of_executor):
            # Without their traffic it would seem to cost little.
            return self._none(
                "no_slots", f"no move is worth it: {listed(stopped)} would be left without slots", brief=True
            )
        stay = {**beyond_measured(problem, wanted.slot_of_executor), **inputs.stay, **self._not_measured()}
        stay |= out_of_scope(problem, request.topologies, request.nodes)
        cpu_limits = self._goals == (TRAFFIC,)
        if unattended is not None:
            return self._improve_unattended(wanted, unattended, stay, cpu_limits=cpu_limits)
        order = self._order(wanted, stay, cpu_limits=cpu_limits)
        slots = planned_slots(problem, order.moves)
        if not order.steps:
            text = "all better moves are blocked" if order.blocked else "the search found no better placement"
            if not order.blocked and any(each.of(problem.current_slot).has_room for each in self._outlooks.values()):
                text = self._has_room
            return self._none("blocked" if order.blocked else "small_gain", text, order)
        found = {goal: each.of(slots) for goal, each in self._outlooks.items()}
        if why := _small_gains(found, request.min_gain_percent, self._has_room):
            return self._none("small_gain", why, order)
        return self._plan(order, slots, self._gain(slots))

    def _improve_unattended(
        self, answer: Assignment, unattended: Unattended, stay: Mapping[str, str | Forbidden], *, cpu_limits: bool
    ) -> Plan | NoPlan:
        """Return a plan whose gain is beyond the error of predictions.

        A budget lets a part move at a time, so the gain of the whole is what counts; the part must not lose.
        """
        problem, inputs, outlooks = self._problem, self._inputs, self._outlooks[self._goals[0]]
        wanted = answer.slot_of_executor
        outlook = outlooks.of(wanted)
        reason = unattended.accepts(outlook)
        if reason and (unattended.is_trial or not outlook.is_sure):
            # One topology alone: its effect is measured before the next one moves.
            steps = [step for step in _steps(problem, outlooks, wanted) if unattended.is_trial or step[1].is_sure]
            slots, one = max(steps, key=lambda step: _worth(step[1], unattended), default=(wanted, outlook))
            small = unattended.accepts(one)
            if slots is not wanted and small:
                reason, wanted, outlook = f"{small}, a first step", slots, one
                answer = replace(answer, slot_of_executor=slots)
            elif unattended.is_trial and (not small or (not steps and _num_moving(problem, wanted) > 1)):
                reason = None
        if reason is None or not (outlook.is_sure or unattended.is_trial):
            unsure = "the gain is within the error of predictions" if reason and not outlook.is_sure else ""
            figures = (self._has_room,) if outlook.has_room else (outlook.text, unsure, outlook.less)
            why = "; ".join(filter(None, (unattended.drifted, *figures)))
            return self._none("small_gain", f"no move is worth it: {why}")
        refused = inputs.refuses(problem, wanted, outlook.worth, outlooks.rate_tps)
        order = self._order(answer, {**stay, **refused}, cpu_limits=cpu_limits)
        reason, slots = f"{reason} ({outlook.text})", planned_slots(problem, order.moves)
        if not outlook.is_explained:
            reason += (
                f"; the model explains {outlook.explained:.0%} of the CPU: the measurement decides whether it stays"
            )
        if not order.steps:
            stays = [f"{name_of(problem, topology)} stays: {why}" for topology, why in order.blocked.items()]
            return self._none("blocked", f"nothing can move: {listed(stays, _MAX_BLOCKED)}; {reason}", order)
        if self._goals != (TRAFFIC,) and not np.array_equal(slots, wanted):
            part = outlooks.of(slots)
            if part.gain_percent < -PART_LOSS_PERCENT:
                loses = f"but only a part of it can move now, and that alone: {part.text}"
                return self._none("part_loses", f"no move is worth it: {reason}; {loses}", order)
        plan = self._plan(order, slots, reason)
        update = {"reason": reason, "because": unattended.because(outlook), "trial": unattended.is_trial}
        return plan.model_copy(update=update)

    def _repair(self, request: Repair) -> Plan | NoPlan:
        problem, inputs = self._problem, self._inputs
        if not (problem.current_slot != UNPLACED).any():
            return self._none("nothing_runs", "nothing runs")
        if inputs.repair_scheduler is None:
            raise ValueError("a scheduler that keeps what runs is needed")
        wanted = self._searched(FewestMoves(inputs.repair_scheduler))
        stay = {**beyond_measured(problem, wanted.slot_of_executor), **inputs.stay}
        stay |= out_of_scope(problem, request.topologies, request.nodes)
        order = self._order(wanted, stay, cpu_limits=True)
        if not order.steps:
            broken = self._placements.broken(problem.current_slot)
            text = "no other placement violates less" if broken else "no limit is exceeded"
            text = "all better moves are blocked" if order.blocked else text
            return self._none("blocked" if order.blocked else "nothing_to_do", text, order)
        slots = planned_slots(problem, order.moves)
        return self._plan(order, slots, self._gain(slots), proves=False)

    def _evacuate(self, request: Evacuate) -> Plan | NoPlan:
        """Return the moves that empty hosts; topologies that cannot leave stay, with the reason.

        Workers on other hosts keep running. A shortage of CPU at the destination prevents no move: a drain has to empty
        the node, and the consequences are predicted, shown and measured.
        """
        problem, inputs = self._problem, self._inputs
        if inputs.repair_scheduler is None:
            raise ValueError("a scheduler that keeps what runs is needed")
        drained = np.array([node.host in request.hosts for node in problem.supervisors], dtype=bool)
        now = problem.current_slot
        leaving = (now != UNPLACED) & drained[problem.slot_node[now]]
        if not leaving.any():
            return self._none("nothing_to_do", "nothing runs there")
        wanted, no_room = _as_far_as_there_is_room(problem, _elsewhere(problem, inputs.repair_scheduler, leaving))
        stay: dict[str, str | Forbidden] = {
            **beyond_measured(problem, wanted),
            **inputs.stay,
            **no_room,
            **being_placed(problem),
        }
        workers = _changed_workers(problem, wanted)
        order = self._order(Assignment(wanted, num_workers=workers), stay, cpu_limits=False, validated=False)
        concerned = {problem.topologies[index].id for index in np.unique(problem.executor_topology[leaving]).tolist()}
        blocked = {topology: why for topology, why in order.blocked.items() if topology in concerned}
        stays = [f"{name_of(problem, topology)}: {why}" for topology, why in blocked.items()]
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

    def _place(self, request: Place) -> Plan | NoPlan:
        problem = self._problem
        resizing, conf = valid_changes(problem, request, self._inputs.changes_executors)
        returns = request.origin == "rollback"
        changing = {**resizing, **conf}
        given = {topology: each for topology, each in request.placements.items() if topology not in changing}
        wanted = given_slots(problem, given, self._inputs.slot_name)
        workers = {
            topology: len(placement.slots)
            for topology, placement in given.items()
            if len(placement.slots) != problem.topologies[problem.topology_index[topology]].num_workers
        }
        stays = pinned(problem)
        order = plan_moves(problem, Assignment(wanted, num_workers=workers), UNLIMITED, stays, False)
        blocked = {**order.blocked, **{topology: why for topology, why in stays.items() if topology in changing}}
        if blocked:
            raise InputError(GIVEN, [Fault(str(why), topology) for topology, why in blocked.items()])
        slots = planned_slots(problem, order.moves)
        if not returns:
            placed = {each: request.placements[each] for each in changing if each in request.placements}
            require_whole_workers(problem, slots, placed)
        if request.refuses_cordoned:
            require_schedulable(problem, slots)
        if changing:
            plan = self._reconfigure(order, slots, request, resizing, conf)
        elif order.steps:
            gain = self._outlooks[self._goals[0]].of(slots).text if self._inputs.predicts else ""
            plan = self._plan(order, slots, gain, proves=False)
        else:
            return self._none("nothing_to_do", "everything is where it should be")
        steps = tuple(replace(step, returns=returns) for step in plan.steps)
        return plan.model_copy(update={"origin": request.origin, "reason": request.reason, "steps": steps})

    def _reconfigure(
        self,
        order: MoveOrder,
        slots: IntArray,
        request: Place,
        resizing: Mapping[str, Mapping[str, int]],
        conf: Mapping[str, Mapping[str, Any]],
    ) -> Plan:
        """Return the plan that makes moves, and then gives topologies other executors and configurations."""
        now = self._problem
        moved = now.with_moved(Assignment(slots).by_topology(now))
        then = reconfigured(moved, resizing, conf)
        placements = {topology: now.current[topology] for topology in conf if topology in now.current}
        placements |= self._around(then, resizing.keys() - request.placements.keys())
        placements |= {each: request.placements[each] for each in {**resizing, **conf} if each in request.placements}
        final = reconfigured_slots(moved, then, placements, GIVEN)
        if request.refuses_cordoned:
            require_schedulable(then, final, moved)
        earlier = {move.topology for move in order.moves}
        steps = reconfigure_steps(moved, then, final, resizing, conf, earlier)
        order, planned = replace(order, steps=(*order.steps, *steps)), Placements(then, self._assumptions)
        own: dict[str, Any] = {"goal": ",".join(self._goals)}
        if self._inputs.predicts:
            gain, promises = self._outlooks[self._goals[0]].of_resized(planned, final)
            moving = {move.topology for move in order.moves}
            own |= {"gain": gain, "promises": {each: promises[each] for each in promises if each in moving}}
        plan = plan_of(replace(now, supervisors=self._declared), order, self._measured_rates()).model_copy(update=own)
        sources = self._inputs.sources
        return plan if sources is None else with_figures(plan, self._placements, final, sources, then=planned)

    def _around(self, problem: Problem, topologies: Set[str]) -> dict[str, TopologyAssignment]:
        """Return placements of topologies (ids) that do not run in a problem, around all others.

        Raises
        ------
        InputError
            There is no room for one.
        """
        if not topologies:
            return {}
        if self._inputs.repair_scheduler is None:
            raise ValueError("a scheduler that keeps what runs is needed")
        slots = self._inputs.repair_scheduler.schedule(problem).slot_of_executor
        own = {each: slots[problem.executors_of(problem.topology_index[each])] for each in sorted(topologies)}
        if short := [each for each, of in own.items() if (of == UNPLACED).any()]:
            raise InputError(GIVEN, [Fault("has no room for these numbers of executors", each) for each in short])
        return {each: name_slots(problem, of) for each, of in own.items()}

    @cached_property
    def _assumptions(self) -> Assumptions:
        """Return the assumptions of predictions, fixed by the running placement."""
        given, profile = self._inputs.assumptions or Assumptions.of(self._problem), self._placements.profile
        return given if profile is None else given.fixed(profile)

    def _searched(self, scheduler: Scheduler) -> Assignment:
        answer = scheduler.schedule(self._problem)
        costs = self._placements.cost(self._problem.current_slot), self._placements.cost(answer.slot_of_executor)
        self._search = Search(*costs, answer.parameters)
        return answer

    def _order(
        self, wanted: Assignment, stay: Mapping[str, str | Forbidden], *, cpu_limits: bool, validated: bool = True
    ) -> MoveOrder:
        stay, budget = {**stay, **pinned(self._problem)}, self._inputs.budget
        if not validated:
            return plan_moves(self._problem, wanted, budget, stay, cpu_limits=cpu_limits)
        return plan_valid_moves(self._placements, wanted, budget, stay, cpu_limits=cpu_limits)

    def _gain(self, slots: IntArray) -> str:
        gain = "; ".join(each.of(slots).text for each in self._outlooks.values())
        return gain if self._problem.load else f"{gain}; no load was measured, so it is assumed"

    @property
    def _has_room(self) -> str:
        """Why no move is worth it where rates can double (`Outlook.has_room`)."""
        kind = "assumed" if self._measured is None else "measured"
        text = f"every running topology already reaches at least twice its {kind} rate"
        waiting = [name_of(self._problem, topology) for topology in being_placed(self._problem)]
        return f"{text}; Nimbus has yet to give slots to all executors of {listed(waiting)}" if waiting else text

    def _not_measured(self) -> dict[str, str]:
        if self._measured is None:
            return {}
        return {each.id: "not measured" for each in self._problem.topologies if each.id not in self._measured}

    def _plan(self, order: MoveOrder, slots: IntArray, gain: str, *, proves: bool = True) -> Plan:
        problem, predicts = self._problem, self._inputs.predicts
        moving = {move.topology: problem.topology_index[move.topology] for move in order.moves}
        own = {
            "goal": ",".join(self._goals),
            "gain": gain,
            "promises": self._outlooks[self._goals[0]].promises(slots, moving) if predicts else {},
            "search": self._search,
        }
        plan = plan_of(replace(problem, supervisors=self._declared), order, self._measured_rates()).model_copy(
            update=own
        )
        return self._described(plan, slots, proves=proves)

    def _measured_rates(self) -> dict[str, float]:
        rate_tps = self._placements.rate_tps if self._measured and self._inputs.predicts else {}
        return {topology: rate for topology, rate in rate_tps.items() if topology in (self._measured or ())}

    def _none(self, code: NoPlanCode, reason: str, order: MoveOrder | None = None, *, brief: bool = False) -> NoPlan:
        blocked = {} if order is None else names_blocked(self._problem, order)
        figures = Plan(goal=",".join(self._goals), why=reason, blocked=blocked)
        if not brief:
            figures = self._described(figures, self._problem.current_slot, proves=True)
        return NoPlan(code, reason, self._search, blocked, figures)

    def _described(self, plan: Plan, slots: IntArray, *, proves: bool) -> Plan:
        sources = self._inputs.sources
        if sources is None:
            return plan
        goal = self._goals[0] if proves else ""
        return with_figures(plan, self._placements, slots, sources, goal)


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
        blocked=names_blocked(problem, order),
        preconditions=required,
    )


def _num_moving(problem: Problem, wanted: IntArray) -> int:
    return len(np.unique(problem.executor_topology[wanted != problem.current_slot]))


def _steps(problem: Problem, outlooks: Outlooks, wanted: IntArray) -> Iterator[tuple[IntArray, Outlook]]:
    """Yield the placements that move only one of several topologies, those with most executors that move first.

    Topologies whose slots another one still has are left out.
    """
    moved = np.bincount(problem.executor_topology, wanted != problem.current_slot, len(problem.topologies))
    if np.count_nonzero(moved) < 2:
        return
    for index in np.argsort(-moved, kind="stable")[: min(MAX_STEPS, np.count_nonzero(moved))].tolist():
        own, slots = problem.executors_of(index), problem.current_slot.copy()
        slots[own] = wanted[own]
        if not np.isin(slots[own], problem.current_slot[problem.executor_topology != index]).any():
            yield slots, outlooks.of(slots)


def _worth(outlook: Outlook, unattended: Unattended) -> float:
    """Return the gain by which first steps are compared: the expected one of trials, else the sure one."""
    return outlook.gain_percent if unattended.is_trial else outlook.at_least_percent or 0.0


def _stopped(problem: Problem, slots: IntArray) -> list[str]:
    """Return names of running topologies that have an executor without a slot in a placement."""
    lost = problem.executor_topology[(slots == UNPLACED) & (problem.current_slot != UNPLACED)]
    return [problem.topologies[index].name for index in np.unique(lost).tolist()]


def _small_gains(found: Mapping[str, Outlook], min_gain_percent: float | None, has_room: str) -> str:
    """Return why a placement is not worth the moves, by its gain in each goal; empty if it is."""
    why = []
    for goal, outlook in found.items():
        least = least_gain_percent(goal) if min_gain_percent is None else min_gain_percent
        if outlook.gain_percent >= least and outlook.gain_percent > 0:
            return ""
        if outlook.has_room:
            why.append(has_room)
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


def _elsewhere(problem: Problem, scheduler: Scheduler, leaving: BoolArray) -> Assignment:
    """Return a placement of the leaving executors by a scheduler, under the measured load."""
    slots = problem.current_slot.copy()
    slots[leaving] = UNPLACED
    return scheduler.schedule(problem.with_moved(Assignment(slots).by_topology(problem)))


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
