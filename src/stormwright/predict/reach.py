"""Reachable rates of topologies by one steady state, without intervals: for searches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import FloatArray
from stormwright.predict.bottleneck import PENDING, Bottleneck, bottleneck
from stormwright.predict.flow.profile import Profile
from stormwright.predict.steady import SteadyState

#: Utilisation with all trees pending below which the number of pending trees limits the rate.
_CLEARLY_BELOW = 0.9


@dataclass(frozen=True, slots=True)
class Reach:
    """Reachable rate of a topology.

    Parameters
    ----------
    topology
        Id of the topology.
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
        """Return the reach for JSON; infinity is null."""
        return {
            "topology": self.topology,
            "rate_tps": self.rate_tps,
            "highest_tps": self.highest_tps if isfinite(self.highest_tps) else None,
            "pending_tps": self.pending_tps,
            "bottleneck": self.bottleneck.as_dict(),
            "latency_ms": self.latency_ms,
        }


def reaches(problem: Problem, profile: Profile, steady: SteadyState) -> Iterator[Reach]:
    """Yield the reach of every topology that has a slot for each executor and began trees while it was measured.

    Parameters
    ----------
    problem
        The problem with the nodes.
    profile
        Profile of the load.
    steady
        Steady state at the measured rates.
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


def reachable(profile: Profile, state: SteadyState) -> FloatArray:
    """Return the reachable rate of every topology: that with as many trees pending as allowed, shape (T,)."""
    if not np.isfinite(profile.layout.pending).any():
        return state.highest_tps  # the other state is much more expensive
    rates: FloatArray = np.where(np.isfinite(profile.layout.pending), state.pending.rate_tps, state.highest_tps)
    return rates


def is_limited(profile: Profile, steady: SteadyState, topology: int) -> bool:
    """Return whether the number of pending trees limits a topology that can begin trees under the placement."""
    return bool(np.isfinite(profile.layout.pending[topology])) and bool(steady.highest_tps[topology] > 0)


def is_sustained(profile: Profile, steady: SteadyState, topology: int) -> bool:
    """Return whether no resource of a topology is full at the given rates, and its pending trees suffice."""
    rate = steady.given.rate_tps[topology]
    cycle_s = steady.given.ways.cycle.mean[topology] + steady.wait_s[topology]
    return bool(rate > 0 and steady.given_use[topology] < 1 and rate * cycle_s <= profile.layout.pending[topology])


def bottleneck_of(problem: Problem, profile: Profile, steady: SteadyState, topology: int) -> Bottleneck:
    """Return the bottleneck of a topology.

    Parameters
    ----------
    problem, profile
        Problem with the nodes, and the profile of its load.
    steady
        The steady state of the placement; with a limit of pending trees, the state with all of them pending counts.
    topology
        Index of the topology.
    """
    if is_limited(profile, steady, topology) and steady.pending_use[topology] < _CLEARLY_BELOW:
        return Bottleneck(PENDING)
    return bottleneck(problem, steady.full_demand, int(steady.limit[topology]))
