"""What is wrong with a current assignment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from stormwright.model.assignment import UNPLACED, TopologyAssignment
from stormwright.model.validation.faults import Wrong, items_wrong

if TYPE_CHECKING:
    from stormwright.model.cluster import WorkerSlot
    from stormwright.model.running import Running


def running_wrong(running: Running, before: Running | None = None) -> Iterator[Wrong]:
    """All that is wrong with what runs now, each with the path from the problem.

    Slots of supervisors that are gone, and topologies that are, are none: what was in them is lost.

    Parameters
    ----------
    running
        What runs now.
    before
        What was checked already: placements that it had too are only looked at where slots have two owners.
    """
    shared = len(running.owner) < sum(len(placement.slots) for placement in running.current.values())
    looked_at = running.new_since(before) if before and not shared else running.current
    owner: dict[WorkerSlot, str] = {}
    for name, placement in looked_at.items():
        index = running.workload.topology_index.get(name)
        topology = None if index is None else running.workload.topologies[index]
        executors = None if topology is None or topology.wrong else topology.num_executors
        for wrong in _placement_wrong(placement, executors):
            yield wrong.within("assignments", name)
        for position, slot in enumerate(placement.slots):
            if owner.setdefault(slot, name) != name:
                message = f"{slot} belongs to {owner[slot]} already"
                yield Wrong(message, ("assignments", name, "slots", position))


def _placement_wrong(placement: TopologyAssignment, executors: int | None) -> Iterator[Wrong]:
    slots, of_executor = placement.slots, placement.slot_of_executor
    if len(set(slots)) < len(slots):
        first: dict[WorkerSlot, int] = {}
        for position, slot in enumerate(slots):
            if first.setdefault(slot, position) != position:
                yield Wrong(f"{slot} is slot {first[slot]} already", ("slots", position))
    if executors is None:
        return
    if len(of_executor) != executors:
        yield Wrong(f"has {len(of_executor)} items for {executors} executors", ("slot_of_executor",))
    elif executors and not UNPLACED <= min(of_executor) <= max(of_executor) < len(slots):
        positions = np.array(of_executor)
        wanted = f"should be -1 or the index of one of {len(slots)} slots"
        sound = (positions >= UNPLACED) & (positions < len(slots))
        yield from items_wrong(sound, positions, wanted, lambda position: ("slot_of_executor", position))
