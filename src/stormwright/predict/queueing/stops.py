"""What tuples wait for because nodes are held to a quota of CPU: such a node stops once that is used up.

The threads of a node with a quota of c cores by the period P run on up to d cores of the machine at once. Where they
use it up before the period is over, all of them stand still till the next one begins: they have run for a part of it,
f = c / d. That is a resource with periodic service (I. Shin, I. Lee, Periodic Resource Model for Compositional
Real-Time Guarantees, RTSS 2003, https://doi.org/10.1109/REAL.2003.1253249). The part p of periods in which it happens
is taken to be what threads want, by the quota: work, what workers take by being there, and what idle threads take to
look for tuples. So a node runs for F = 1 − p (1 − f) of the time.

What takes the time δ of a node that runs meets p δ / (F P) stops on average, wherever it begins, and each lasts for
(1 − f) P: it is done later by δ (1 − F) / F. That is the completion time of a queue with interruptions (H. White, L. S.
Christie, Queuing with Preemptive Priorities or with Breakdown, Operations Research 6(1), 1958,
https://doi.org/10.1287/opre.6.1.79; B. Avi-Itzhak, P. Naor, Some Queuing Problems with the Service Station Subject to
Breakdown, Operations Research 11(3), 1963, https://doi.org/10.1287/opre.11.3.303). It holds for tuples that come while
their node runs; most do, as what sends them to each other is on it. How much it varies is taken to be as with stops at
random: by the clock they would vary less, and measured latencies vary like that.

δ is how long it takes until a thread looks, which found no tuples before and sleeps: at each executor, and where a
message goes to another worker, at the thread that sends it and at the one that receives it. The kernel deals out a
quota to cores in pieces of s, the last of which may be smaller (`bandwidth_slice_us` in Linux'
Documentation/scheduler/sched-bwc.rst). If that is fewer pieces than cores, m = ⌈c P / s⌉ < d, cores take turns, and a
tuple that is handed from one to another waits for that too: δ is d / m times as long. This is no theory: it comes near
to what was measured on nodes of 0.25 and 0.4 cores.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import FloatArray
from stormwright.predict.costs import Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.queueing.network import QueueNetwork, Stays, Ways
from stormwright.predict.queueing.trees import Times
from stormwright.predict.sums import ratio, sums

#: Cores that a quota is at least taken to be.
_LEAST = 1e-9

#: Part of a piece that a quota may be over a number of them by rounding, or as it was measured.
_ROUNDING = 0.01


class Stops(NamedTuple):
    """Stops of nodes, shape (N,): time that a tuple loses by them at an executor, and how long one lasts, in s."""

    lost_s: FloatArray
    each_s: FloatArray

    @classmethod
    def of(cls, demand: TreeDemand, costs: Costs, rate_tps: FloatArray) -> Self:
        """The stops of all nodes.

        Parameters
        ----------
        demand
            Of the topologies under a placement.
        costs
            With the period of the quota, its pieces, the machine's cores, how long threads sleep and what they take.
        rate_tps
            Trees/s, shape (T,).
        """
        on, count = demand.thread_node != UNPLACED, len(demand.nodes.cores)
        node, quota = demand.thread_node[on], np.maximum(demand.nodes.cores, _LEAST)
        load = (rate_tps[demand.thread_topology] * demand.thread_s)[on]
        executors = np.bincount(demand.executor_node[demand.executor_node != UNPLACED], minlength=count)
        at_once = np.maximum(np.minimum(costs.machine_cores, sums(node, demand.thread_visits[on] > 0, count)), quota)
        wanted = sums(node, load, count) + demand.base_cores + costs.polling_share * executors
        stands = 1 - quota / at_once  # 1 − f
        runs = 1 - np.minimum(wanted / quota, 1.0) * stands  # F
        pieces = np.ceil(quota * costs.quota_period_ms / np.maximum(costs.quota_piece_ms, _LEAST) - _ROUNDING)
        turns = np.maximum(at_once / np.maximum(pieces, 1.0), 1.0)
        lost_s = 1e-6 * costs.asleep_us * turns * (1 - runs) / runs
        return cls(lost_s, 1e-3 * costs.quota_period_ms * stands)


def with_stops(network: QueueNetwork, costs: Costs, stays: Stays, rate_tps: FloatArray) -> Ways:
    """How long trees take if nodes are held to quotas.

    Stops hold up all tuples of a node together: where the last of several is awaited, what each loses counts as
    exponential, and how long stops are is added to the variance of the whole. A topology with K trees pending that has
    the rate X takes at most K / X for one, by Little's law.

    Parameters
    ----------
    network
        Of the placement.
    costs
        With the quota; where it has no period, stays are all there is.
    stays
        Without stops.
    rate_tps
        Trees/s, shape (T,).
    """
    without = network.ways(stays)
    if costs.quota_period_ms == 0:
        return without
    demand = network.demand
    stops, on = Stops.of(demand, costs, rate_tps), demand.thread_node != UNPLACED
    at = demand.thread_node[on]
    lost, each = np.zeros(len(on)), np.zeros(len(on))
    lost[on], each[on] = stops.lost_s[at], stops.each_s[at]
    found = network.ways(Stays(stays.threads + Times(lost, lost**2), stays.links))
    # The length of the stops that its tuples meet.
    met = demand.thread_visits * lost
    length = ratio(*(sums(demand.thread_topology, amounts, len(rate_tps)) for amounts in (met * each, met)))
    most = ratio(network.layout.pending, rate_tps)
    return Ways(*(_stopped(*both, length, most) for both in zip(found, without, strict=True)))


def _stopped(found: Times, without: Times, length_s: FloatArray, most_s: FloatArray) -> Times:
    """With the variance of stops of that length, and not above what is possible."""
    variance = found.variance + np.maximum(found.mean - without.mean, 0.0) * length_s
    part = np.minimum(ratio(most_s, found.mean), 1.0)
    shorter = np.where((most_s > 0) & (found.mean > 0), np.maximum(part, ratio(without.mean, found.mean)), 1.0)
    return Times(found.mean * shorter, variance * shorter**2)
