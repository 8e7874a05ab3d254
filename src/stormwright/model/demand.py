"""Resource usage of all executors of a problem, measured or assumed, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.model.arrays import FloatArray, frozen_floats
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
    nobody_declared
        Whether the capacity of every node is Storm's default.
    """

    workload: Workload
    load: LoadProfile | None
    core_hz: float
    nobody_declared: bool = False

    def is_of(self, workload: Workload, load: LoadProfile | None, core_hz: float, *, nobody_declared: bool) -> bool:
        """Return whether it was built from these very objects."""
        same = self.workload is workload and self.load is load
        return same and (self.core_hz, self.nobody_declared) == (core_hz, nobody_declared)

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

        CPU and memory are measured or as requested; generic resources are as requested. What was not measured, and
        neither requested nor declared by anybody, counts as 0: 10 % of a core and 128 MB, of 4 cores and 4,096 MB, are
        numbers of a scheduler that the cluster does not use (`Workload.limited`).
        """
        cpu_hz, memory_mb = self.executor_cpu_hz.copy(), self.executor_memory_mb.copy()
        for t, load in enumerate(self.measured):
            if load is None and self.nobody_declared:
                own = self.workload.executors_of(t)
                cpu_hz[own][~self.workload.limited(t, CPU)] = 0.0
                memory_mb[own][~self.workload.limited(t, ON_HEAP, OFF_HEAP)] = 0.0
        return frozen_floats(np.stack([cpu_hz, memory_mb, *self.workload.generic_demand]))
