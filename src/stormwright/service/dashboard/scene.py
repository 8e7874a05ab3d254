"""View models of the current state, computed in the background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypedDict

import numpy as np

from stormwright.base.clock import WALL, Clock
from stormwright.errors import StormwrightError
from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.load import silent_load
from stormwright.model.traffic_matrix import measured_traffic
from stormwright.predict.answer import predict
from stormwright.predict.prediction import Prediction, TopologyPrediction

# Flows --------------------------------------------------------------------------------------------
# Traffic between components of a topology, and between nodes.

#: Rows and columns of a picture of traffic at most; of more nodes there are racks, or those with most traffic.
MAX_PLACES = 32


@dataclass(frozen=True)
class Flow:
    """Tuples/s from a component (by index) to another."""

    source: int
    target: int
    tps: float


@dataclass(frozen=True, eq=False)
class Heat:
    """Traffic from place to place, in tuples/s.

    Parameters
    ----------
    kind
        What a place is: ``node`` or ``rack``.
    names
        Of the places; the last stands for all others where `others` is not 0.
    others
        Places that the last one stands for.
    tps
        From row to column, shape (P, P).
    total_tps
        Between nodes, all of it.
    """

    kind: str
    names: tuple[str, ...]
    others: int
    tps: FloatArray
    total_tps: float

    @classmethod
    def of(cls, problem: Problem) -> Heat:
        """Return the traffic by node if these are few, else by rack, else between the busiest nodes."""
        traffic = measured_traffic(problem)
        slots = problem.current_slot
        there = (slots[traffic.source] != UNPLACED) & (slots[traffic.target] != UNPLACED)
        source, target = (problem.slot_node[slots[each[there]]] for each in (traffic.source, traffic.target))
        tps, count = traffic.tps[there], len(problem.supervisors)
        total = float(tps[source != target].sum())
        nodes = problem.cluster.node_names
        if count <= MAX_PLACES:
            return cls("node", nodes, 0, _matrix(source, target, tps, count), total)
        racks = tuple(dict.fromkeys(supervisor.rack for supervisor in problem.supervisors))
        if 1 < len(racks) <= MAX_PLACES:
            both = problem.node_rack[source], problem.node_rack[target]
            return cls("rack", racks, 0, _matrix(*both, tps, len(racks)), total)
        crossing = tps * (source != target)
        most = np.bincount(source, crossing, count) + np.bincount(target, crossing, count)
        shown = np.argsort(-most, kind="stable")[: MAX_PLACES - 1]
        place = np.full(count, MAX_PLACES - 1)
        place[shown] = np.arange(MAX_PLACES - 1)
        others = count - (MAX_PLACES - 1)
        names = (*(nodes[node] for node in shown), f"{others:,} others")
        return cls("node", names, others, _matrix(place[source], place[target], tps, MAX_PLACES), total)


def component_flows(problem: Problem, topology: int) -> list[Flow]:
    """Return the measured traffic between components of a topology (by index), largest first."""
    load, component = problem.loads[topology], problem.topologies[topology].executor_component
    count = len(problem.topologies[topology].components)
    matrix = np.zeros((count, count))
    np.add.at(matrix, (component[load.pair_source], component[load.pair_target]), load.pair_tps)
    np.add.at(matrix, (component[load.flow_source], load.flow_component), load.flow_tps)
    sources, targets = np.nonzero(matrix)
    found = [Flow(int(s), int(t), float(matrix[s, t])) for s, t in zip(sources, targets, strict=True)]
    return sorted(found, key=lambda flow: (-flow.tps, flow.source, flow.target))


def _matrix(source: FloatArray, target: FloatArray, tps: FloatArray, count: int) -> FloatArray:
    flat = np.bincount(source.astype(np.int64) * count + target, tps, count * count)
    return flat.reshape(count, count).astype(float)


class MeasuredNode(TypedDict):
    """Measured CPU of a whole node, and its capacity, in cores."""

    cpu_cores: float
    capacity_cores: float


# Nodes --------------------------------------------------------------------------------------------
# How full nodes are: CPU, link and memory, measured and requested.

#: Kinds of use of a node, each as a part of its capacity; the first is the default.
USES = {
    "cpu": "CPU",
    "cpu-requested": "CPU requested",
    "memory": "memory",
    "memory-requested": "memory requested",
    "link": "link predicted",
}


@dataclass(frozen=True, eq=False)
class RequestedResources:
    """Resources that executors request: CPU in Hz and memory in MB, each of shape (E,)."""

    cpu_hz: FloatArray
    memory_mb: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> RequestedResources:
        """Of all executors of a problem."""
        silent = [silent_load(topology, problem.core_hz, problem.conf) for topology in problem.topologies]
        parts = [[each.cpu_hz for each in silent], [each.memory_mb for each in silent]]
        return cls(*(np.concatenate(part) if part else np.empty(0) for part in parts))


@dataclass(frozen=True, eq=False)
class NodeFigures:
    """Figures of every node, each of shape (N,).

    Parameters
    ----------
    use
        Key of `USES` → part in use; NaN where that is not known. CPU is that of the whole node where it was measured,
        else that of its executors; it is unknown if none of them was measured.
    cores, executor_cores
        Cores of a node, and those that its measured executors use.
    executors, workers, slots
        Numbers of placed executors, of running workers, and of slots.
    usable
        Whether it takes anything new.
    rack, racks
        Its rack, by index into the names.
    """

    use: dict[str, FloatArray]
    cores: FloatArray
    executor_cores: FloatArray
    executors: IndexArray
    workers: IndexArray
    slots: IndexArray
    usable: BoolArray
    rack: IntArray
    racks: tuple[str, ...]

    @classmethod
    def of(
        cls,
        problem: Problem,
        requests: RequestedResources,
        predicted: Prediction | None,
        measured: Mapping[str, MeasuredNode] | None = None,
    ) -> NodeFigures:
        """Return the figures of all nodes under the current placement.

        Parameters
        ----------
        problem
            Problem with current placement, and with measured load if there is one.
        requests
            Requested CPU and memory of each executor, shape (E,).
        predicted
            Prediction of the load of links; None where nothing is predicted.
        measured
            Id of a supervisor → measured CPU of its whole node.
        """
        placed, count = PlacedExecutors(problem, problem.current_slot), len(problem.supervisors)
        cpu, memory = problem.node_cpu_hz, problem.node_memory_mb
        racks = tuple(dict.fromkeys(supervisor.rack for supervisor in problem.supervisors))
        is_measured = np.array([load is not None for load in problem.demand.measured], bool)[problem.executor_topology]
        used_hz = placed.sum_by_node(np.where(is_measured, problem.executor_cpu_hz, 0.0))
        executors = np.bincount(placed.node, minlength=count)
        unknown = (executors > 0) & (placed.sum_by_node(is_measured.astype(float)) == 0)
        speed = core_hz(problem)
        whole, cores = np.where(unknown, np.nan, _part(used_hz, cpu)), cpu / speed
        if problem.load:
            node_hz = np.array([problem.load.node_cpu_hz.get(each.id, np.nan) for each in problem.supervisors])
            whole = np.where(np.isnan(node_hz), whole, _part(node_hz, cpu))
        for index, supervisor in enumerate(problem.supervisors):
            node = (measured or {}).get(supervisor.id)
            if node and node["capacity_cores"]:
                whole[index] = node["cpu_cores"] / node["capacity_cores"]
                cores[index] = node["capacity_cores"]
        return cls(
            cores=cores,
            executor_cores=used_hz / speed,
            use={
                "cpu": whole,
                "cpu-requested": _part(placed.sum_by_node(requests.cpu_hz), cpu),
                "memory": _part(placed.sum_by_node(problem.executor_memory_mb), memory),
                "memory-requested": _part(placed.sum_by_node(requests.memory_mb), memory),
                "link": _links(predicted, count),
            },
            executors=executors,
            workers=np.bincount(problem.slot_node[placed.workers.slot], minlength=count),
            slots=np.bincount(problem.slot_node, minlength=count),
            usable=problem.node_usable,
            rack=problem.node_rack,
            racks=racks,
        )

    def of_rack(self, rack: int) -> IndexArray:
        """Indices of a rack's nodes."""
        return np.flatnonzero(self.rack == rack)

    def by_use(self, most: int) -> list[tuple[int, float]]:
        """Return the nodes (indices) that use most of their CPU, with the part, fullest first."""
        known = np.nan_to_num(self.use["cpu"], nan=-1.0)
        order = np.argsort(-known, kind="stable")[:most]
        return [(int(node), float(known[node])) for node in order if known[node] >= 0]

    def fullest(self, use: str = "cpu") -> float:
        """The fullest node's part; 0 where none is known."""
        known = self.use[use][~np.isnan(self.use[use])]
        return float(known.max()) if len(known) else 0.0

    @property
    def cpu_cores(self) -> FloatArray:
        """Cores in use."""
        return self.use["cpu"] * self.cores

    def over(self) -> IndexArray:
        """Nodes whose CPU, or that of their executors alone, exceeds their capacity."""
        used = np.fmax(self.use["cpu"], self.executor_cores / self.cores)
        return np.flatnonzero(np.nan_to_num(used) > 1 + 1e-9)


