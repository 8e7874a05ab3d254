"""What the executors of a problem use: the load measured, or else assumed, as arrays over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.model.arrays import FloatArray, frozen_floats
from stormwright.model.load import LoadProfile, TopologyLoad
from stormwright.model.workload import Workload


@dataclass(frozen=True, eq=False)
class Demand:
    """The load of a problem and what follows from it and the workload, each array made once and read-only.

    What executors use of CPU and memory needs no traffic, so none is made up for it.

    Parameters
    ----------
    workload
        Whose executors these are.
    load
        What was measured; a topology missing from it has the load that is assumed.
    core_hz
        Speed of a core in Hz.
    """

    workload: Workload
    load: LoadProfile | None
    core_hz: float

    def is_of(self, workload: Workload, load: LoadProfile | None, core_hz: float) -> bool:
        """Whether it is made of these very objects."""
        return self.workload is workload and self.load is load and self.core_hz == core_hz

    @cached_property
    def measured(self) -> tuple[TopologyLoad | None, ...]:
        """Measured load of every topology, in order; None where there is none."""
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
            self.workload.asked_cpu_hz(t, self.core_hz) if load is None else load.cpu_hz
            for t, load in enumerate(self.measured)
        )
        return frozen_floats(np.concatenate([np.empty(0), *parts]))

    @cached_property
    def executor_memory_mb(self) -> FloatArray:
        """Memory of every executor in MB, shape (E,)."""
        parts = (
            self.workload.asked_memory_mb(t) if load is None else load.memory_mb for t, load in enumerate(self.measured)
        )
        return frozen_floats(np.concatenate([np.empty(0), *parts]))

    @cached_property
    def executor_demand(self) -> FloatArray:
        """What every executor uses of each resource, shape (K, E).

        CPU and memory are measured or assumed; of generic resources it is what its component asks for.
        """
        return frozen_floats(np.stack([self.executor_cpu_hz, self.executor_memory_mb, *self.workload.generic_demand]))
