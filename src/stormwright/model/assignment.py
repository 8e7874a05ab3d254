"""Placement of one topology by names, and executors without a slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stormwright.model.cluster import WorkerSlot

if TYPE_CHECKING:
    pass

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


@dataclass(frozen=True, slots=True)
class Unplaced:
    """An executor (numbered within its topology) without a slot, and the counted reasons."""

    topology: str
    executor: int
    component: str
    reasons: tuple[str, ...]
