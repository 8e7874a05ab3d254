"""From a problem with a load, and a placement, to what is predicted of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.predict.calibration.document import costs_of
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.description import described
from stormwright.predict.evaluate import steady_states
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.profile import Profile
from stormwright.predict.prediction import Prediction
from stormwright.predict.steady import Placed


@dataclass(frozen=True)
class Assumptions:
    """What a prediction takes for given.

    Parameters
    ----------
    costs, corrections
        What messages and workers cost; what is known of single topologies, by id.
    rate_tps
        Topology id → trees/s at which utilisation and latency are wanted; those not named have their measured rate.
    weights
        Topology id → weight by which highest rates are fair; those not named have that of their configuration
        (``stormwright.weight``), else 1. It multiplies the rate: with equal weights all grow by the same factor.
    """

    costs: Costs = field(default_factory=Costs)
    corrections: Mapping[str, Correction] = field(default_factory=dict)
    rate_tps: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem) -> Assumptions:
        """With the costs that come with the problem's load, or those that were measured elsewhere.

        Raises
        ------
        InputError
            What comes with it are no costs.
        """
        return cls(*costs_of(problem))


def predict(
    problem: Problem,
    slot_of_executor: IntArray | None = None,
    assumptions: Assumptions | None = None,
    profile: Profile | None = None,
) -> Prediction:
    """What rate, latency and use of nodes and links a placement will have.

    Parameters
    ----------
    problem
        With the nodes, and a load that was measured under its current placement.
    slot_of_executor
        Index into the problem's slots for every executor, -1 for none, shape (E,); by default what runs now.
    assumptions
        By default costs that come with the load, else such as were measured elsewhere, and the measured rates.
    profile
        Of the load, where that was measured under another placement or on other nodes than `problem` has.

    Raises
    ------
    InputError
        Nothing runs and no placement is given, a topology that is named is not there, a rate or weight is no number
        above 0, or a topology's configuration has a wrong weight.
    """
    assumptions = assumptions or Assumptions.of(problem)
    _check(problem, assumptions)
    if slot_of_executor is None:
        slot_of_executor = problem.current_slot
        if np.all(slot_of_executor == UNPLACED):
            message = "nothing runs in this problem: say which placement is meant, as predict(problem, place(problem))"
            raise InputError("placement", [Fault(message, "$")])
    profile = profile or Profile.of(problem)
    rates = _named(problem, assumptions.rate_tps, profile.rate_tps)
    weights = _named(problem, assumptions.weights, weights_of(problem)) * rates
    placed = Placed.under(profile, problem, slot_of_executor)
    placed, states = steady_states(placed, rates, weights, _varied(problem, assumptions))
    return described(placed, states, assumptions.costs)


def _check(problem: Problem, assumptions: Assumptions) -> None:
    faults = []
    for of in (assumptions.rate_tps, assumptions.weights):
        for topology, value in of.items():
            if topology not in problem.topology_index:
                faults.append(Fault("no such topology", topology))
            elif not 0 < value < 1e15:
                faults.append(Fault(f"should be a number above 0, got {value}", topology))
    if faults:
        raise InputError("prediction", faults)


def _named(problem: Problem, given: Mapping[str, float], otherwise: FloatArray) -> FloatArray:
    return np.array([given.get(t.id, own) for t, own in zip(problem.topologies, otherwise, strict=True)])


def _varied(problem: Problem, assumptions: Assumptions) -> list[tuple[Costs, Mapping[str, Correction]]]:
    """Costs and corrections as they are, all low by their errors, and all high; only the first if there are none."""
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
