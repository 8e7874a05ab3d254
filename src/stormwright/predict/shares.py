"""How many of a topology's trees each executor of its spouts begins at highest rates.

With a limit on pending trees each has as many of its own under way as it may, all the time: executors of spouts are the
classes of a closed network. With many trees pending its rates X are proportionally fair: they maximise Σ K log X, K
being what each may have pending, within what there is of every resource. N. S. Walton, Proportional fairness and its
relationship with multi-class queueing networks, Annals of Applied Probability 19(6), 2009,
https://doi.org/10.1214/09-AAP612. Executors whose trees wait in the same places come to the same rate; those whose
trees find more room elsewhere begin more of them.

The prices p of the resources, which are the parts of all trees that wait for each, maximise Σ K log Σ p U, U being what
a tree of each class takes: the likelihood of a mixture, whose known steps lead up without fail. T. M. Cover, An
algorithm for maximizing expected log investment return, IEEE Transactions on Information Theory 30(2), 1984,
https://doi.org/10.1109/TIT.1984.1056869. That is so where who needs little waits little, as threads do for cores. At a
link each message waits behind all others, however small: there p is by the message. The same steps find those prices.
Messages of a tree that wait at the same time hold it up once (`Graph.holding_up`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.demand import TreeDemand, base_cores_of, free_of
from stormwright.predict.flow.part import numbers
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Routes
from stormwright.predict.flow.standing import Fair
from stormwright.predict.steady import Placed
from stormwright.predict.sums import sums
from stormwright.predict.workers import SteadyWorkers

#: Use of resources and waits for them by resource and executor of a spout, shape (R, S) each.
_Limits = tuple[FloatArray, FloatArray]

#: More executors of a topology's spouts share evenly: what the trees of each take costs as much as a prediction.
MOST_SPOUTS = 32

#: And of a large cluster only topologies with so few of them that this many executors are worked out in all.
MOST_WORKED_OUT = 50_000

#: Values that are worked out at once, of pairs, flows and executors.
_AT_ONCE = 500_000

#: Resources are filled up to this part too much, or after so many steps.
_SETTLED, _MOST_STEPS = 1e-4, 5_000


def with_shares(placed: Placed, costs: Costs, corrections: Mapping[str, Correction] = NO_CORRECTIONS) -> Placed:
    """The placement with routes at highest rates: executors of spouts begin as many trees as theirs find room for.

    Each topology counts as if it were alone.

    Parameters
    ----------
    placed
        The load under the placement; one in which shuffled tuples spill over stays as it is.
    costs, corrections
        What messages and workers cost, and what is known of single topologies, by id.
    """
    spouts = _spouts(placed)
    if placed.full_routes is not None or not spouts:
        return placed
    workers, begins = placed.standing.workers, placed.profile.begins.copy()
    base = base_cores_of(placed.profile, workers, costs)
    (room, first), topology = _rooms(workers, base), placed.profile.layout.executor_topology
    known, new = placed.standing.fair, []
    for own in spouts:
        of = int(topology[own[0]])
        fair = Fair(costs, corrections, room[first[of] : first[of + 1]])
        if of not in known or not known[of].is_as(fair):
            known[of] = fair
            new.append(own)
    for of, rates in _alone(placed, new, base, costs, corrections).items():
        known[of] = known[of]._replace(rates=rates)
    for own in spouts:
        parts = known[int(topology[own[0]])].rates
        if parts is not None:
            begins[own] = parts / parts.sum() * placed.profile.begins[own].sum()
    if np.array_equal(begins, placed.profile.begins):
        return placed
    return replace(placed, full_routes=placed.standing.begun(begins))


def _rooms(workers: SteadyWorkers, base_cores: FloatArray) -> tuple[FloatArray, IndexArray]:
    """CPU that is there for trees at places, by topology, and where those of each topology begin, shape (T + 1,)."""
    sites, nodes = workers.places, workers.nodes
    by = np.argsort(sites.topology, kind="stable")
    room = (nodes.cores * free_of(nodes, base_cores)[: len(nodes.cores)])[sites.node[by]]
    return room, np.searchsorted(sites.topology[by], np.arange(len(workers.running) + 1))


def _alone(
    placed: Placed,
    spouts: Sequence[IndexArray],
    base_cores: FloatArray,
    costs: Costs,
    corrections: Mapping[str, Correction],
) -> dict[int, FloatArray]:
    """Fair rates of the executors of some topologies' spouts, by topology, where there are any."""
    by_size: dict[int, list[IndexArray]] = {}
    for own in spouts:
        # What the trees of each take is worked out as often as any of a group has spouts.
        by_size.setdefault((len(own) - 1).bit_length(), []).append(own)
    limited: dict[int, _Limits] = {}
    for group in by_size.values():
        limited |= _limited(placed, group, base_cores, costs, corrections)
    return dict(zip(limited, _fair(list(limited.values())), strict=True))


