"""A small placement as dense arrays, for a search that evaluates every possible step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import compiled, inner
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.optimize.kernel.records import NOWHERE, Layout, Records, Rules
from stormwright.optimize.kernel.rules import bring, clear, copied, is_limited, put_in, rise_of_step, take_from


@inner
def carry_rules(dense: DensePlacement, worker: int, node: int, to: int) -> None:
    """Update the violation of `rules` as a worker goes from a node to another.

    Parameters
    ----------
    dense
        Its `rules` and their violation are written.
    worker, node, to
        The worker and its nodes.
    """
    topology = dense.topology_of[worker]
    if is_limited(dense.rules, topology):
        dense.state[0].broken += bring(dense.rules, topology, worker, node, -1)
        dense.state[0].broken += bring(dense.rules, topology, worker, to, 1)


@inner
def broken_by_worker(dense: DensePlacement, worker: int, to: int) -> float:
    """Return the increase of the violation of `rules` if a worker went to a node.

    Parameters
    ----------
    dense
        Placement whose `rules` are changed for the trial, then restored.
    worker, to
        The worker and the node.
    """
    node, before = dense.node[worker], dense.state[0].broken
    carry_rules(dense, worker, node, to)
    rise = dense.state[0].broken - before
    carry_rules(dense, worker, to, node)
    return float(rise)


@inner
def broken_by_step(dense: DensePlacement, executor: int, to: int, partner: int) -> float:
    """Return the increase of the violation of `rules` if an executor went to a worker, and a partner came from there.

    Parameters
    ----------
    dense
        Placement whose `rules` are changed for the trial, then restored.
    executor, to
        Executor of a limited topology, and another worker of it.
    partner
        Executor that moves in the opposite direction; -1 for none.
    """
    own = dense.worker[executor]
    places = own, dense.node[own], to, dense.node[to]
    return rise_of_step(dense.rules, dense.topology[executor], executor, places, partner)


class Checkpoint(NamedTuple):
    """A saved placement: as in `DensePlacement`, and its overload and cost, shape (2,)."""

    worker: IndexArray
    node: IndexArray
    rank: FloatArray


def remembered(worker: IndexArray, node: IndexArray) -> Checkpoint:
    """Return a buffer for placements: copies of both arrays, overload and cost 0."""
    return Checkpoint(worker.copy(), node.copy(), np.zeros(2))


@inner
def copy(source: Checkpoint, to: Checkpoint) -> None:
    """Copy a saved placement."""
    copy_array(source.worker, to.worker)
    copy_array(source.node, to.node)
    copy_array(source.rank, to.rank)


@inner
def copy_array(source: FloatArray | IndexArray, to: FloatArray | IndexArray) -> None:
    """Copy an array without scratch, which NumPy allocates in case that the two overlap."""
    for place in range(len(source)):
        to[place] = source[place]


#: Most executors of a problem that is searched in this way.
MAX_DENSE = 64

STATE = np.dtype(
    [
        *((name, np.float64) for name in ("cost", "overload", "broken", "price", "mean")),
        *((name, np.int64) for name in ("made", "idle", "patience")),
    ]
)

#: Tolerances: of an overload relative to the mean demand of an executor, and of a difference in cost relative to its
#: mean traffic.
NOTHING = 1e-10


class DensePlacement(NamedTuple):
    """A placement of few executors; traffic is fixed.

    Parameters
    ----------
    tps
        Traffic of two executors in both directions, shape (E, E).
    cpu, memory, topology, worker
        Of every executor, shape (E,); demand relative to the mean demand; worker -1 for none.
    node, size, movable, topology_of
        Of every worker, shape (W,); how many executors it has; whether it and its executors may move; its topology.
    first_worker, last_worker, most
        Of every topology, shape (T,): its workers, and executors that one of them may have.
    cpu_room, memory_room, cpu_left, memory_left, ports, used, node_rack
        Of every node, shape (N,); the first two are the capacity left by executors that are not in `worker`.
    free_executors, free_workers
        Executors and workers that may move.
    far
        Cost of a tuple between two workers, shape (W, W).
    reach
        Cost of an executor in every worker of its topology, shape (E, W).
    barred
        Step until which an executor may not return to a worker, shape (E, W).
    round, base, best
        The best placement of this round, the one that rounds begin from, and the best of all.
    state
        Of `STATE`, one record: cost, overload, its part by `rules`, price of an overload, mean traffic of an executor,
        steps made, those since the round had a better placement, and the number of these that ends it.
    random
        State of the random numbers, one number.
    rules
        Limits of topologies beside CPU, memory, ports and places.
    inter_worker, inter_node, inter_rack
        Cost of a tuple by distance, beyond that within a worker.
    """

    tps: FloatArray
    cpu: FloatArray
    memory: FloatArray
    topology: IndexArray
    worker: IndexArray
    node: IndexArray
    size: IndexArray
    movable: BoolArray
    topology_of: IndexArray
    first_worker: IndexArray
    last_worker: IndexArray
    most: IndexArray
    cpu_room: FloatArray
    memory_room: FloatArray
    cpu_left: FloatArray
    memory_left: FloatArray
    ports: IndexArray
    used: IndexArray
    node_rack: IndexArray
    free_executors: IndexArray
    free_workers: IndexArray
    far: FloatArray
    reach: FloatArray
    barred: IndexArray
    round: Checkpoint
    base: Checkpoint
    best: Checkpoint
    state: Records
    random: NDArray[np.uint64]
    rules: Rules
    inter_worker: float
    inter_node: float
    inter_rack: float

    @classmethod
    def of(cls, layout: Layout) -> DensePlacement:
        """Return the current placement of `layout`."""
        executors, workers, nodes = layout.executors, layout.workers, layout.nodes
        count, num_workers = len(executors), len(workers)
        worker, node = _whole(executors["worker"]), _whole(workers["node"])
        tps = np.zeros((count, count))
        sources = np.repeat(np.arange(count), executors["last"] - executors["first"])
        tps[sources, layout.links["executor"]] = layout.links["tps"]
        tps[worker == NOWHERE] = tps[:, worker == NOWHERE] = 0.0
        on = node[worker[worker != NOWHERE]]

        def demand(name: str) -> tuple[FloatArray, FloatArray]:
            """Return the demand of executors, and the capacity of nodes for it."""
            requested, left = executors[name], nodes[f"{name}_left"]
            unit = float(requested.sum()) / max(count, 1) or 1.0
            return requested / unit, (left + np.bincount(on, requested[worker != NOWHERE], len(nodes))) / unit

        cpu, cpu_room = demand("cpu_hz")
        memory, memory_room = demand("memory_mb")
        movable = workers["movable"] & (node != NOWHERE) & (np.append(nodes["ports"], 0)[node] > 0)
        state = np.zeros(1, STATE)
        state["mean"] = state["price"] = float(tps.sum()) / max(count, 1) or 1.0  # an overload has a price in any case
        dense = cls(
            tps=tps,
            cpu=cpu,
            memory=memory,
            topology=_whole(executors["topology"]),
            worker=worker,
            node=node,
            size=np.zeros(num_workers, np.int64),
            movable=movable,
            topology_of=_whole(workers["topology"]),
            first_worker=_whole(layout.topologies["first_worker"]),
            last_worker=_whole(layout.topologies["last_worker"]),
            most=_whole(layout.topologies["most"]),
            cpu_room=cpu_room,
            memory_room=memory_room,
            cpu_left=cpu_room.copy(),
            memory_left=memory_room.copy(),
            ports=_whole(nodes["ports"]),
            used=_whole(nodes["used"]),
            node_rack=_whole(nodes["rack"]),
            free_executors=np.flatnonzero(np.append(movable, False)[worker]),
            free_workers=np.flatnonzero(movable),
            far=np.zeros((num_workers, num_workers)),
            reach=np.zeros((count, num_workers)),
            barred=np.zeros((count, num_workers), np.int64),
            round=remembered(worker, node),
            base=remembered(worker, node),
            best=remembered(worker, node),
            state=state,
            random=layout.random.copy(),
            rules=copied(layout.rules),
            inter_worker=layout.inter_worker,
            inter_node=layout.inter_node,
            inter_rack=layout.inter_rack,
        )
        for checkpoint in (dense.best, dense.base, dense.round):
            restore(dense, dense.best)
            keep(dense, checkpoint)
        return dense


def _whole(numbers: NDArray[np.integer]) -> IndexArray:
    return numbers.astype(np.int64)


@compiled
def keep(dense: DensePlacement, checkpoint: Checkpoint) -> None:
    """Save the current placement of `dense`."""
    copy_array(dense.worker, checkpoint.worker)
    copy_array(dense.node, checkpoint.node)
    checkpoint.rank[0], checkpoint.rank[1] = dense.state[0].overload, dense.state[0].cost


@compiled
def restore(dense: DensePlacement, checkpoint: Checkpoint) -> None:
    """Restore a placement; all sums are recomputed, so that rounding does not add up."""
    copy_array(checkpoint.worker, dense.worker)
    copy_array(checkpoint.node, dense.node)
    copy_array(dense.cpu_room, dense.cpu_left)
    copy_array(dense.memory_room, dense.memory_left)
    dense.size[:] = 0
    clear(dense.rules)
    dense.state[0].broken = 0.0
    for executor in range(len(dense.worker)):
        own, topology = dense.worker[executor], dense.topology[executor]
        if own != NOWHERE:
            if is_limited(dense.rules, topology):
                dense.state[0].broken += put_in(dense.rules, topology, executor, own, dense.node[own])
            dense.size[own] += 1
            dense.cpu_left[dense.node[own]] -= dense.cpu[executor]
            dense.memory_left[dense.node[own]] -= dense.memory[executor]
    dense.used[:] = 0
    for worker in range(len(dense.node)):
        if dense.node[worker] != NOWHERE:
            dense.used[dense.node[worker]] += 1
    add_up(dense)


@inner
def add_up(dense: DensePlacement) -> None:
    """Recompute distances, costs and overload."""
    workers = len(dense.node)
    for a in range(workers):
        for b in range(workers):
            dense.far[a, b] = 0.0 if a == b else between(dense, dense.node[a], dense.node[b])
    dense.reach[:] = 0.0
    cost = 0.0
    for executor in range(len(dense.worker)):
        topology = dense.topology[executor]
        for other in range(len(dense.worker)):
            tps = dense.tps[executor, other]
            if tps > 0:
                for worker in range(dense.first_worker[topology], dense.last_worker[topology]):
                    dense.reach[executor, worker] += tps * dense.far[worker, dense.worker[other]]
        if dense.worker[executor] != NOWHERE:
            cost += dense.reach[executor, dense.worker[executor]]
    overload = dense.state[0].broken
    for node in range(len(dense.ports)):
        overload += lack(dense.cpu_left[node]) + lack(dense.memory_left[node])
    dense.state[0].cost, dense.state[0].overload = cost / 2, overload if overload > NOTHING else 0.0


@inner
def between(dense: DensePlacement, a: int, b: int) -> float:
    """Return the cost of a tuple between two workers on these nodes; either may have none."""
    if a == b:
        return dense.inter_worker
    near = a != NOWHERE and b != NOWHERE and dense.node_rack[a] == dense.node_rack[b]
    return dense.inter_node if near else dense.inter_rack


@inner
def lack(left: float) -> float:
    """Return by how much a remaining capacity is below zero."""
    return -left if left < 0 else 0.0


@inner
def overload_by(dense: DensePlacement, node: int, to: int, cpu: float, memory: float) -> float:
    """Return the increase of the overload if load, of `cpu` and `memory`, goes from `node` to the node `to`.

    In the units of `dense`; 0 if the two are the same.
    """
    if node == to:
        return 0.0
    return (
        lack(dense.cpu_left[node] + cpu)
        - lack(dense.cpu_left[node])
        + lack(dense.cpu_left[to] - cpu)
        - lack(dense.cpu_left[to])
        + lack(dense.memory_left[node] + memory)
        - lack(dense.memory_left[node])
        + lack(dense.memory_left[to] - memory)
        - lack(dense.memory_left[to])
    )


@inner
def move_load(dense: DensePlacement, node: int, to: int, cpu: float, memory: float) -> None:
    """Move load, of `cpu` and `memory` in the units of `dense`, from `node` to the node `to`."""
    dense.cpu_left[node] += cpu
    dense.memory_left[node] += memory
    dense.cpu_left[to] -= cpu
    dense.memory_left[to] -= memory


@inner
def shift(dense: DensePlacement, executor: int, to: int) -> None:
    """Move an executor to another worker of its topology; `overload` is unchanged."""
    own, topology = dense.worker[executor], dense.topology[executor]
    dense.state[0].cost += dense.reach[executor, to] - dense.reach[executor, own]
    dense.worker[executor] = to
    if is_limited(dense.rules, topology):
        dense.state[0].broken += take_from(dense.rules, topology, executor, own, dense.node[own])
        dense.state[0].broken += put_in(dense.rules, topology, executor, to, dense.node[to])
    dense.size[own] -= 1
    dense.size[to] += 1
    move_load(dense, dense.node[own], dense.node[to], dense.cpu[executor], dense.memory[executor])
    for other in range(len(dense.worker)):
        tps = dense.tps[executor, other]
        if tps > 0:
            for worker in range(dense.first_worker[topology], dense.last_worker[topology]):
                dense.reach[other, worker] += tps * (dense.far[worker, to] - dense.far[worker, own])


@inner
def shift_worker(dense: DensePlacement, worker: int, to: int) -> None:
    """Move a worker with all its executors to another node; results of `add_up` are unchanged."""
    node = dense.node[worker]
    dense.node[worker] = to
    dense.used[node] -= 1
    dense.used[to] += 1
    carry_rules(dense, worker, node, to)
    for executor in range(len(dense.worker)):
        if dense.worker[executor] == worker:
            move_load(dense, node, to, dense.cpu[executor], dense.memory[executor])
