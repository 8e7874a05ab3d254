"""Occupancy of slots while Nimbus is answered, and validation of placements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from stormwright.errors import SchedulerError
from stormwright.model import UNPLACED, Assignment, Problem, Topology, TopologyAssignment
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.isolation import isolated
from stormwright.model.humanize import counted

# Exchanges ----------------------------------------------------------------------------------------
# Topologies that exchange slots: all in one answer to Nimbus, or none.


@dataclass(frozen=True)
class Order:
    """A placement that the controller orders for a topology, and the reason.

    Parameters
    ----------
    together
        Ids of topologies, this one among them, that change places with each other; all are paused and drained. Empty
        for one that moves alone.
    before
        Current placement, to which it returns if the move is cancelled.
    back
        Whether the move is cancelled: the topology stays, and returns should Nimbus still take its slots.
    """

    assignment: TopologyAssignment
    reason: str
    together: frozenset[str] = frozenset()
    before: TopologyAssignment | None = None
    back: bool = False

    def cancelled(self, why: str) -> Order:
        """Return a cancelled order; it needs `before`."""
        text = f"stormwright: back where it was: {why}"
        return replace(self, assignment=self.before or self.assignment, reason=text, together=frozenset(), back=True)


def change_places(problem: Problem, orders: Mapping[str, Order]) -> tuple[Problem, dict[str, Order]]:
    """Return the snapshot and the orders after topologies that exchange slots have left theirs.

    This applies once one of them has no slots, after a rebalance. If all wanted slots are available then, the others
    are treated as having left as well, so no slot is assigned while another topology holds it. If not, none leaves, and
    the one without slots returns to its previous ones.
    """
    orders = dict(orders)
    for group in {order.together for order in orders.values() if order.together}:
        known = [t for t in group if t in orders and t in problem.topology_index]
        if all(_has_slots(problem, topology) for topology in known):
            continue
        left = problem.with_current({t: runs for t, runs in problem.current.items() if t not in group})
        if len(known) == len(group) and _is_available(left, {t: orders[t].assignment for t in known}):
            problem = left
            continue
        for topology in known:
            if orders[topology].before is not None:
                orders[topology] = orders[topology].cancelled("not all that change places with it could")
    return problem, orders


def _has_slots(problem: Problem, topology: str) -> bool:
    own = problem.executors_of(problem.topology_index[topology])
    return bool((problem.current_slot[own] >= 0).all())


def _is_available(left: Problem, wanted: Mapping[str, TopologyAssignment]) -> bool:
    """Return whether all get the slots they want once they have left their own."""
    occupancy = Occupancy(left)
    return all(
        occupancy.grants(left.topologies[left.topology_index[topology]], assignment)
        for topology, assignment in wanted.items()
    )


# Occupancy ----------------------------------------------------------------------------------------


class Occupancy:
    """The slots of a snapshot, each with the topology that has it or was given it since.

    Parameters
    ----------
    problem
        The snapshot; slots are numbered as in it.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        current = problem.current_slot
        placed = current != UNPLACED
        self._owner = np.full(len(problem.slots), UNPLACED)
        self._owner[current[placed]] = problem.executor_topology[placed]
        self._placed = np.bincount(problem.executor_topology[placed], minlength=len(problem.topologies))
        self._free = int(np.count_nonzero((self._owner == UNPLACED) & problem.node_usable[problem.slot_node]))
        self._isolated = bool(isolated(problem))

    def incomplete(self) -> Iterable[int]:
        """Yield topologies (indices) with an executor without a live slot."""
        lacking = self._placed < np.diff(self._problem.executor_offset)
        indices: list[int] = np.flatnonzero(lacking).tolist()
        return indices

    def has_slots(self, topology_id: str) -> bool:
        """Return whether any executor of a topology has a live slot."""
        return bool(self._placed[self._problem.topology_index[topology_id]])

    def grants(self, topology: Topology, wanted: TopologyAssignment) -> bool:
        """Give a topology the slots of an order if all are available, in its number of workers."""
        slots = [self._problem.slot_index.get(slot, UNPLACED) for slot in wanted.slots]
        if UNPLACED in slots or len(wanted.slot_of_executor) != topology.num_executors:
            return False
        own = np.array(slots, dtype=np.int32)[list(wanted.slot_of_executor)]
        if len(slots) != _workers(topology) or self.refusal(topology, own):
            return False
        self.take(topology, own)
        return True

    def refusal(self, topology: Topology, slots: IntArray) -> str | None:
        """Return why the slots for all executors of a topology are invalid, or None.

        Fewer workers than requested are valid if slots are short, as with Storm's own scheduler, where workers live
        that executors join, and where topologies have hosts for themselves.
        """
        index = self._problem.topology_index[topology.id]
        current = self._problem.current_slot[self._problem.executors_of(index)]
        used = np.unique(slots)
        owners = self._owner[used]
        if np.any((owners != UNPLACED) & (owners != index)) or np.any((current != UNPLACED) & (current != slots)):
            return "wants slots that are taken, or to move what runs"
        wanted, free = _workers(topology), self._free - int(np.count_nonzero(owners == UNPLACED))
        short = len(used) < wanted and np.all(current == UNPLACED) and free >= wanted - len(used)
        if len(used) > wanted or (short and not self._isolated):
            return f"wants {counted(len(used), 'worker')} where {wanted} are requested"
        return None

    def take(self, topology: Topology, slots: IntArray) -> None:
        """Assign slots to a topology."""
        used = np.unique(slots)
        self._free -= int(np.count_nonzero(self._owner[used] == UNPLACED))
        self._owner[used] = self._problem.topology_index[topology.id]


def checked_slots(problem: Problem, placed: Assignment, name: str) -> IntArray:
    """Return the slot of every executor, shape (E,), from a scheduler's (by name) answer.

    Raises
    ------
    SchedulerError
        It is no such array, or holds invalid slots.
    """
    wanted, last = problem.num_executors, len(problem.slots) - 1
    try:
        slots: np.ndarray = np.asarray(placed.slot_of_executor)
    except ValueError:  # rows of different lengths
        slots = np.empty(0)
    if slots.dtype.kind not in "iu" or slots.shape != (wanted,):
        given = f"numbers of type {slots.dtype} and shape {slots.shape}"
        raise SchedulerError(
            f"{name} returned an invalid answer: {given} for the slots of {counted(wanted, 'executor')}"
        )
    if wanted and not UNPLACED <= slots.min() <= slots.max() <= last:
        raise SchedulerError(
            f"{name} returned an invalid answer: slots {slots.min()} to {slots.max()}, there are 0 to {last}"
        )
    return slots.astype(np.int32)


def _workers(topology: Topology) -> int:
    return min(topology.num_workers, topology.num_executors)
