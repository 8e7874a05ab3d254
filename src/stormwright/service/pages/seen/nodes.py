"""How full nodes are: CPU, link and memory, measured and requested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.load import silent_load
from stormwright.predict.prediction import Prediction

#: What a node's use is told of → its words. Each is a part of what the node has; the first is shown where nobody asks.
USES = {
    "cpu": "CPU measured",
    "cpu-asked": "CPU requested",
    "memory": "memory measured",
    "memory-asked": "memory requested",
    "link": "link predicted",
}


@dataclass(frozen=True, eq=False)
class AskedFor:
    """What executors ask for: CPU in Hz and memory in MB, each of shape (E,)."""

    cpu_hz: FloatArray
    memory_mb: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> AskedFor:
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
        Key of `USES` → part in use; NaN where that is not known.
    executors, workers, slots
        How many.
    usable
        Whether it takes anything new.
    rack, racks
        Its rack, by index into the names.
    """

    use: dict[str, FloatArray]
    executors: IndexArray
    workers: IndexArray
    slots: IndexArray
    usable: BoolArray
    rack: IntArray
    racks: tuple[str, ...]

    @classmethod
    def of(cls, problem: Problem, asked: AskedFor, predicted: Prediction | None) -> NodeFigures:
        """Of what runs now.

        Parameters
        ----------
        problem
            Has the load.
        asked
            Of its executors.
        predicted
            Tells how full links are; None where nothing is predicted.
        """
        placed, count = PlacedExecutors(problem, problem.current_slot), len(problem.supervisors)
        cpu, memory = problem.node_cpu_hz, problem.node_memory_mb
        racks = tuple(dict.fromkeys(supervisor.rack for supervisor in problem.supervisors))
        return cls(
            use={
                "cpu": _part(placed.sum_by_node(problem.executor_cpu_hz), cpu),
                "cpu-asked": _part(placed.sum_by_node(asked.cpu_hz), cpu),
                "memory": _part(placed.sum_by_node(problem.executor_memory_mb), memory),
                "memory-asked": _part(placed.sum_by_node(asked.memory_mb), memory),
                "link": _links(predicted, count),
            },
            executors=np.bincount(placed.node, minlength=count),
            workers=np.bincount(problem.slot_node[placed.workers.slot], minlength=count),
            slots=np.bincount(problem.slot_node, minlength=count),
            usable=problem.node_usable,
            rack=problem.node_rack,
            racks=racks,
        )

    def of_rack(self, rack: int) -> IndexArray:
        """Indices of a rack's nodes."""
        return np.flatnonzero(self.rack == rack)

    def fullest(self, use: str = "cpu") -> float:
        """The fullest node's part; 0 where none is known."""
        known = self.use[use][~np.isnan(self.use[use])]
        return float(known.max()) if len(known) else 0.0

    def over(self) -> IndexArray:
        """Nodes whose measured CPU is more than they have."""
        return np.flatnonzero(np.nan_to_num(self.use["cpu"]) > 1 + 1e-9)


def core_hz(problem: Problem) -> FloatArray:
    """Speed of a core of every node in Hz, shape (N,), where it tells how many it has; else that of all cores."""
    told = [
        supervisor.cpu_hz / (cores / 100) if (cores := supervisor.resources.get("cpu.pcore.percent", 0.0)) else 0.0
        for supervisor in problem.supervisors
    ]
    return np.array([speed or problem.core_hz for speed in told])


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
    """NaN where nobody tells how much is there."""
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
