"""How long tuples wait: with given rates, and where the number of pending trees limits the rate.

A queue with utilisation ρ that at most N tuples can be at holds Q = ρ / (1 − ρ (1 − 1/N)) of them, whose stay is
R = S (1 + (1 − 1/N) Q), S being the time of service: an arriving tuple sees what is there on average, without its own
part. That is Schweitzer's approximation (P. J. Schweitzer, Approximate Analysis of Multiclass Closed Networks of
Queues, 1979, without a DOI) of mean value analysis, in which it sees what were there without it: M. Reiser, S. S.
Lavenberg, Mean-Value Analysis of Closed Multichain Queuing Networks, Journal of the ACM 27(2), 1980,
https://doi.org/10.1145/322186.322195. It is exact for balanced networks and for one tuple, and comes to the rate of the
bottleneck for many. With N = ∞ it is the open queue M/M/1, R = S / (1 − ρ).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.predict.costs import Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.queueing.again import Again, Beside, Found, Of
from stormwright.predict.queueing.contention import stretch
from stormwright.predict.queueing.narrowed import Networks
from stormwright.predict.queueing.network import QueueNetwork, Stays, Ways
from stormwright.predict.queueing.stops import with_stops
from stormwright.predict.queueing.trees import Times
from stormwright.predict.sums import ratio

#: Rates are found once they are what they lead to up to this part, or as exact as that, or after so many steps.
_SETTLED, _NARROW, _MOST_STEPS = 1e-4, 1e-9, 100

#: Where the search for rates begins, in parts of what cannot be exceeded; every so many steps are halvings.
_BEGIN, _HALVE = 0.9, 4

#: Once no more than this part of topologies are left that have not settled, these go on alone.
_NARROWED = 0.6

#: A queue without limit is never taken to be fuller than this.
_FULL = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class QueueState:
    """What a placement comes to; how long trees take is worked out when it is asked for.

    Parameters
    ----------
    rate_tps
        Trees/s of every topology, shape (T,).
    networks
        Tell the network of the placement.
    others
        What each topology is to see of the others; by default what they are at these rates.
    costs
        With the quota of nodes that stop when it is used up; None for nodes that do not.
    settled
        Whether the rates were found.
    times_at_tps
        Rates at which times are told, where these are others, shape (T,).
    again
        Tells what it is, and what is known of that from the placement before; None where that is not of use.
    """

    rate_tps: FloatArray
    networks: Networks
    others: Beside | None = None
    costs: Costs | None = None
    settled: bool = True
    times_at_tps: FloatArray | None = None
    again: tuple[Of, Again] | None = None

    @cached_property
    def ways(self) -> Ways:
        """How long trees take; meaningless where something is too full."""
        rate_tps = self._times_at_tps
        # Whether a node stops is up to all that is on it.
        if self.again is None or (self.costs and self.costs.quota_period_ms > 0):
            network = self.networks.whole
            stays = _stays(network, rate_tps, self._others, self._full)
            return with_stops(network, self.costs, stays, rate_tps) if self.costs else network.ways(stays)
        (of, again), demand = self.again, self.networks.demand
        known = again.known(of, demand, self._others, rate_tps)
        if known is None:
            found = replace(self, again=None).ways
        else:
            narrow, sites = self.networks.only(~known[0])
            others = Beside(*(each[:, sites] for each in self._others))
            new = QueueState(rate_tps, Networks.of(narrow), others, self.costs).ways
            old = Ways(*(Times(*each) for each in known[1].reshape(2, 2, -1)))
            found = Ways(*(_chosen(known[0], *each) for each in zip(old, new, strict=True)))
        again.keep(Found(of, demand, self._others, rate_tps, np.concatenate([np.stack(of) for of in found])))
        return found

    @property
    def busy(self) -> FloatArray:
        """Part of the time for which each thread has work, shape (E + 2 W,)."""
        return np.minimum(self._full[0], 1.0)

    @property
    def _times_at_tps(self) -> FloatArray:
        return self.rate_tps if self.times_at_tps is None else self.times_at_tps

    @cached_property
    def _others(self) -> Beside:
        return self.others or Beside.of(self.networks.demand, self._times_at_tps)

    @cached_property
    def _full(self) -> tuple[FloatArray, FloatArray]:
        """Part of the time that each thread would have work for, and wall time by CPU time of it; (E + 2 W,) each."""
        demand = self.networks.demand
        load = self._times_at_tps[demand.thread_topology] * demand.thread_s
        factor = stretch(demand, load, self._others.cores)
        return load * factor, factor


def _stays(network: QueueNetwork, rate_tps: FloatArray, others: Beside, of: tuple[FloatArray, FloatArray]) -> Stays:
    """How long tuples stay, threads being so full and so slow as `QueueState` has it."""
    (full, factor), demand, places = of, network.demand, network.demand.places
    seen = 1.0 - np.divide(1.0, network.population, out=np.ones(len(full)), where=network.population > 0)
    queue = np.where(full > 0, full / np.maximum(1.0 - seen * full, 1.0 - _FULL), 0.0)
    service = ratio(demand.thread_s, demand.thread_visits) * factor
    mean = service * (1.0 + seen * queue)
    # An open queue's stay is exponential. Where all that is pending waits in one place, what is ahead of a tuple is
    # always as much, and its stay is the sum of so many times of service.
    varies = np.maximum(1.0 - ratio(queue, network.population), 1.0 / (1.0 + queue))
    own = rate_tps[places.topology] * places.link_s
    use = own + others.links
    messages = rate_tps[places.topology] * places.link_messages
    link = (ratio(own, messages) / np.maximum(1.0 - use, 1.0 - _FULL)).ravel()
    return Stays(Times(mean, varies * mean**2), Times(link, link**2))


def closed(
    networks: Networks, pending: FloatArray, rate_tps: FloatArray, memory: tuple[Of, Again] | None = None
) -> QueueState:
    """The state in which spouts always have as many trees pending as they may, beside others at their fair rates.

    By Little's law a topology with K trees pending, each for a cycle of R(X), has the rate X = K / R(X). Near a
    bottleneck K / R falls about linearly in X, so that secants find where it is X; where one leads out of what is known
    to hold the rate, that is halved.

    Parameters
    ----------
    networks
        Tell the network of the placement; they are asked only if a topology has a limit.
    pending
        Trees that each topology may have pending, inf for no limit, shape (T,).
    rate_tps
        Trees/s that the topologies have if nothing limits what is pending, shape (T,). Nobody gets more.
    memory
        Tells what it is, and what is known of that from the placement before.
    """
    free = np.isfinite(pending) & (rate_tps > 0)
    if not free.any():
        return QueueState(rate_tps, networks)
    others, start = Beside.of(networks.demand, rate_tps), rate_tps
    known = memory[1].known(memory[0], networks.demand, others, rate_tps) if memory else None
    if known is not None:
        start, free = np.where(free & known[0], known[1][0], rate_tps), free & ~known[0]
    rate, settled = _sought(networks, others, np.where(free, pending, 0.0), start)
    if memory and settled:
        memory[1].keep(Found(memory[0], networks.demand, others, rate_tps, rate[np.newaxis]))
    return QueueState(rate, networks, others, settled=settled)


def _sought(networks: Networks, others: Beside, trees: FloatArray, rate_tps: FloatArray) -> tuple[FloatArray, bool]:
    """Rates of topologies with so many trees pending, shape (T,), and whether they were found; others keep theirs."""
    free, within = trees > 0, len(rate_tps)
    rate, before, came = np.where(free, rate_tps * _BEGIN, rate_tps), np.zeros(within), np.zeros(within)
    low, high = np.zeros(within), rate_tps
    for step in range(_MOST_STEPS):
        if not free.any():
            return rate, True
        if np.count_nonzero(free) <= _NARROWED * within:
            within = int(np.count_nonzero(free))
            narrow, sites = networks.only(free)
            networks, others = Networks.of(narrow), Beside(*(each[:, sites] for each in others))
        comes = ratio(trees, QueueState(rate, networks, others).ways.cycle.mean)
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
    """Of one where `first`, else of the other."""
    return Times(*(np.where(first, *each) for each in zip(one, other, strict=True)))


def node_use(demand: TreeDemand, rate_tps: FloatArray) -> FloatArray:
    """Part of every node's CPU that given rates take, shape (N,)."""
    count = len(demand.nodes.cores)
    used: FloatArray = (demand.shared @ rate_tps)[:count] + (1 - demand.free[:count])
    return used
