"""Heap of workers: its size under a placement, and its use as far as it was measured.

A supervisor starts a worker with the options in ``worker.childopts``, ``topology.worker.childopts`` and
``topology.worker.gc.childopts`` (or else ``worker.gc.childopts``), in this order; of several ``-Xmx`` the JVM takes the
last. ``%HEAP-MEM%`` in them is the memory on the heap that the worker's executors request and share, whatever the
scheduler, rounded up, or ``worker.heap.memory.mb`` if that is nothing. (``Cluster.calculateWorkerResources``,
``BasicContainer.mkLaunchCommand`` and ``getMemOnHeap`` of Storm 2.8.3.) The options of supervisors are those of Nimbus
here, as only these are known; without any ``-Xmx`` the size is unknown.

The use of a worker is predicted as `WORKER_BASE_MB` plus the live heap of its executors (`TopologyLoad.live_heap_mb`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IntArray, is_amount
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE, PlacedExecutors, PlacedWorkers, Violation
from stormwright.model.constraints.requests import requested_amounts, requested_heap, shared_memory
from stormwright.model.requests import ON_HEAP
from stormwright.model.topology_config import HEAP_HEADROOM

if TYPE_CHECKING:
    from stormwright.model.problem import Problem
    from stormwright.model.topology import Topology


#: Options of workers: of supervisors, and of a topology (or the cluster, if it has none).
WORKER_OPTIONS, TOPOLOGY_OPTIONS = "worker.childopts", "topology.worker.childopts"
WORKER_GC_OPTIONS, TOPOLOGY_GC_OPTIONS = "worker.gc.childopts", "topology.worker.gc.childopts"

#: Heap in MB of a worker whose executors request none.
DEFAULT_HEAP = "worker.heap.memory.mb"

#: Storm's defaults (defaults.yaml of 2.8.3).
_DEFAULT_OPTIONS = "-Xmx%HEAP-MEM%m"
_DEFAULT_HEAP_MB = 768.0

_MAXIMUM = re.compile(r"(?<!\S)(?:-Xmx|-XX:MaxHeapSize=)(\d+|%HEAP-MEM%)([kKmMgGtT]?)(?!\S)")
_MB = {"": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20}

#: Assumed live heap in MB of a worker without executors: Storm's own classes, queues and connections.
WORKER_BASE_MB: Final = 32.0

#: Default of `HEAP_HEADROOM`: collectors need space beside live objects, and estimates have errors.
DEFAULT_HEADROOM: Final = 1.3


@dataclass(frozen=True)
class HeapSize:
    """How the size of a worker's heap results.

    Parameters
    ----------
    fixed_mb
        Size in MB, whatever the executors; infinite if it is unknown, None if it follows their requests.
    default_mb
        Size in MB if it follows requests and there are none.
    """

    fixed_mb: float | None = None
    default_mb: float = _DEFAULT_HEAP_MB

    @classmethod
    def of(cls, topology: Topology, conf: Mapping[str, Any]) -> HeapSize:
        """Return that of a topology in a cluster with the configuration `conf`."""

        def own(key: str) -> Any:
            value = topology.conf.get(key)
            return conf.get(key) if value is None else value

        gc_options = own(TOPOLOGY_GC_OPTIONS)
        options = (
            conf.get(WORKER_OPTIONS, _DEFAULT_OPTIONS),
            own(TOPOLOGY_OPTIONS),
            conf.get(WORKER_GC_OPTIONS) if gc_options is None else gc_options,
        )
        maximum = [each for option in options for each in _MAXIMUM.finditer(_text(option))]
        if not maximum:
            return cls(inf)
        size, unit = maximum[-1].groups()
        if size.isdigit():
            return cls(int(size) * _MB[unit.lower()])
        default = own(DEFAULT_HEAP)
        return cls(None, float(default) if is_amount(default) and default > 0 else _DEFAULT_HEAP_MB)

    def size_mb(self, requested_mb: FloatArray) -> FloatArray:
        """Return the heap in MB of workers whose executors request so much, shape (W,)."""
        if self.fixed_mb is not None:
            return np.full(len(requested_mb), self.fixed_mb)
        size: FloatArray = np.ceil(np.where(requested_mb > 0, requested_mb, self.default_mb))
        return size


def _text(options: object) -> str:
    return " ".join(map(str, options)) if isinstance(options, list) else str(options or "")


def headroom_of(topology: Topology, conf: Mapping[str, Any]) -> float:
    """Return how many times its live heap the heap of a topology's worker has to be; 0 for any."""
    value = topology.conf.get(HEAP_HEADROOM, conf.get(HEAP_HEADROOM))
    return float(value) if is_amount(value) else DEFAULT_HEADROOM


