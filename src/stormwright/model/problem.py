"""The immutable snapshot that every scheduler reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IntArray, frozen_floats, frozen_ints
from stormwright.model.assignment import UNPLACED, TopologyAssignment
from stormwright.model.cluster import DEFAULT_CORE_HZ, Supervisor, WorkerSlot
from stormwright.model.component_limits import COMPONENT_LIMIT_KEYS, ComponentLimits, read_component_limits
from stormwright.model.load import LoadProfile, TopologyLoad, assumed_load, requested
from stormwright.model.requests import generic_names
from stormwright.model.topology import Topology


class Resource(NamedTuple):
    """Something that nodes have and executors use up, and the unit in which it is counted."""

    name: str
    unit: str = ""


@dataclass(frozen=True)
class Problem:
    """Topologies, cluster, load and current assignment at one moment.

    People see the objects; schedulers use the arrays, in which executors of all topologies are numbered in one
    sequence (E in all), slots of all supervisors likewise (S), and nodes are supervisors (N).

    Parameters
    ----------
    supervisors, topologies
        In the order given by Storm or by the file; ties are broken by it where a scheduler says so.
    current
        Topology id → what runs now.
    load
        Measured load; a topology missing from it has the load that `assumed_load` gives.
    conf
        Cluster configuration over Storm's defaults.
    """

    supervisors: tuple[Supervisor, ...]
    topologies: tuple[Topology, ...]
    name: str = ""
    conf: Mapping[str, Any] = field(default_factory=dict)
    blacklisted_hosts: frozenset[str] = frozenset()
    greylisted_supervisors: tuple[str, ...] = ()
    current: Mapping[str, TopologyAssignment] = field(default_factory=dict)
    load: LoadProfile | None = None
    core_hz: float = DEFAULT_CORE_HZ

    def with_load(self, load: LoadProfile) -> Problem:
        """The same problem under another load."""
        return replace(self, load=load)

    def with_current(self, current: Mapping[str, TopologyAssignment]) -> Problem:
        """The same problem with another current assignment."""
        return replace(self, current=dict(current))

    # Executors -----------------------------------------------------------------------------------

    @cached_property
    def executor_offset(self) -> IntArray:
        """Where each topology's executors start, shape (T + 1,)."""
        return frozen_ints(np.cumsum([0, *(topology.num_executors for topology in self.topologies)]))

    @property
    def num_executors(self) -> int:
        """E, over all topologies."""
        return int(self.executor_offset[-1])

    def executors_of(self, topology: int) -> slice:
        """The executors of a topology (by index) as a slice of every per-executor array."""
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
        """Topology index → which of its executors may not be together, of topologies with such limits.

        A topology's configuration lies over the cluster's; what Storm would refuse in it is no limit.
        """
        found = {}
        for index, topology in enumerate(self.topologies):
            conf = {key: topology.conf.get(key, self.conf.get(key)) for key in COMPONENT_LIMIT_KEYS}
            limits, _ = read_component_limits(conf, topology.component_index)
            if limits is not None:
                found[index] = limits
        return found

    # Nodes and slots -----------------------------------------------------------------------------

    @cached_property
    def slots(self) -> tuple[WorkerSlot, ...]:
        """Every worker slot, supervisor by supervisor, length S."""
        return tuple(WorkerSlot(node.id, port) for node in self.supervisors for port in node.ports)

    @cached_property
    def slot_index(self) -> Mapping[WorkerSlot, int]:
        """Worker slot → its index."""
        return {slot: index for index, slot in enumerate(self.slots)}

    @cached_property
    def slot_node(self) -> IntArray:
        """Node index of every slot, shape (S,)."""
        return frozen_ints(np.repeat(np.arange(len(self.supervisors)), [len(s.ports) for s in self.supervisors]))

    @cached_property
    def node_index(self) -> Mapping[str, int]:
        """Supervisor id → its index."""
        return {node.id: index for index, node in enumerate(self.supervisors)}

    @cached_property
    def node_cpu_hz(self) -> FloatArray:
        """B_k of every node in Hz, shape (N,)."""
        return frozen_floats([node.cpu_hz for node in self.supervisors])

    @cached_property
    def node_memory_mb(self) -> FloatArray:
        """Memory of every node in MB, shape (N,)."""
        return frozen_floats([node.memory_mb for node in self.supervisors])

    @cached_property
    def node_capacity(self) -> FloatArray:
        """What every node has of each of `resources`, shape (K, N).

        Unlike CPU and memory, a generic resource that a supervisor does not tell is one that it does not have.
        """
        generic = [
            [node.resources.get(resource.name, 0.0) for node in self.supervisors] for resource in self.resources[2:]
        ]
        return frozen_floats(np.array([self.node_cpu_hz, self.node_memory_mb, *generic]))

    @cached_property
    def node_rack(self) -> IntArray:
        """Rack of every node, racks numbered in order of first appearance, shape (N,)."""
        numbers: dict[str, int] = {}
        return frozen_ints([numbers.setdefault(node.rack, len(numbers)) for node in self.supervisors])

    @cached_property
    def node_usable(self) -> BoolArray:
        """Whether a node may take new executors: neither its host blacklisted nor itself greylisted, shape (N,)."""
        hosts, ids = self.blacklisted_hosts, frozenset(self.greylisted_supervisors)
        return np.array([node.host not in hosts and node.id not in ids for node in self.supervisors], dtype=bool)

    # What runs now -------------------------------------------------------------------------------

    @cached_property
    def current_slot(self) -> IntArray:
        """Slot index of every executor now, -1 where it has none that still exists, shape (E,)."""
        current = np.full(self.num_executors, UNPLACED, dtype=np.int32)
        placed = [(self.topology_index[t], own) for t, own in self.current.items() if t in self.topology_index]
        # All topologies at once: one by one NumPy would be called for each.
        slots = [self.slot_index.get(slot, UNPLACED) for _, own in placed for slot in own.slots]
        known = np.array([*slots, UNPLACED], dtype=np.int32)
        first = np.cumsum([0, *(len(own.slots) for _, own in placed)])
        lengths = [len(own.slot_of_executor) for _, own in placed]
        index = np.fromiter(chain.from_iterable(own.slot_of_executor for _, own in placed), np.int64, sum(lengths))
        slot = known[np.where(index == UNPLACED, UNPLACED, index + np.repeat(first[:-1], lengths))]
        offset = np.array([self.executor_offset[topology] for topology, _ in placed], dtype=np.int64)
        current[np.arange(len(slot)) + np.repeat(offset - np.cumsum([0, *lengths])[:-1], lengths)] = slot
        current.flags.writeable = False
        return current

    # Load ----------------------------------------------------------------------------------------

    @cached_property
    def loads(self) -> tuple[TopologyLoad, ...]:
        """Measured or assumed load of every topology, in order."""
        measured = self.load.topologies if self.load else {}
        return tuple(measured.get(t.id) or assumed_load(t, self.core_hz, self.conf) for t in self.topologies)

    @cached_property
    def executor_cpu_hz(self) -> FloatArray:
        """L of every executor in Hz, shape (E,)."""
        return frozen_floats(np.concatenate([np.empty(0), *(load.cpu_hz for load in self.loads)]))

    @cached_property
    def executor_memory_mb(self) -> FloatArray:
        """Memory of every executor in MB, shape (E,)."""
        return frozen_floats(np.concatenate([np.empty(0), *(load.memory_mb for load in self.loads)]))

    # Resources -----------------------------------------------------------------------------------

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """What nodes have and executors use up: CPU, memory, and the generic resources that any executor asks for."""
        asked = [amounts for of_topology in self._requested for amounts in of_topology]
        return (Resource("CPU", "Hz"), Resource("memory", "MB"), *(Resource(name) for name in generic_names(asked)))

    @cached_property
    def executor_demand(self) -> FloatArray:
        """What every executor uses of each of `resources`, shape (K, E).

        CPU and memory are measured or assumed; of generic resources it is what its component asks for.
        """
        generic = [
            np.concatenate(
                [
                    np.empty(0),
                    *(
                        np.array([amounts.get(resource.name, 0.0) for amounts in asked])[topology.executor_component]
                        for topology, asked in zip(self.topologies, self._requested, strict=True)
                    ),
                ]
            )
            for resource in self.resources[2:]
        ]
        return frozen_floats(np.array([self.executor_cpu_hz, self.executor_memory_mb, *generic]))

    @cached_property
    def _requested(self) -> tuple[list[dict[str, float]], ...]:
        """Of every topology what its components ask for."""
        return tuple(requested(topology, self.conf) for topology in self.topologies)
