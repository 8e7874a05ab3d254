"""Room made by way of spare slots: who is in the way of a topology goes elsewhere for the time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from stormwright.controller.legs import choose_ports
from stormwright.controller.places import Place
from stormwright.controller.room import Room
from stormwright.model import UNPLACED
from stormwright.model.arrays import BoolArray, IndexArray, IntArray


@dataclass(frozen=True, eq=False)
class Batch:
    """Topologies that move at one go: to their targets, or one alone to spare slots.

    Parameters
    ----------
    slots
        Topology → the slots that its executors go to.
    places
        What they take there.
    arrives
        Whether these are their targets.
    """

    slots: Mapping[int, IntArray]
    places: Mapping[int, Place]
    arrives: bool = True

    @classmethod
    def home(cls, room: Room, topologies: Collection[int]) -> Batch:
        """Topologies that go to their targets from where they are in `room`."""
        slots = choose_ports(room, topologies)
        return cls(slots, room.places_in(slots))


@dataclass(frozen=True, eq=False)
class Way:
    """Batches in order, and topologies that went to spare slots and do not arrive in it."""

    batches: tuple[Batch, ...]
    left_over: frozenset[int]

    @property
    def closed(self) -> bool:
        """Whether all arrive."""
        return not self.left_over


def through_spare_slots(room: Room, topology: int, helpers: Collection[int]) -> Way | None:
    """How a topology can move when others go to spare slots before; None if these do not suffice.

    Parameters
    ----------
    room
        The cluster before the move; it stays as it is.
    topology
        Index of the one that is to move.
    helpers
        Topologies that may go to spare slots.
    """
    trial = _Trial(room, topology)
    place = room.places[topology]
    for column in np.unique(room.short(topology)[1]).tolist():
        if not trial.clear(int(place.nodes[column]), helpers):
            return None
    batches = trial.batches
    arrivals = [topology, *sorted(trial.slots)]
    after = room.copy()
    for batch in batches:
        after.put(batch.slots, batch.places)
    if not after.fits(topology):
        return None
    while ready := next(([other] for other in arrivals if after.fits(other)), []):
        batches.append(Batch.home(after, ready))
        after.put(batches[-1].slots, batches[-1].places)
        arrivals.remove(ready[0])
    return Way(tuple(batches), frozenset(arrivals))


class _Trial:
    """Workers that leave nodes on which a topology needs room."""

    def __init__(self, room: Room, topology: int) -> None:
        self._room, self._place = room.copy(), room.places[topology]
        self._topology = topology
        self._avoid: BoolArray = np.zeros(len(room.problem.supervisors), dtype=bool)
        self._avoid[self._place.entered] = True
        #: Topology → slots of its executors, of those that make room.
        self.slots: dict[int, IntArray] = {}

    @property
    def batches(self) -> list[Batch]:
        """Those that make room, one by one."""
        places = self._room.places
        return [Batch({other: to}, {other: places[other]}, arrives=False) for other, to in self.slots.items()]

    def clear(self, node: int, helpers: Collection[int]) -> bool:
        """Whether enough room could be made on a node."""
        column = self._place.column[node]
        while (lacking := self._lacking(column)).any():
            worker = self._best_worker(node, lacking.tolist(), helpers)
            if worker is None or not self._send_away(*worker):
                return False
        return True

    def _lacking(self, column: int) -> np.ndarray:
        nodes = self._place.nodes[column : column + 1]
        lacking: np.ndarray = np.maximum(self._place.change[:, column] - self._room.left(nodes)[:, 0], 0.0)
        return lacking

    def _best_worker(
        self, node: int, lacking: list[float], helpers: Collection[int]
    ) -> tuple[int, int, IndexArray] | None:
        """Topology, slot and executors of the worker that leaves: the smallest that is enough, else the largest."""
        found = []
        for other, slot, members in self._room.workers_on(node):
            if other != self._topology and other in helpers:
                demand = self._room.problem.executor_demand[:, self._room.problem.executors_of(other)]
                freed = [1.0, *demand[:, members].sum(axis=1).tolist()]
                enough = all(amount >= lack for amount, lack in zip(freed, lacking, strict=False))
                found.append((not enough, freed[1] if enough else -freed[1], other, slot, members))
        if not found:
            return None
        _, _, other, slot, members = min(found, key=lambda worker: worker[:4])
        return other, slot, members

    def _send_away(self, topology: int, slot: int, members: IndexArray) -> bool:
        room, own = self._room, self._room.problem.executors_of(topology)
        slots = room.now[own].copy()
        others = slots.copy()
        others[members] = UNPLACED
        spare = room.spare_slot(topology, members, others, self._avoid)
        if spare is None:
            return False
        slots[members] = spare
        room.put({topology: slots})
        room.hold([slot], topology)
        self.slots[topology] = slots
        return True
