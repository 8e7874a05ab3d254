"""Placement of one topology by names, and executors without a slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stormwright.model.cluster import WorkerSlot

UNPLACED = -1


@dataclass(frozen=True, slots=True)
class TopologyAssignment:
    """Executor → slot of one topology, by name.

    Parameters
    ----------
    slots
        The worker slots in use.
    slot_of_executor
        Index into `slots` for every executor of the topology, -1 for none.
    """

    slots: tuple[WorkerSlot, ...]
    slot_of_executor: tuple[int, ...]


def where(placement: TopologyAssignment | None) -> tuple[WorkerSlot | None, ...]:
    """Return the slot of every executor of a topology, None for none; empty if nothing runs."""
    if placement is None:
        return ()
    return tuple(None if slot == UNPLACED else placement.slots[slot] for slot in placement.slot_of_executor)


def without_ports(slots: Sequence[WorkerSlot | None]) -> list[tuple[str, int] | None]:
    """Return the node and the first executor of each executor's worker: the same whatever the ports.

    Parameters
    ----------
    slots
        As `where` returns them.
    """
    return [slot and (slot.supervisor, slots.index(slot)) for slot in slots]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """An executor (numbered within its topology) without a slot, and the counted reasons."""

    topology: str
    executor: int
    component: str
    reasons: tuple[str, ...]
