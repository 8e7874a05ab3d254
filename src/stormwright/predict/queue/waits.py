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

from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.predict.costs import Costs
from stormwright.predict.demand import Demand
from stormwright.predict.queue.contention import stretch
from stormwright.predict.queue.narrowed import narrowed
from stormwright.predict.queue.network import Network, Stays, Ways
from stormwright.predict.queue.stops import with_stops
from stormwright.predict.queue.trees import Times
from stormwright.predict.sums import ratio, sums

#: Rates are found once they are what they lead to up to this part, or as exact as that, or after so many steps.
_SETTLED, _NARROW, _MOST_STEPS = 1e-4, 1e-9, 100

#: Where the search for rates begins, in parts of what cannot be exceeded; every so many steps are halvings.
_BEGIN, _HALVE = 0.9, 4

#: Once no more than this part of topologies are left that have not settled, these go on alone.
_NARROWED = 0.6

#: A queue without limit is never taken to be fuller than this.
_FULL = 1 - 1e-9


class State(NamedTuple):
    """What a placement comes to.

    Parameters
    ----------
    rate_tps
        Trees/s of every topology, shape (T,).
    ways
        How long trees take.
    busy
        Part of the time for which each thread has work, shape (E + 2 W,).
    settled
        Whether the rates were found.
    """

    rate_tps: FloatArray
    ways: Ways
    busy: FloatArray
    settled: bool = True


class Beside(NamedTuple):
    """What topologies see of the others at places: cores and squares for `stretch`, and links; shape (2, P) each."""

    cores: FloatArray
    links: FloatArray

    @classmethod
    def of(cls, network: Network, rate_tps: FloatArray) -> Beside:
        """That of given rates, in trees/s, shape (T,)."""
        places = network.demand.places
        links = rate_tps[places.topology] * places.link_s
        return cls(_beside(network, _cores_and_squares(network.demand, rate_tps)), _beside(network, links))


def at_rates(network: Network, rate_tps: FloatArray, others: Beside | None = None, costs: Costs | None = None) -> State:
    """The state in which topologies have given rates; times are meaningless where something is too full.

    Parameters
    ----------
    network
        Of the placement.
    rate_tps
        Trees/s, shape (T,).
    others
        What each topology is to see of the others; by default what they are at these rates.
    costs
        With the quota of nodes that stop when it is used up; None for nodes that do not.
    """
    demand, places = network.demand, network.demand.places
    others = others or Beside.of(network, rate_tps)
    load = rate_tps[demand.thread_topology] * demand.thread_s
    factor = stretch(demand, load, others.cores)
    full = load * factor
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
    stays = Stays(Times(mean, varies * mean**2), Times(link, link**2))
    ways = with_stops(network, costs, stays, rate_tps) if costs else network.ways(stays)
    return State(rate_tps, ways, np.minimum(full, 1.0))


def closed(network: Network, rate_tps: FloatArray) -> State:
    """The state in which spouts always have as many trees pending as they may, beside others at their fair rates.

    By Little's law a topology with K trees pending, each for a cycle of R(X), has the rate X = K / R(X). Near a
    bottleneck K / R falls about linearly in X, so that secants find where it is X; where one leads out of what is known
    to hold the rate, that is halved.

    Parameters
    ----------
    network
        Of the placement.
    rate_tps
        Trees/s that the topologies have if nothing limits what is pending, shape (T,). Nobody gets more.
    """
    whole, pending = network, network.layout.pending
    free = np.isfinite(pending) & (rate_tps > 0)
    trees = np.where(free, pending, 0.0)
    rate, before, came = np.where(free, rate_tps * _BEGIN, rate_tps), np.zeros(len(rate_tps)), np.zeros(len(rate_tps))
    low, high, others = np.zeros(len(rate_tps)), rate_tps, Beside.of(network, rate_tps)
    besides, within = others, len(rate_tps)
    if not free.any():
        return at_rates(whole, rate, besides)
    for step in range(_MOST_STEPS):
        comes = ratio(trees, at_rates(network, rate, others).ways.cycle.mean)
        off = np.where(free, comes - rate, 0.0)
        low, high = np.where(off > 0, rate, low), np.where(off < 0, rate, high)
        free = free & (np.abs(off) > _SETTLED * rate) & (high - low > _NARROW * rate)
        if not free.any():
            return at_rates(whole, rate, besides)
        if np.count_nonzero(free) <= _NARROWED * within:
            within = int(np.count_nonzero(free))
            network, sites = narrowed(network, free)
            others = Beside(*(each[:, sites] for each in others))
        slope = np.divide(comes - came, rate - before, out=np.zeros(len(rate)), where=rate != before)
        secant = rate + off / np.maximum(1.0 - slope, 1.0)
        inside = (secant > low) & (secant < high) & (step % _HALVE != _HALVE - 1)
        before, came = rate, comes
        rate = np.where(free, np.where(inside, secant, (low + high) / 2), rate)
    return at_rates(whole, rate, besides)._replace(settled=False)


def _cores_and_squares(demand: Demand, rate_tps: FloatArray) -> FloatArray:
    """Cores that are taken at every place, and the squares of what each thread takes of one; shape (2, P)."""
    places = demand.places
    on = places.of_thread >= 0
    at, load = places.of_thread[on], (rate_tps[demand.thread_topology] * demand.thread_s)[on]
    return np.stack([sums(at, each, len(places.node)) for each in (load, load**2)])


def _beside(network: Network, amounts: FloatArray) -> FloatArray:
    """Of amounts at every place, what the other topologies of its node have; shape as it was, (…, P)."""
    node, count = network.demand.places.node, len(network.demand.nodes.cores)
    on_node = np.stack([sums(node, each, count) for each in amounts])
    beside: FloatArray = np.maximum(on_node[:, node] - amounts, 0.0)
    return beside


def node_use(demand: Demand, rate_tps: FloatArray) -> FloatArray:
    """Part of every node's CPU that given rates take, shape (N,)."""
    count = len(demand.nodes.cores)
    used: FloatArray = (demand.shared @ rate_tps)[:count] + (1 - demand.free[:count])
    return used
