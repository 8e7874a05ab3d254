"""Detours: workers in the way of a topology move to spare slots for a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from stormwright.controller.planning.capacity import MoveRoom
from stormwright.controller.planning.hops import choose_ports, spare_slot
from stormwright.controller.planning.places import NodeWorkers, TakenResources, workers_of
from stormwright.model import UNPLACED
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE


@dataclass(frozen=True, eq=False)
class Batch:
    """Topologies that move together: to their targets, or a single one to spare slots.

    Parameters
    ----------
    slots
        New slots of the executors by topology.
    places, workers
        Their resource use there, and their workers by slot.
    arrives
        Whether these are their targets.
    """

    slots: Mapping[int, IntArray]
    places: Mapping[int, TakenResources]
    workers: Mapping[int, NodeWorkers]
    arrives: bool = True

    @classmethod
    def home(cls, room: MoveRoom, topologies: Collection[int]) -> Batch:
        """Return the batch that moves topologies from their state in `room` to their targets."""
        slots = choose_ports(room, topologies)
        return cls(slots, room.places_in(slots), {topology: workers_of(to) for topology, to in slots.items()})


@dataclass(frozen=True, eq=False)
class _Way:
    """Batches in order, and the topologies that they leave in spare slots."""

    batches: tuple[Batch, ...]
    left_over: frozenset[int]

    @property
    def closed(self) -> bool:
        """Whether all topologies arrive at their targets."""
        return not self.left_over


#: Limits on detours per topology: normally; if otherwise many would move together; and then on average over all.
FEW_ASIDE, MAX_ASIDE, MEAN_ASIDE = 4, 12, 1.75


class Helpers:
    """Topologies that may move to spare slots, each a limited number of times.

    Parameters
    ----------
    room
        State of the cluster after the planned moves.
    topologies
        Candidates for detours, without topologies that have arrived.

    Attributes
    ----------
    times
        Number of detours of each.
    """

    def __init__(self, room: MoveRoom, topologies: Collection[int]) -> None:
        self.times: dict[int, int] = {}
        self._room, self._most = room, FEW_ASIDE
        self._trips_left = MEAN_ASIDE * len(topologies)
        self._may = set(topologies)
        self._worn_out: set[int] = set()
        # Use by all helpers, shape (R, N).
        self._use: FloatArray = np.zeros_like(room.used)
        self._add(self._may, 1.0)

    def __contains__(self, topology: int) -> bool:
        return topology in self._may

    def leave(self, topologies: Collection[int]) -> None:
        """Record that topologies are about to move; `come` follows."""
        self._add(self._may.intersection(topologies), -1.0)

    def come(self, topologies: Collection[int], arrives: bool) -> None:
        """Record that topologies have moved to their targets or to spare slots."""
        if arrives:
            self._may.difference_update(topologies)
            self._worn_out.difference_update(topologies)
        else:
            self._trips_left -= len(topologies)
            for topology in topologies:
                self.times[topology] = self.times.get(topology, 0) + 1
            self._worn_out |= {topology for topology in topologies if self.times[topology] >= self._most}
            self._may -= self._worn_out
        self._add(self._may.intersection(topologies), 1.0)

    def once_more(self) -> bool:
        """Allow each topology one more detour; return False if that is too many or useless."""
        if not self._worn_out or self._most == MAX_ASIDE or self._trips_left <= 0:
            return False
        self._most += 1
        self._add(self._worn_out, 1.0)
        self._may |= self._worn_out
        self._worn_out = set()
        return True

    def could_clear(self, topology: int) -> bool:
        """Return whether a topology would fit if all helpers left its nodes, regardless of where they go."""
        place = self._room.places[topology]
        use = self._use.take(place.nodes, axis=1) - (place.before if topology in self._may else 0.0)
        used = self._room.used.take(place.nodes, axis=1)
        return bool((place.change - self._room.left(place.nodes) <= use + RELATIVE_TOLERANCE * used).all())

    def _add(self, topologies: Collection[int], sign: float) -> None:
        for topology in topologies:
            place = self._room.places[topology]
            self._use[:, place.nodes] += sign * place.before


def through_spare_slots(room: MoveRoom, topology: int, helpers: Helpers, most: int) -> _Way | None:
    """Return how a topology can move after others move to spare slots; None if that does not suffice.

    Parameters
    ----------
    room
        State of the cluster before the move; not modified.
    topology
        Index of the topology to move.
    helpers
        Topologies that may move to spare slots.
    most
        Maximum number of additional topologies to pause.
    """
    if not helpers.could_clear(topology):
        return None
    trial = _Trial(room, topology, helpers, most)
    place = room.places[topology]
    for column in np.unique(room.short(topology)[1]).tolist():
        if not trial.clear(int(place.nodes[column])):
            return None
    batches, after = trial.batches, trial.after
    arrivals = [topology, *sorted({other for other, _ in trial.left})]
    if not after.fits(topology):
        return None
    while ready := next(([other] for other in arrivals if after.fits(other)), []):
        batches.append(Batch.home(after, ready))
        after.put(batches[-1].slots, batches[-1].places, batches[-1].workers)
        arrivals.remove(ready[0])
    return _Way(tuple(batches), frozenset(arrivals))


class _Trial:
    """Workers that leave nodes on which a topology needs capacity."""

    def __init__(self, room: MoveRoom, topology: int, helpers: Helpers, most: int) -> None:
        self._room, self._place = room.copy(), room.places[topology]
        self._topology, self._helpers, self._most = topology, helpers, most
        self._paused = {topology} - helpers.times.keys()
        self._avoid: BoolArray = np.zeros(len(room.problem.supervisors), dtype=bool)
        self._avoid[self._place.entered] = True
        #: Topology and slot of each worker that makes room, in order.
        self.left: list[tuple[int, int]] = []

    @property
    def batches(self) -> list[Batch]:
        """Return the batches that free the capacity, one worker at a time."""
        room = self._room
        slots = {other: room.now[room.problem.executors_of(other)].copy() for other, _ in self.left}
        return [
            Batch({other: to}, {other: room.places[other]}, {other: room.workers(other)}, arrives=False)
            for other, to in slots.items()
        ]

    @property
    def after(self) -> MoveRoom:
        """Return the cluster after these batches; the trial ends."""
        self._room.hold([slot for _, slot in self.left], UNPLACED)
        return self._room

    def clear(self, node: int) -> bool:
        """Return whether enough capacity could be freed on a node."""
        column = self._place.column[node]
        while (lacking := self._lacking(column)).any():
            worker = self._best_worker(node, lacking.tolist())
            if worker is None or not self._send_away(*worker):
                return False
        return True

    def _lacking(self, column: int) -> np.ndarray:
        nodes = self._place.nodes[column : column + 1]
        lacking: np.ndarray = np.maximum(self._place.change[:, column] - self._room.left(nodes)[:, 0], 0.0)
        return lacking

    def _best_worker(self, node: int, lacking: list[float]) -> tuple[int, int] | None:
        """Return topology and slot of the worker to leave: the smallest sufficient one, else the largest."""
        found = []
        for other, slot in self._room.workers_on(node):
            if other != self._topology and other in self._helpers:
                freed = self._room.loads(other).of(slot)
                enough = all(amount >= lack for amount, lack in zip(freed, lacking, strict=False))
                found.append((not enough, freed[1] if enough else -freed[1], other, slot))
        return min(found)[2:] if found else None

    def _send_away(self, topology: int, slot: int) -> bool:
        room, members = self._room, self._room.workers(topology)[slot]
        self._paused |= {topology} - self._helpers.times.keys()
        if len(self._paused) > self._most:
            return False
        others = room.now[room.problem.executors_of(topology)].copy()
        others[members] = UNPLACED
        spare = spare_slot(room, topology, members, others, self._avoid, room.loads(topology).of(slot))
        if spare is None:
            return False
        room.put_worker(topology, slot, spare)
        self.left.append((topology, slot))
        return True
