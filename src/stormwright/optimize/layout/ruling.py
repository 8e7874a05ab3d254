"""Limits of a placement beside CPU, memory, ports and places, from a problem."""

from __future__ import annotations

import numpy as np

from stormwright.jit.compiled import compiled
from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.component_limits import NO_LIMIT
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.model.constraints.requests import RequestLimits, SharedMemory
from stormwright.optimize.kernel.records import NOWHERE, REGION, RULED, SHELF, Records, Rules
from stormwright.optimize.kernel.rules import is_limited, put_in

#: Significant bits of a sum of amounts.
_BITS = 50

#: Rounding tolerance of sums; a fraction of that of a valid placement.
_TOLERANCE = RELATIVE_TOLERANCE / 2

#: Less than any request.
_MIN = 1e-9


def make_rules(problem: Problem, first_worker: IndexArray, worker_topology: IndexArray) -> Rules:
    """Return the rules of a problem, with nothing placed.

    Parameters
    ----------
    problem
        Problem with its generic resources, limits on components, and requests.
    first_worker
        The first worker of every topology, shape (T,).
    worker_topology
        Topology of every worker, increasing, shape (W,).
    """
    requested = RequestLimits.of(problem)
    demand, room = problem.executor_demand[2:], problem.node_capacity[2:]
    heap, most_heap = np.zeros(problem.num_executors), np.full(len(problem.topologies), np.inf)
    if requested is not None:
        demand, room = np.vstack([demand, requested.demand]), np.vstack([room, requested.capacity])
        heap, most_heap = requested.heap, requested.most_heap
    shared = () if requested is None else requested.shared
    limited = np.full(len(problem.topologies), requested is not None)
    limited |= np.bincount(problem.executor_topology, demand.any(axis=0), len(limited)) > 0
    limited[list(problem.component_limits)] = True
    amounts = np.vstack([demand, heap])
    most = amounts.sum(axis=1) + sum(map(sum, (each[2:] for each in shared))) * max(len(worker_topology), 1)
    step = np.exp2(np.ceil(np.log2(np.maximum(most, _MIN))) - _BITS)
    askers = np.maximum((amounts > 0).sum(axis=1), 1)
    unit = np.exp2(np.rint(np.log2(np.maximum(amounts.sum(axis=1) / askers, _MIN))))
    amounts = np.rint(amounts / step[:, None]) * step[:, None]
    has, heaps = _room(room.T, most[:-1], step[:-1]), _room(most_heap[worker_topology], most[-1], step[-1])
    shelf = np.zeros(1, SHELF)
    shelf["resources"], shelf["memory"] = len(demand), NOWHERE if requested is None else len(demand) - 1
    used = np.zeros(len(worker_topology) * len(demand))
    rooms = {"room": has, "left": has, "heap_room": heaps, "heap_left": heaps}
    table = _shelved(shelf, demand=amounts.T, unit=unit, **rooms, used=used, end=used[:0])
    topologies, regions = np.zeros(len(limited), RULED), np.zeros(len(shared), REGION)
    topologies["limited"], topologies["first_worker"] = limited, first_worker
    for region, each in zip(regions, shared, strict=True):
        for name, amount, resource in (("heap", each.heap, -1), ("memory", each.heap + each.off_heap, -2)):
            region[name] = np.rint(amount / step[resource]) * step[resource]
        region["on_node"] = np.rint(each.on_node / step[-2]) * step[-2]
    workers = np.bincount(worker_topology, minlength=len(limited))
    counts = _count(problem, topologies, regions, shared, workers, shelf)
    return Rules(topologies, regions, shelf, counts, table, np.zeros(len(demand)))


def _shelved(shelf: Records, **tables: FloatArray) -> FloatArray:
    """Return tables in one array, one after the other; record the start of each."""
    begins = np.cumsum([0, *(table.size for table in tables.values())])
    for name, begin in zip(tables, begins.tolist(), strict=False):
        shelf[name] = begin
    return np.concatenate([table.ravel() for table in tables.values()])


