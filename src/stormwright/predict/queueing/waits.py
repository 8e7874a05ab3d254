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
from typing import NamedTuple, Self

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.predict.costs import Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.queueing.neighbour_load import CachedResult, CacheEntry, NeighbourLoad, unchanged
from stormwright.predict.queueing.network import Networks, QueueNetwork, SojournTimes, TreeTimes
from stormwright.predict.queueing.trees import Times
from stormwright.predict.sums import ratio, sums

# Contention for the cores of a node ---------------------------------------------------------------

#: Least fraction of a core that is assumed to be left for a thread.
_MIN = 1e-9

#: Exponent of the transition from waiting for others only to a full node.
_SOON = 4


def stretch(demand: TreeDemand, load: FloatArray, beside: FloatArray) -> FloatArray:
    """Return wall time by CPU time of every thread while it works, at least 1, shape (E + 2 W,).

    The threads are software servers on their node's cores, as in layered queueing: J. A. Rolia, K. C. Sevcik, The
    Method of Layers, IEEE Transactions on Software Engineering 21(8), 1995, https://doi.org/10.1109/32.403785. The
    others of a node take a fraction ρ of its c cores, and an arrival waits as in a queue with c servers, by the time of
    service W = ρ^(√(2 (c + 1)) − 1) / (c (1 − ρ)): H. Sakasegawa, An approximation formula L_q ≃ αρ^β/(1 − ρ), Annals
    of the Institute of Statistical Mathematics 29, 1977, https://doi.org/10.1007/BF02532775. For one core that is
    1 / (1 − ρ) in all, which is exact for a core that is shared equally. The number of threads is finite: m others (the
    number of identical threads with the same variance) fill c cores only if they are at least c, so W counts times
    (m − c + 1) / m.

    A node is full when its threads together take all of its cores, and then one of them always has work: it gets what
    the others leave, c (1 − ρ), at most a core. So as the node fills, the wait goes over to 1 / (c (1 − ρ)) − 1;
    without that a node would be full before its cores are.

    A node with less than one core has a share of a core, which runs at full speed until the share is used up. The base
    CPU of workers is not available to threads.

    Parameters
    ----------
    demand
        Demand with the location of threads.
    load
        CPU time of every thread by wall time, shape (E + 2 W,).
    beside
        Cores that other topologies take on the node of every place, and the squares of what each thread takes, (2, P).
    """
    place = demand.places.of_thread
    on = np.flatnonzero((place >= 0) & (load > 0))
    at, own = place[on], load[on]
    of_place, square = np.maximum(demand.nodes.cores - demand.base_cores, _MIN)[demand.places.node], own**2
    total, squares = (other + sums(at, each, len(of_place)) for other, each in zip(beside, (own, square), strict=True))
    filled, at_least = np.minimum(total / of_place, 1.0), np.maximum(of_place, 1.0)
    cores, whole, others = of_place[at], at_least[at], total[at] - own
    free = np.maximum(cores - others, _MIN) / cores  # 1 − ρ
    queueing = np.maximum(1.0 - free, 0.0) ** (np.sqrt(2 * (at_least + 1)) - 1)[at]
    vary = squares[at] - square
    alike = np.divide(np.maximum(others, 0.0) ** 2, vary, out=np.zeros(len(at)), where=vary > square * _MIN)
    several = np.maximum(1.0 - (whole - 1.0) / np.maximum(alike, _MIN), 0.0)
    queueing *= np.where(whole > 1, several, 1.0)
    late = (filled**_SOON)[at]
    waits = ((1 - late) * queueing + late * np.maximum(1.0 - whole * free, 0.0)) / (whole * free)
    scarce = (filled * np.maximum(1.0 / of_place - 1.0, 0.0))[at] / free
    factor = np.ones(len(place))
    factor[on] = 1.0 + waits + scarce
    return factor


# CPU quotas ---------------------------------------------------------------------------------------
# Tuples also wait because nodes have a CPU quota: such a node stops once the quota is used up.
#
# The threads of a node with a quota of c cores by the period P run on up to d cores of the machine at once. If they use
# it up before the period is over, all of them stand still until the next one begins: they have run for a fraction of
# it, f = c / d. That is a resource with periodic service (I. Shin, I. Lee, Periodic Resource Model for Compositional
# Real-Time Guarantees, RTSS 2003, https://doi.org/10.1109/REAL.2003.1253249). The fraction p of periods in which it
# happens is assumed to be the demand of threads by the quota: work, the base CPU of workers, and the CPU that idle
# threads take to poll for tuples. So a node runs for F = 1 − p (1 − f) of the time.
#
# An activity that takes the time δ of a running node meets p δ / (F P) stops on average, wherever it begins, and each
# lasts for (1 − f) P: it ends later by δ (1 − F) / F. That is the completion time of a queue with interruptions (H.
# White, L. S. Christie, Queuing with Preemptive Priorities or with Breakdown, Operations Research 6(1), 1958,
# https://doi.org/10.1287/opre.6.1.79; B. Avi-Itzhak, P. Naor, Some Queuing Problems with the Service Station Subject to
# Breakdown, Operations Research 11(3), 1963, https://doi.org/10.1287/opre.11.3.303). It holds for tuples that arrive
# while their node runs; most do, as their senders are on it. The variance is assumed to be that of stops at random:
# stops by the clock would vary less, and measured latencies vary like that.
#
# δ is the time until a thread that found no tuples and sleeps polls again: at each executor, and where a message goes
# to another worker, at the thread that sends it and at the one that receives it. The kernel hands out a quota to cores
# in slices of s, the last of which may be smaller (`bandwidth_slice_us` in Linux'
# Documentation/scheduler/sched-bwc.rst). If there are fewer slices than cores, m = ⌈c P / s⌉ < d, cores take turns, and
# a tuple that is handed from one to another waits for that too: δ is d / m times as long. This has no theory behind it:
# it is close to measurements on nodes of 0.25 and 0.4 cores.