@dataclass(frozen=True)
class WorkerHeaps:
    """Heaps of the workers of a placement, in MB.

    Parameters
    ----------
    workers
        The workers, by topology, then slot.
    size_mb, live_mb, needed_mb
        Size, predicted use by live objects, and that times the headroom, each of shape (W,); the size is infinite and
        the use NaN where it is unknown.
    """

    workers: PlacedWorkers
    size_mb: FloatArray
    live_mb: FloatArray
    needed_mb: FloatArray

    @classmethod
    def of(cls, placed: PlacedExecutors) -> WorkerHeaps:
        """Return the heaps under a placement."""
        problem, workers = placed.problem, placed.workers
        requested_mb = requested_heap(placed, requested_amounts(problem, ON_HEAP), tuple(shared_memory(problem)))
        of_executors = np.bincount(placed.worker, _live_mb(problem)[placed.placed], len(workers.slot))
        live_mb: FloatArray = of_executors.astype(np.float64) + WORKER_BASE_MB
        size_mb, headroom = np.empty(len(workers.slot)), np.empty(len(workers.slot))
        starts = np.searchsorted(workers.topology, np.arange(len(problem.topologies) + 1)).tolist()
        for topology, *ends in zip(problem.topologies, starts[:-1], starts[1:], strict=True):
            own = slice(*ends)
            size_mb[own] = HeapSize.of(topology, problem.conf).size_mb(requested_mb[own])
            headroom[own] = headroom_of(topology, problem.conf)
        return cls(workers, size_mb, live_mb, live_mb * headroom)

    @property
    def fill(self) -> FloatArray:
        """Needed part of each heap, shape (W,); above 1 it is too small, and 0 where either is unknown."""
        part: FloatArray = np.nan_to_num(self.needed_mb / self.size_mb)
        return part

    @property
    def is_too_small(self) -> BoolArray:
        """Whether each heap is too small, shape (W,)."""
        small: BoolArray = self.fill > 1 + RELATIVE_TOLERANCE
        return small


def _live_mb(problem: Problem) -> FloatArray:
    """Return the live heap of every executor, shape (E,); NaN where it is unknown."""
    live_mb = np.full(problem.num_executors, np.nan)
    known = problem.load.topologies if problem.load else {}
    for index, topology in enumerate(problem.topologies):
        load = known.get(topology.id)
        if load is not None and load.live_heap_mb is not None:
            live_mb[problem.executors_of(index)] = load.live_heap_mb
    return live_mb


@dataclass(frozen=True, kw_only=True)
class HeapOveruse(Violation):
    """A worker whose heap is too small for its live objects with headroom: `amount` is needed, `allowed` its size.

    Parameters
    ----------
    live_mb
        Predicted use by live objects, in MB.
    """

    limit: ClassVar[str] = "live heap of a worker"

    live_mb: float

    def __str__(self) -> str:
        used, needed = f"{self.live_mb:,.0f} MB in use", f"{ceil(self.amount):,} MB"
        return f"heap of {self.place}: {self.allowed:,.0f} MB, too small for {used}, which takes {needed}"


class LiveHeap:
    """The heap of every worker is large enough for the live objects of its executors, as far as they were measured.

    No scheduler searches for placements within this limit, and no placement is refused because of a worker that is not
    worse off than one of the topology is now: see `new_overuse`.
    """

    def violations(self, placed: PlacedExecutors) -> Iterator[HeapOveruse]:
        """Yield the workers whose heap is too small, by topology, then slot."""
        heaps = WorkerHeaps.of(placed)
        yield from (_overuse(placed.problem, heaps, worker) for worker in np.flatnonzero(heaps.is_too_small).tolist())


def new_overuse(problem: Problem, wanted: IntArray) -> dict[str, HeapOveruse]:
    """Return the worst worker of each topology (id) that would have a heap too small, and smaller than any has now.

    A topology is left out if one of its current workers is as short of heap: moving it breaks no limit that was met.

    Parameters
    ----------
    problem
        Problem with its current placement.
    wanted
        Slot of every executor, -1 for none, shape (E,).
    """
    if problem.load is None or all(each.live_heap_mb is None for each in problem.load.topologies.values()):
        return {}
    now, then = (WorkerHeaps.of(PlacedExecutors(problem, slots)) for slots in (problem.current_slot, wanted))
    count = len(problem.topologies)
    worst_now = np.zeros(count)
    np.maximum.at(worst_now, now.workers.topology, now.fill)
    found: dict[str, HeapOveruse] = {}
    worse = then.is_too_small & (then.fill > worst_now[then.workers.topology] * (1 + RELATIVE_TOLERANCE))
    for worker in sorted(np.flatnonzero(worse).tolist(), key=lambda each: -then.fill[each]):
        topology = problem.topologies[then.workers.topology[worker]].id
        found.setdefault(topology, _overuse(problem, then, worker))
    return found


def _overuse(problem: Problem, heaps: WorkerHeaps, worker: int) -> HeapOveruse:
    slot = heaps.workers.slot[worker]
    return HeapOveruse(
        topology=problem.topologies[heaps.workers.topology[worker]].id,
        node=problem.cluster.node_names[problem.slot_node[slot]],
        supervisor=problem.slots[slot].supervisor,
        slot=problem.slots[slot],
        amount=float(heaps.needed_mb[worker]),
        allowed=float(heaps.size_mb[worker]),
        unit="MB",
        live_mb=float(heaps.live_mb[worker]),
    )


def executors_per_heap(problem: Problem, topology: int) -> int | None:
    """Return how many executors any worker of a topology (by index) can have within its heap.

    None if its size is not fixed, or the use is unknown, or all executors fit. At least 1.
    """
    of = problem.topologies[topology]
    load = problem.load.topologies.get(of.id) if problem.load else None
    size_mb, headroom = HeapSize.of(of, problem.conf).fixed_mb, headroom_of(of, problem.conf)
    if load is None or load.live_heap_mb is None or size_mb is None or not headroom:
        return None
    live_mb = np.sort(load.live_heap_mb)[::-1]
    most = int(np.searchsorted(np.cumsum(live_mb), size_mb / headroom - WORKER_BASE_MB, side="right"))
    return max(most, 1) if most < len(live_mb) else None