def core_hz(problem: Problem) -> FloatArray:
    """Return the speed of a core of every node in Hz, shape (N,); by default that of the problem."""
    known = [
        supervisor.cpu_hz / (cores / 100) if (cores := supervisor.resources.get("cpu.pcore.percent", 0.0)) else 0.0
        for supervisor in problem.supervisors
    ]
    return np.array([speed or problem.core_hz for speed in known])


def slots_of(problem: Problem, node: int) -> list[int]:
    """Indices of a node's slots."""
    return [int(slot) for slot in np.flatnonzero(problem.slot_node == node)]


def in_slots(problem: Problem) -> dict[int, list[int]]:
    """Slot → its executors, of slots that are in use."""
    order = np.argsort(problem.current_slot, kind="stable")
    slots, first = np.unique(problem.current_slot[order], return_index=True)
    ends = [*first[1:].tolist(), len(order)]
    parts = zip(slots.tolist(), first.tolist(), ends, strict=True) if len(order) else ()
    return {slot: order[begin:end].tolist() for slot, begin, end in parts if slot != UNPLACED}


def _part(used: FloatArray, there: FloatArray) -> FloatArray:
    """Return the used part; NaN if the capacity is unknown."""
    known = np.isfinite(there) & (there > 0)
    part: FloatArray = np.divide(used, there, out=np.full(len(used), np.nan), where=known)
    return part


