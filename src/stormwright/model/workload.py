"""The executors of all topologies of a problem, and their requests, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IntArray, frozen_floats, frozen_ints
from stormwright.model.component_limits import COMPONENT_LIMIT_KEYS, ComponentLimits, read_component_limits
from stormwright.model.fallback import is_resource_aware
from stormwright.model.load import TopologyLoad, assumed_load, cpu_hz_of, memory_mb_of, requested
from stormwright.model.requests import generic_names, is_default
from stormwright.model.topology import Topology


class Resource(NamedTuple):
    """A resource of nodes, and its unit."""

    name: str
    unit: str = ""


@dataclass(frozen=True, eq=False)
class Workload:
    """The topologies of a problem as read-only arrays.

    Executors of all topologies (T in number) are numbered consecutively (E).

    Parameters
    ----------
    topologies
        Topologies in the problem's order.
    conf
        The cluster's configuration, over which a topology's own takes precedence.
    """

    topologies: tuple[Topology, ...]
    conf: Mapping[str, Any]
    _assumed: dict[tuple[int, float], TopologyLoad] = field(default_factory=dict, repr=False)

    def is_of(self, topologies: tuple[Topology, ...], conf: Mapping[str, Any]) -> bool:
        """Return whether it was built from these very objects."""
        return self.topologies is topologies and self.conf is conf

    @cached_property
    def executor_offset(self) -> IntArray:
        """First executor of each topology, shape (T + 1,)."""
        return frozen_ints(np.cumsum([0, *(topology.num_executors for topology in self.topologies)]))

    @cached_property
    def num_executors(self) -> int:
        """E, the number of executors of all topologies."""
        return int(self.executor_offset[-1])

    def executors_of(self, topology: int) -> slice:
        """Return the executors of a topology (by index) as a slice of every per-executor array."""
        return slice(int(self.executor_offset[topology]), int(self.executor_offset[topology + 1]))

    @cached_property
    def executor_topology(self) -> IntArray:
        """Topology index of every executor, shape (E,)."""
        return frozen_ints(np.repeat(np.arange(len(self.topologies)), np.diff(self.executor_offset)))

    @cached_property
    def topology_index(self) -> Mapping[str, int]:
        """Topology id → its index."""
        return {topology.id: index for index, topology in enumerate(self.topologies)}

    @cached_property
    def component_limits(self) -> Mapping[int, ComponentLimits]:
        """Topology index → its component constraints, of topologies with any.

        A topology's configuration takes precedence over the cluster's; what Storm would refuse in it is ignored.
        """
        found = {}
        for index, topology in enumerate(self.topologies):
            conf = {key: topology.conf.get(key, self.conf.get(key)) for key in COMPONENT_LIMIT_KEYS}
            limits, _ = read_component_limits(conf, topology.component_index)
            if limits is not None:
                found[index] = limits
        return found

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """CPU, memory, and the generic resources that any executor requests."""
        component_amounts = [amounts for of_topology in self.requested for amounts in of_topology]
        return (
            Resource("CPU", "Hz"),
            Resource("memory", "MB"),
            *(Resource(name) for name in generic_names(component_amounts)),
        )

    @cached_property
    def generic(self) -> tuple[str, ...]:
        """Names of the generic resources among `resources`."""
        return tuple(resource.name for resource in self.resources[2:])

    @cached_property
    def requested(self) -> tuple[list[dict[str, float]], ...]:
        """Requests of the components of every topology, resource → amount."""
        return tuple(requested(topology, self.conf) for topology in self.topologies)

    @cached_property
    def generic_demand(self) -> FloatArray:
        """Request of every executor for each generic resource, shape (len(generic), E)."""
        rows = np.zeros((len(self.generic), self.num_executors))
        for index, (topology, requests) in enumerate(zip(self.topologies, self.requested, strict=True)):
            for row, name in zip(rows, self.generic, strict=True):
                amounts = np.array([component.get(name, 0.0) for component in requests])
                row[self.executors_of(index)] = amounts[topology.executor_component]
        return frozen_floats(rows)

    def limited(self, topology: int, *resources: str) -> BoolArray:
        """Return which executors of a topology are held to the capacity of nodes for some resources, shape (E of it,).

        A default is no request, but under Storm's ResourceAwareScheduler.
        """
        declared = [not is_default(amounts, resources) for amounts in self.requested[topology]]
        by_executor: BoolArray = np.array(declared, bool)[self.topologies[topology].executor_component]
        return by_executor | is_resource_aware(self.conf)

    def requested_cpu_hz(self, topology: int, core_hz: float) -> FloatArray:
        """Return the CPU in Hz that each executor of a topology (by index) requests, on cores of `core_hz`."""
        return cpu_hz_of(self.topologies[topology], self.requested[topology], core_hz)

    def requested_memory_mb(self, topology: int) -> FloatArray:
        """Return the memory in MB that each executor of a topology (by index) requests."""
        return memory_mb_of(self.topologies[topology], self.requested[topology])

    def assumed(self, topology: int, core_hz: float) -> TopologyLoad:
        """Return the assumed load of a topology (by index), on cores of `core_hz`; computed once."""
        key = (topology, core_hz)
        if key not in self._assumed:
            self._assumed[key] = assumed_load(self.topologies[topology], core_hz, self.conf)
        return self._assumed[key]