def _limited(
    placed: Placed,
    spouts: Sequence[IndexArray],
    base_cores: FloatArray,
    costs: Costs,
    corrections: Mapping[str, Correction],
) -> dict[int, _Limits]:
    """What limits the rates of the executors of some topologies' spouts, by topology, where there are any."""
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
    for own, of in zip(spouts, topology, strict=True):
        rows = slice(first[of], first[of + 1])
        limits = _limits(use[: len(own), rows].T, waits[: len(own), rows].T)
        if paths.workers.running[of] and np.isfinite(limits[0]).all():
            limited[of] = limits
    return limited


def fair_rates(use: FloatArray, waits: FloatArray) -> FloatArray:
    """Proportionally fair rates of classes that have equally many trees pending, up to a factor; shape (S,).

    Parameters
    ----------
    use
        Part of every resource that one tree/s of each class takes, shape (R, S); every class uses something.
    waits
        How often a tree of each class waits at it, by any unit of each resource, shape (R, S).
    """
    (rates,) = _fair([_limits(use, waits)])
    return rates


def _limits(use: FloatArray, waits: FloatArray) -> _Limits:
    """What may limit rates, waits in units of use."""
    used = (use.max(axis=1) > 0) & (waits.max(axis=1) > 0)
    use, waits = use[used], waits[used]
    if not len(use) or not np.isfinite(use).all():
        return use, waits
    waits = waits / waits.max(axis=1, keepdims=True) * use.max(axis=1, keepdims=True)
    # What never fills before the rest costs nothing.
    most = int(np.argmax(use.sum(axis=1)))
    below = np.all(use <= use[most], axis=1)
    below &= np.any(use < use[most], axis=1) | np.all(waits == waits[most], axis=1)
    below[most] = False
    return use[~below], waits[~below]


def _fair(limits: Sequence[_Limits]) -> list[FloatArray]:
    """Fair rates for each of several, those of about the same size at once."""
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
    """Fair rates of G problems, shape (G, S); use and waits have shape (G, R, S)."""
    problems, resources, classes = use.shape
    rates = np.ones((problems, classes))
    price, open_ = np.full((problems, 1, resources), 1 / max(resources, 1)), np.arange(problems)
    for _ in range(_MOST_STEPS if resources else 0):
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


def _spouts(placed: Placed) -> list[IndexArray]:
    """Executors of the spouts of each topology that has several of them, and a limit of pending trees."""
    several = [own for own in placed.profile.limited_spouts if 1 < len(own) <= MOST_SPOUTS]
    topology, size = placed.profile.layout.executor_topology, np.diff(placed.problem.executor_offset)
    work = np.zeros(MOST_SPOUTS + 1)
    for own in several:
        work[len(own)] += len(own) * size[topology[own[0]]]
    most = int(np.searchsorted(np.cumsum(work), MOST_WORKED_OUT, side="right"))
    return [own for own in several if len(own) < most]


def _begun_by(begins: FloatArray, spouts: Sequence[IndexArray], chosen: range) -> FloatArray:
    """What executors begin for each tree if one spout executor of each topology begins all: each of those chosen."""
    found = np.tile(begins, (len(chosen), 1))
    for own in spouts:
        there = own[chosen.start : chosen.stop]
        found[: len(there), own] = 0.0
        found[np.arange(len(there)), there] = begins[own].sum()
    return found


def _uses(demand: TreeDemand, profile: Profile, routes: Routes) -> tuple[FloatArray, FloatArray]:
    """Part of what is there that 1 tree/s takes, and how often it waits: of CPU and links by place, and threads."""
    places, count = demand.places, len(demand.nodes.cores)
    # What is nowhere is counted before all others.
    cores = sums(places.of_thread + 1, demand.thread_s, len(places.node) + 1)[..., 1:]
    free = demand.nodes.cores * demand.free[:count]
    cpu = np.divide(cores, free[places.node], out=np.where(cores > 0, np.inf, 0.0), where=free[places.node] > 0)
    use = np.concatenate([cpu, *places.link_s, demand.thread_s], axis=-1)
    return use, np.concatenate([cpu, *_hops(demand, profile, routes), demand.thread_s], axis=-1)


def _hops(demand: TreeDemand, profile: Profile, routes: Routes) -> FloatArray:
    """Hops of a tree over the link of every place, out of its node and into it, shape (2, …, P)."""
    graph = profile.graph
    part = graph.holding_up(profile.layout, routes.edge_tuples)
    place, count = demand.places.of_worker, len(demand.places.node)
    found = []
    for ends, messages in ((graph.sources, routes.sent), (graph.targets, routes.received)):
        worker = demand.executor_worker[ends.executor]
        on = worker != UNPLACED
        edge, hops = ends.edge[on], (part.take(ends.edge, axis=-1) * messages.far_tuples)[..., on]
        # What an acker is told of the beginning counts where the way of the tuples itself is shorter.
        ways = (np.where(graph.begun[edge] == told, hops, 0.0) for told in (False, True))
        found.append(np.maximum(*(sums(place[worker[on]], way, count) for way in ways)))
    return np.stack(found)
