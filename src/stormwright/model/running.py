"""The current assignment, as the slot of every executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from stormwright.model.arrays import IntArray, frozen
from stormwright.model.assignment import UNPLACED, TopologyAssignment
from stormwright.model.cluster import Cluster, WorkerSlot
from stormwright.model.workload import Workload


@dataclass(frozen=True, eq=False)
class CurrentPlacement:
    """The current assignment of a problem as arrays.

    Parameters
    ----------
    cluster
        Cluster with the slots.
    workload
        Topologies with their executors.
    current
        Topology id → its current assignment.
    """

    cluster: Cluster
    workload: Workload
    current: Mapping[str, TopologyAssignment]
    #: What was given, whatever becomes of the mapping.
    _held: dict[str, TopologyAssignment] = field(init=False, repr=False)
    #: `current_slot` of another assignment, and where this one differs: None for a topology that runs no longer.
    _since: tuple[IntArray, Mapping[str, TopologyAssignment | None]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_held", dict(self.current))

    def with_current(self, current: Mapping[str, TopologyAssignment]) -> CurrentPlacement:
        """Return another assignment on the same cluster, reusing the common parts."""
        left = {name: held for name, held in self._held.items() if current.get(name) is not held}
        new = {name: given for name, given in current.items() if self._held.get(name) is not given}
        slots = self.__dict__.get("current_slot")
        since = None if slots is None else (slots, {**dict.fromkeys(left), **new})
        after = CurrentPlacement(self.cluster, self.workload, current, since)
        owner = dict(self.owner)
        for placement in left.values():
            for slot in placement.slots:
                owner.pop(slot, None)
        after.__dict__["owner"] = owner | _owner(new)
        return after

    def new_since(self, before: CurrentPlacement) -> dict[str, TopologyAssignment]:
        """Return assignments that `before` did not have, or had for another topology of that id."""
        new = {name: held for name, held in self._held.items() if before._held.get(name) is not held}
        if self.workload is not before.workload:
            known = {topology.id: topology for topology in before.workload.topologies}
            same = {topology.id for topology in self.workload.topologies if known.get(topology.id) is topology}
            new |= {name: held for name, held in self._held.items() if name not in same}
        return new

    @cached_property
    def owner(self) -> Mapping[WorkerSlot, str]:
        """Slot → id of its topology; one of them if there are several, which is a fault."""
        return _owner(self._held)

    @cached_property
    def current_slot(self) -> IntArray:
        """Current slot index of every executor, -1 if it has none that still exists, shape (E,)."""
        nowhere = np.full(self.workload.num_executors, UNPLACED, dtype=np.int32)
        before, placements = self._since or (nowhere, self._held)
        current = before.copy()
        for topology_id, assignment in placements.items():
            index = self.workload.topology_index.get(topology_id)
            if index is None:
                continue
            if assignment is None:
                current[self.workload.executors_of(index)] = UNPLACED
                continue
            slots = [self.cluster.slot_index.get(slot, UNPLACED) for slot in assignment.slots]
            known = np.array([*slots, UNPLACED], np.int32)
            current[self.workload.executors_of(index)] = known[np.array(assignment.slot_of_executor, np.int32)]
        return frozen(current, np.int32)


def _owner(placements: Mapping[str, TopologyAssignment]) -> dict[WorkerSlot, str]:
    return {slot: name for name, placement in placements.items() for slot in placement.slots}
