"""Evaluation of a placement: demands, highest rates, and the states at given rates and with all trees pending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.demand import ALL_AT_ONCE, Claims, TreeDemand, free_of
from stormwright.predict.fairness import NO_LIMIT, highest_rates
from stormwright.predict.flow.part import TopologySubset
from stormwright.predict.flow.placed_routes import PlacedRoutes
from stormwright.predict.flow.profile import Factors, Profile
from stormwright.predict.flow.routes import Routes
from stormwright.predict.placement_cache import CacheKey
from stormwright.predict.queueing.neighbour_load import CacheEntry
from stormwright.predict.queueing.network import Networks, QueueNetwork, demand_of
from stormwright.predict.queueing.waits import QueueState, closed
from stormwright.predict.workers import SteadyWorkers

if TYPE_CHECKING:
    from scipy.sparse import coo_array

#: Initial trees/s without a limiting resource, if only pending trees limit the rate.
_ENDLESS_TPS = 1e9


@dataclass(frozen=True, eq=False)
class PlacedLoad:
    """A load under a placement, independent of costs.

    Parameters
    ----------
    profile
        Profile of the load.
    problem
        The problem with the nodes.
    standing
        Source of the routes under the placement.
    full_routes, spills
        Routes at highest rates, if shuffled tuples of some topologies spill over to executors further away, or
        executors of spouts begin unequal numbers of trees; and which topologies spill, shape (T,). None if nothing
        differs.
    """

    profile: Profile
    problem: Problem
    standing: PlacedRoutes
    full_routes: Routes | None = None
    spills: BoolArray | None = None

    @classmethod
    def under(
        cls, profile: Profile, problem: Problem, slot_of_executor: IntArray, last: PlacedLoad | None = None
    ) -> PlacedLoad:
        """Return a load under a placement.

        Parameters
        ----------
        profile
            Profile of the load.
        problem
            The problem with the nodes; the executors are those of the profile.
        slot_of_executor
            Index into the problem's slots, -1 for none, shape (E,).
        last
            The same load under another placement: topologies that did not move are not recomputed.
        """
        if last is not None and last.profile is profile and last.problem is problem:
            return cls(profile, problem, last.standing.moved(slot_of_executor))
        return cls(profile, problem, PlacedRoutes(profile, problem, slot_of_executor))

    @property
    def routes(self) -> Routes:
        """Routes at rates below saturation of all queues."""
        return self.standing.routes()


@dataclass(frozen=True, eq=False)
class SteadyState:
    """The steady state of a placement.

    Parameters
    ----------
    demand, full_demand
        Demand of each tree at the given rates, and at highest rates.
    highest_tps, limit
        Trees/s that are sustained if spouts are not limited, and the row that limits each topology (3 N + its index:
        its busiest thread), shape (T,).
    given
        State at the given rates.
    given_use
        Utilisation of the fullest resource of each topology at the given rates, shape (T,).
    wait_s
        Time for which trees wait for what is no resource, shape (T,).
    with_all_pending
        Computes the state with as many trees pending as allowed, and the utilisation of each topology's fullest
        resource.
    """

    demand: TreeDemand
    full_demand: TreeDemand
    highest_tps: FloatArray
    limit: IndexArray
    given: QueueState
    given_use: FloatArray
    wait_s: FloatArray
    with_all_pending: Callable[[], tuple[QueueState, FloatArray]]

    @property
    def pending(self) -> QueueState:
        """State with as many trees pending as allowed."""
        return self._pending[0]

    @property
    def pending_use(self) -> FloatArray:
        """Utilisation of the fullest resource of each topology in that state, shape (T,)."""
        return self._pending[1]

    @cached_property
    def _pending(self) -> tuple[QueueState, FloatArray]:
        # Computed on demand: it is the most expensive part, and not all callers need it.
        return self.with_all_pending()


def steady_state(
    placed: PlacedLoad,
    rate_tps: FloatArray,
    weights: FloatArray,
    costs: Costs,
    corrections: Mapping[str, Correction] = NO_CORRECTIONS,
) -> SteadyState:
    """Return the steady state of a placement with given costs.

    Parameters
    ----------
    placed
        The load under the placement.
    rate_tps
        Trees/s at which utilisation and latency are predicted, shape (T,).
    weights
        Weights of the topologies, shape (T,).
    costs, corrections
        Costs of messages and workers, and corrections of single topologies, by id.
    """
    profile = placed.profile
    demand = placed.standing.demand(placed.routes, costs, corrections)
    shares, free = limits(demand)
    there = demand.running & (profile.rate_tps > 0)
    weights, full_demand = np.where(there, weights, 0.0), demand
    network = full = _networks_of(placed, placed.routes, demand, costs)
    full_shares, full_free = shares, free
    if placed.full_routes is not None:
        full_demand = placed.standing.demand(placed.full_routes, costs, corrections)
        full_shares, full_free = limits(full_demand)
        full = _networks_of(placed, placed.full_routes, full_demand, costs)
    highest = highest_rates(full_shares, full_free, weights)
    rate_tps = np.where(there, rate_tps, 0.0)
    cache, wait_s = placed.standing.cache, Factors.of(placed.problem, corrections).wait_s

    def with_all_pending() -> tuple[QueueState, FloatArray]:
        most, trees = np.nan_to_num(highest.rate_tps, posinf=_ENDLESS_TPS), profile.layout.pending
        entry: CacheEntry = CacheKey("rates", costs, corrections), cache
        found = closed(full, trees, np.where(np.isfinite(trees), most, rate_tps), entry, wait_s)
        # Queueing times are approximations; capacities are exact.
        too_much = np.maximum(fullest_use(full_shares, full_free, found.rate_tps), 1.0)
        found = replace(found, rate_tps=found.rate_tps / too_much, times_at_tps=found.rate_tps)
        return found, fullest_use(full_shares, full_free, found.rate_tps)

    return SteadyState(
        demand=demand,
        full_demand=full_demand,
        highest_tps=highest.rate_tps,
        limit=highest.limit,
        given=QueueState(rate_tps, network, costs=costs, cache=(CacheKey("times", costs, corrections), cache)),
        given_use=fullest_use(shares, free, rate_tps),
        wait_s=wait_s,
        with_all_pending=with_all_pending,
    )


def _networks_of(placed: PlacedLoad, routes: Routes, demand: TreeDemand, costs: Costs) -> Networks:
    """Return the queueing network of a demand along routes."""
    profile = placed.profile

    def of_all() -> QueueNetwork:
        return QueueNetwork.of(demand, routes, profile.graph, profile.layout, costs)

    def of_some(topologies: BoolArray) -> QueueNetwork:
        part, own = TopologySubset.of(profile, topologies), demand_of(demand, topologies)
        return QueueNetwork.of(own, routes.of_part(part, own.workers), part.graph, part.layout, costs)

    return Networks(demand, of_all, of_some)


def limits(demand: TreeDemand) -> tuple[coo_array, FloatArray]:
    """Return the fraction of every resource that 1 tree/s of each topology takes, and the available fraction.

    Returns
    -------
    shares, free
        Use and free fraction of the shared resources, then of each topology's busiest thread; shapes (3 N + T, T) and
        (3 N + T,).
    """
    return limits_of(demand.claims, demand.workers, demand.base_cores)


def limits_of(claims: Claims, workers: SteadyWorkers, base_cores: FloatArray) -> tuple[coo_array, FloatArray]:
    """Return `limits` for given claims and base CPU of nodes, shape (N,)."""
    from scipy.sparse import coo_array  # takes longer to import than the rest

    count, topologies, sites = len(base_cores), len(workers.running), workers.places
    every = np.arange(topologies)
    row = np.concatenate([*(kind * count + sites.node for kind in range(3)), 3 * count + every])
    column = np.concatenate([np.tile(sites.topology, 3), every])
    values = np.concatenate([np.minimum(claims.shared.ravel(), ALL_AT_ONCE), claims.busiest_s])
    shares = coo_array((values, (row, column)), shape=(3 * count + topologies, topologies))
    return shares, np.concatenate([free_of(workers.nodes, base_cores), np.ones(topologies)])


def fullest_use(shares: coo_array, free: FloatArray, rate_tps: FloatArray) -> FloatArray:
    """Return the utilisation of the fullest resource of each topology at given rates; shape (T,).

    Parameters
    ----------
    shares, free
        Use of each resource by 1 tree/s, and its free fraction, from `limits`.
    rate_tps
        Rate of each topology in trees/s, shape (T,).
    """
    topology, _, part = _used(shares, free, rate_tps)
    most = np.zeros(len(rate_tps))
    np.maximum.at(most, topology, part)
    return most


def fullest_rows(shares: coo_array, free: FloatArray, rate_tps: FloatArray) -> IndexArray:
    """Return the row of the fullest resource of each topology at given rates, the first of several; shape (T,).

    Parameters
    ----------
    shares, free, rate_tps
        Use of each resource by 1 tree/s, its free fraction, and rates in trees/s.
    """
    topology, row, part = _used(shares, free, rate_tps)
    order, rows = np.lexsort((-row, part)), np.full(len(rate_tps), NO_LIMIT)
    rows[topology[order]] = row[order]  # of several, the last counts
    return rows


def _used(shares: coo_array, free: FloatArray, rate_tps: FloatArray) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Return topologies, the resources that they use, and their utilisation at given rates."""
    used, entries = shares @ rate_tps, shares
    part = np.divide(used, free, out=np.where(used > 0, np.inf, 0.0), where=free > 0)
    there = entries.data > 0
    return entries.col[there], entries.row[there], part[entries.row[there]]
