"""Who made room for whom: what must have moved before a step can be made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from stormwright.controller.places import Place
from stormwright.controller.plan import TopologyMove
from stormwright.controller.room import Room
from stormwright.model.arrays import IntArray


class Makers:
    """Follows the steps of a plan as they are added to it.

    Attributes
    ----------
    released
        Nodes of which the last step made anything free.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        # What would be in use if all moved to where they go, and nobody had left.
        self._entered = room.used.copy()
        self._left_node: defaultdict[int, set[str]] = defaultdict(set)
        self._left_slot: dict[int, str] = {}
        self._moved: set[str] = set()
        self.released: list[int] = []

    def needed(
        self, slots: Mapping[int, IntArray], places: Mapping[int, Place], moves: Sequence[TopologyMove]
    ) -> frozenset[str]:
        """Ids of those that a step needs to have moved before; from now on it counts as made.

        It needs all that have left a node which would be short if none had, or which it passes on its way, and who had
        a slot before it.

        Parameters
        ----------
        slots, places
            Where topologies go, and what they take there.
        moves
            The same with the slots that they pass.
        """
        room, names = self._room, self._room.problem.topologies
        more = np.zeros_like(room.used)
        for topology, new in places.items():
            old = room.places[topology]
            more[:, old.nodes] -= old.before
            more[:, new.nodes] += new.before
        nodes = np.flatnonzero((more > 0).any(axis=0))
        short = nodes[(more[:, nodes] > room.left(nodes, self._entered)).any(axis=0)]
        ids = {names[topology].id for topology in slots}
        final = {slot for to in slots.values() for slot in to.tolist()}
        taken = {room.problem.slot_index[slot] for move in moves for leg in move.legs for slot in leg.after.slots}
        passed = room.problem.slot_node[sorted(taken - final)]
        near = {other for node in (*short.tolist(), *passed.tolist()) for other in self._left_node[node]}
        needed = near | (ids & self._moved)
        needed |= {self._left_slot[slot] for slot in taken if slot in self._left_slot} - ids
        self._entered[:, nodes] += np.maximum(more[:, nodes], 0.0)
        self._moved |= ids
        self.released = np.flatnonzero((more < 0).any(axis=0)).tolist()
        for topology in slots:
            self._note(topology, names[topology].id)
        return frozenset(needed)

    def _note(self, topology: int, name: str) -> None:
        own = np.unique(self._room.now[self._room.problem.executors_of(topology)])
        for node in np.unique(self._room.problem.slot_node[own]).tolist():
            self._left_node[node].add(name)
        self._left_slot |= dict.fromkeys(own.tolist(), name)
