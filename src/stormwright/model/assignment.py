"""Where executors run: by index inside stormwright, by name at its edges."""

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
