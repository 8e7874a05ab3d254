"""Which of several placements that are equally good sends least between nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stormwright.model import Problem, cost_of
from stormwright.model.arrays import IntArray


def quietest(problem: Problem, found: Sequence[IntArray], badness: Sequence[float], within: float) -> int:
    """Of placements that are as good as the best, the one with least traffic between nodes; the first of several.

    Parameters
    ----------
    problem
        Whose executors are placed.
    found
        Slots of all executors, shape (E,) each.
    badness
        Of each.
    within
        What may be worse by no more is as good.
    """
    alike = np.flatnonzero(np.array(badness) <= min(badness) + within).tolist()
    costs = [cost_of(problem, found[number]) for number in alike] if len(alike) > 1 else []
    traffic = [cost.inter_node + cost.inter_rack for cost in costs]
    return int(alike[int(np.argmin(traffic))] if traffic else alike[0])