def _room(room: FloatArray, most: FloatArray, step: FloatArray) -> FloatArray:
    """Return capacities in multiples of a step; practically infinite if more than the total demand."""
    with np.errstate(invalid="ignore"):
        able: FloatArray = np.where(room > most, np.inf, np.rint(room * (1 + _TOLERANCE) / step) * step)
    return np.array(able, order="C")


def _count(
    problem: Problem,
    topologies: Records,
    regions: Records,
    shared: tuple[SharedMemory, ...],
    workers: IndexArray,
    shelf: Records,
) -> IndexArray:
    """Return all tables of counts, one after the other, with nothing placed; record the start of each."""
    tables: list[IndexArray] = []
    ends = [0]

    def begin(table: IndexArray | BoolArray) -> int:
        tables.append(table.ravel().astype(np.int64))
        ends.append(ends[-1] + table.size)
        return ends[-2]

    for name in ("held", "on", "apart", "most"):
        topologies[name] = NOWHERE
    shelf["component"] = 0
    for topology in problem.topologies:
        begin(topology.executor_component)
    of_region = np.array([each.topology for each in shared], np.int64)
    topologies["first_region"] = np.searchsorted(of_region, np.arange(len(topologies)))
    topologies["last_region"] = np.searchsorted(of_region, np.arange(len(topologies)), side="right")
    for region, each in zip(regions, shared, strict=True):
        region["users"] = begin(np.isin(np.arange(len(problem.topologies[each.topology].components)), each.components))
    limited = np.flatnonzero(topologies["limited"]).tolist()
    crowded = []
    for index in limited:
        record, limits = topologies[index], problem.component_limits.get(index)
        record["components"] = len(problem.topologies[index].components)
        if limits is not None and limits.incompatible.any():
            record["apart"] = begin(limits.incompatible)
        most = np.full(record["components"], NO_LIMIT) if limits is None else limits.most_on_node
        own = regions[record["first_region"] : record["last_region"]]
        if most.min(initial=NO_LIMIT) < NO_LIMIT or np.any(own["on_node"] > 0):
            record["most"] = begin(most)
            crowded.append(index)
    shelf["first_held"] = ends[-1]
    for index in limited:
        topologies[index]["held"] = begin(np.zeros(workers[index] * topologies[index]["components"], np.int64))
    for index in crowded:
        topologies[index]["on"] = begin(np.zeros(len(problem.supervisors) * topologies[index]["components"], np.int64))
    shelf["end_held"] = ends[-1]
    return np.concatenate([np.empty(0, np.int64), *tables])


def only_of(rules: Rules, executors: IndexArray) -> Rules:
    """Return the rules for some executors only, which are renumbered."""
    counts, amounts, shelf = rules.counts, rules.amounts, rules.shelf[0]
    width, begin = int(shelf["resources"]) + 1, int(shelf["demand"])
    requested = amounts[begin : int(shelf["unit"])].reshape(-1, width)[executors].ravel()
    counts, amounts = counts.copy(), amounts.copy()
    counts[: len(executors)] = rules.counts[executors]
    amounts[begin : begin + len(requested)] = requested
    return rules._replace(counts=counts, amounts=amounts)


@compiled
def settle(rules: Rules, topology: IndexArray, worker: IndexArray, node: IndexArray) -> float:
    """Put all executors into their workers; return the violation.

    Parameters
    ----------
    rules
        Limits with nothing placed.
    topology, worker
        Topology and worker of every executor, worker -1 for none, shape (E,), int64.
    node
        Node of every worker, shape (W,), int64.
    """
    broken = 0.0
    for executor in range(len(worker)):
        if worker[executor] != NOWHERE and is_limited(rules, topology[executor]):
            own = worker[executor]
            broken += put_in(rules, topology[executor], executor, own, node[own])
    return broken
