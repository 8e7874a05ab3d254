"""Evaluation of placements by an operator's objective."""

from __future__ import annotations

from math import isfinite
from typing import Final

import numpy as np

from stormwright.model import UNPLACED, Problem, cost_of
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.constraint import Violation
from stormwright.model.constraints.resources import ResourceOveruse
from stormwright.model.constraints.slots import MissingSlot, WorkerCount
from stormwright.model.constraints.violations import violations
from stormwright.model.humanize import counted
from stormwright.optimize.throughput.start import MeasuredLoad
from stormwright.schedulers.templates.by_rates import RateGoal, RateSearch, is_measured, wanted_of
from stormwright.schedulers.toolkit.canonical import with_sorted_pairs

TRAFFIC: Final = "traffic"

#: Objectives of `optimizer`.
OBJECTIVES: Final = ("auto", TRAFFIC, "throughput", "latency", "nodes", "balanced")

#: Minimum relative gain for changing the running placement, for predicted objectives.
_WORTH_IT: Final = 5e-3

#: Relative rounding error of costs of traffic.
_ROUNDING: Final = 1e-9


class PlacementEvaluator:
    """Evaluates placements of one problem.

    Parameters
    ----------
    problem
        Problem with the load for predictions.
    objective
        One of `OBJECTIVES`; auto is throughput under the measured or assumed rates.
    headroom
        Fraction of all resources that stays free if nodes are minimised.

    Attributes
    ----------
    objective
        Effective objective.
    note
        Reason if it differs from the requested one; else empty.
    soft_cpu
        Whether CPU is no constraint, as it follows from rates; by objective auto only if a service measured the load,
        or it is neither measured nor requested.
    """

    def __init__(
        self,
        problem: Problem,
        objective: str = "auto",
        headroom: float = 0.2,
    ) -> None:
        self.problem, self.note = with_sorted_pairs(problem), ""
        self.objective = wanted_of(problem) if objective == "auto" else objective
        if self.objective != TRAFFIC and wanted_of(problem) == TRAFFIC:
            self.note = f"compared by traffic, as without any traffic {self.objective} cannot be predicted"
            self.objective = TRAFFIC
        runs = np.unique(problem.executor_topology[problem.current_slot != UNPLACED])
        found = violations(problem, problem.current_slot)
        others = {each.topology for each in found if isinstance(each, WorkerCount)}
        #: Topologies (ids) that run with another number of workers than they want.
        self._others = others.intersection(problem.topologies[index].id for index in runs.tolist())
        self._rates: RateSearch | None = None
        is_soft = objective != "auto" or is_measured(problem) or not problem.executor_demand[0].any()
        self.soft_cpu = self.objective != TRAFFIC and is_soft
        if self.objective != TRAFFIC:
            load = MeasuredLoad.of(self.problem)
            self._rates = RateSearch(self.problem, load, RateGoal(self.objective, "free", headroom, 0))

    def badness(self, slots: IntArray) -> float:
        """Return the cost of a placement, or its predicted badness relative to the objective; lower is better."""
        return cost_of(self.problem, slots).total if self._rates is None else self._rates.badness(slots)

    def pays(self, badness: float, now: float) -> bool:
        """Return whether a placement is sufficiently better than the running one to move."""
        return badness < now - (_ROUNDING * abs(now) if self._rates is None else _WORTH_IT)

    def broken(self, slots: IntArray, chosen_workers: bool = False) -> list[Violation]:
        """Return violations by the placed executors.

        The number of workers counts for topologies that do not run, or run with the number that they want.

        Parameters
        ----------
        slots
            Slot of every executor, -1 for none, shape (E,).
        chosen_workers
            Whether the answer may change the numbers of workers.
        """
        cpu = self.problem.resources[0].name
        found = violations(self.problem, slots)
        any_number = {each.topology for each in found if isinstance(each, MissingSlot)} | self._others

        def counts(each: Violation) -> bool:
            if isinstance(each, MissingSlot):
                return False
            if isinstance(each, WorkerCount):
                return not chosen_workers and each.topology not in any_number
            return not (self.soft_cpu and isinstance(each, ResourceOveruse) and each.resource == cpu)

        return list(filter(counts, found))

    def promise(self, slots: IntArray) -> str:
        """Return the prediction for a placement as a short text."""
        if self._rates is None:
            return f"cost {cost_of(self.problem, slots).total:,.1f}"
        if self.objective == "nodes":
            used = np.unique(self.problem.slot_node[slots[slots != UNPLACED]])
            return f"{counted(len(used), 'node')}"
        reaches = self._rates.reaches(slots)
        if not reaches:
            return "no rate is predicted"
        if self.objective == "latency":
            held = [one for one in reaches if one.latency_ms is not None]
            if len(held) < len(reaches):
                return f"{len(reaches) - len(held)} of {counted(len(reaches), 'topology')} not sustained"
            mean = sum(one.latency_ms * one.rate_tps for one in held if one.latency_ms) / sum(o.rate_tps for o in held)
            return f"{mean:,.1f} ms"
        reach = {one: one.highest_tps if one.pending_tps is None else one.pending_tps for one in reaches}
        worst = min(reach, key=lambda one: reach[one] / one.rate_tps)
        if not isfinite(reach[worst]):
            return "rates that nothing known limits"
        rates = "assumed" if any(load is None for load in self.problem.demand.measured) else "measured"
        return f"{reach[worst] / worst.rate_tps:,.2f} times the {rates} rates, then limited by {worst.bottleneck}"