def _links(predicted: Prediction | None, count: int) -> FloatArray:
    if predicted is None:
        return np.full(count, np.nan)
    both = [[each.value if each else np.nan for each in (node.link_out, node.link_in)] for node in predicted.nodes]
    parts = np.array(both or np.empty((0, 2)))
    fuller: FloatArray = np.fmax(parts[:, 0], parts[:, 1])
    return fuller


# Scene --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scene:
    """The current state at one moment.

    Parameters
    ----------
    number
        Grows with each scene.
    at_ms
        When it was taken.
    problem
        What it is of.
    predicted, unpredicted
        The state that it comes to; None where it cannot be predicted, with the reason.
    requests, nodes, heat
        What executors ask for, how full nodes are, and what these send each other.
    """

    number: int
    at_ms: int
    problem: Problem
    predicted: Prediction | None
    unpredicted: str
    requests: RequestedResources
    nodes: NodeFigures
    heat: Heat

    @classmethod
    def of(
        cls,
        problem: Problem,
        last: Scene | None = None,
        clock: Clock = WALL,
        measured: Mapping[str, MeasuredNode] | None = None,
    ) -> Scene:
        """Return the scene of a problem, reusing unchanged parts of the last one.

        Parameters
        ----------
        problem, last, clock
            Current problem, last scene, and clock of the cluster.
        measured
            Id of a supervisor → measured CPU of its whole node.
        """
        at_ms, number = round(clock.time() * 1000), last.number if last else 0
        if last and _same(problem, last.problem):
            nodes = NodeFigures.of(problem, last.requests, last.predicted, measured) if measured else last.nodes
            return cls(number, at_ms, problem, last.predicted, last.unpredicted, last.requests, nodes, last.heat)
        predicted, why = _predicted(problem)
        requests = (
            last.requests if last and last.problem.workload is problem.workload else RequestedResources.of(problem)
        )
        nodes = NodeFigures.of(problem, requests, predicted, measured)
        return cls(number + 1, at_ms, problem, predicted, why, requests, nodes, Heat.of(problem))

    @cached_property
    def by_topology(self) -> dict[str, TopologyPrediction]:
        """Topology (id) → prediction."""
        return {each.topology: each for each in self.predicted.topologies} if self.predicted else {}

    @cached_property
    def core_hz(self) -> FloatArray:
        """Speed of a core of every node in Hz, shape (N,)."""
        return core_hz(self.problem)

    def flows(self, topology: int) -> list[Flow]:
        """Return the flows of a topology (by index), computed once (`component_flows`)."""
        if topology not in self._flows:
            self._flows[topology] = component_flows(self.problem, topology)
        return self._flows[topology]

    @cached_property
    def _flows(self) -> dict[int, list[Flow]]:
        return {}

    @cached_property
    def workers(self) -> dict[int, list[int]]:
        """Slot → its executors."""
        return in_slots(self.problem)

    @cached_property
    def unplaced(self) -> dict[str, int]:
        """Topology (id) → its executors without a slot, of those that have some."""
        lost = np.bincount(
            self.problem.executor_topology[self.problem.current_slot == UNPLACED],
            minlength=len(self.problem.topologies),
        )
        return {self.problem.topologies[index].id: int(lost[index]) for index in np.flatnonzero(lost)}

    @property
    def rate_tps(self) -> float:
        """Trees/s of all topologies that were measured."""
        return sum(each.measured_tps for each in self.by_topology.values() if not each.assumed)

    def short(self) -> list[TopologyPrediction]:
        """Return topologies whose measured rate may not be sustained, worst first."""
        found = [each for each in self.by_topology.values() if each.sustained in ("no", "perhaps") and not each.assumed]
        return sorted(found, key=lambda each: each.headroom)


def _same(problem: Problem, last: Problem) -> bool:
    """Whether nothing that a scene shows has changed: each part is made of the same."""
    return all(now is was for now, was in zip(problem.parts or (), last.parts or (), strict=True))


def _predicted(problem: Problem) -> tuple[Prediction | None, str]:
    if not (problem.current_slot != UNPLACED).any():
        return None, "nothing runs yet"
    try:
        return predict(problem), ""
    except StormwrightError as error:
        return None, str(error)
