"""Adaptive move budget: moves per decision by the success of the last moves; slow increase, quick decrease.

As in congestion control: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the increase and
decrease algorithms for congestion avoidance in computer networks", 1989,
https://doi.org/10.1016/0169-7552(89)90019-6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from stormwright.controller.planning.order import MoveBudget

#: A pause is long if it exceeds this multiple of the usual one and this many seconds.
LONG_TIMES, LONG_S = 2.0, 20.0

#: Number of moves from which the usual pause is known.
_KNOWN = 5


@dataclass
class AdaptiveBudget:
    """Number of topologies that one decision may move, between 1 and the limit.

    Parameters
    ----------
    topologies
        Current number, from 1; rounded down when used, as failures halve it.
    why
        Why it is below the limit; empty initially.
    """

    topologies: float = 1.0
    why: str = ""

    def of(self, most: MoveBudget) -> MoveBudget:
        """Return the current budget under the limit `most`."""
        return replace(most, max_topologies=min(max(int(self.topologies), 1), most.max_topologies))

    def record_success(self, most: MoveBudget) -> None:
        """Record a move with a usual pause."""
        self.topologies = max(min(self.topologies + 1.0, float(most.max_topologies)), 1.0)
        self.why = ""

    def record_failure(self, why: str) -> None:
        """Record a move that was rolled back, failed, or paused for long."""
        self.topologies, self.why = max(self.topologies / 2, 1.0), why


def long_pause(pause_s: float, before_s: Sequence[float]) -> bool:
    """Return whether a pause of spouts was longer than usual.

    Parameters
    ----------
    pause_s
        Pause of a move in seconds.
    before_s
        Pauses of earlier moves in seconds.
    """
    return len(before_s) >= _KNOWN and pause_s >= max(LONG_S, LONG_TIMES * median(before_s))
