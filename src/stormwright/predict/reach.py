"""What topologies can come to under a placement, by one steady state: for searches, which know no intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from stormwright.model import Problem
from stormwright.predict.flow.profile import Profile
from stormwright.predict.prediction import PENDING, Bottleneck, bottleneck
from stormwright.predict.steady import Steady

#: Where nothing is fuller than this while all trees are pending that may be, their number is what limits the rate.
_CLEARLY_BELOW = 0.9


@dataclass(frozen=True, slots=True)
class Reach:
    """What a topology can come to.

    Parameters
    ----------
    topology
        Its id.
    rate_tps, highest_tps, pending_tps, bottleneck, latency_ms
        As in `stormwright.predict.prediction.TopologyPrediction`, without intervals, at
        the measured rate.
    """

    topology: str
    rate_tps: float
    highest_tps: float
    pending_tps: float | None
    bottleneck: Bottleneck
    latency_ms: float | None

    def as_dict(self) -> dict[str, Any]:
        """Itself for JSON, which knows no infinity: null."""
        return {
            "topology": self.topology,
            "rate_tps": self.rate_tps,
            "highest_tps": self.highest_tps if isfinite(self.highest_tps) else None,
            "pending_tps": self.pending_tps,
            "bottleneck": self.bottleneck.as_dict(),
            "latency_ms": self.latency_ms,
        }


def reaches(problem: Problem, profile: Profile, steady: Steady) -> Iterator[Reach]:
    """What every topology can come to that has a slot for each executor, and began trees while it was measured.

    Parameters
    ----------
    problem
        Has the nodes.
    profile
        Of the load.
    steady
        At the measured rates.
    """
    for topology in np.flatnonzero(steady.full_demand.running & (profile.rate_tps > 0)).tolist():
        held = is_sustained(profile, steady, topology)
        limited = is_limited(profile, steady, topology)
        yield Reach(
            topology=problem.topologies[topology].id,
            rate_tps=float(profile.rate_tps[topology]),
            highest_tps=float(steady.highest_tps[topology]),
            pending_tps=float(steady.pending.rate_tps[topology]) if limited else None,
            bottleneck=bottleneck_of(problem, profile, steady, topology),
            latency_ms=1e3 * float(steady.given.ways.latency.mean[topology]) if held else None,
        )


def is_limited(profile: Profile, steady: Steady, topology: int) -> bool:
    """Whether the number of trees that may be pending limits a topology, which the placement lets begin some."""
    return bool(np.isfinite(profile.layout.pending[topology])) and bool(steady.highest_tps[topology] > 0)


def is_sustained(profile: Profile, steady: Steady, topology: int) -> bool:
    """Whether nothing that a topology uses is full at the rates asked for, nor its pending trees too few."""
    rate, cycle_s = steady.given.rate_tps[topology], steady.given.ways.cycle.mean[topology]
    return bool(rate > 0 and steady.given_use[topology] < 1 and rate * cycle_s <= profile.layout.pending[topology])


def bottleneck_of(problem: Problem, profile: Profile, steady: Steady, topology: int) -> Bottleneck:
    """What limits a topology.

    Parameters
    ----------
    problem, profile
        As for `reaches`.
    steady
        The steady state of the placement; what counts is that with all trees pending that may be, where there is a
        limit of them.
    topology
        Its index.
    """
    if is_limited(profile, steady, topology) and steady.pending_use[topology] < _CLEARLY_BELOW:
        return Bottleneck(PENDING)
    return bottleneck(problem, steady.full_demand, int(steady.limit[topology]))
