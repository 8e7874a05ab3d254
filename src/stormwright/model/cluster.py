"""Supervisors, their worker slots, and the cluster as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IntArray, frozen, frozen_floats, frozen_ints

#: Speed assumed for one core if a supervisor does not declare its `cpu_hz`.
DEFAULT_CORE_HZ = 3e9

#: Capacity that a supervisor declares by default: percent of a core, and MB (defaults.yaml of Storm 2.8.3).
DEFAULT_CPU_PERCENT, DEFAULT_MEMORY_MB = 400.0, 4096.0

#: Key of `supervisor.scheduler.meta`: speed of the node's network link, as ``40mbit``.
LINK = "stormwright.link"


class WorkerSlot(NamedTuple):
    """A port of a supervisor that can run one worker."""

    supervisor: str
    port: int

    def __str__(self) -> str:
        return f"{self.supervisor}:{self.port}"


@dataclass(frozen=True, slots=True)
class Supervisor:
    """A node of the cluster.

    Parameters
    ----------
    ports
        Ports of its worker slots.
    resources
        Capacity under Storm's normalised names: ``cpu.pcore.percent`` (100 a core), ``memory.mb``, generic ones.
    cpu_hz
        B_k, the CPU available to executors, in Hz.
    link_bps
        Bandwidth of its network link in bits per second, if known.
    """

    id: str
    host: str
    ports: tuple[int, ...]
    cpu_hz: float
    rack: str = "default-rack"
    scheduler_meta: Mapping[str, str] | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    link_bps: float | None = None

    @property
    def memory_mb(self) -> float:
        """Memory for workers in MB; infinite if the supervisor does not declare it."""
        return self.resources.get("memory.mb", float("inf"))


@dataclass(frozen=True, eq=False)
class Cluster:
    """The nodes of a problem as read-only arrays.

    Nodes are supervisors, N in number, in the given order; the slots of all of them are numbered consecutively, S in
    number.

    Parameters
    ----------
    supervisors
        Supervisors in the problem's order.
    blacklisted_hosts, greylisted_supervisors
        Hosts and supervisor ids that accept no new executors.
    """

    supervisors: tuple[Supervisor, ...]
    blacklisted_hosts: frozenset[str] = frozenset()
    greylisted_supervisors: tuple[str, ...] = ()
    _capacities: dict[tuple[str, ...], FloatArray] = field(default_factory=dict, repr=False)

    def is_of(
        self, supervisors: tuple[Supervisor, ...], blacklisted: frozenset[str], greylisted: tuple[str, ...]
    ) -> bool:
        """Return whether it was built from these very objects."""
        return (
            self.supervisors is supervisors
            and self.blacklisted_hosts is blacklisted
            and self.greylisted_supervisors is greylisted
        )

    @cached_property
    def default_nodes(self) -> int:
        """Number of nodes if each declares the CPU and memory that a supervisor declares by default, else 0."""
        declared = [each.resources for each in self.supervisors]
        by_default = DEFAULT_CPU_PERCENT, DEFAULT_MEMORY_MB
        alike = all((of.get("cpu.pcore.percent"), of.get("memory.mb")) == by_default for of in declared)
        return len(declared) if alike else 0

    @cached_property
    def slots(self) -> tuple[WorkerSlot, ...]:
        """All worker slots, supervisor by supervisor, length S."""
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
    def lone_hosts(self) -> frozenset[str]:
        """Hosts with a single node."""
        counts = Counter(node.host for node in self.supervisors)
        return frozenset(host for host, count in counts.items() if count == 1)

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """Display name of every node, length N: its host, or ``id@host`` if several share it."""
        lone = self.lone_hosts
        return tuple(node.host if node.host in lone else f"{node.id}@{node.host}" for node in self.supervisors)

    def slot_name(self, slot: WorkerSlot) -> str:
        """Return the display name of a worker slot: ``host:port``, or the supervisor's id if the node is gone."""
        index = self.node_index.get(slot.supervisor)
        return str(slot) if index is None else f"{self.node_names[index]}:{slot.port}"

    def find_node(self, name: str) -> int | None:
        """Return the index of a node by its display name, its host if unique, or its id."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, int]:
        return {**self.node_index, **{name: index for index, name in enumerate(self.node_names)}}

    @cached_property
    def node_cpu_hz(self) -> FloatArray:
        """B_k of every node in Hz, shape (N,)."""
        return frozen_floats([node.cpu_hz for node in self.supervisors])

    @cached_property
    def node_memory_mb(self) -> FloatArray:
        """Memory of every node in MB, shape (N,)."""
        return frozen_floats([node.memory_mb for node in self.supervisors])

    def capacity(self, generic: tuple[str, ...]) -> FloatArray:
        """Return CPU in Hz, memory in MB and generic resources of every node, shape (2 + len(generic), N).

        A generic resource that a supervisor does not declare is absent; undeclared CPU and memory are unlimited.
        """
        if generic not in self._capacities:
            rows = [[node.resources.get(name, 0.0) for node in self.supervisors] for name in generic]
            self._capacities[generic] = frozen_floats(np.array([self.node_cpu_hz, self.node_memory_mb, *rows]))
        return self._capacities[generic]

    @cached_property
    def node_rack(self) -> IntArray:
        """Rack of every node, numbered in order of first appearance, shape (N,)."""
        numbers: dict[str, int] = {}
        return frozen_ints([numbers.setdefault(node.rack, len(numbers)) for node in self.supervisors])

    @cached_property
    def node_blacklisted(self) -> BoolArray:
        """Whether a node's host is blacklisted, shape (N,)."""
        return frozen([node.host in self.blacklisted_hosts for node in self.supervisors], np.bool_)

    @cached_property
    def node_usable(self) -> BoolArray:
        """Whether a node accepts new executors: neither blacklisted nor greylisted, shape (N,)."""
        greylisted = frozenset(self.greylisted_supervisors)
        closed = np.array([node.id in greylisted for node in self.supervisors], dtype=bool)
        return frozen(~closed & ~self.node_blacklisted, np.bool_)
