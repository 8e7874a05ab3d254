"""Share of a topology's trees that each executor of its spouts begins at highest rates.

With a limit on pending trees each has the full number of its own under way all the time: executors of spouts are the
classes of a closed network. With many trees pending its rates X are proportionally fair: they maximise Σ K log X, K
being the pending trees of each, within the capacity of every resource. N. S. Walton, Proportional fairness and its
relationship with multi-class queueing networks, Annals of Applied Probability 19(6), 2009,
https://doi.org/10.1214/09-AAP612. Executors whose trees wait in the same places have the same rate; those whose trees
use less loaded resources begin more of them.

The prices p of the resources, which are the fractions of all trees that wait for each, maximise Σ K log Σ p U, U being
the demand of a tree of each class: the likelihood of a mixture, for which a known iteration ascends monotonically.
T. M. Cover, An algorithm for maximizing expected log investment return, IEEE Transactions on Information Theory 30(2),
1984, https://doi.org/10.1109/TIT.1984.1056869. This holds where a smaller demand waits less, as threads do for cores.
At a link each message waits behind all others, however small: there p is by the message. The same iteration finds those
prices. Messages of a tree that wait at the same time delay it once (`Graph.blocking_weight`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.demand import TreeDemand, base_cores_of, free_of
from stormwright.predict.flow.part import numbers
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Routes
from stormwright.predict.placement_cache import CacheKey
from stormwright.predict.steady import PlacedLoad
from stormwright.predict.sums import sums
from stormwright.predict.workers import SteadyWorkers

#: Use of resources and waits for them by resource and executor of a spout, shape (R, S) each.
_Limits = tuple[FloatArray, FloatArray]

#: With more spout executors than this a topology shares evenly: the demand of each one's trees costs as much as a
#: prediction.
MAX_SPOUTS = 32

#: In a large cluster, most spout executors in all for which fair shares are computed, smallest topologies first.
MAX_WORKED_OUT = 50_000

#: Values that are computed at once, of pairs, flows and executors.
_AT_ONCE = 500_000

#: Relative overload at which the iteration ends, and most steps.
_SETTLED, _MAX_STEPS = 1e-4, 5_000


class _FairRates(NamedTuple):
    """Rates of the spout executors of a topology, None for none, and the CPU available to its trees at its places."""

    room: FloatArray
    rates: FloatArray | None = None


def with_shares(placed: PlacedLoad, costs: Costs, corrections: Mapping[str, Correction] = NO_CORRECTIONS) -> PlacedLoad:
    """Return the placement with routes at highest rates: executors of spouts begin trees in proportionally fair shares.

    Each topology is treated as if it were alone.

    Parameters
    ----------
    placed
        The load under the placement; it is unchanged if shuffled tuples spill over in it.
    costs, corrections
        Costs of messages and workers, and corrections of single topologies, by id.
    """
    spouts = _spouts(placed)
    if placed.full_routes is not None or not spouts:
        return placed
    workers, begins = placed.standing.workers, placed.profile.begins.copy()
    base = base_cores_of(placed.profile, workers, costs)
    (room, first), topology = _available_cores(workers, base), placed.profile.layout.executor_topology
    key: CacheKey[_FairRates] = CacheKey("fair rates", costs, corrections)
    known, new = placed.standing.cache.by_topology(key), []
    for own in spouts:
        number = int(topology[own[0]])
        here = room[first[number] : first[number + 1]]
        if number not in known or not np.array_equal(known[number].room, here):
            known[number] = _FairRates(here)
            new.append(own)
    for number, rates in _alone(placed, new, base, costs, corrections).items():
        known[number] = known[number]._replace(rates=rates)
    for own in spouts:
        parts = known[int(topology[own[0]])].rates
        if parts is not None:
            begins[own] = parts / parts.sum() * placed.profile.begins[own].sum()
    if np.array_equal(begins, placed.profile.begins):
        return placed
    return replace(placed, full_routes=placed.standing.begun(begins))


def _available_cores(workers: SteadyWorkers, base_cores: FloatArray) -> tuple[FloatArray, IndexArray]:
    """Return the CPU available for trees at places, by topology, and each topology's first place, shape (T + 1,)."""
    sites, nodes = workers.places, workers.nodes
    by = np.argsort(sites.topology, kind="stable")
    room = (nodes.cores * free_of(nodes, base_cores)[: len(nodes.cores)])[sites.node[by]]
    return room, np.searchsorted(sites.topology[by], np.arange(len(workers.running) + 1))


