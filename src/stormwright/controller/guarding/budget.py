"""How much one decision may move, by how the cluster has borne the last moves: slowly up, quickly down.

As congestion control does it: additive increase, multiplicative decrease (Chiu and Jain, "Analysis of the increase and
decrease algorithms for congestion avoidance in computer networks", 1989, https://doi.org/10.1016/0169-7552(89)90019-6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from stormwright.controller.planning.plan import MoveBudget

#: A pause is long that is so many times the usual one, and at least so many seconds.
LONG_TIMES, LONG_S = 2.0, 20.0

#: Moves after which it is known what is usual.
_KNOWN = 5


@dataclass
class AdaptiveBudget:
    """Topologies that one decision may move, between 1 and what is allowed.

    Parameters
    ----------
    topologies
        So many now.
    why
        Why it is not as many as are allowed; empty where nothing has happened yet.
    """

    topologies: float = 1.0
    why: str = ""

    def of(self, most: MoveBudget) -> MoveBudget:
        """What may move now, where so much may at most."""
        return replace(most, max_topologies=min(max(int(self.topologies), 1), most.max_topologies))

    def went_well(self, most: MoveBudget) -> None:
        """A move was made, and its pause was not long."""
        self.topologies = max(min(self.topologies + 1.0, float(most.max_topologies)), 1.0)
        self.why = ""

    def went_badly(self, why: str) -> None:
        """One was taken back, has failed, or paused for long."""
        self.topologies, self.why = max(self.topologies / 2, 1.0), why


def long_pause(pause_s: float, before_s: Sequence[float]) -> bool:
    """Whether spouts were silent for longer than usual.

    Parameters
    ----------
    pause_s
        In a move, in seconds.
    before_s
        In those before.
    """
    return len(before_s) >= _KNOWN and pause_s >= max(LONG_S, LONG_TIMES * median(before_s))
