"""The immutable snapshot that every scheduler reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model.arrays import BoolArray, ByContent, FloatArray, IntArray, frozen
from stormwright.model.assignment import TopologyAssignment
from stormwright.model.cluster import DEFAULT_CORE_HZ, Cluster, Supervisor, WorkerSlot
from stormwright.model.component_limits import ComponentLimits
from stormwright.model.demand import Demand
from stormwright.model.faults import MAX_FAULTS
from stormwright.model.humanize import counted
from stormwright.model.load import LoadProfile, TopologyLoad
from stormwright.model.requests import CPU
from stormwright.model.running import CurrentPlacement
from stormwright.model.topology import Topology
from stormwright.model.validate import ProblemParts, faults_of
from stormwright.model.workload import Resource, Workload

_NOTHING = Workload((), {})

#: Given as the parts of a problem by a reader that has found no fault: it is not checked again.
CHECKED: Final = ProblemParts(
    Cluster(()), _NOTHING, Demand(_NOTHING, None, 0.0), CurrentPlacement(Cluster(()), _NOTHING, {})
)


@dataclass(frozen=True, eq=False)
class Problem(ByContent):
    """Topologies, cluster, load and current assignment at one moment.

    People read the objects; schedulers use the arrays, in which the executors of all topologies are numbered
    consecutively (E in all), the slots of all supervisors likewise (S), and nodes are supervisors (N). The arrays are
    read-only, and each lives in the part that it depends on: a problem derived from another one (`with_load`,
    `with_current`, `dataclasses.replace`) shares the unchanged parts.

    Problems with equal content are equal. They are not hashable.

    Parameters
    ----------
    supervisors, topologies
        In the order given by Storm or by the file; schedulers break ties by it where they say so.
    name
        Name of the problem in messages and output; may be empty.
    conf
        Cluster configuration over Storm's defaults.
    blacklisted_hosts, greylisted_supervisors
        Hosts, and ids of supervisors, that accept no new executors.
    drained
        Blacklisted hosts that a person has drained → by whom and since when, as text.
    current
        Topology id → its current assignment. Unknown topologies and slots are ignored.
    load
        Measured load; topologies missing from it have the load of `assumed_load`.
    core_hz
        Speed of a core, in Hz, which converts CPU requests to Hz.
    measured
        Topology id → its assignment while the load was measured; None for the current one. Not part of files.
    parts
        Parts of the problem that this one is derived from; internal.

    Raises
    ------
    InputError
        The problem is invalid; all faults at once, each with the path that it would have in a file.
    """

    supervisors: tuple[Supervisor, ...]
    topologies: tuple[Topology, ...]
    name: str = ""
    conf: Mapping[str, Any] = field(default_factory=dict)
    blacklisted_hosts: frozenset[str] = frozenset()
    greylisted_supervisors: tuple[str, ...] = ()
    drained: Mapping[str, str] = field(default_factory=dict)
    current: Mapping[str, TopologyAssignment] = field(default_factory=dict)
    load: LoadProfile | None = None
    core_hz: float = DEFAULT_CORE_HZ
    measured: Mapping[str, TopologyAssignment] | None = None
    parts: ProblemParts | None = field(default=None, repr=False, compare=False)
    cluster: Cluster = field(init=False, repr=False, compare=False)
    workload: Workload = field(init=False, repr=False, compare=False)
    demand: Demand = field(init=False, repr=False, compare=False)
    running: CurrentPlacement = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        before = self.parts
        parts = self._made_of(before)
        if before is not CHECKED:
            faults = faults_of(self.core_hz, parts, before)
            if faults:
                more = max(len(faults) - MAX_FAULTS, 0)
                raise InputError(f"problem {self.name}".rstrip(), faults[:MAX_FAULTS], more)
        object.__setattr__(self, "parts", parts)
        for name, part in parts._asdict().items():
            object.__setattr__(self, name, part)

    def __repr__(self) -> str:
        """Return one line: the whole content would flood a prompt."""
        return f"<Problem {self}>"

    def __str__(self) -> str:
        return f"{self.name or 'problem'}: {size_of(self)}"

    def _repr_html_(self) -> str:
        """Return the topologies as graphs, and the nodes, for a notebook."""
        from stormwright.model.notebook import problem_html  # only notebooks need it

        executors = [
            {"cpu_hz": self.executor_cpu_hz[own], "memory_mb": self.executor_memory_mb[own]}
            for own in map(self.executors_of, range(len(self.topologies)))
        ]
        return problem_html(str(self), self.topologies, executors, self.supervisors)

    def _made_of(self, before: ProblemParts | None) -> ProblemParts:
        """Return the parts, reusing unchanged ones of `before`."""
        cluster, workload, demand, running = before or (None, None, None, None)
        nodes = self.supervisors, self.blacklisted_hosts, self.greylisted_supervisors
        if cluster is None or not cluster.is_of(*nodes):
            cluster = Cluster(*nodes)
        if workload is None or not workload.is_of(self.topologies, self.conf):
            workload = Workload(self.topologies, self.conf)
        if demand is None or not demand.is_of(workload, self.load, self.core_hz, cluster.default_nodes):
            demand = Demand(workload, self.load, self.core_hz, cluster.default_nodes)
        if running is None or running.cluster is not cluster or running.workload is not workload:
            running = CurrentPlacement(cluster, workload, self.current)
        elif running.current is not self.current:
            running = running.with_current(self.current)
        return ProblemParts(cluster, workload, demand, running)

    def with_load(self, load: LoadProfile) -> Problem:
        """Return the same problem under another load."""
        return replace(self, load=load)

    def with_current(self, current: Mapping[str, TopologyAssignment]) -> Problem:
        """Return the same problem with another current assignment."""
        return replace(self, current=dict(current))

    def with_moved(self, current: Mapping[str, TopologyAssignment]) -> Problem:
        """Return the same problem with another current assignment, under the load measured before."""
        return replace(self, current=dict(current), measured=self.current if self.measured is None else self.measured)

    def with_nothing_running(self) -> Problem:
        """Return the same problem without a current assignment, under the load measured before."""
        return self.with_moved({}) if self.current else self

    @property
    def executor_offset(self) -> IntArray:
        """First executor of each topology, shape (T + 1,)."""
        return self.workload.executor_offset

    @property
    def num_executors(self) -> int:
        """E, the number of executors of all topologies."""
        return self.workload.num_executors

    @property
    def executor_topology(self) -> IntArray:
        """Topology index of every executor, shape (E,)."""
        return self.workload.executor_topology

    def executors_of(self, topology: int) -> slice:
        """Return the executors of a topology (by index) as a slice of every per-executor array."""
        return self.workload.executors_of(topology)

    @property
    def topology_index(self) -> Mapping[str, int]:
        """Topology id → its index."""
        return self.workload.topology_index

    @property
    def component_limits(self) -> Mapping[int, ComponentLimits]:
        """Topology index → its component constraints, of topologies with any."""
        return self.workload.component_limits

    @property
    def slots(self) -> tuple[WorkerSlot, ...]:
        """All worker slots, supervisor by supervisor, length S."""
        return self.cluster.slots

    @property
    def slot_index(self) -> Mapping[WorkerSlot, int]:
        """Worker slot → its index."""
        return self.cluster.slot_index

    @property
    def slot_node(self) -> IntArray:
        """Node index of every slot, shape (S,)."""
        return self.cluster.slot_node

    @property
    def node_index(self) -> Mapping[str, int]:
        """Supervisor id → its index."""
        return self.cluster.node_index

    @property
    def node_cpu_hz(self) -> FloatArray:
        """B_k of every node in Hz, shape (N,)."""
        return self.cluster.node_cpu_hz

    @cached_property
    def node_core_hz(self) -> FloatArray:
        """Speed of a core of every node in Hz, shape (N,); `core_hz` where its number of cores is unknown."""
        cores = [node.resources.get(CPU, 0.0) / 100 for node in self.supervisors]
        speeds: FloatArray = frozen(
            [
                node.cpu_hz / count if count > 0 and 0 < node.cpu_hz < math.inf else self.core_hz
                for node, count in zip(self.supervisors, cores, strict=True)
            ],
            np.float64,
        )
        return speeds

    @property
    def node_memory_mb(self) -> FloatArray:
        """Memory of every node in MB, shape (N,)."""
        return self.cluster.node_memory_mb

    @property
    def node_rack(self) -> IntArray:
        """Rack of every node, numbered in order of first appearance, shape (N,)."""
        return self.cluster.node_rack

    @property
    def node_usable(self) -> BoolArray:
        """Whether a node accepts new executors: neither blacklisted nor greylisted, shape (N,)."""
        return self.cluster.node_usable

    @property
    def current_slot(self) -> IntArray:
        """Current slot index of every executor, -1 if it has none that still exists, shape (E,)."""
        return self.running.current_slot

    @cached_property
    def measured_slot(self) -> IntArray:
        """Slot index of every executor while the load was measured, like `current_slot`, shape (E,)."""
        if self.measured is None:
            return self.current_slot
        return self.running.with_current(self.measured).current_slot

    @property
    def loads(self) -> tuple[TopologyLoad, ...]:
        """Measured or assumed load of every topology, in order."""
        return self.demand.loads

    @property
    def executor_cpu_hz(self) -> FloatArray:
        """L of every executor in Hz, shape (E,)."""
        return self.demand.executor_cpu_hz

    @property
    def executor_memory_mb(self) -> FloatArray:
        """Memory of every executor in MB, shape (E,)."""
        return self.demand.executor_memory_mb

    @property
    def executor_demand(self) -> FloatArray:
        """Usage of each of `resources` by every executor, shape (K, E)."""
        return self.demand.executor_demand

    @property
    def resources(self) -> tuple[Resource, ...]:
        """CPU, memory, and the generic resources that any executor requests."""
        return self.workload.resources

    @property
    def node_capacity(self) -> FloatArray:
        """Capacity of every node for each of `resources`, shape (K, N).

        A generic resource that a supervisor does not declare is absent; undeclared CPU and memory are unlimited.
        """
        return self.cluster.capacity(self.workload.generic)


def require_problem(problem: object) -> None:
    """Raise InputError if an argument is no problem."""
    if not isinstance(problem, Problem):
        message = f"should be a Problem, as read_problem(FILE) and sketch give it, got {type(problem).__name__}"
        raise InputError("problem", [Fault(message, "$")])


def topologies_called(problem: Problem, name: str) -> list[int]:
    """Return the index of the topology with this id, or of all with this name."""
    if name in problem.topology_index:
        return [problem.topology_index[name]]
    return [index for index, topology in enumerate(problem.topologies) if topology.name == name]


def sizes(problem: Problem) -> dict[str, int]:
    """Return the number of topologies, executors, nodes and slots of a problem."""
    return {
        "topologies": len(problem.topologies),
        "executors": problem.num_executors,
        "nodes": len(problem.supervisors),
        "slots": len(problem.slots),
    }


def size_of(problem: Problem) -> str:
    """Return the size of a problem as text."""
    nouns = ("topology", "executor", "node", "slot")
    return ", ".join(counted(count, noun) for noun, count in zip(nouns, sizes(problem).values(), strict=True))


def assumed_text(problem: Problem) -> str:
    """Return a note on topologies whose load was assumed; empty if all were measured."""
    assumed = sum(load is None for load in problem.demand.measured)
    if not assumed:
        return ""
    whose = "the load" if assumed == len(problem.topologies) else f"the load of {counted(assumed, 'topology')}"
    return f"{whose} was not measured, but assumed: 1 tuple/s from each spout executor, CPU and memory as requested"
