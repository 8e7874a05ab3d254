"""Use of nodes: CPU, link and memory, measured and requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.load import silent_load
from stormwright.predict.prediction import Prediction


class MeasuredNode(TypedDict):
    """Measured CPU of a whole node, and its capacity, in cores."""

    cpu_cores: float
    capacity_cores: float


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
        speed = problem.node_core_hz
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
        """Nodes whose CPU in use exceeds their capacity."""
        return np.flatnonzero(np.nan_to_num(self.use["cpu"]) > 1 + 1e-9)


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
