"""Where executors run: by index inside stormwright, by name at its edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stormwright.model.arrays import ByContent, IntArray
from stormwright.model.cluster import WorkerSlot

if TYPE_CHECKING:
    from stormwright.model.problem import Problem

UNPLACED = -1


@dataclass(frozen=True, slots=True)
class TopologyAssignment:
    """Executor → slot of one topology, by name.

    Parameters
    ----------
    slots
        The worker slots used.
    slot_of_executor
        Index into `slots` per executor of the topology, -1 where it has none.
    """

    slots: tuple[WorkerSlot, ...]
    slot_of_executor: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """An executor (numbered within its topology) that got no slot, and the counted reasons."""

    topology: str
    executor: int
    component: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Assignment(ByContent):
    """A scheduler's answer. Answers with equal content are equal.

    Parameters
    ----------
    slot_of_executor
        Index into the problem's slots for every executor of the problem, -1 where unplaced, shape (E,).
    unplaced
        The reasons for every -1.
    status
        Topology id → the text that Storm's UI shows for it.
    scheduler, parameters, seconds
        Who answered, with what parameters, after how long.
    num_workers
        Topology id → how many workers it should be given (``rebalance -n``), where the scheduler chose that and it is
        not what the topology asks for.
    """

    slot_of_executor: IntArray
    unplaced: tuple[Unplaced, ...] = ()
    status: Mapping[str, str] = field(default_factory=dict)
    scheduler: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    num_workers: Mapping[str, int] = field(default_factory=dict)

    def by_topology(self, problem: Problem) -> dict[str, TopologyAssignment]:
        """The same answer by name, topology by topology; slots in the order of their first executor."""
        return {
            topology.id: name_slots(problem, self.slot_of_executor[problem.executors_of(index)])
            for index, topology in enumerate(problem.topologies)
        }

    def reasons_together(self) -> list[tuple[str, int, tuple[str, ...]]]:
        """Topology, how many of its executors are unplaced, and why; those with the same reasons together."""
        together = Counter((executor.topology, executor.reasons) for executor in self.unplaced)
        return [(topology, count, reasons) for (topology, reasons), count in together.items()]

    def reasons_of_topologies(self) -> dict[str, tuple[str, ...]]:
        """Topology id → what is said of its executors that are unplaced, each thing once."""
        found: dict[str, dict[str, None]] = {}
        for executor in self.unplaced:
            found.setdefault(executor.topology, {}).update(dict.fromkeys(executor.reasons))
        return {topology: tuple(reasons) for topology, reasons in found.items() if reasons}


def name_slots(problem: Problem, slot_of_executor: IntArray) -> TopologyAssignment:
    """`slot_of_executor` (indices into the problem's slots) of one topology, by name."""
    listed = slot_of_executor.tolist()
    slots = [slot for slot in dict.fromkeys(listed) if slot != UNPLACED]
    position = {UNPLACED: UNPLACED, **{slot: number for number, slot in enumerate(slots)}}
    return TopologyAssignment(tuple(problem.slots[slot] for slot in slots), tuple(map(position.__getitem__, listed)))
