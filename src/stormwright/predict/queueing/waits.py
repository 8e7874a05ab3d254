"""Waiting times of tuples: at given rates, and with the rate limited by the number of pending trees.

A queue with utilisation ρ that at most N tuples can be at holds Q = ρ / (1 − ρ (1 − 1/N)) of them, whose stay is
R = S (1 + (1 − 1/N) Q), S being the time of service: an arriving tuple sees the average queue, without its own
part. That is Schweitzer's approximation (P. J. Schweitzer, Approximate Analysis of Multiclass Closed Networks of
Queues, 1979, without a DOI) of mean value analysis, in which it sees the queue of a network without it: M. Reiser, S.
S. Lavenberg, Mean-Value Analysis of Closed Multichain Queuing Networks, Journal of the ACM 27(2), 1980,
https://doi.org/10.1145/322186.322195. It is exact for balanced networks and for one tuple, and converges to the rate of
the bottleneck for many. With N = ∞ it is the open queue M/M/1, R = S / (1 − ρ).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.predict.costs import Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.queueing.contention import stretch
from stormwright.predict.queueing.neighbour_load import CachedResult, CacheEntry, NeighbourLoad, unchanged
from stormwright.predict.queueing.network import Networks, QueueNetwork, SojournTimes, TreeTimes
from stormwright.predict.queueing.quotas import with_stops
from stormwright.predict.queueing.trees import Times
from stormwright.predict.sums import ratio

#: Relative tolerance of the iteration for rates, absolute tolerance, and most steps.
_SETTLED, _NARROW, _MAX_STEPS = 1e-4, 1e-9, 100

#: Start of the iteration as a fraction of the upper limit; every n-th step is a bisection.
_BEGIN, _HALVE = 0.9, 4

#: Fraction of topologies that have not converged below which these continue alone.
_NARROWED = 0.6

#: Highest utilisation of a queue without limit.
_FULL = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class QueueState:
    """State of a placement; the times of trees are computed on demand.

    Parameters
    ----------
    rate_tps
        Trees/s of every topology, shape (T,).
    networks
        Source of the network of the placement.
    others
        For each topology, the load of the others; by default that at these rates.
    costs
        Costs with the quota of nodes that stop when it is used up; None for nodes that do not.
    settled
        Whether the iteration for the rates converged.
    times_at_tps
        Rates at which times are computed, if these are others, shape (T,).
    cache
        Cache and key of the result; None if it is not cached.
    """

    rate_tps: FloatArray
    networks: Networks
    others: NeighbourLoad | None = None
    costs: Costs | None = None
    settled: bool = True
    times_at_tps: FloatArray | None = None
    cache: CacheEntry | None = None

    @cached_property
    def ways(self) -> TreeTimes:
        """Times of trees; meaningless if a resource is overloaded."""
        rate_tps = self._times_at_tps
        # Whether a node stops depends on all that is on it.
        if self.cache is None or (self.costs and self.costs.quota_period_ms > 0):
            network = self.networks.whole
            stays = _stays(network, rate_tps, self._others, self._full)
            return with_stops(network, self.costs, stays, rate_tps) if self.costs else network.ways(stays)
        (key, cache), demand = self.cache, self.networks.demand
        known = unchanged(self.cache, demand, self._others, rate_tps)
        if known is None:
            found = replace(self, cache=None).ways
        else:
            narrow, sites = self.networks.only(~known[0])
            others = NeighbourLoad(*(each[:, sites] for each in self._others))
            new = QueueState(rate_tps, Networks.of(narrow), others, self.costs).ways
            old = TreeTimes(*(Times(*each) for each in known[1].reshape(2, 2, -1)))
            found = TreeTimes(*(_chosen(known[0], *each) for each in zip(old, new, strict=True)))
        times = np.concatenate([np.stack(each) for each in found])
        cache.put(key, CachedResult(demand, self._others, rate_tps, times))
        return found

    @property
    def busy(self) -> FloatArray:
        """Fraction of time for which each thread has work, shape (E + 2 W,)."""
        return np.minimum(self._full[0], 1.0)

    @property
    def _times_at_tps(self) -> FloatArray:
        return self.rate_tps if self.times_at_tps is None else self.times_at_tps

    @cached_property
    def _others(self) -> NeighbourLoad:
        return self.others or NeighbourLoad.of(self.networks.demand, self._times_at_tps)

    @cached_property
    def _full(self) -> tuple[FloatArray, FloatArray]:
        """Fraction of time that each thread would have work for, and wall time by CPU time of it; (E + 2 W,) each."""
        demand = self.networks.demand
        load = self._times_at_tps[demand.thread_topology] * demand.thread_s
        factor = stretch(demand, load, self._others.cores)
        return load * factor, factor


def _stays(
    network: QueueNetwork, rate_tps: FloatArray, others: NeighbourLoad, arrays: tuple[FloatArray, FloatArray]
) -> SojournTimes:
    """Return the sojourn times of tuples, with the utilisation and stretch of threads as in `QueueState`."""
    (full, factor), demand, places = arrays, network.demand, network.demand.places
    arrival_share = 1.0 - np.divide(1.0, network.population, out=np.ones(len(full)), where=network.population > 0)
    queue = np.where(full > 0, full / np.maximum(1.0 - arrival_share * full, 1.0 - _FULL), 0.0)
    service = ratio(demand.thread_s, demand.thread_visits) * factor
    mean = service * (1.0 + arrival_share * queue)
    # An open queue's stay is exponential. If all pending tuples wait in one place, the queue ahead of a tuple is always
    # the same, and its stay is the sum of as many service times.
    varies = np.maximum(1.0 - ratio(queue, network.population), 1.0 / (1.0 + queue))
    own = rate_tps[places.topology] * places.link_s
    use = own + others.links
    messages = rate_tps[places.topology] * places.link_messages
    link = (ratio(own, messages) / np.maximum(1.0 - use, 1.0 - _FULL)).ravel()
    return SojournTimes(Times(mean, varies * mean**2), Times(link, link**2))


def closed(
    networks: Networks,
    pending: FloatArray,
    rate_tps: FloatArray,
    cache: CacheEntry | None = None,
    wait_s: FloatArray | None = None,
) -> QueueState:
    """Return the state in which spouts have as many trees pending as allowed, with others at their fair rates.

    By Little's law a topology with K trees pending, each for a cycle of R(X), has the rate X = K / R(X). Near a
    bottleneck K / R falls about linearly in X, so that the secant method finds the fixed point; a step that leaves the
    interval known to contain the rate is replaced by a bisection.

    Parameters
    ----------
    networks
        Source of the network of the placement; used only if a topology has a limit.
    pending
        Trees that each topology may have pending, inf for no limit, shape (T,).
    rate_tps
        Trees/s that the topologies have if pending trees are not limited, shape (T,): upper limits of the result.
    cache
        Cache and key of the result.
    wait_s
        Time of a cycle besides those of the network, shape (T,); None for none.
    """
    free = np.isfinite(pending) & (rate_tps > 0)
    wait_s = np.zeros(len(rate_tps)) if wait_s is None else wait_s
    if not free.any():
        return QueueState(rate_tps, networks)
    others, start = NeighbourLoad.of(networks.demand, rate_tps), rate_tps
    known = unchanged(cache, networks.demand, others, rate_tps) if cache else None
    if known is not None:
        start, free = np.where(free & known[0], known[1][0], rate_tps), free & ~known[0]
    rate, settled = _sought(networks, others, np.where(free, pending, 0.0), start, wait_s)
    if cache and settled:
        cache[1].put(cache[0], CachedResult(networks.demand, others, rate_tps, rate[np.newaxis]))
    return QueueState(rate, networks, others, settled=settled)


def _sought(
    networks: Networks, others: NeighbourLoad, trees: FloatArray, rate_tps: FloatArray, wait_s: FloatArray
) -> tuple[FloatArray, bool]:
    """Return the rates of topologies with `trees` pending, shape (T,), and whether they converged.

    Rates of other topologies are unchanged.
    """
    free, within = trees > 0, len(rate_tps)
    rate, before, came = np.where(free, rate_tps * _BEGIN, rate_tps), np.zeros(within), np.zeros(within)
    low, high = np.zeros(within), rate_tps
    for step in range(_MAX_STEPS):
        if not free.any():
            return rate, True
        if np.count_nonzero(free) <= _NARROWED * within:
            within = int(np.count_nonzero(free))
            narrow, sites = networks.only(free)
            networks, others = Networks.of(narrow), NeighbourLoad(*(each[:, sites] for each in others))
        comes = ratio(trees, QueueState(rate, networks, others).ways.cycle.mean + wait_s)
        off = np.where(free, comes - rate, 0.0)
        low, high = np.where(off > 0, rate, low), np.where(off < 0, rate, high)
        free = free & (np.abs(off) > _SETTLED * rate) & (high - low > _NARROW * rate)
        slope = np.divide(comes - came, rate - before, out=np.zeros(len(rate)), where=rate != before)
        secant = rate + off / np.maximum(1.0 - slope, 1.0)
        inside = (secant > low) & (secant < high) & (step % _HALVE != _HALVE - 1)
        before, came = rate, comes
        rate = np.where(free, np.where(inside, secant, (low + high) / 2), rate)
    return rate, not free.any()


def _chosen(first: BoolArray, one: Times, other: Times) -> Times:
    """Return times of one where `first`, else of the other."""
    return Times(*(np.where(first, *each) for each in zip(one, other, strict=True)))


def node_use(demand: TreeDemand, rate_tps: FloatArray) -> FloatArray:
    """Return the fraction of every node's CPU that given rates take, shape (N,)."""
    count = len(demand.nodes.cores)
    used: FloatArray = (demand.shared @ rate_tps)[:count] + (1 - demand.free[:count])
    return used
