"""A first placement for the search: executors dealt out evenly, those with most to do first."""

from __future__ import annotations

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IntArray


def dealt(problem: Problem, work_hz: FloatArray) -> IntArray:
    """Slot of every executor, shape (E,): each on the node that it leaves least full, with a worker a node.

    That is Graham's rule of the longest first (R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal
    on Applied Mathematics 17, 1969, https://doi.org/10.1137/0117039), for nodes of unlike size. Of nodes that it
    leaves equally full it goes to the one with fewest of its component, and then to the first. A slot is kept for each
    topology that is still to come; where slots are too few for that, nothing is placed. Other limits are left to who
    goes on from there.

    Parameters
    ----------
    problem
        Topologies and nodes.
    work_hz
        CPU of every executor, shape (E,).
    """
    nodes = len(problem.supervisors)
    used, room = np.zeros(nodes), np.maximum(problem.node_cpu_hz, 1.0)
    component = np.concatenate([np.empty(0, np.int32), *(one.executor_component for one in problem.topologies)])
    of: dict[tuple[int, int], IntArray] = {}
    free = [np.flatnonzero(problem.slot_node == node).tolist() for node in range(nodes)]
    left, waiting = len(problem.slot_node), set(problem.executor_topology.tolist())
    slot_at: dict[tuple[int, int], int] = {}
    slots = np.full(problem.num_executors, UNPLACED, np.int32)
    # Whole components one after the other, so that each is spread before the next one comes.
    heaviest = np.lexsort((np.arange(len(work_hz)), component, -np.round(work_hz, 3)))
    for executor in heaviest.tolist():
        topology = int(problem.executor_topology[executor])
        mates = of.setdefault((topology, int(component[executor])), np.zeros(nodes, np.int32))
        full = np.round((used + work_hz[executor]) / room, 9)
        for node in np.lexsort((np.arange(nodes), mates, full)).tolist():
            if (node, topology) not in slot_at and free[node] and left > len(waiting - {topology}):
                slot_at[node, topology] = free[node].pop(0)
                left -= 1
                waiting.discard(topology)
            if (node, topology) in slot_at:
                slots[executor] = slot_at[node, topology]
                used[node] += work_hz[executor]
                mates[node] += 1
                break
        else:
            return np.full(problem.num_executors, UNPLACED, np.int32)
    return slots
