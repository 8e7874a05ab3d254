"""Drafts of plans: the part of a scheduler's answer that matches a request."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import combinations, islice
from math import isfinite

import numpy as np

from stormwright.controller.objectives.objective import (
    GIVEN_UP_PERCENT,
    too_small_heaps,
    within_heaps,
    within_live_heaps,
)
from stormwright.controller.objectives.outlook import HAS_ROOM, TRAFFIC, Outlook, Outlooks, least_gain_percent
from stormwright.controller.objectives.placements import Placements
from stormwright.controller.planning.plan import Forbidden, MovePlan
from stormwright.controller.plans.rollback import WHOLE, rollback_moves
from stormwright.controller.policy import MOVE, plan_valid_moves, planned_slots, without_assumed_traffic
from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.history.evaluation.verdict import Promise
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, TopologyAssignment, WorkerSlot
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import Violation
from stormwright.model.constraints.violations import broken_limits

# Least repair -------------------------------------------------------------------------------------
# Repair of all violations with the fewest moves.

#: Maximum number of sets tried exhaustively; beyond it topologies are added greedily.
_TRIES = 60

#: Maximum size of sets tried in all combinations.
_SMALLEST_UP_TO = 3


class FewestMoves:
    """A scheduler that resolves all violations by moving as few topologies as it finds.

    Executors that are on nodes, or of topologies, of which a limit is broken lose their slots, those of as few
    topologies as suffice; and `keeping` places them beside all that runs on. Where no set of topologies ends all of it,
    the one that leaves least is taken. Ties are broken by the order of the problem.

    Parameters
    ----------
    keeping
        Scheduler that places executors without slots and leaves running ones alone.
    """

    def __init__(self, keeping: Scheduler) -> None:
        self._keeping = keeping

    def schedule(self, problem: Problem) -> Assignment:
        """Return the placement; the current one if nothing is violated or nothing can be done."""
        now = problem.current_slot
        broken = broken_limits(problem, now)
        best, least = now, len(broken)
        if broken:
            movable = _movable(problem, broken)
            for chosen in _sets(movable):
                slots = self._without(problem, chosen, broken)
                left = least if slots is None else len(broken_limits(problem, slots))
                if slots is not None and left < least:
                    best, least = slots, left
                if not least:
                    return Assignment(best)
            return Assignment(self._one_by_one(problem, movable))
        return Assignment(best)

    def _one_by_one(self, problem: Problem, movable: Sequence[int]) -> IntArray:
        """Move concerned topologies one by one if that resolves a violation."""
        slots: IntArray = problem.current_slot
        for index in movable:
            now = problem.with_current(Assignment(slots).by_topology(problem))
            broken = broken_limits(now, slots)
            if not broken:
                break
            then = self._without(now, [index], broken)
            if then is not None and len(broken_limits(now, then)) < len(broken):
                slots = then
        return slots

    def _without(self, problem: Problem, chosen: Collection[int], broken: Sequence[Violation]) -> IntArray | None:
        """Return a placement after placing some topologies (indices) from scratch; None if it is impossible."""
        slots = problem.current_slot.copy()
        nodes, _ = concerned(problem, broken)
        _, whole = concerned(problem, [each for each in broken if each.node is None])
        there = np.isin(problem.slot_node[slots], list(nodes)) | np.isin(problem.executor_topology, list(whole))
        slots[there & np.isin(problem.executor_topology, list(chosen))] = UNPLACED
        answer = self._keeping.schedule(problem.with_current(Assignment(slots).by_topology(problem)))
        found = answer.slot_of_executor
        return None if (found == UNPLACED).any() else found


def concerned(problem: Problem, broken: Sequence[Violation]) -> tuple[set[int], set[int]]:
    """Return nodes and topologies (indices) that violations refer to."""
    nodes = {problem.node_index[each.supervisor] for each in broken if each.supervisor is not None}
    return nodes, {problem.topology_index[each.topology] for each in broken if each.topology is not None}


def _movable(problem: Problem, broken: Sequence[Violation]) -> list[int]:
    """Return the topologies (indices) concerned; those that take most CPU of the nodes first."""
    nodes, own = concerned(problem, broken)
    there = np.isin(problem.slot_node[problem.current_slot], list(nodes)) & (problem.current_slot != UNPLACED)
    cpu_hz = np.bincount(
        problem.executor_topology[there], problem.executor_cpu_hz[there], minlength=len(problem.topologies)
    )
    found = own | set(np.unique(problem.executor_topology[there]).tolist())
    runs = {index for index in found if (problem.current_slot[problem.executors_of(index)] != UNPLACED).all()}
    return sorted(runs, key=lambda index: (-cpu_hz[index], index))


def _sets(movable: Sequence[int]) -> list[tuple[int, ...]]:
    each = (chosen for size in range(1, _SMALLEST_UP_TO + 1) for chosen in combinations(movable, size))
    return list(islice(each, _TRIES))


# Draft --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanScope:
    """A request for a plan.

    Parameters
    ----------
    goals
        Of `stormwright.controller.objectives.outlook.OBJECTIVES`, the most important first; at least one.
    topologies, nodes
        Patterns with ``*`` of ids or names, and of ids or hosts: only such topologies move, and only such that run on
        such a node; all where there are none.
    least_gain_percent
        Minimum gain in one of the goals; None for the default.
    repairs
        Whether the plan repairs violations: then no gain is required.
    """

    goals: tuple[str, ...] = (TRAFFIC,)
    topologies: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    least_gain_percent: float | None = None
    repairs: bool = False


@dataclass(frozen=True)
class Proposal:
    """A draft of a plan with its predictions.

    Parameters
    ----------
    problem
        Problem that the plan was made for.
    plan
        Moves; empty if nothing moves, with the reason in `why`.
    slots
        Slot of every executor after the plan, shape (E,).
    gain
        Description of the gain.
    promises
        Promise by topology id.
    placements
        Cache of placements of the problem; None if there is none.
    goal
        Objective of the optimality gap, which refers to the current placement if nothing moves; empty for no gap.
    """

    problem: Problem
    plan: MovePlan
    slots: IntArray
    gain: str = ""
    why: str = ""
    promises: Mapping[str, Promise] = field(default_factory=dict)
    placements: Placements | None = None
    goal: str = ""


def propose_moves(
    problem: Problem, scheduler: Scheduler, wish: PlanScope, stay: Mapping[str, str | Forbidden] | None = None
) -> Proposal:
    """Return the moves towards a scheduler's placement that are requested and worthwhile.

    Parameters
    ----------
    problem
        Current problem with the newest load.
    scheduler
        Scheduler that is run once.
    wish
        Request for the plan.
    stay
        Additional topologies (ids) that do not move, with the reason.

    Raises
    ------
    InputError
        A pattern fits no topology, or no node.
    """
    check_scope(problem, wish)
    unmeasured = _unmeasured(problem, wish)
    problem = problem_for_plans(within_live_heaps(within_heaps(problem)))
    now = problem.current_slot
    if not (now != UNPLACED).any():
        return Proposal(problem, MovePlan(), now, why="nothing runs")
    wanted = scheduler.schedule(problem)
    staying = {
        **too_small_heaps(problem, wanted.slot_of_executor),
        **(stay or {}),
        **unmeasured,
        **_staying(problem, wish),
    }
    placements, goal = Placements(problem), "" if wish.repairs else wish.goals[0]
    cpu_limits = wish.repairs or wish.goals == (TRAFFIC,)
    plan = plan_valid_moves(placements, wanted, WHOLE, staying, cpu_limits=cpu_limits)
    outlooks = {goal: Outlooks(problem, goal, placements=placements) for goal in wish.goals}
    if not plan.steps:
        text = "all better moves are blocked" if plan.blocked else "the search found no better placement"
        if not plan.blocked and any(each.of(now).has_room for each in outlooks.values()):
            text = HAS_ROOM
        return Proposal(problem, plan, now, why=text, placements=placements, goal=goal)
    slots = planned_slots(problem, plan.moves)
    found = {goal: each.of(slots) for goal, each in outlooks.items()}
    if why := _not_worth(found, wish):
        return Proposal(problem, MovePlan((), plan.blocked), now, why=why, placements=placements, goal=goal)
    gain = "; ".join(each.text for each in found.values())
    if problem.load is None:
        gain += "; no load was measured, so it is assumed"
    draft = with_promises(problem, plan, slots, outlooks[wish.goals[0]], gain)
    return replace(draft, goal=goal)


def check_scope(problem: Problem, wish: PlanScope) -> None:
    """Check that each pattern fits a topology, or a node; InputError names those that do not."""
    topologies: list[tuple[str, ...]] = [(each.name, each.id) for each in problem.topologies]
    names = problem.cluster.node_names
    nodes: list[tuple[str, ...]] = [
        (name, each.host, each.id) for name, each in zip(names, problem.supervisors, strict=True)
    ]
    faults = []
    for kind, patterns, known in (("topology", wish.topologies, topologies), ("node", wish.nodes, nodes)):
        for pattern in patterns:
            if not any(_meant(each, (pattern,)) for each in known):
                there = suggestion_for(pattern, {each[0] for each in known})
                faults.append(Fault(f"fits no {kind}{there}", pattern))
    if faults:
        raise InputError("plan", faults)


def propose_rollback(
    problem: Problem,
    placements: Mapping[str, TopologyAssignment],
    goal: str,
    name: Callable[[WorkerSlot], str] = str,
) -> Proposal:
    """Return the moves that bring topologies (ids) back to where they were.

    Parameters
    ----------
    problem, placements, name
        As `rollback_moves` has them; it raises what that does.
    goal
        Objective of the promises.
    """
    problem = problem_for_plans(problem)
    plan = rollback_moves(problem, placements, name)
    slots = planned_slots(problem, plan.moves)
    if not plan.steps:
        return Proposal(problem, plan, slots, why="everything is where it was then")
    _require_takers(problem, slots)
    outlooks = Outlooks(problem, goal)
    return with_promises(problem, plan, slots, outlooks, outlooks.of(slots).text)


def _require_takers(problem: Problem, slots: IntArray) -> None:
    """Raise InputError if an executor would enter an unschedulable host."""
    listed = problem.cluster.node_blacklisted
    comes = np.flatnonzero((slots != problem.current_slot) & (slots != UNPLACED))
    comes = comes[listed[problem.slot_node[slots[comes]]]]
    hosts = {problem.supervisors[int(node)].host for node in np.unique(problem.slot_node[slots[comes]])}
    if hosts:
        faults = [Fault("is cordoned: `stormwright uncordon` it first", host) for host in sorted(hosts)]
        raise InputError("the placement of then", faults)


def with_promises(problem: Problem, plan: MovePlan, slots: IntArray, outlooks: Outlooks, gain: str) -> Proposal:
    """Return a draft of a plan with its promises.

    Parameters
    ----------
    problem, plan, slots
        What runs, the moves, and where every executor runs after them, shape (E,).
    outlooks
        Source of the promises.
    gain
        Description of the gain.
    """
    index = problem.topology_index
    promises = outlooks.promises(slots, {move.topology.id: index[move.topology.id] for move in plan.moves})
    return Proposal(problem, plan, slots, gain, "", promises, outlooks.placements)


def measured_rates(problem: Problem, placements: Placements | None = None) -> dict[str, float]:
    """Return measured trees/s per topology id.

    Parameters
    ----------
    problem
        Current problem.
    placements
        Placements of the problem, if any.
    """
    known = problem.load.topologies if problem.load else {}
    rates = (placements or Placements(problem_for_plans(problem))).rate_tps if known else {}
    return {topology: rate for topology, rate in rates.items() if topology in known}


def problem_for_plans(problem: Problem) -> Problem:
    """Return the problem for planning; without any measurement (a file) with the assumed load."""
    return problem if problem.load is None else without_assumed_traffic(problem)


def _unmeasured(problem: Problem, wish: PlanScope) -> dict[str, str]:
    if problem.load is None or wish.repairs:
        return {}
    known = problem.load.topologies
    return {topology.id: "not measured" for topology in problem.topologies if topology.id not in known}


def _not_worth(found: Mapping[str, Outlook], wish: PlanScope) -> str:
    """Return why a placement is not worth the moves, by its gain in each goal; empty if it is."""
    if wish.repairs:
        return ""
    why = []
    for goal, outlook in found.items():
        least = least_gain_percent(goal) if wish.least_gain_percent is None else wish.least_gain_percent
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


def _staying(problem: Problem, wish: PlanScope) -> dict[str, str]:
    """Return topologies (ids) that do not move because they are excluded or not movable."""
    nodes = {
        number
        for number, node in enumerate(problem.supervisors)
        if _meant((problem.cluster.node_names[number], node.host, node.id), wish.nodes)
    }
    stay = {}
    for index, topology in enumerate(problem.topologies):
        if topology.conf.get(MOVE) is False:
            stay[topology.id] = f"{MOVE} is false in its configuration"
        elif wish.topologies and not _meant((topology.id, topology.name), wish.topologies):
            stay[topology.id] = "it is not among the topologies of this plan"
        elif wish.nodes:
            own = problem.current_slot[problem.executors_of(index)]
            if not nodes & set(np.unique(problem.slot_node[own[own != UNPLACED]]).tolist()):
                stay[topology.id] = "it runs on none of the nodes of this plan"
    return stay


def _meant(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Return whether any of several names matches a pattern."""
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)
