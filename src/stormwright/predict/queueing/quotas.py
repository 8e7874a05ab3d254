"""CPU quotas: tuples also wait because a node stops once its quota is used up.

The threads of a node with a quota of c cores by the period P run on up to d cores of the machine at once. If they use
it up before the period is over, all of them stand still until the next one begins: they have run for a fraction of
it, f = c / d. That is a resource with periodic service (I. Shin, I. Lee, Periodic Resource Model for Compositional
Real-Time Guarantees, RTSS 2003, https://doi.org/10.1109/REAL.2003.1253249). The fraction p of periods in which it
happens is assumed to be the demand of threads by the quota: work, the base CPU of workers, and the CPU that idle
threads take to poll for tuples. So a node runs for F = 1 − p (1 − f) of the time.

An activity that takes the time δ of a running node meets p δ / (F P) stops on average, wherever it begins, and each
lasts for (1 − f) P: it ends later by δ (1 − F) / F. That is the completion time of a queue with interruptions (H.
White, L. S. Christie, Queuing with Preemptive Priorities or with Breakdown, Operations Research 6(1), 1958,
https://doi.org/10.1287/opre.6.1.79; B. Avi-Itzhak, P. Naor, Some Queuing Problems with the Service Station Subject to
Breakdown, Operations Research 11(3), 1963, https://doi.org/10.1287/opre.11.3.303). It holds for tuples that arrive
while their node runs; most do, as their senders are on it. The variance is assumed to be that of stops at random:
stops by the clock would vary less, and measured latencies vary like that.

δ is the time until a thread that found no tuples and sleeps polls again: at each executor, and where a message goes
to another worker, at the thread that sends it and at the one that receives it. The kernel hands out a quota to cores
in slices of s, the last of which may be smaller (`bandwidth_slice_us` in Linux'
Documentation/scheduler/sched-bwc.rst). If there are fewer slices than cores, m = ⌈c P / s⌉ < d, cores take turns, and
a tuple that is handed from one to another waits for that too: δ is d / m times as long. This has no theory behind it:
it is close to measurements on nodes of 0.25 and 0.4 cores.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import FloatArray
from stormwright.predict.costs import Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.queueing.contention import MIN_FREE
from stormwright.predict.queueing.network import QueueNetwork, SojournTimes, TreeTimes
from stormwright.predict.queueing.trees import Times
from stormwright.predict.sums import ratio, sums

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
        node, quota = demand.thread_node[on], np.maximum(demand.nodes.cores, MIN_FREE)
        load = (rate_tps[demand.thread_topology] * demand.thread_s)[on]
        executors = np.bincount(demand.executor_node[demand.executor_node != UNPLACED], minlength=count)
        at_once = np.maximum(np.minimum(costs.machine_cores, sums(node, demand.thread_visits[on] > 0, count)), quota)
        wanted = sums(node, load, count) + demand.base_cores + costs.polling_share * executors
        stands = 1 - quota / at_once  # 1 − f
        runs = 1 - np.minimum(wanted / quota, 1.0) * stands  # F
        pieces = np.ceil(quota * costs.quota_period_ms / np.maximum(costs.quota_piece_ms, MIN_FREE) - _ROUNDING)
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
