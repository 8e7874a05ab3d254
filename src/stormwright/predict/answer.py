"""Prediction of a placement, from a problem with a load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.predict.calibration.document import StoredCosts, costs_of
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.evaluate import steady_states
from stormwright.predict.fairness import weights_of
from stormwright.predict.fixed_point import fixed
from stormwright.predict.flow.profile import Profile
from stormwright.predict.placement_cache import CacheKey
from stormwright.predict.prediction import (
    Prediction,
)
from stormwright.predict.report import described
from stormwright.predict.steady import PlacedLoad

#: Costs with the corrections of topologies.
_KnownCosts = list[tuple[Costs, Mapping[str, Correction]]]


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of a prediction.

    Parameters
    ----------
    costs, corrections
        Costs of messages and workers; corrections of single topologies, by id.
    rate_tps
        Topology id → trees/s at which utilisation and latency are predicted; the measured rate for topologies without
        one.
    weights
        Topology id → weight by which highest rates are fair; topologies without one have that of their configuration
        (``stormwright.weight``), else 1. It multiplies the rate: with equal weights all grow by the same factor.
    measured
        Profile of the load as it was measured; by default that of the prediction.
    """

    costs: Costs = field(default_factory=Costs)
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    rate_tps: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    measured: Profile | None = None

    @classmethod
    def of(cls, problem: Problem) -> Assumptions:
        """Return assumptions with the costs of the problem's load, or with the default costs.

        Raises
        ------
        InputError
            The costs of the load are invalid.
        """
        return cls(*costs_of(problem))

    def fixed(self, profile: Profile) -> Assumptions:
        """Return the assumptions with which the measured placement of a profile has its measured rates."""
        return replace(self, corrections=fixed(profile, self.costs, self.corrections))


def predict(
    problem: Problem,
    slot_of_executor: IntArray | None = None,
    assumptions: Assumptions | None = None,
    profile: Profile | None = None,
) -> Prediction:
    """Predict rates, latencies and the utilisation of nodes and links under a placement.

    Parameters
    ----------
    problem
        A problem with nodes, and a load that was measured under its current placement.
    slot_of_executor
        Index into the problem's slots for every executor, -1 for none, shape (E,); the current placement by default.
    assumptions
        By default the costs of the load, else the default costs, and the measured rates.
    profile
        Profile of the load, if it was measured under another placement or on other nodes than those of `problem`.

    Raises
    ------
    InputError
        Nothing runs and no placement is given, a named topology does not exist, a rate or weight is not a number above
        0, or a topology's configuration has an invalid weight.
    """
    profile = profile or Profile.of(problem)
    if assumptions is None:
        stored: CacheKey[StoredCosts] = CacheKey("stored costs")
        assumptions = Assumptions(*profile.recent.get_or_compute(stored, lambda: costs_of(problem)))
    _check(problem, assumptions)
    if slot_of_executor is None:
        slot_of_executor = problem.current_slot
        if np.all(slot_of_executor == UNPLACED):
            message = "the problem has no current placement: pass one, as in predict(problem, place(problem))"
            raise InputError("placement", [Fault(message, "$")])
    rates = _named(problem, assumptions.rate_tps, profile.rate_tps)
    weights = _named(problem, assumptions.weights, weights_of(problem)) * rates
    placed = PlacedLoad.under(profile, problem, slot_of_executor)
    key: CacheKey[_KnownCosts] = CacheKey("known costs", assumptions.costs, assumptions.corrections)
    known = profile.recent.get_or_compute(key, lambda: _known_costs(problem, profile, assumptions))
    placed, states = steady_states(placed, rates, weights, known)
    return described(placed, states, *known[0])


def _check(problem: Problem, assumptions: Assumptions) -> None:
    faults = []
    for values in (assumptions.rate_tps, assumptions.weights):
        for topology, value in values.items():
            if topology not in problem.topology_index:
                faults.append(Fault("no such topology", topology))
            elif not 0 < value < 1e15:
                faults.append(Fault(f"should be a number above 0, got {value}", topology))
    if faults:
        raise InputError("prediction", faults)


def _named(problem: Problem, given: Mapping[str, float], otherwise: FloatArray) -> FloatArray:
    return np.array([given.get(t.id, own) for t, own in zip(problem.topologies, otherwise, strict=True)])


def _known_costs(problem: Problem, profile: Profile, assumptions: Assumptions) -> _KnownCosts:
    """Return the costs as given, all low by their errors and all high, each with the measured placement as measured."""
    measured = assumptions.measured or profile
    return [(costs, fixed(measured, costs, corrections)) for costs, corrections in _varied(problem, assumptions)]


def _varied(problem: Problem, assumptions: Assumptions) -> _KnownCosts:
    """Return costs and corrections as given, all low by their errors, and all high; only the first without errors."""
    costs, found = assumptions.costs, [(assumptions.costs, assumptions.corrections)]
    if not (
        costs.work_error
        or costs.message_error
        or costs.delay_error
        or any(c.error for c in assumptions.corrections.values())
    ):
        return found
    for sign in (-1.0, 1.0):
        corrections = {}
        for topology in problem.topologies:
            own = assumptions.corrections.get(topology.id, Correction())
            error = costs.work_error if own.error is None else own.error
            corrections[topology.id] = replace(own, work=own.work * (1 + sign * error), error=None)
        messages = 1 + sign * costs.message_error
        varied = costs.varied(messages, 1 + sign * costs.delay_error)
        found.append((replace(varied, overhead_bytes=messages * costs.overhead_bytes), corrections))
    return found
