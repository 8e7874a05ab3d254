"""How near a plan comes to the best that any placement could be, as far as that is proven in a moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.controller.aims.outlook import NODES, THROUGHPUT
from stormwright.controller.aims.placements import Placements
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import proof_text
from stormwright.optimize.throughput.start import MeasuredLoad
from stormwright.predict.answer import Assumptions
from stormwright.schedulers.frame.by_rates import RateSearch, RateWish
from stormwright.schedulers.frame.proof_by_rates import Bounding, proof_by_rates, throughput_proof

#: Seconds for a proof: what sums tell takes less, whatever the size, and a small program is solved in it.
PROOF_S = 0.2

#: What is to stay free of nodes and links where few nodes are wanted.
_HEADROOM = 0.2


@dataclass(frozen=True)
class _Proof:
    """By how many percent the best that there could be is better, None where that is not known; and in words."""

    gap_percent: float | None = None
    text: str = ""


def proven(placements: Placements, goal: str, slots: IntArray) -> _Proof:
    """What is proven of a placement.

    Parameters
    ----------
    placements
        Of the problem, with what is predicted of them.
    goal
        What it is to be good in. Of latency there is no bound, and one of traffic takes too long for somebody who
        waits: for these, and where there is no goal, nothing is proven.
    slots
        Slot of every executor, -1 for none, shape (E,).
    """
    problem, profile = placements.problem, placements.profile
    if goal not in (THROUGHPUT, NODES) or profile is None:
        return _Proof()
    assumptions = placements.assumptions or Assumptions.of(problem)
    wish = RateWish(goal, "free", _HEADROOM, 0)
    if goal == THROUGHPUT:
        highest_tps = np.array([each.highest_tps.value for each in placements.predicted(slots).topologies])
        bounding = Bounding.of(problem, profile, assumptions, wish)
        found = throughput_proof(bounding, slots, highest_tps, placements.broken(slots), PROOF_S)
    else:
        search = RateSearch(problem, MeasuredLoad(profile, assumptions.costs, assumptions.corrections), wish)
        found = proof_by_rates(search, slots, PROOF_S)
    return _Proof(None if found["gap"] is None else 100 * found["gap"], proof_text(found))