#: Fraction of a slice by which a quota may exceed a whole number of slices, by rounding or measurement.
_ROUNDING = 0.01


class Stops(NamedTuple):
    """Stops of nodes, shape (N,): time that a tuple loses by them at an executor, and the length of one, in s."""

    lost_s: FloatArray
    each_s: FloatArray

    @classmethod
    def of(cls, demand: TreeDemand, costs: Costs, rate_tps: FloatArray) -> Self:
        """Return the stops of all nodes.

        Parameters
        ----------
        demand
            Demand of the topologies under a placement.
        costs
            Costs with the period of the quota, its pieces, the machine's cores, and the sleep and polling CPU of
            threads.
        rate_tps
            Rate of each topology in trees/s, shape (T,).
        """
        on, count = demand.thread_node != UNPLACED, len(demand.nodes.cores)
        node, quota = demand.thread_node[on], np.maximum(demand.nodes.cores, _MIN)
        load = (rate_tps[demand.thread_topology] * demand.thread_s)[on]
        executors = np.bincount(demand.executor_node[demand.executor_node != UNPLACED], minlength=count)
        at_once = np.maximum(np.minimum(costs.machine_cores, sums(node, demand.thread_visits[on] > 0, count)), quota)
        wanted = sums(node, load, count) + demand.base_cores + costs.polling_share * executors
        stands = 1 - quota / at_once  # 1 − f
        runs = 1 - np.minimum(wanted / quota, 1.0) * stands  # F
        pieces = np.ceil(quota * costs.quota_period_ms / np.maximum(costs.quota_piece_ms, _MIN) - _ROUNDING)
        turns = np.maximum(at_once / np.maximum(pieces, 1.0), 1.0)
        lost_s = 1e-6 * costs.asleep_us * turns * (1 - runs) / runs
        return cls(lost_s, 1e-3 * costs.quota_period_ms * stands)


def with_stops(network: QueueNetwork, costs: Costs, stays: SojournTimes, rate_tps: FloatArray) -> TreeTimes:
    """Return the times of trees if nodes have CPU quotas.

    Stops delay all tuples of a node together: where the last of several is awaited, the loss of each counts as
    exponential, and the length of stops is added to the variance of the whole. A topology with K trees pending that has
    the rate X takes at most K / X for one, by Little's law.

    Parameters
    ----------
    network
        Network of the placement.
    costs
        Costs with the quota; without a period there are no stops.
    stays
        Sojourn times without stops.
    rate_tps
        Rate of each topology in trees/s, shape (T,).
    """
    without = network.ways(stays)
    if costs.quota_period_ms == 0:
        return without
    demand = network.demand
    stops, on = Stops.of(demand, costs, rate_tps), demand.thread_node != UNPLACED
    at = demand.thread_node[on]
    lost, each = np.zeros(len(on)), np.zeros(len(on))
    lost[on], each[on] = stops.lost_s[at], stops.each_s[at]
    found = network.ways(SojournTimes(stays.threads + Times(lost, lost**2), stays.links))
    # Mean length of the stops that its tuples meet.
    met = demand.thread_visits * lost
    length = ratio(*(sums(demand.thread_topology, amounts, len(rate_tps)) for amounts in (met * each, met)))
    most = ratio(network.layout.pending, rate_tps)
    return TreeTimes(*(_stopped(*both, length, most) for both in zip(found, without, strict=True)))


def _stopped(found: Times, without: Times, length_s: FloatArray, most_s: FloatArray) -> Times:
    """Return times with the variance of stops of that length, limited to the possible range."""
    variance = found.variance + np.maximum(found.mean - without.mean, 0.0) * length_s
    part = np.minimum(ratio(most_s, found.mean), 1.0)
    shorter = np.where((most_s > 0) & (found.mean > 0), np.maximum(part, ratio(without.mean, found.mean)), 1.0)
    return Times(found.mean * shorter, variance * shorter**2)


# Waiting times ------------------------------------------------------------------------------------

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
