"""Resource usage of all executors of a problem, measured or assumed, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.model.arrays import FloatArray, frozen_floats
from stormwright.model.cluster import DEFAULT_CPU_PERCENT, DEFAULT_MEMORY_MB
from stormwright.model.load import LoadProfile, TopologyLoad
from stormwright.model.requests import CPU, OFF_HEAP, ON_HEAP
from stormwright.model.workload import Workload


@dataclass(frozen=True, eq=False)
class Demand:
    """Load of a problem and the arrays that follow from it, read-only and computed once.

    Parameters
    ----------
    workload
        Topologies with their executors.
    load
        Measured load; topologies missing from it have an assumed one.
    core_hz
        Speed of a core in Hz.
    default_nodes
        Number of nodes if the capacity of each is Storm's default, else 0.
    """

    workload: Workload
    load: LoadProfile | None
    core_hz: float
    default_nodes: int = 0

    def is_of(self, workload: Workload, load: LoadProfile | None, core_hz: float, default_nodes: int) -> bool:
        """Return whether it was built from these very objects.

        Parameters
        ----------
        workload, load, core_hz, default_nodes
            Values of the parameters of the class.
        """
        same = self.workload is workload and self.load is load
        return same and (self.core_hz, self.default_nodes) == (core_hz, default_nodes)

    @cached_property
    def measured(self) -> tuple[TopologyLoad | None, ...]:
        """Measured load of every topology, in order; None if it was not measured."""
        measured = self.load.topologies if self.load else {}
        return tuple(measured.get(topology.id) for topology in self.workload.topologies)

    @cached_property
    def loads(self) -> tuple[TopologyLoad, ...]:
        """Measured or assumed load of every topology, in order."""
        return tuple(load or self.workload.assumed(t, self.core_hz) for t, load in enumerate(self.measured))

    @cached_property
    def executor_cpu_hz(self) -> FloatArray:
        """L of every executor in Hz, shape (E,)."""
        parts = (
            self.workload.requested_cpu_hz(t, self.core_hz) if load is None else load.cpu_hz
            for t, load in enumerate(self.measured)
        )
        return frozen_floats(np.concatenate([np.empty(0), *parts]))

    @cached_property
    def executor_memory_mb(self) -> FloatArray:
        """Memory of every executor in MB, shape (E,)."""
        parts = (
            self.workload.requested_memory_mb(t) if load is None else load.memory_mb
            for t, load in enumerate(self.measured)
        )
        return frozen_floats(np.concatenate([np.empty(0), *parts]))

    @cached_property
    def executor_demand(self) -> FloatArray:
        """Usage of each resource by every executor that is held to the capacity of nodes, shape (K, E).

        CPU and memory are measured or as requested; generic resources are as requested. A request that is merely the
        default, of a node whose capacity is the default too, counts as 0 where the topology could not run otherwise:
        10 % of a core and 128 MB, of 4 cores and 4,096 MB, are numbers of a scheduler that the cluster does not use.
        """
        usage = np.stack([self.executor_cpu_hz, self.executor_memory_mb])
        capacity = np.array([DEFAULT_CPU_PERCENT / 100 * self.core_hz, DEFAULT_MEMORY_MB])
        unmeasured = [t for t, load in enumerate(self.measured) if load is None] if self.default_nodes else []
        lacks_all = usage.sum(axis=1) > capacity * self.default_nodes
        for t in unmeasured:
            own, of = self.workload.executors_of(t), self.workload.topologies[t]
            in_worker = -(-of.num_executors // max(of.num_workers, 1))
            least = np.sort(usage[:, own], axis=1)[:, :in_worker].sum(axis=1)
            for row, resources in enumerate(((CPU,), (ON_HEAP, OFF_HEAP))):
                if lacks_all[row] or least[row] > capacity[row]:
                    usage[row, own][~self.workload.limited(t, *resources)] = 0.0
        return frozen_floats(np.concatenate([usage, self.workload.generic_demand]))
