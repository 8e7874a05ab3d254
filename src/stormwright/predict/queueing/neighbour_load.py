"""Load of other topologies at the places of each, and results that hold as long as it does not change."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.predict.demand import TreeDemand
from stormwright.predict.placement_cache import CacheKey, PlacementCache
from stormwright.predict.sums import sums

#: Relative difference below which values are equal up to rounding.
_ROUNDING = 1e-12


class NeighbourLoad(NamedTuple):
    """Load of other topologies at places: cores and squares for `stretch`, and links; shape (2, P) each."""

    cores: FloatArray
    links: FloatArray

    @classmethod
    def of(cls, demand: TreeDemand, rate_tps: FloatArray) -> NeighbourLoad:
        """Return the load at given rates, in trees/s, shape (T,)."""
        places = demand.places
        links = rate_tps[places.topology] * places.link_s
        return cls(_beside(demand, _cores_and_squares(demand, rate_tps)), _beside(demand, links))


class CachedResult(NamedTuple):
    """Result for every topology, shape (R, T), at given rates, shape (T,), and its other inputs."""

    demand: TreeDemand
    others: NeighbourLoad
    rate_tps: FloatArray
    result: FloatArray

    def same(self, demand: TreeDemand, others: NeighbourLoad, rate_tps: FloatArray, moved: BoolArray) -> BoolArray:
        """Return the topologies with unchanged inputs, shape (T,).

        Parameters
        ----------
        demand, others, rate_tps
            Demand, load of other topologies and trees/s, to compare with the previous ones.
        moved
            Topologies that have moved since, shape (T,).
        """
        same = ~moved & _close(self.rate_tps, rate_tps)
        before = self.demand
        for topology, now, was in (
            (before.thread_topology, (demand.thread_s, demand.thread_visits), (before.thread_s, before.thread_visits)),
            (before.places.topology, _at_places(demand, others), _at_places(before, self.others)),
        ):
            number = demand.thread_topology if topology is before.thread_topology else demand.places.topology
            here, there = same[number], same[topology]
            differ = np.zeros(int(here.sum()), dtype=bool)
            for new, old in zip(now, was, strict=True):
                differ |= ~_close(old[there], new[here])
            same &= np.bincount(number[here], differ, len(same)) == 0
        return same


#: Cache and key of a result on times or rates.
CacheEntry: TypeAlias = tuple[CacheKey[CachedResult], PlacementCache]


def unchanged(
    entry: CacheEntry, demand: TreeDemand, others: NeighbourLoad, rate_tps: FloatArray
) -> tuple[BoolArray, FloatArray] | None:
    """Return the topologies for which the previous result holds, shape (T,), and the result, shape (R, T).

    None if it holds for none.

    Parameters
    ----------
    entry
        Cache and key of the result.
    demand, others, rate_tps
        Demand, load of other topologies and trees/s, to compare with the previous ones.
    """
    key, cache = entry
    found = cache.previous(key)
    if found is None or cache.moved is None:
        return None
    same = found.same(demand, others, rate_tps, cache.moved)
    return (same, found.result) if same.any() else None


def _close(one: NDArray[np.float64], other: NDArray[np.float64]) -> BoolArray:
    close: BoolArray = (one == other) | (np.abs(one - other) <= _ROUNDING * np.abs(one))
    return close


def _at_places(demand: TreeDemand, others: NeighbourLoad) -> tuple[FloatArray, ...]:
    places = demand.places
    return (*others.cores, *others.links, *places.link_s, *places.link_messages, demand.base_cores[places.node])


def _cores_and_squares(demand: TreeDemand, rate_tps: FloatArray) -> FloatArray:
    """Return the cores in use at every place, and the sum of squares over its threads; shape (2, P)."""
    places = demand.places
    # Index -1 is counted before all others.
    at, load = places.of_thread + 1, rate_tps[demand.thread_topology] * demand.thread_s
    return np.stack([sums(at, each, len(places.node) + 1)[1:] for each in (load, load**2)])


def _beside(demand: TreeDemand, amounts: FloatArray) -> FloatArray:
    """Return the amounts of the other topologies of the node of every place; same shape, (…, P)."""
    node, count = demand.places.node, len(demand.nodes.cores)
    on_node = np.stack([sums(node, each, count) for each in amounts])
    beside: FloatArray = np.maximum(on_node[:, node] - amounts, 0.0)
    return beside
