"""R-Storm: place each executor on the node whose free resources are nearest to its demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import BoolArray, FloatArray
from stormwright.schedulers.placement.favoured_hosts import most_favoured
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.params import MAX_FACTOR, ParameterSet, Params, param
from stormwright.schedulers.toolkit.traffic import breadth_first, by_component

#: Network distance from the reference node: to itself, to a node of its rack, to any other.
_SAME_NODE, _SAME_RACK, _OTHER_RACK = 0.0, 0.5, 1.0


@dataclass(frozen=True, kw_only=True)
class RStormParams(Params):
    """Parameters of the scheduler."""

    units: str = param(
        "normalised",
        "of CPU and memory in distances; normalised: parts of the largest node; raw: percent of a core and MB",
        choices=("normalised", "raw"),
    )
    soft_cpu: bool = param(True, "true: a node may be loaded beyond its CPU if no node has enough free")
    cpu_weight: float = param(1.0, "weight of CPU in distances", low=0, high=MAX_FACTOR)
    memory_weight: float = param(1.0, "weight of memory in distances", low=0, high=MAX_FACTOR)
    network_weight: float = param(1.0, "weight of the network distance", low=0, high=MAX_FACTOR)


class RStormScheduler:
    """Puts each executor on the node whose free CPU and memory are nearest to its demand, close to the others.

    B. Peng, M. Hosseini, Z. Hong, R. Farivar, R. Campbell, "R-Storm: Resource-aware scheduling in Storm", Middleware
    2015, https://doi.org/10.1145/2814576.2814808; and the code its authors published.

    1. Components in breadth-first order from the spouts; passes over them, each taking one executor of a component.
    2. The reference node of a topology is the node with most free resources in the rack with most of them. The first
       executor goes there.
    3. Every other goes to the node at the least Euclidean distance between demand and free resources, in CPU and
       memory, and between the node and the reference node: 0, 0.5 in its rack, 1 elsewhere.
    4. Memory is a hard limit, CPU a soft one.

    Differences, and points that the paper leaves open:

    1. Distances are fractions of the largest node, so that CPU, memory and network count alike; the published code uses
       points and MB, in which memory dominates (`units` ``raw``).
    2. Nodes with enough free CPU come first; if there is none, a node is loaded beyond its capacity, which `soft_cpu`
       false forbids. A topology that demands more CPU than is free in the whole cluster is left out; CPU used beyond a
       node's capacity is not free elsewhere.
    3. Exactly the requested number of workers; the paper uses as many as are filled. They are opened last, where most
       executors share one.
    4. Unknown memory or CPU of a node is not compared.
    5. Nodes that the topology favours come before all others, and unfavoured ones last, as in Storm's own
       ResourceAwareScheduler (``topology.scheduler.favored.nodes``).

    Ties go to the lower index of node.

    When to use
    -----------
    Components declare their CPU and memory, nothing was measured yet, and memory is scarce.

    Ignores
    -------
    The amount of traffic on a stream.

    Honours
    -------
    CPU where it can, memory, executors per worker, streams, racks
    """

    params_type = RStormParams
    variants: ClassVar[Mapping[str, ParameterSet]] = {
        "authors": ParameterSet(
            "units of the published code, in which memory dominates; the paper's weights of distances are not known",
            {"units": "raw", "soft_cpu": True},
        )
    }

    def __init__(self, params: RStormParams | None = None) -> None:
        self.params = params or RStormParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""

        def make_rule(room: FreeResources) -> Rule:
            distances = _Distances(problem, room, self.params)

            def place(placing: Placing) -> None:
                reference = UNPLACED
                for executor in in_passes(placing):
                    allowed = placing.can_take(executor)
                    enough = allowed & (room.cpu_hz >= problem.executor_cpu_hz[executor])
                    enough, allowed = most_favoured(enough, placing.favour), most_favoured(allowed, placing.favour)
                    if reference == UNPLACED:
                        reference = distances.choose_reference(enough if enough.any() else allowed)
                        placing.put(executor, reference)
                    else:
                        placing.put(executor, distances.nearest(executor, enough, allowed))

            return place

        return place_waiting(problem, "r_storm", self.params, make_rule, soft_cpu=self.params.soft_cpu)


def in_passes(placing: Placing) -> Iterator[int]:
    """Yield the executors of a topology in placement order; rule 1."""
    offset = int(placing.placement.problem.executor_offset[placing.wanted.topology])
    members = by_component(placing.topology, placing.executors, offset)
    waiting = [iter(members[component]) for component in breadth_first(placing.topology)]
    while waiting:
        ahead = [(queue, next(queue, UNPLACED)) for queue in waiting]
        yield from (executor for _, executor in ahead if executor != UNPLACED)
        waiting = [queue for queue, executor in ahead if executor != UNPLACED]


class _Distances:
    """Distances between executors and nodes, given the free resources of nodes."""

    def __init__(self, problem: Problem, room: FreeResources, params: RStormParams) -> None:
        self._problem, self._room = problem, room
        self._no_cpu, self._no_memory = ~np.isfinite(room.capacity_hz), ~np.isfinite(room.capacity_mb)
        cpu_unit, memory_unit = problem.core_hz / 100, 1.0
        if params.units == "normalised":
            cpu_unit, memory_unit = _largest(room.capacity_hz), _largest(room.capacity_mb)
        self._cpu_unit, self._memory_unit = cpu_unit, memory_unit
        self._cpu_factor = params.cpu_weight / cpu_unit**2
        self._memory_factor = params.memory_weight / memory_unit**2
        self._network_weight = params.network_weight
        self._network = np.zeros(room.num_nodes)

    def choose_reference(self, allowed: BoolArray) -> int:
        """Return the new reference node, one of the nodes allowed, or -1; rule 2."""
        if not allowed.any():
            return UNPLACED
        room, rack = self._room, self._problem.node_rack
        free = np.where(self._no_cpu, 0.0, room.cpu_hz) / self._cpu_unit
        free += np.where(self._no_memory, 0.0, room.memory_mb) / self._memory_unit
        of_rack = np.bincount(rack, np.where(room.slots >= 1, free, 0.0))[rack]
        best_rack = allowed & (of_rack == of_rack[allowed].max())
        reference = int(np.argmax(np.where(best_rack, free, -np.inf)))
        distance = np.where(rack == rack[reference], _SAME_RACK, _OTHER_RACK)
        distance[reference] = _SAME_NODE
        self._network = self._network_weight * distance**2
        return reference

    def nearest(self, executor: int, first: BoolArray, allowed: BoolArray) -> int:
        """Return the nearest node, preferably one of `first`; -1 if none is allowed; rule 3."""
        distance = self._squared(executor)
        for nodes in (first, allowed):
            of_nodes = np.where(nodes, distance, np.inf)
            node = int(np.argmin(of_nodes))
            if of_nodes[node] < np.inf:
                return node
        return UNPLACED

    def _squared(self, executor: int) -> FloatArray:
        """Return the squared distance of every node, which has the same order; in place, as this is the hot loop."""
        cpu: FloatArray = self._room.cpu_hz - self._problem.executor_cpu_hz[executor]
        cpu *= cpu
        cpu *= self._cpu_factor
        cpu[self._no_cpu] = 0.0
        memory = self._room.memory_mb - self._problem.executor_memory_mb[executor]
        memory *= memory
        memory *= self._memory_factor
        memory[self._no_memory] = 0.0
        cpu += memory
        cpu += self._network
        return cpu


def _largest(capacity: FloatArray) -> float:
    """Return the largest finite capacity, or 1 if there is none."""
    largest = float(capacity[np.isfinite(capacity)].max(initial=0.0))
    return largest if largest > 0 else 1.0
