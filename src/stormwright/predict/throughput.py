"""Throughput of a placement: the rates that its topologies can reach, and one figure to compare placements by.

The objective throughput of `optimizer`, the order of `stormwright compare`, and what `stormwright schedule` reports are
this one measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.humanize import counted, readable
from stormwright.predict.evaluate import steady_states
from stormwright.predict.fairness import weights_of
from stormwright.predict.fixed_point import fixed_costs
from stormwright.predict.flow.profile import Profile
from stormwright.predict.reach import Reach, reachable, reaches
from stormwright.predict.steady import PlacedLoad, SteadyState

#: Growth beyond which nothing known limits a rate.
ENDLESS = 1e9

#: Weight of the mean beside that of the worst topology.
_OF_MEAN = 0.1

#: Throughput if nothing known limits any rate.
UNLIMITED = float((1 + _OF_MEAN) * np.log(ENDLESS))

#: Mark before a reachable rate that is too low, and its explanation.
SLOW = "!"
SLOW_MEANS = "too low: the placement does not sustain the {kind} rates"

#: Difference of throughputs that counts as equal: a thousandth of the rates.
SAME = 1e-3


def growth_of(profile: Profile, wanted_tps: FloatArray, state: SteadyState) -> FloatArray:
    """Return logarithms of topologies' reachable rates relative to the wanted ones, shape (T,)."""
    wanted = np.where(wanted_tps > 0, wanted_tps, 1.0)
    grown: FloatArray = np.log(np.clip(reachable(profile, state) / wanted, 1 / ENDLESS, ENDLESS))
    return grown


def throughput_of(grown: FloatArray) -> float:
    """Return the throughput of a placement: the growth of the worst topology, plus a tenth of the mean.

    Parameters
    ----------
    grown
        Logarithms of the growth of its topologies, shape (T,).
    """
    return float(grown.min() + _OF_MEAN * grown.mean())


@dataclass(frozen=True)
class Throughput:
    """Reachable rates of a placement.

    Parameters
    ----------
    reaches
        Reachable rates of the topologies that are placed as a whole.
    missing
        Topologies (ids) with a rate that are not.
    value
        Logarithm to compare placements by: the growth of the worst topology, plus a tenth of the mean; those that are
        not placed as a whole do not count.
    assumed
        Whether some of the rates are assumed.
    """

    reaches: tuple[Reach, ...]
    missing: tuple[str, ...]
    value: float
    assumed: bool

    @property
    def slowest(self) -> Reach | None:
        """The topology whose rate can grow least, the first of several."""
        return min(self.reaches, key=_growth, default=None)

    @property
    def factor(self) -> float:
        """Factor by which all rates can grow: below 1 if they are not sustained, 0 if a topology is not placed."""
        return 0.0 if self.missing or self.slowest is None else _growth(self.slowest)

    @property
    def not_sustained(self) -> tuple[Reach, ...]:
        """Topologies that do not sustain their rates."""
        return tuple(one for one in self.reaches if one.latency_ms is None)

    @property
    def is_sustained(self) -> bool:
        """Whether every topology is placed and sustains its rate."""
        return not self.missing and not self.not_sustained

    @property
    def kind(self) -> str:
        """Origin of the rates: assumed or measured."""
        return "assumed" if self.assumed else "measured"

    @property
    def is_single(self) -> bool:
        """Whether it is of one topology only."""
        return len(self.reaches) + len(self.missing) == 1

    @property
    def heading(self) -> str:
        """Heading of a column of `brief`."""
        return "trees/s" if self.is_single else "rates"

    @property
    def brief(self) -> str:
        """Return trees/s of a single topology, or the factor by which the rates of several can grow."""
        if self.missing or self.slowest is None:
            return "–"
        if not isfinite(self.factor):
            return "no limit"
        return readable(_reached(self.slowest)) if self.is_single else f"× {readable(self.factor)}"

    @property
    def text(self) -> str:
        """Return the reachable rates as a phrase, such as ``23.2 trees/s (assumed: 10)``."""
        if self.slowest is None or self.missing:
            return "unknown, as not every topology is placed"
        if not isfinite(self.factor):
            return "without a known limit"
        if self.is_single:
            return f"{readable(_reached(self.slowest))} trees/s ({self.kind}: {readable(self.slowest.rate_tps)})"
        return f"{readable(self.factor)} times the {self.kind} ones ({self.slowest.topology} is limited first)"

    @property
    def warning(self) -> str:
        """Return the topologies that do not sustain their rates as a sentence; empty if all do."""
        slow = sorted(self.not_sustained, key=_growth)
        if not slow:
            return ""
        one = slow[0]
        rate = f"{readable(_reached(one))} of the {self.kind} {readable(one.rate_tps)} trees/s"
        reach = f"{one.topology} can reach {rate}, limited by {one.bottleneck}"
        if self.is_single:
            # A full queue sends shuffled tuples to other workers, so that more is reached than while it is not.
            enough = _reached(one) >= one.rate_tps
            return f"sustained with full queues only: {reach}" if enough else f"not sustained: {reach}"
        number = counted(len(self.reaches) + len(self.missing), "topology")
        return f"not sustained: the {self.kind} rates of {len(slow):,} of {number}; {reach}"

    def as_dict(self) -> dict[str, Any]:
        """Return the same for JSON; infinity is null."""
        return {
            "factor": self.factor if isfinite(self.factor) else None,
            "sustained": self.is_sustained,
            "assumed": self.assumed,
            "missing": list(self.missing),
            "topologies": [
                {
                    "topology": one.topology,
                    "rate_tps": one.rate_tps,
                    "reachable_tps": reached if isfinite(reached := _reached(one)) else None,
                    "sustained": one.latency_ms is not None,
                    "bottleneck": one.bottleneck.as_dict(),
                }
                for one in self.reaches
            ],
        }


def _reached(one: Reach) -> float:
    return one.highest_tps if one.pending_tps is None else one.pending_tps


def _growth(one: Reach) -> float:
    return _reached(one) / one.rate_tps


class ThroughputPredictor:
    """Predicts the throughput of placements of one problem; topologies that did not move are not computed again.

    Parameters
    ----------
    problem
        Problem with a measured or assumed load.

    Raises
    ------
    InputError
        The costs of the load are invalid, or the configuration of a topology has a wrong weight.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._profile = problem, Profile.of(problem)
        self._costs, self._wanted_tps = fixed_costs(self._profile), weights_of(problem) * self._profile.rate_tps
        self._last: PlacedLoad | None = None
        self._has_rate = self._profile.rate_tps > 0

    def predicted(self, slots: IntArray) -> Throughput | None:
        """Return the throughput of a placement; None if no topology has a rate.

        Parameters
        ----------
        slots
            Slot of every executor, -1 for none, shape (E,).
        """
        problem, profile = self._problem, self._profile
        lacks = np.bincount(problem.executor_topology, slots == UNPLACED, len(problem.topologies)) > 0
        there = self._has_rate & ~lacks
        if not self._has_rate.any():
            return None
        found: Sequence[Reach] = ()
        value = 0.0
        if there.any():
            self._last = PlacedLoad.under(profile, problem, slots, self._last)
            _, (state,) = steady_states(self._last, profile.rate_tps, self._wanted_tps, [self._costs])
            found = list(reaches(problem, profile, state))
            value = throughput_of(growth_of(profile, self._wanted_tps, state)[there])
        missing = tuple(problem.topologies[index].id for index in np.flatnonzero(self._has_rate & lacks).tolist())
        return Throughput(tuple(found), missing, value, bool(profile.assumed[self._has_rate].any()))
