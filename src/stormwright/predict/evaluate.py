"""Evaluation of a load under a placement: locality of shuffled tuples, shares of spouts, and the steady state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.demand import Claims, base_cores_of
from stormwright.predict.fairness import highest_rates
from stormwright.predict.shares import with_shares
from stormwright.predict.steady import PlacedLoad, SteadyState, limits_of, steady_state
from stormwright.predict.sums import sums

#: Local fractions that are tried first, and the steps around the best of them.
_TRIED, _BESIDE = (0.5, 0.0), 0.25

#: Relative gain in rate that justifies less locality.
_HIGHER = 1 + 1e-9

#: Costs, and corrections of single topologies, by id.
_Known = tuple[Costs, Mapping[str, Correction]]


# LoadAwareShuffleGrouping looks at a wider scope once the receive queues of the nearer one are 0.8 full, and comes back
# when they are 0.2 full; so over time the near executors take as many tuples as they can, and those further away the
# rest. It happens only if the pending tuples can fill a queue that far.
def may_spill(placed: PlacedLoad) -> BoolArray:
    """Return whether all pending tuples can fill a queue to its spill limit, by topology; shape (T,)."""
    layout = placed.profile.layout
    handled = sums(layout.executor_component, placed.routes.handled, len(layout.size))
    gets = np.zeros(len(layout.size), dtype=bool)
    gets[placed.profile.flows.target] = True
    most = np.zeros(len(layout.pending))
    np.maximum.at(most, layout.topology[gets], np.maximum(handled[gets], 1.0))
    at_once = np.where(most > 0, layout.pending, 0.0) * np.where(most > 0, most, 1.0)
    result: BoolArray = at_once > layout.spill_tuples
    return result


def with_spill(
    placed: PlacedLoad,
    weights: FloatArray,
    costs: Costs,
    corrections: Mapping[str, Correction] = NO_CORRECTIONS,
) -> PlacedLoad:
    """Return the placement with routes at highest rates: shuffled tuples stay local as far as the rate is highest.

    Parameters
    ----------
    placed
        The load under the placement.
    weights
        Weights of the topologies, shape (T,).
    costs, corrections
        Costs of messages and workers, and corrections of single topologies, by id.
    """
    spills = may_spill(placed)
    if not spills.any():
        return placed
    profile, workers = placed.profile, placed.standing.workers
    base = base_cores_of(profile, workers, costs)
    weights = np.where(workers.running & (profile.rate_tps > 0), weights, 0.0)

    def tried(near: FloatArray) -> FloatArray:
        claims = placed.standing.claims(1.0, costs, corrections)
        for part in np.unique(near[near < 1]).tolist():
            other, chosen = placed.standing.claims(part, costs, corrections), near == part
            shared = np.where(chosen[workers.places.topology], other.shared, claims.shared)
            claims = Claims(shared, np.where(chosen, other.busiest_s, claims.busiest_s))
        return highest_rates(*limits_of(claims, workers, base), weights).rate_tps

    best = np.ones(len(spills))
    rate = tried(best)
    steps = [np.where(spills, near, 1.0) for near in _TRIED]
    for near in steps:
        now = tried(near)
        better = now > rate * _HIGHER
        best, rate = np.where(better, near, best), np.where(better, now, rate)
    if np.all(best == 1):
        return placed
    for by in (_BESIDE, -_BESIDE):
        near = np.where(best < 1, np.clip(best + by, 0.0, 1.0), 1.0)
        now = tried(near)
        better = now > rate * _HIGHER
        best, rate = np.where(better, near, best), np.where(better, now, rate)
    return replace(placed, full_routes=placed.standing.mixed(best), spills=best < 1)


def steady_states(
    placed: PlacedLoad, rate_tps: FloatArray, weights: FloatArray, known: Sequence[_Known]
) -> tuple[PlacedLoad, list[SteadyState]]:
    """Return the placement with its routes at highest rates, and its steady states by several costs.

    Parameters
    ----------
    placed
        The load under the placement.
    rate_tps
        Trees/s at which utilisation and latency are predicted, shape (T,).
    weights
        Weights of the topologies, shape (T,).
    known
        Costs and corrections; the first decide which tuples spill over.
    """
    placed = with_spill(placed, weights, *known[0])
    return placed, [steady_state(with_shares(placed, *each), rate_tps, weights, *each) for each in known]
