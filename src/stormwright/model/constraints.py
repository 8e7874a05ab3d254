"""The hard limits of a placement, each with a message that carries numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.component_limits import count_components
from stormwright.model.isolation import isolation_violations
from stormwright.model.problem import Problem

#: A topology's own hard limit on executors per worker, in its configuration.
MAX_EXECUTORS_PER_WORKER = "stormwright.max.executors.per.worker"

#: Sums of many loads differ from a capacity in the last digits only by rounding.
RELATIVE_TOLERANCE = 1e-9


def violations(problem: Problem, slot_of_executor: IntArray) -> list[str]:
    """Everything that makes an assignment invalid; an empty list for a valid one.

    CPU within ``cpu_hz``, memory within ``memory.mb``, one topology a slot, exactly min(W, E) workers a topology,
    at most `MAX_EXECUTORS_PER_WORKER` executors a worker, components apart as `ComponentLimits` say, isolated
    topologies on hosts of their own, every executor placed.
    """
    return [
        *_unplaced(problem, slot_of_executor),
        *_node_limits(problem, slot_of_executor),
        *_slot_sharing(problem, slot_of_executor),
        *_workers(problem, slot_of_executor),
        *_component_limits(problem, slot_of_executor),
        *isolation_violations(problem, slot_of_executor),
    ]


def broken_limits(problem: Problem, slot_of_executor: IntArray) -> list[str]:
    """Limits that the placed executors break: the violations but those of topologies that are not placed as a whole."""
    missing = np.unique(problem.executor_topology[slot_of_executor == UNPLACED])
    # Of these, that executors have no slot and workers are missing is told as such.
    left_out = tuple(f"{problem.topologies[topology].id}: " for topology in missing)
    return [text for text in violations(problem, slot_of_executor) if not text.startswith(left_out)]


def _unplaced(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    for index, topology in enumerate(problem.topologies):
        missing = int(np.count_nonzero(slot_of_executor[problem.executors_of(index)] == UNPLACED))
        if missing:
            yield f"{topology.id}: {missing} of {topology.num_executors} executors have no slot"


def _node_limits(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    limits = (
        ("CPU", "Hz", problem.executor_cpu_hz, problem.node_cpu_hz),
        ("memory", "MB", problem.executor_memory_mb, problem.node_memory_mb),
    )
    for what, unit, demand, capacity in limits:
        used = node_sum(problem, slot_of_executor, demand)
        for node in np.flatnonzero(used > capacity * (1 + RELATIVE_TOLERANCE)):
            yield f"{problem.supervisors[node].id}: {what} {used[node]:.6g} {unit} of {capacity[node]:.6g}"


def node_sum(problem: Problem, slot_of_executor: IntArray, demand: FloatArray) -> FloatArray:
    """Sum of a demand per executor over the nodes that a placement puts them on, shape (N,)."""
    placed = slot_of_executor != UNPLACED
    nodes = problem.slot_node[slot_of_executor[placed]]
    return np.bincount(nodes, weights=demand[placed], minlength=len(problem.supervisors)).astype(float)


def _slot_sharing(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    placed = slot_of_executor != UNPLACED
    uses = np.unique(np.stack([slot_of_executor[placed], problem.executor_topology[placed]]), axis=1)
    slots, counts = np.unique(uses[0], return_counts=True)
    for slot in slots[counts > 1]:
        sharing = ", ".join(problem.topologies[t].id for t in uses[1][uses[0] == slot])
        yield f"{problem.slots[slot]}: shared by {sharing}"


def _workers(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    for index, topology in enumerate(problem.topologies):
        slots = slot_of_executor[problem.executors_of(index)]
        used, sizes = np.unique(slots[slots != UNPLACED], return_counts=True)
        wanted = min(topology.num_workers, topology.num_executors)
        if len(used) != wanted:
            yield f"{topology.id}: {len(used)} workers, wanted {wanted}"
        limit = topology.conf.get(MAX_EXECUTORS_PER_WORKER)
        if limit:
            for slot, size in zip(used, sizes, strict=True):
                if size > limit:
                    yield f"{topology.id}: {size} executors in {problem.slots[slot]}, limit {limit}"


def _component_limits(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    for index, limits in problem.component_limits.items():
        topology, slots = problem.topologies[index], slot_of_executor[problem.executors_of(index)]
        names = [component.id for component in topology.components]
        placed = np.flatnonzero(slots != UNPLACED)
        component = topology.executor_component[placed]
        nodes, on_node = np.unique(problem.slot_node[slots[placed]], return_inverse=True)
        on_nodes = count_components(on_node, component, len(nodes), len(names))
        for node, c in np.argwhere(limits.crowded(on_nodes)).tolist():
            where, most = problem.supervisors[nodes[node]].id, limits.most_on_node[c]
            yield f"{topology.id}: {on_nodes[node, c]} executors of {names[c]} on {where}, limit {most}"
        used, in_worker = np.unique(slots[placed], return_inverse=True)
        in_workers = count_components(in_worker, component, len(used), len(names))
        for worker in np.flatnonzero(limits.clashes(in_workers).any(axis=1)).tolist():
            held = in_workers[worker]
            for a, b in np.argwhere(np.triu(limits.incompatible)).tolist():
                if held[a] and held[b] > (a == b):
                    other = "" if a == b else f" and {held[b]} of {names[b]}"
                    slot = problem.slots[used[worker]]
                    yield f"{topology.id}: {held[a]} executors of {names[a]}{other} in {slot}, incompatible"
