"""The hard limits of a placement, each with a message that carries numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.component_limits import count_components
from stormwright.model.isolation import isolation_violations
from stormwright.model.problem import Problem
from stormwright.model.texts import amount_of, counted

#: A topology's own hard limit on executors per worker, in its configuration.
MAX_EXECUTORS_PER_WORKER = "stormwright.max.executors.per.worker"

#: Sums of many loads differ from a capacity in the last digits only by rounding.
RELATIVE_TOLERANCE = 1e-9


def violations(problem: Problem, slot_of_executor: IntArray) -> list[str]:
    """Everything that makes an assignment invalid; an empty list for a valid one.

    CPU within ``cpu_hz``, memory within ``memory.mb``, generic resources within what the node has, one topology a slot,
    exactly min(W, E) workers a topology, at most `MAX_EXECUTORS_PER_WORKER` executors a worker, components apart as
    `ComponentLimits` say, isolated topologies on hosts of their own, every executor placed.
    """
    return [
        *_unplaced(problem, slot_of_executor),
        *_node_limits(problem, slot_of_executor),
        *_slot_sharing(problem, slot_of_executor),
        *map(str, _worker_counts(problem, slot_of_executor)),
        *_worker_sizes(problem, slot_of_executor),
        *_component_limits(problem, slot_of_executor),
        *isolation_violations(problem, slot_of_executor),
    ]


class WorkerCount(NamedTuple):
    """A topology (by id) that has another number of workers than it wants."""

    topology: str
    workers: int
    wanted: int

    def __str__(self) -> str:
        return f"{self.topology}: {counted(self.workers, 'worker')}, wanted {self.wanted}"


def broken_limits(problem: Problem, slot_of_executor: IntArray) -> list[str]:
    """Limits that the placed executors break: violations of topologies placed as a whole, but their worker counts."""
    told_apart = {str(count) for count in other_worker_counts(problem, slot_of_executor)}
    # Of the others, that executors have no slot and workers are missing is told as such.
    left_out = tuple(f"{problem.topologies[topology].id}: " for topology in _left_out(problem, slot_of_executor))
    found = violations(problem, slot_of_executor)
    return [text for text in found if text not in told_apart and not text.startswith(left_out)]


def other_worker_counts(problem: Problem, slot_of_executor: IntArray) -> list[WorkerCount]:
    """Topologies placed as a whole in another number of workers than min(W, E): schedulers of Storm do so by design."""
    left_out = {problem.topologies[topology].id for topology in _left_out(problem, slot_of_executor)}
    return [count for count in _worker_counts(problem, slot_of_executor) if count.topology not in left_out]


def _left_out(problem: Problem, slot_of_executor: IntArray) -> list[int]:
    """Topologies, by index, of which executors have no slot."""
    left_out: list[int] = np.unique(problem.executor_topology[slot_of_executor == UNPLACED]).tolist()
    return left_out


def _unplaced(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    for index, topology in enumerate(problem.topologies):
        missing = int(np.count_nonzero(slot_of_executor[problem.executors_of(index)] == UNPLACED))
        if missing:
            yield f"{topology.id}: {missing} of {topology.num_executors} executors have no slot"


def _node_limits(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    for resource, demand, capacity in zip(
        problem.resources, problem.executor_demand, problem.node_capacity, strict=True
    ):
        used = node_sum(problem, slot_of_executor, demand)
        for node in np.flatnonzero(used > capacity * (1 + RELATIVE_TOLERANCE)):
            there = amount_of(used[node], capacity[node], resource.unit)
            yield f"{problem.supervisors[node].id}: {resource.name} {there}"


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


def _worker_counts(problem: Problem, slot_of_executor: IntArray) -> Iterator[WorkerCount]:
    for index, topology in enumerate(problem.topologies):
        slots = slot_of_executor[problem.executors_of(index)]
        used = len(np.unique(slots[slots != UNPLACED]))
        wanted = min(topology.num_workers, topology.num_executors)
        if used != wanted:
            yield WorkerCount(topology.id, used, wanted)


def _worker_sizes(problem: Problem, slot_of_executor: IntArray) -> Iterator[str]:
    for index, topology in enumerate(problem.topologies):
        slots = slot_of_executor[problem.executors_of(index)]
        used, sizes = np.unique(slots[slots != UNPLACED], return_counts=True)
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
                    these = f"{counted(int(held[a]), 'executor')} of {names[a]}{other}"
                    yield f"{topology.id}: {these} in {slot}, incompatible"
