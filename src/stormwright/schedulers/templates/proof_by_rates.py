"""Optimality bounds for objectives by rates: highest rates and fewest nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.model.constraints.constraint import Violation
from stormwright.model.constraints.resources import ResourceOveruse
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.topology_config import WORKERS, WORKERS_KEY
from stormwright.predict.answer import Assumptions
from stormwright.predict.bounds.case import Case
from stormwright.predict.bounds.prove import SAME, fewest_nodes, least_full
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers.templates.by_rates import RateGoal, RateSearch
from stormwright.schedulers.toolkit.limits import num_workers

#: Objectives with a bound.
PROVEN = ("throughput", "nodes")


def proof_by_rates(search: RateSearch, slots: IntArray, seconds: float) -> dict[str, Any]:
    """Return the value of a placement, a bound on all placements, and the gap, as a JSON object.

    Parameters
    ----------
    search
        Search of the problem; the objective of its goal is one of `PROVEN`.
    slots
        Slot of every executor, -1 for none, shape (E,).
    seconds
        Seconds for the bound.

    Returns
    -------
    dict
        For throughput ``factor``, by which all rates can grow (times weights), None if nothing limits them; for nodes
        ``nodes``, and whether these sustain the rates with the headroom (``sustained``). ``bound`` is the bound on all
        placements, None if nothing limits rates or no placement sustains them. ``gap`` is their relative difference,
        None if undefined. And ``optimal``.
    """
    problem, load, goal = search.problem, search.load, search.goal
    bounding = RateBounds.of(problem, load.profile, Assumptions(load.costs, load.corrections), goal)
    state, broken = search.predicted(slots), broken_limits(problem, slots)
    if goal.objective == "throughput":
        return throughput_proof(bounding, slots, state.highest_tps, broken, seconds)
    case, valid = bounding.case, bounding.is_valid(slots, broken)
    allowed, placed = 1.0 - goal.headroom, slots != UNPLACED
    there = bounding.wanted_tps > 0
    sustained = bool(np.all(state.given_use[there] <= allowed * (1 + SAME)) and np.all(placed))
    nodes = len(np.unique(problem.slot_node[slots[placed]]))
    known = nodes if sustained and valid else math.inf
    bound = fewest_nodes(case, allowed * (1 + SAME), known, seconds)
    return {
        "objective": "nodes",
        "nodes": nodes,
        "headroom": goal.headroom,
        "sustained": sustained,
        "bound": int(bound) if math.isfinite(bound) else None,
        "gap": max(0.0, 1 - bound / nodes) if nodes and sustained and valid and math.isfinite(bound) else None,
        "optimal": bool(math.isfinite(known) and bound >= known),
    }


@dataclass(frozen=True, eq=False)
class RateBounds:
    """Input of a bound: the case of a problem, and the wanted trees/s of topologies, shape (T,)."""

    problem: Problem
    case: Case
    wanted_tps: FloatArray

    @classmethod
    def of(cls, problem: Problem, profile: Profile, assumptions: Assumptions, goal: RateGoal) -> RateBounds:
        """Create the input of a bound.

        Parameters
        ----------
        problem, profile
            The problem and its load.
        assumptions
            Costs of messages, and facts about topologies.
        goal
            Its objective is one of `PROVEN`.
        """
        throughput = goal.objective == "throughput"
        wanted_tps = profile.rate_tps * weights_of(problem) if throughput else profile.rate_tps
        case = Case.of(problem, profile, assumptions, wanted_tps, _workers(problem, goal))
        return cls(problem, case, wanted_tps)

    def is_valid(self, slots: IntArray, broken: Sequence[Violation]) -> bool:
        """Return whether a placement is complete, and violates no constraint but CPU."""
        if np.any(slots == UNPLACED):
            return False
        problem, case = self.problem, self.case
        used = np.unique(np.stack([problem.executor_topology, slots]), axis=1)[0]
        workers, cpu = np.bincount(used, minlength=len(problem.topologies)), problem.resources[0].name
        if any(not (isinstance(each, ResourceOveruse) and each.resource == cpu) for each in broken):
            return False
        return bool(np.all((workers >= case.least_workers) & (workers <= case.most_workers)))


def throughput_proof(
    bounding: RateBounds, slots: IntArray, highest_tps: FloatArray, broken: Sequence[Violation], seconds: float
) -> dict[str, Any]:
    """Return `proof_by_rates` for throughput, given the rates and violations of a placement.

    Parameters
    ----------
    bounding
        Input of the bound, for throughput.
    slots
        Slot of every executor, -1 for none, shape (E,).
    highest_tps
        Highest trees/s of each topology under it, shape (T,).
    broken
        Violations of the placement.
    seconds
        Seconds for the bound.
    """
    case, wanted_tps, valid = bounding.case, bounding.wanted_tps, bounding.is_valid(slots, broken)
    there = wanted_tps > 0
    factor = float((highest_tps[there] / wanted_tps[there]).min(initial=np.inf))
    known = 1 / factor if valid and factor > 0 else math.inf
    full = least_full(case, known, seconds)
    bound = max(1 / full, factor if valid else 0.0) if full > 0 else math.inf
    is_bounded = valid and 0 < factor < math.inf and math.isfinite(bound)
    return {
        "objective": "throughput",
        "factor": factor if math.isfinite(factor) else None,
        "bound": bound if math.isfinite(bound) else None,
        "gap": max(0.0, bound / factor - 1) if is_bounded else None,
        "optimal": bool(valid and (bound <= factor * (1 + SAME) or math.isinf(factor))),
    }


def _workers(problem: Problem, goal: RateGoal) -> tuple[IndexArray, IndexArray]:
    """Return the minimum and maximum number of workers of each topology, shape (T,) each."""
    configured = [topology.conf.get(WORKERS_KEY) for topology in problem.topologies]
    choice = np.array([each if each in WORKERS else goal.workers for each in configured], dtype="U16")
    requested = np.array([num_workers(topology) for topology in problem.topologies], np.int64)
    sizes = np.diff(problem.executor_offset).astype(np.int64)
    return np.where(choice == "exactly", requested, np.minimum(sizes, 1)), np.where(choice == "free", sizes, requested)