def _alone(
    placed: PlacedLoad,
    spouts: Sequence[IndexArray],
    base_cores: FloatArray,
    costs: Costs,
    corrections: Mapping[str, Correction],
) -> dict[int, FloatArray]:
    """Return the fair rates of the spout executors of some topologies, by topology, where there are any."""
    by_size: dict[int, list[IndexArray]] = {}
    for own in spouts:
        # The demand of each one's trees is computed as often as any topology of a group has spouts.
        by_size.setdefault((len(own) - 1).bit_length(), []).append(own)
    limited: dict[int, _Limits] = {}
    for group in by_size.values():
        limited |= _limited(placed, group, base_cores, costs, corrections)
    return dict(zip(limited, _fair(list(limited.values())), strict=True))


def _limited(
    placed: PlacedLoad,
    spouts: Sequence[IndexArray],
    base_cores: FloatArray,
    costs: Costs,
    corrections: Mapping[str, Correction],
) -> dict[int, _Limits]:
    """Return the limits of the rates of the spout executors of some topologies, by topology, where there are any."""
    profile, topology = placed.profile, [int(placed.profile.layout.executor_topology[own[0]]) for own in spouts]
    several = np.zeros(len(profile.rate_tps), dtype=bool)
    several[topology] = True
    part, paths = placed.standing.paths(several)
    number = numbers(part.chosen.executors, len(profile.begins))
    spouts, uses = [number[own] for own in spouts], []
    most = max(map(len, spouts))
    step = max(_AT_ONCE // (len(part.pairs.source) + len(part.flows.source) + len(part.begins)), 1)
    for begin in range(0, most, step):
        begins = _begun_by(part.begins, spouts, range(begin, min(begin + step, most)))
        routes = paths.routes(None, begins)
        demand = TreeDemand.of(part, routes, placed.problem, costs, corrections, base_cores)
        uses.append(_uses(demand, part, routes))
    sites = paths.workers.places.topology
    row_topology = np.concatenate([*[sites] * 3, paths.workers.thread_topology])
    order = np.argsort(row_topology, kind="stable")
    first = np.searchsorted(row_topology[order], np.arange(len(several) + 1))
    use, waits = (np.concatenate(kind)[:, order] for kind in zip(*uses, strict=True))
    limited = {}
    for own, index in zip(spouts, topology, strict=True):
        rows = slice(first[index], first[index + 1])
        limits = _limits(use[: len(own), rows].T, waits[: len(own), rows].T)
        if paths.workers.running[index] and np.isfinite(limits[0]).all():
            limited[index] = limits
    return limited


def fair_rates(use: FloatArray, waits: FloatArray) -> FloatArray:
    """Return proportionally fair rates of classes with equally many trees pending, up to a factor; shape (S,).

    Parameters
    ----------
    use
        Fraction of every resource that one tree/s of each class takes, shape (R, S); every class uses something.
    waits
        Load of each resource by a tree of each class, in any unit of that resource, shape (R, S).
    """
    (rates,) = _fair([_limits(use, waits)])
    return rates


def _limits(use: FloatArray, waits: FloatArray) -> _Limits:
    """Return the resources that may limit rates, with waits in units of use."""
    used = (use.max(axis=1) > 0) & (waits.max(axis=1) > 0)
    use, waits = use[used], waits[used]
    if not len(use) or not np.isfinite(use).all():
        return use, waits
    waits = waits / waits.max(axis=1, keepdims=True) * use.max(axis=1, keepdims=True)
    # Resources that never fill first have no price.
    most = int(np.argmax(use.sum(axis=1)))
    below = np.all(use <= use[most], axis=1)
    below &= np.any(use < use[most], axis=1) | np.all(waits == waits[most], axis=1)
    below[most] = False
    return use[~below], waits[~below]


def _fair(limits: Sequence[_Limits]) -> list[FloatArray]:
    """Return fair rates for each of several problems, those of similar size at once."""
    by_size: dict[tuple[int, int], list[int]] = {}
    for number, (use, _) in enumerate(limits):
        by_size.setdefault((len(use).bit_length(), use.shape[1]), []).append(number)
    found = [np.empty(0)] * len(limits)
    for alike in by_size.values():
        most = max(len(limits[number][0]) for number in alike)
        padded = [
            np.stack(
                [np.pad(limits[number][kind], ((0, most - len(limits[number][kind])), (0, 0))) for number in alike]
            )
            for kind in range(2)
        ]
        for number, rates in zip(alike, _settled(*padded), strict=True):
            found[number] = rates
    return found


def _settled(use: FloatArray, waits: FloatArray) -> FloatArray:
    """Return the fair rates of G problems, shape (G, S); use and waits have shape (G, R, S)."""
    problems, resources, classes = use.shape
    rates = np.ones((problems, classes))
    price, open_ = np.full((problems, 1, resources), 1 / max(resources, 1)), np.arange(problems)
    for _ in range(_MAX_STEPS if resources else 0):
        now = 1 / (price @ waits)[:, 0] / classes
        filled = (use @ now[:, :, None])[:, :, 0]
        rates[open_] = now
        unsettled = filled.max(axis=1) > 1 + _SETTLED
        if not unsettled.any():
            break
        if unsettled.all():
            price = price * filled[:, None]
        else:
            use, waits, open_ = use[unsettled], waits[unsettled], open_[unsettled]
            price = price[unsettled] * filled[unsettled][:, None]
    return rates


def _spouts(placed: PlacedLoad) -> list[IndexArray]:
    """Return the spout executors of each topology that has several of them and a limit of pending trees."""
    several = [own for own in placed.profile.limited_spouts if 1 < len(own) <= MAX_SPOUTS]
    topology, size = placed.profile.layout.executor_topology, np.diff(placed.problem.executor_offset)
    work = np.zeros(MAX_SPOUTS + 1)
    for own in several:
        work[len(own)] += len(own) * size[topology[own[0]]]
    most = int(np.searchsorted(np.cumsum(work), MAX_WORKED_OUT, side="right"))
    return [own for own in several if len(own) < most]


def _begun_by(begins: FloatArray, spouts: Sequence[IndexArray], chosen: range) -> FloatArray:
    """Return the trees that executors begin if one of the chosen spout executors begins all trees of its topology."""
    found = np.tile(begins, (len(chosen), 1))
    for own in spouts:
        there = own[chosen.start : chosen.stop]
        found[: len(there), own] = 0.0
        found[np.arange(len(there)), there] = begins[own].sum()
    return found


def _uses(demand: TreeDemand, profile: Profile, routes: Routes) -> tuple[FloatArray, FloatArray]:
    """Return the fraction of capacity that 1 tree/s takes, and its number of waits: CPU and links by place, threads."""
    places, count = demand.places, len(demand.nodes.cores)
    # Index -1 is counted before all others.
    cores = sums(places.of_thread + 1, demand.thread_s, len(places.node) + 1)[..., 1:]
    free = demand.nodes.cores * demand.free[:count]
    cpu = np.divide(cores, free[places.node], out=np.where(cores > 0, np.inf, 0.0), where=free[places.node] > 0)
    use = np.concatenate([cpu, *places.link_s, demand.thread_s], axis=-1)
    return use, np.concatenate([cpu, *_hops(demand, profile, routes), demand.thread_s], axis=-1)


def _hops(demand: TreeDemand, profile: Profile, routes: Routes) -> FloatArray:
    """Return the hops of a tree over the link of every place, out of its node and into it, shape (2, …, P)."""
    graph = profile.graph
    part = graph.blocking_weight(profile.layout, routes.edge_tuples)
    place, count = demand.places.of_worker, len(demand.places.node)
    found = []
    for ends, messages in ((graph.sources, routes.sent), (graph.targets, routes.received)):
        worker = demand.executor_worker[ends.executor]
        on = worker != UNPLACED
        edge, hops = ends.edge[on], (part.take(ends.edge, axis=-1) * messages.far_tuples)[..., on]
        # The notice of a new tree to its acker counts if the way of the tuples is shorter.
        ways = (np.where(graph.begun[edge] == announced, hops, 0.0) for announced in (False, True))
        found.append(np.maximum(*(sums(place[worker[on]], way, count) for way in ways)))
    return np.stack(found)
