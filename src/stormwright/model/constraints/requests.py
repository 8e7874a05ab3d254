"""Constraint: requests of executors fit nodes and heaps, as in Storm's ResourceAwareScheduler.

After ``Cluster.wouldFit`` and ``calculateWorkerResources`` of Storm 2.8.3: a node has CPU and memory for all that its
executors request, and a worker has no more on its heap than ``topology.worker.max.heap.size.mb``. Memory that
components share counts once: on the heap or off it in each worker, or off it once for all of a node's workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, is_amount
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE, PlacedExecutors, PlacedWorkers, Violation
from stormwright.model.fallback import is_resource_aware
from stormwright.model.humanize import amount_of
from stormwright.model.requests import CPU, MEMORY, OFF_HEAP, ON_HEAP

if TYPE_CHECKING:
    from stormwright.model.problem import Problem


#: Storm's ResourceAwareScheduler makes no worker with more memory on its heap than this says, in MB.
MAX_HEAP = "topology.worker.max.heap.size.mb"
_DEFAULT_MAX_HEAP_MB = 768.0


class SharedMemory(NamedTuple):
    """Memory that components of a topology share, in MB: on and off the heap of each worker, on a node.

    `components` are the indices of the components.
    """

    topology: int
    components: tuple[int, ...]
    heap: float
    off_heap: float
    on_node: float


@dataclass(frozen=True)
class RequestLimits:
    """Requests of executors, and the capacity for them.

    Parameters
    ----------
    demand, capacity
        CPU in percent of a core and memory in MB, of executors, shape (2, E), and of nodes, shape (2, N).
    heap, most_heap
        Heap memory in MB of executors, shape (E,), and the maximum heap of a worker by topology, shape (T,).
    shared
        Memory that components share.
    """

    demand: FloatArray
    capacity: FloatArray
    heap: FloatArray
    most_heap: FloatArray
    shared: tuple[SharedMemory, ...]

    @classmethod
    def of(cls, problem: Problem) -> RequestLimits | None:
        """Return those of a problem; None if its cluster does not use the ResourceAwareScheduler."""
        if not is_resource_aware(problem.conf):
            return None
        nodes = problem.supervisors
        return cls(
            demand=np.stack([requested_amounts(problem, CPU), requested_amounts(problem, ON_HEAP, OFF_HEAP)]),
            capacity=np.array([[node.resources.get(name, np.inf) for node in nodes] for name in (CPU, MEMORY)]),
            heap=requested_amounts(problem, ON_HEAP),
            most_heap=np.array([max_heap_mb(topology.conf) for topology in problem.topologies]),
            shared=tuple(shared_memory(problem)),
        )


def max_heap_mb(conf: Mapping[str, Any]) -> float:
    """Return the maximum heap of a worker in MB, from a topology's configuration."""
    value = conf.get(MAX_HEAP)
    return float(value) if isinstance(value, int | float) and value > 0 else _DEFAULT_MAX_HEAP_MB


def requested_amounts(problem: Problem, *resources: str) -> FloatArray:
    """Return the sum of every executor's requests for some resources, shape (E,)."""
    of_topology = (
        np.array([sum(component.get(name, 0.0) for name in resources) for component in requested])[
            topology.executor_component
        ]
        for topology, requested in zip(problem.topologies, problem.workload.requested, strict=True)
    )
    return np.concatenate([np.empty(0), *of_topology])


def shared_memory(problem: Problem) -> Iterator[SharedMemory]:
    """Yield shared memory regions by name; a region whose size is no amount is ignored."""
    for index, topology in enumerate(problem.topologies):
        regions: dict[str, tuple[Mapping[str, Any], list[int]]] = {}
        for number, component in enumerate(topology.components):
            for region in component.shared_memory:
                regions.setdefault(str(region.get("name")), (region, []))[1].append(number)
        for region, components in regions.values():
            amounts = (region.get(name) for name in ("on_heap", "off_heap_worker", "off_heap_node"))
            heap, off_heap, on_node = (float(each) if is_amount(each) else 0.0 for each in amounts)
            yield SharedMemory(index, tuple(components), heap, off_heap, on_node)


