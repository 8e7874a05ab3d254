"""From a load under a placement to what it comes to: what of it stays near, how spouts share, and the steady state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stormwright.model.arrays import FloatArray
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.shares import with_shares
from stormwright.predict.spill import with_spill
from stormwright.predict.steady import Placed, Steady, steady_state

#: Costs, and what is known of single topologies, by id.
_Known = tuple[Costs, Mapping[str, Correction]]


def steady_states(
    placed: Placed, rate_tps: FloatArray, weights: FloatArray, known: Sequence[_Known]
) -> tuple[Placed, list[Steady]]:
    """The steady states of a placement by several costs, and the placement with its routes at highest rates.

    Parameters
    ----------
    placed
        The load under the placement.
    rate_tps
        Trees/s at which utilisation and latency are wanted, shape (T,).
    weights
        By which topologies share, shape (T,).
    known
        The first say what spills over.
    """
    placed = with_spill(placed, weights, *known[0])
    return placed, [steady_state(with_shares(placed, *each), rate_tps, weights, *each) for each in known]
