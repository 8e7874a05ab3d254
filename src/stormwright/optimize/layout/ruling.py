"""From a problem to what limits a placement beside CPU, memory, ports and places."""

from __future__ import annotations

from typing import Any

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.limits.asked import Asked, Shared
from stormwright.model.limits.components import NO_LIMIT
from stormwright.model.limits.limit import RELATIVE_TOLERANCE
from stormwright.optimize.kernel.records import NOWHERE, Records
from stormwright.optimize.kernel.rules import REGION, RULED, Rules

#: Bits of a sum of amounts that count.
_BITS = 50

#: Room left for rounding in sums; a part of that which a valid placement may use.
_TOLERANCE = RELATIVE_TOLERANCE / 2

#: Below any amount that is asked for.
_LEAST = 1e-9


def make_rules(problem: Problem, first_worker: IndexArray, worker_topology: IndexArray) -> Rules:
    """The rules of a problem, with nothing placed.

    Parameters
    ----------
    problem
        Its generic resources, its limits on components, and what is asked for where that counts.
    first_worker
        The first worker of every topology, shape (T,).
    worker_topology
        Topology of every worker, rising, shape (W,).
    """
    asked = Asked.of(problem)
    demand, room = problem.executor_demand[2:], problem.node_capacity[2:]
    heap, most_heap = np.zeros(problem.num_executors), np.full(len(problem.topologies), np.inf)
    if asked is not None:
        demand, room = np.vstack([demand, asked.demand]), np.vstack([room, asked.capacity])
        heap, most_heap = asked.heap, asked.most_heap
    shared = () if asked is None else asked.shared
    limited = np.full(len(problem.topologies), asked is not None)
    limited |= np.bincount(problem.executor_topology, demand.any(axis=0), len(limited)) > 0
    limited[list(problem.component_limits)] = True
    topologies, tables = _topologies(problem, first_worker, worker_topology, limited, shared)
    regions, users = _regions(problem, shared)
    amounts = np.vstack([demand, heap])
    most = amounts.sum(axis=1) + sum(map(sum, (each[2:] for each in shared))) * max(len(worker_topology), 1)
    step = np.exp2(np.ceil(np.log2(np.maximum(most, _LEAST))) - _BITS)
    for name, of in (("heap", -1), ("memory", -2), ("on_node", -2)) if shared else ():
        regions[name] = np.rint(regions[name] / step[of]) * step[of]
    amounts = np.rint(amounts / step[:, None]) * step[:, None]
    has, heap_room = _room(room.T, most[:-1], step[:-1]), _room(most_heap[worker_topology], most[-1], step[-1])
    askers = np.maximum((amounts > 0).sum(axis=1), 1)
    components = [each.executor_component.astype(np.int64) for each in problem.topologies]
    return Rules(
        topologies=topologies,
        component=np.concatenate([np.empty(0, np.int64), *components]),
        demand=np.array(amounts[:-1].T, order="C"),
        heap=amounts[-1].copy(),
        room=has,
        heap_room=heap_room,
        left=has.copy(),
        heap_left=heap_room.copy(),
        used=np.zeros((len(worker_topology), len(demand))),
        unit=np.exp2(np.rint(np.log2(np.maximum(amounts.sum(axis=1) / askers, _LEAST)))),
        memory=np.array([NOWHERE if asked is None else len(demand) - 1]),
        regions=regions,
        users=users,
        asked=np.zeros(len(demand)),
        **tables,
    )


def _room(room: FloatArray, most: FloatArray, step: FloatArray) -> FloatArray:
    """Room in multiples of a step; as good as infinite where it is more than all that is asked for."""
    with np.errstate(invalid="ignore"):
        able: FloatArray = np.where(room > most, np.inf, np.rint(room * (1 + _TOLERANCE) / step) * step)
    return np.array(able, order="C")


def _topologies(
    problem: Problem,
    first_worker: IndexArray,
    worker_topology: IndexArray,
    limited: BoolArray,
    shared: tuple[Shared, ...],
) -> tuple[Records, dict[str, Any]]:
    """Topologies, and the tables of those that are limited."""
    topologies = np.zeros(len(problem.topologies), RULED)
    topologies["limited"], topologies["first_worker"] = limited, first_worker
    for name in ("held", "on", "apart", "most"):
        topologies[name] = NOWHERE
    of_region = np.array([each.topology for each in shared], np.int64)
    topologies["first_region"], topologies["last_region"] = (
        np.searchsorted(of_region, np.arange(len(topologies)), side=side) for side in ("left", "right")
    )
    workers = np.bincount(worker_topology, minlength=len(topologies))
    held, on = 0, 0
    apart, most = [np.empty(0, np.bool_)], [np.empty(0, np.int64)]
    for index in np.flatnonzero(limited).tolist():
        of, count = topologies[index], len(problem.topologies[index].components)
        limits = problem.component_limits.get(index)
        of["components"], of["held"] = count, held
        held += int(workers[index]) * count
        if limits is not None and limits.incompatible.any():
            of["apart"] = sum(map(len, apart))
            apart.append(limits.incompatible.ravel())
        crowds = limits is not None and bool(limits.most_on_node.min() < NO_LIMIT)
        if crowds or any(each.on_node > 0 for each in shared[of["first_region"] : of["last_region"]]):
            of["on"], of["most"] = on, sum(map(len, most))
            on += len(problem.supervisors) * count
            most.append(np.full(count, NO_LIMIT) if limits is None else limits.most_on_node.astype(np.int64))
    return topologies, {
        "held": np.zeros(held, np.int64),
        "on": np.zeros(on, np.int64),
        "apart": np.concatenate(apart),
        "most": np.concatenate(most).astype(np.int64),
    }


def _regions(problem: Problem, shared: tuple[Shared, ...]) -> tuple[Records, BoolArray]:
    """What components share, and which."""
    regions, users = np.zeros(len(shared), REGION), [np.empty(0, np.bool_)]
    for region, each in zip(regions, shared, strict=True):
        region["heap"], region["memory"], region["on_node"] = each.heap, each.heap + each.off_heap, each.on_node
        region["users"] = sum(map(len, users))
        users.append(np.isin(np.arange(len(problem.topologies[each.topology].components)), each.of))
    return regions, np.concatenate(users)