@dataclass(frozen=True, kw_only=True)
class NodeRequestViolation(Violation):
    """A node whose executors request more of a resource than it has.

    Parameters
    ----------
    resource
        Name of the resource.
    """

    limit: ClassVar[str] = "requests"

    resource: str

    def __str__(self) -> str:
        return f"{self.node}: {self.resource} requested {amount_of(self.amount, self.allowed, self.unit)}"


@dataclass(frozen=True, kw_only=True)
class HeapRequestViolation(Violation):
    """A worker whose executors request more heap than its topology's `MAX_HEAP`."""

    limit: ClassVar[str] = "heap of a worker"

    def __str__(self) -> str:
        return f"heap of {self.place} requested {amount_of(self.amount, self.allowed, self.unit)}"


class Requests:
    """Nodes and heaps fit the requests of executors, if the cluster uses Storm's ResourceAwareScheduler."""

    def violations(self, placed: PlacedExecutors) -> Iterator[NodeRequestViolation | HeapRequestViolation]:
        """Yield overcommitted nodes by resource, then overcommitted workers by topology."""
        problem = placed.problem
        requested = RequestLimits.of(problem)
        if requested is None:
            return
        of_node = np.stack([placed.sum_by_node(demand) for demand in requested.demand])
        for region in requested.shared:
            node = problem.slot_node[placed.workers.slot[_workers_with(placed, region)]]
            np.add.at(of_node[1], node, region.heap + region.off_heap)
            of_node[1][np.unique(node)] += region.on_node
        units = ((CPU, "%"), (MEMORY, "MB"))
        for (resource, unit), used, has in zip(units, of_node, requested.capacity, strict=True):
            for full in np.flatnonzero(used > has * (1 + RELATIVE_TOLERANCE)).tolist():
                yield NodeRequestViolation(
                    node=problem.cluster.node_names[full],
                    supervisor=problem.supervisors[full].id,
                    amount=float(used[full]),
                    allowed=float(has[full]),
                    unit=unit,
                    resource=resource,
                )
        yield from _full(problem, placed.workers, requested_heap(placed, requested.heap, requested.shared), requested)


def requested_heap(placed: PlacedExecutors, heap: FloatArray, shared: Iterable[SharedMemory]) -> FloatArray:
    """Return the memory on the heap that the executors of every worker request and share, in MB, shape (W,).

    Parameters
    ----------
    placed
        Placement with the worker of every placed executor.
    heap
        Request of each executor, shape (E,).
    shared
        Memory that components share.
    """
    of_worker = np.bincount(placed.worker, heap[placed.placed], len(placed.workers.slot)).astype(float)
    for region in shared:
        of_worker[_workers_with(placed, region)] += region.heap
    return of_worker


def _workers_with(placed: PlacedExecutors, region: SharedMemory) -> IndexArray:
    """Return the workers with executors that use a shared region."""
    return np.unique(placed.worker[_uses(placed.problem, region)[placed.placed]])


def _uses(problem: Problem, region: SharedMemory) -> BoolArray:
    """Return whether executors use a shared region, shape (E,)."""
    own = problem.executors_of(region.topology)
    uses = np.zeros(problem.num_executors, bool)
    uses[own] = np.isin(problem.topologies[region.topology].executor_component, region.components)
    return uses


def _full(
    problem: Problem, workers: PlacedWorkers, heap: FloatArray, requested: RequestLimits
) -> Iterator[HeapRequestViolation]:
    allowed = requested.most_heap[workers.topology]
    for worker in np.flatnonzero(heap > allowed * (1 + RELATIVE_TOLERANCE)).tolist():
        slot = problem.slots[workers.slot[worker]]
        yield HeapRequestViolation(
            topology=problem.topologies[workers.topology[worker]].id,
            node=problem.cluster.node_names[problem.slot_node[workers.slot[worker]]],
            supervisor=slot.supervisor,
            slot=slot,
            amount=float(heap[worker]),
            allowed=float(allowed[worker]),
            unit="MB",
        )
