"""Cached costs, violations and predictions of placements of one problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from stormwright.model import UNPLACED, Cost, LoadProfile, Problem, cost_of
from stormwright.model.arrays import BoolArray, IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE, Violation
from stormwright.model.constraints.resources import ResourceOveruse
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.load import silent_load
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.flow.profile import Profile
from stormwright.predict.prediction import Prediction
from stormwright.predict.workers import nodes_of

_T = TypeVar("_T")

#: Relative loss of a rate, or growth of an exceeded amount, that counts as none: rounding, and noise of predictions.
TOLERANCE = 1e-3


class Placements:
    """Cache of results per placement (slot of every executor, -1 for none, shape (E,)).

    Parameters
    ----------
    problem
        Current problem with the newest load.
    assumptions
        Assumptions of predictions; None for defaults.
    """

    def __init__(self, problem: Problem, assumptions: Assumptions | None = None) -> None:
        self.problem, self.assumptions = problem, assumptions
        self._costs: dict[bytes, Cost] = {}
        self._broken: dict[bytes, list[Violation]] = {}
        self._predicted: dict[bytes, Prediction] = {}

    @cached_property
    def profile(self) -> Profile | None:
        """Profile of the running topologies; None if nothing runs."""
        return Profile.of(self.problem) if (self.problem.current_slot != UNPLACED).any() else None

    @property
    def rate_tps(self) -> dict[str, float]:
        """Measured trees/s per topology id; empty if nothing runs."""
        if self.profile is None:
            return {}
        return {t.id: rate for t, rate in zip(self.problem.topologies, self.profile.rate_tps.tolist(), strict=True)}

    def cost(self, slots: IntArray) -> Cost:
        """Return the traffic cost of a placement."""
        return _once(self._costs, slots, lambda: cost_of(self.problem, slots))

    def broken(self, slots: IntArray) -> list[Violation]:
        """Return the constraints that a placement violates.

        CPU is as measured for the current placement, and as predicted for another one: executors need less beside those
        that they exchange tuples with.
        """
        return _once(self._broken, slots, lambda: self._violations(slots))

    def newly_broken(self, slots: IntArray) -> list[Violation]:
        """Return the constraints that a placement violates and the current one does not.

        A node whose CPU is exceeded at the measured rates is left out if no topology on it reaches less than now.
        """
        known = {_identity(each) for each in self.broken(self.problem.current_slot)}
        found = [each for each in self.broken(slots) if _identity(each) not in known]
        if not found:
            return found
        losing = self._losing(slots)
        return [
            each for each in found if not self._is_cpu(each) or losing[self.problem.node_index[each.supervisor or ""]]
        ]

    def worsened(self, slots: IntArray) -> list[tuple[Violation, Violation]]:
        """Return the constraints that are violated now and more so by a placement, with both amounts as predicted."""
        now = self.problem.current_slot
        before = {_identity(each): each for each in self.broken(now)}
        if self.profile is not None and self.problem.load is not None:
            predicted = {_identity(each): each for each in self._predicted_violations(now)}
            before = {key: predicted.get(key, each) for key, each in before.items()}
        both = [(before[key], each) for each in self.broken(slots) if (key := _identity(each)) in before]
        return [(old, new) for old, new in both if new.amount > old.amount * (1 + TOLERANCE)]

    def _losing(self, slots: IntArray) -> BoolArray:
        """Return whether a topology on a node reaches a lower rate than under the current placement, shape (N,)."""
        problem = self.problem
        if self.profile is None:
            return np.ones(len(problem.supervisors), bool)
        both = zip(self.predicted(problem.current_slot).topologies, self.predicted(slots).topologies, strict=True)
        loses = np.array(
            [new.reachable_tps.value < now.reachable_tps.value * (1 - TOLERANCE) for now, new in both], bool
        )
        there = loses[problem.executor_topology] & (slots != UNPLACED)
        count = np.bincount(problem.slot_node[slots[there]], minlength=len(problem.supervisors))
        losing: BoolArray = count > 0
        return losing

    def _is_cpu(self, violation: Violation) -> bool:
        return isinstance(violation, ResourceOveruse) and violation.resource == self.problem.resources[0].name

    def _violations(self, slots: IntArray) -> list[Violation]:
        problem = self.problem
        if self.profile is None or problem.load is None or np.array_equal(slots, problem.current_slot):
            return broken_limits(problem, slots)
        return self._predicted_violations(slots)

    def _predicted_violations(self, slots: IntArray) -> list[Violation]:
        problem, cpu = self.problem, self.problem.resources[0]
        others = [each for each in broken_limits(problem, slots) if not self._is_cpu(each)]
        nodes = nodes_of(problem)
        capacity = np.where(np.isfinite(problem.node_capacity[0]), nodes.cores * nodes.core_hz, np.inf)
        overused = [
            ResourceOveruse(
                node=node.node,
                supervisor=node.supervisor,
                amount=node.cpu.value * float(capacity[index]),
                allowed=float(capacity[index]),
                unit=cpu.unit,
                resource=cpu.name,
            )
            for index, node in enumerate(self.predicted(slots).nodes)
            if node.cpu.value > 1 + RELATIVE_TOLERANCE
        ]
        return [*overused, *others]

    def predicted(self, slots: IntArray) -> Prediction:
        """Return the prediction of a placement; errors of `predict` are passed on."""
        return _once(self._predicted, slots, lambda: predict(self.problem, slots, self.assumptions, self.profile))


def _identity(violation: Violation) -> tuple[object, ...]:
    """Return the limit, where it is exceeded, and for which topology."""
    resource = violation.resource if isinstance(violation, ResourceOveruse) else ""
    return type(violation), resource, violation.topology, violation.supervisor, violation.slot


def _once(known: dict[bytes, _T], slots: IntArray, find: Callable[[], _T]) -> _T:
    key = slots.tobytes()
    if key not in known:
        known[key] = find()
    return known[key]


# Load ---------------------------------------------------------------------------------------------


def measured_rates(problem: Problem) -> dict[str, float]:
    """Return measured trees/s per topology id."""
    known = problem.load.topologies if problem.load else {}
    rates = Placements(without_assumed_traffic(problem)).rate_tps if known else {}
    return {topology: rate for topology, rate in rates.items() if topology in known}


def without_assumed_traffic(problem: Problem) -> Problem:
    """Return the problem with the requests of unmeasured topologies, and no traffic of them."""
    load = problem.load or LoadProfile({})
    silent = {
        topology.id: silent_load(topology, problem.core_hz, problem.conf)
        for topology in problem.topologies
        if topology.id not in load.topologies
    }
    return problem.with_load(replace(load, topologies={**load.topologies, **silent})) if silent else problem
